//! The context of a call from the server: who and where we are, and what to tell the world.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::slice;

use redis_module::raw::{self, RedisModuleCtx};

use super::key::OK;
use super::reply::Reply;
use super::string::{OwnedStr, Str};

/// The context of one call from the server, valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Ctx<'a> {
    raw: *mut RedisModuleCtx,
    call: PhantomData<&'a ()>,
}

/// What kind of keyspace notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `g`: generic commands, such as del.
    Generic,
    /// `d`: events of modules.
    Module,
}

impl Class {
    const fn bits(self) -> c_int {
        match self {
            Self::Generic => raw::REDISMODULE_NOTIFY_GENERIC,
            Self::Module => raw::REDISMODULE_NOTIFY_MODULE,
        }
    }
}

/// Which kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// SUBSCRIBE; in cluster mode the message goes to every node.
    Classic,
    /// SSUBSCRIBE; in cluster mode the message goes to the nodes of this shard.
    Sharded,
}

/// The state of the node and of the call, as the server's flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The state of the node, where there is no context.
    pub(crate) fn current() -> Self {
        // SAFETY: the server takes null for "no client".
        Self(unsafe { api!(RedisModule_GetContextFlags)(std::ptr::null_mut()) } as u32)
    }

    const fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    /// The node is a primary.
    pub(crate) const fn is_primary(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MASTER)
    }

    /// The node is a replica.
    pub(crate) const fn is_replica(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
    }

    /// The node reads an RDB or AOF file, or its primary's.
    pub(crate) const fn is_loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// The node reads its primary's data aside (swapdb) and serves the old.
    pub(crate) const fn is_async_loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
    }

    /// The process is a forked child that saves or rewrites.
    pub(crate) const fn is_child(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_IS_CHILD)
    }

    /// Memory is over `maxmemory`.
    pub(crate) const fn is_oom(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_OOM)
    }

    /// The command came from the primary. Not set while an AOF is replayed.
    pub(crate) const fn is_replicated(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
    }

    /// The command is a decision already made elsewhere and must be obeyed: limits do not apply to it.
    pub(crate) const fn must_obey(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// The node runs in cluster mode.
    pub(crate) const fn is_cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }

    /// The command, or the value that is read, may be of a slot that this node takes over and does not serve yet: a
    /// cluster's primary is told by others only then. Until it does, it judges nobody and says nothing of it.
    pub(crate) const fn is_import(self) -> bool {
        self.is_cluster() && self.is_primary() && self.is_replicated() && !self.is_loading()
    }

    /// This node publishes what it announces: the primary does; a replica as well, to its own subscribers, unless the
    /// bus of a cluster has told them.
    pub(crate) const fn tells(self) -> bool {
        !self.is_loading() && !self.is_import() && (!self.is_replica() || !self.is_cluster())
    }
}

impl<'a> Ctx<'a> {
    /// Wraps the server's pointer.
    ///
    /// # Safety
    /// The context must stay valid for `'a`, and `'a` must not leave the server's main thread.
    #[inline]
    pub(crate) const unsafe fn from_raw(raw: *mut RedisModuleCtx) -> Self {
        Self { raw, call: PhantomData }
    }

    /// The pointer, for calls into the server.
    #[inline]
    pub(crate) const fn as_ptr(self) -> *mut RedisModuleCtx {
        self.raw
    }

    /// The state of the node and of this call.
    #[inline]
    pub(crate) fn flags(self) -> Flags {
        // SAFETY: the context is valid.
        Flags(unsafe { api!(RedisModule_GetContextFlags)(self.raw) } as u32)
    }

