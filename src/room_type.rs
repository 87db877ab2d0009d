//! The data type: what the server does to a room as a value. All of it through the one codec.

use std::os::raw::{c_int, c_void};

use presence_engine::codec::VERSION;
use presence_engine::effects::Effects;
use presence_engine::room::Room;
use redis_module::raw::{
    RedisModuleDigest, RedisModuleIO, RedisModuleKeyOptCtx, RedisModuleString, RedisModuleTypeMethods,
};

use crate::commands::internal::APPLY;
use crate::node;
use crate::registry::{bury, Dead, Figures, Hint, RoomId};
use crate::sys::context::Flags;
use crate::sys::guard::guarded;
use crate::sys::io::{Digest, Io, KeyInfo};
use crate::sys::key::{from_raw, into_raw, DataType};
use crate::sys::log::{log, Level};
use crate::sys::{Ctx, Str};

/// A room as a key holds it.
pub(crate) struct Value {
    pub(crate) room: Room,
    pub(crate) id: RoomId,
}

// What jemalloc gives for it is 192; libc's malloc, which some packages of servers use, has 184 and then 200.
const _: () = assert!(size_of::<Value>() == 184);

impl Value {
    /// A room that will live at `hint`, after a step with these effects.
    pub(crate) fn new(room: Room, hint: Hint, effects: &Effects) -> Box<Self> {
        let id = node::with(|node| {
            let id = node.registry.enter(hint);
            node.note(id, Figures::default(), &room, effects);
            id
        });
        Box::new(Self { room, id })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // If nothing is left in it, its removal is no news.
        let parting = (!self.room.is_disposable()).then(|| self.room.parting());
        bury(Dead { id: self.id, figures: Figures::of(&self.room), parting });
    }
}

/// The type of a key that is a room.
pub(crate) static ROOM: DataType<Value> = DataType::new();

/// Registers the type.
pub(crate) fn register(ctx: Ctx<'_>) -> bool {
    let methods = RedisModuleTypeMethods {
        version: 0,
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: Some(copy),
        aux_save2: None,
    };
    // SAFETY: `rdb_load` and `copy` return what `into_raw` returned or null, `free` takes it back with `from_raw`, and
    // the others only read.
    unsafe { ROOM.register(ctx, c"presence1", c_int::from(VERSION), methods) }
}

/// # Safety
/// `value` must be a live value of this type that nobody changes meanwhile.
unsafe fn value<'a>(value: *const c_void) -> &'a Value {
    // SAFETY: the caller's promise.
    unsafe { &*value.cast::<Value>() }
}

/// A room read back from payloads, one after the other; an empty one ends it.
struct Reading {
    room: Room,
    effects: Effects,
}

impl Reading {
    fn new(flags: Flags) -> Self {
        Self { room: node::with(|node| node.new_room(flags)), effects: Effects::default() }
    }

    fn apply(&mut self, flags: Flags, payload: &[u8]) -> Result<(), String> {
        self.effects.clear();
        node::with(|node| self.room.apply(&node.env(flags), payload, &mut self.effects))
            .map_err(|damage| damage.to_string())
    }

    /// The finished room, everybody in it with a fresh timeout. It is due at once: the next tick looks at it, and freezes
    /// it if it came by RESTORE to a node that does not serve its slot yet.
    fn finish(mut self, flags: Flags, hint: Hint) -> *mut c_void {
        self.effects.clear();
        node::with(|node| {
            let mut env = node.env(flags);
            // After a full sync whoever watches this replica knows the rooms of before.
            env.tells |= flags.is_replica() && !flags.is_cluster();
            self.room.hear_afresh(&env);
            self.room.introduce(&env, &mut self.effects);
        });
        into_raw(Value::new(self.room, hint, &self.effects))
    }
}

unsafe extern "C" fn rdb_load(rdb: *mut RedisModuleIO, encoding: c_int) -> *mut c_void {
    guarded("loading a room", std::ptr::null_mut(), || {
        // SAFETY: the stream is valid during this call.
        let io = unsafe { Io::from_raw(rdb) };
        match load(io, encoding) {
            Ok(value) => value,
            Err(why) => {
                io.log_broken(&why);
                std::ptr::null_mut()
            }
        }
    })
}

fn load(io: Io<'_>, encoding: c_int) -> Result<*mut c_void, String> {
    if encoding > c_int::from(VERSION) {
        return Err(format!("it has encoding {encoding}, this module reads up to {VERSION}: update the module"));
    }
    let flags = Flags::current();
    let mut reading = Reading::new(flags);
    loop {
        let payload = io.load_bytes().map_err(|_| "the data ends too early".to_owned())?;
        if payload.is_empty() {
            break;
        }
        reading.apply(flags, &payload)?;
    }
    if reading.room.is_disposable() && !flags.is_loading() {
        // By RESTORE: nothing would ever remove such a key. A file is taken as it is.
        return Err("it holds nothing".to_owned());
    }
    Ok(reading.finish(flags, Hint { db: io.db(), key: io.key().map(Str::as_bytes).unwrap_or_default().into() }))
}

unsafe extern "C" fn rdb_save(rdb: *mut RedisModuleIO, room: *mut c_void) {
    guarded("saving a room", (), || {
        // SAFETY: stream and value are valid during this call, in which nobody changes the value.
        let (io, value) = unsafe { (Io::from_raw(rdb), value(room)) };
        save(&value.room, &mut |payload| io.save_bytes(&payload));
        io.save_bytes(&[]);
    });
}

unsafe extern "C" fn aof_rewrite(aof: *mut RedisModuleIO, key: *mut RedisModuleString, room: *mut c_void) {
    guarded("rewriting a room", (), || {
        // SAFETY: stream, key and value are valid during this call, in which nobody changes the value.
        let (io, key, value) = unsafe { (Io::from_raw(aof), Str::from_raw(key), value(room)) };
        if let Some(key) = key {
            save(&value.room, &mut |payload| io.emit_aof(APPLY.name, key, &payload));
        }
    });
}

fn save(room: &Room, sink: &mut dyn FnMut(Vec<u8>)) {
    let (term, now) = node::with(|node| {
        let env = node.env(Flags::current());
        (env.term, env.now)
    });
    room.save(term, now, sink);
}

unsafe extern "C" fn copy(info: *mut RedisModuleKeyOptCtx, room: *const c_void) -> *mut c_void {
    guarded("copying a room", std::ptr::null_mut(), || {
        // SAFETY: both are valid during this call, in which nobody changes the value.
        let (info, value) = unsafe { (KeyInfo::from_raw(info), value(room)) };
        let flags = Flags::current();
        let mut reading = Reading::new(flags);
        let mut outcome = Ok(());
        save(&value.room, &mut |payload| {
            if outcome.is_ok() {
                outcome = reading.apply(flags, &payload);
            }
        });
        if let Err(why) = outcome {
            log(Level::Warning, format_args!("a room could not be copied: {why}"));
            return std::ptr::null_mut();
        }
        let key = info.to_key().map(Str::as_bytes).unwrap_or_default().into();
        reading.finish(flags, Hint { db: info.to_db(), key })
    })
}

unsafe extern "C" fn free(room: *mut c_void) {
    guarded("freeing a room", (), || {
        // SAFETY: the server gives back what `rdb_load`, `copy` or a command made with `into_raw`, once.
        drop(unsafe { from_raw::<Value>(room) });
    });
}

unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, room: *const c_void) -> usize {
    guarded("weighing a room", 1, || {
        // SAFETY: the value is valid during this call.
        unsafe { value(room) }.room.allocations()
    })
}

unsafe extern "C" fn mem_usage(room: *const c_void) -> usize {
    guarded("measuring a room", 0, || {
        // SAFETY: the value is valid during this call.
        size_of::<RoomId>() + unsafe { value(room) }.room.memory()
    })
}

unsafe extern "C" fn digest(to: *mut RedisModuleDigest, room: *mut c_void) {
    guarded("the digest of a room", (), || {
        // SAFETY: both are valid during this call, in which nobody changes the value.
        let (mut to, value) = unsafe { (Digest::from_raw(to), value(room)) };
        let now = node::with(|node| node.now());
        value.room.digest(now, &mut |sequence| {
            for bytes in sequence {
                to.add_bytes(bytes);
            }
            to.end();
        });
    });
}