    /// Whether the server asks where the keys of this command are, and does not want it run. Only for commands flagged
    /// `getkeys-api`.
    pub(crate) fn wants_keys(self) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_IsKeysPositionRequest)(self.raw) != 0 }
    }

    /// Answers [`Ctx::wants_keys`]: the argument at `index` is a key.
    pub(crate) fn key_is_at(self, index: usize) {
        // SAFETY: the context is valid; the server ignores the call if it did not ask.
        unsafe { api!(RedisModule_KeyAtPos)(self.raw, index as c_int) };
    }

    /// The slot of a key; `None` where the server cannot say.
    pub(crate) fn slot(key: Str<'_>) -> Option<u16> {
        // SAFETY: the bindings were written when the load began.
        let slot = unsafe { raw::RedisModule_ClusterKeySlot }?;
        // SAFETY: the key's name is valid, and is only read.
        u16::try_from(unsafe { slot(key.as_ptr()) }).ok()
    }

    /// The selected database.
    #[inline]
    pub(crate) fn db(self) -> i32 {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_GetSelectedDb)(self.raw) }
    }

    /// Selects a database for this context; false if there is no such one. In a command, restore the client's.
    #[inline]
    pub(crate) fn select_db(self, db: i32) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_SelectDb)(self.raw, db) == OK }
    }

    /// The reply to the caller of this command.
    #[inline]
    pub(crate) fn reply(self) -> Reply<'a> {
        Reply::new(self)
    }

    /// Sends a keyspace notification for `name`, which need not be a key. Runs other modules' handlers, which may
    /// change or delete any key.
    pub(crate) fn notify(self, class: Class, event: &CStr, name: &[u8]) {
        let name = OwnedStr::new(name);
        // SAFETY: context, event and name are valid during the call, and the server keeps none of them.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent)(self.raw, class.bits(), event.as_ptr(), name.as_str().as_ptr());
        }
    }

    /// Publishes to subscribers of this node and, in cluster mode, over the bus. Returns how many heard it here.
    pub(crate) fn publish(self, kind: Channel, channel: &[u8], message: &[u8]) -> i32 {
        let channel = OwnedStr::new(channel);
        let message = OwnedStr::new(message);
        // SAFETY: context and strings are valid during the call; what the server keeps it counts a reference for.
        unsafe {
            let publish = match kind {
                Channel::Classic => api!(RedisModule_PublishMessage),
                Channel::Sharded => api!(RedisModule_PublishMessageShard),
            };
            publish(self.raw, channel.as_str().as_ptr(), message.as_str().as_ptr())
        }
    }

    /// Tells WATCH and client-side caches that the key changed.
    pub(crate) fn signal_modified(self, key: Str<'_>) {
        // SAFETY: context and key name are valid.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.raw, key.as_ptr()) };
    }

    /// Sends `command key payload` to replicas and AOF, in the selected database; false if the server refused.
    ///
    /// Never while [`avoid_replica_traffic`] says so, outside of a command: the server asserts on it.
    pub(crate) fn replicate(self, command: &CStr, key: &[u8], payload: &[u8]) -> bool {
        // SAFETY: the format says two buffers, each a pointer and a size_t, and they follow; the server copies them.
        let status = unsafe {
            api!(RedisModule_Replicate)(
                self.raw,
                command.as_ptr(),
                c"bb".as_ptr(),
                key.as_ptr(),
                key.len(),
                payload.as_ptr(),
                payload.len(),
            )
        };
        status == OK
    }

    /// Sends this command as it came to replicas and AOF.
    pub(crate) fn replicate_verbatim(self) -> bool {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.raw) == OK }
    }

    /// Asks whether `command key` (or without a key) of a client would be admitted now, by having the server check it
    /// as it checks a script's: paused writes and loading aside, it answers as for a client.
    ///
    /// Redis 7.0 cannot check without running, so the command must have no effect; it must be flagged `write`, not
    /// `deny-script`, and declare its key.
    ///
    /// # Errors
    /// Calls `refused` with the server's error, such as `MISCONF …`, and returns its value.
    pub(crate) fn probe<E>(
        self,
        command: &CStr,
        key: Option<&[u8]>,
        refused: impl FnOnce(&[u8]) -> E,
    ) -> Result<(), E> {
        // S: the checks of a script; E: errors come as replies; D: check only; b: a buffer follows.
        let dry = super::ffi::has_dry_run();
        let format = match (dry, key.is_some()) {
            (true, true) => c"SEDb",
            (true, false) => c"SED",
            (false, true) => c"SEb",
            (false, false) => c"SE",
        };
        let (start, len) = key.map_or((std::ptr::null(), 0), |key| (key.as_ptr(), key.len()));
        // SAFETY: the buffer that the format may speak of follows; without it the server does not read the rest.
        let reply = unsafe { api!(RedisModule_Call)(self.raw, command.as_ptr(), format.as_ptr(), start, len) };
        if reply.is_null() {
            // A dry run that found nothing has no reply. Otherwise the server could not even build an error.
            return if dry { Ok(()) } else { Err(refused(b"ERR the server gave no reason")) };
        }
        // SAFETY: the reply is valid until freed below.
        let is_error = unsafe { api!(RedisModule_CallReplyType)(reply) } == raw::REDISMODULE_REPLY_ERROR as c_int;
        let outcome = if is_error {
            let mut len = 0;
            // SAFETY: an error reply has text, as long as the server says, until it is freed.
            let text = unsafe {
                let start = api!(RedisModule_CallReplyStringPtr)(reply, &mut len);
                if start.is_null() {
                    &[]
                } else {
                    slice::from_raw_parts(start.cast(), len)
                }
            };
            Err(refused(text))
        } else {
            Ok(())
        };
        // SAFETY: the reply is freed once and not used any more.
        unsafe { api!(RedisModule_FreeCallReply)(reply) };
        outcome
    }

    /// Declares what the module can cope with. The server replaces all options, so all are set here, once.
    pub(crate) fn set_options(self) {
        let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD;
        // Valkey 9 refuses atomic slot migration for the whole node unless every module says it can follow it. Redis
        // may give the same bit another meaning one day.
        if super::ffi::has_valkey_slot_migration() {
            options |= super::ffi::VALKEY_SLOT_MIGRATION;
        }
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_SetModuleOptions)(self.raw, options as c_int) };
    }
}

/// Whether writes are paused (CLIENT PAUSE, a failover, a shutdown, a slot's handoff). Whoever is not a command must
/// then touch no key and replicate nothing: the server asserts on it.
pub(crate) fn avoid_replica_traffic() -> bool {
    // SAFETY: the function takes no argument.
    unsafe { api!(RedisModule_AvoidReplicaTraffic)() != 0 }
}

/// Microseconds of the monotonic clock.
#[inline]
pub(crate) fn monotonic_us() -> u64 {
    // SAFETY: the function takes no argument.
    unsafe { api!(RedisModule_MonotonicMicroseconds)() }
}

/// The wall clock, as Unix milliseconds.
#[inline]
pub(crate) fn unix_ms() -> i64 {
    // SAFETY: the function takes no argument.
    unsafe { api!(RedisModule_Milliseconds)() }
}

/// Unpredictable bytes from the server.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the server writes as many bytes as there are.
    unsafe { api!(RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), N) };
    bytes
}
