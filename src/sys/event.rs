//! What the server tells by itself: timers, server events, keyspace notifications.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::OnceLock;

use redis_module::raw::{self, RedisModuleCtx, RedisModuleEvent, RedisModuleString};

use super::guard::guarded;
use super::key::OK;
use super::migration::{self, Import};
use super::string::Str;
use super::Ctx;

/// What a timer runs.
pub(crate) type TimerHandler = fn(Ctx<'_>);

/// A timer that was started. It fires once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer(u64);

impl Timer {
    /// Runs `handler` once, in `ms` milliseconds of the wall clock. Keep it under half an hour: older servers
    /// overflow beyond. The database that is selected now will be in the handler's context.
    pub(crate) fn start(ctx: Ctx<'_>, ms: i64, handler: TimerHandler) -> Self {
        // SAFETY: the context is valid; the data is a function pointer, which `on_timer` turns back.
        Self(unsafe { api!(RedisModule_CreateTimer)(ctx.as_ptr(), ms, Some(on_timer), handler as *mut c_void) })
    }

    /// Stops the timer; false if it has fired. Never from its own handler: the server would free it twice.
    pub(crate) fn stop(self, ctx: Ctx<'_>) -> bool {
        // SAFETY: the context is valid; an id that is not there any more is an error, not a fault.
        unsafe { api!(RedisModule_StopTimer)(ctx.as_ptr(), self.0, std::ptr::null_mut()) == OK }
    }
}

unsafe extern "C" fn on_timer(ctx: *mut RedisModuleCtx, data: *mut c_void) {
    guarded("the timer", (), || {
        // SAFETY: the data is what `start` passed.
        let handler = unsafe { std::mem::transmute::<*mut c_void, TimerHandler>(data) };
        // SAFETY: the context is valid during this call.
        handler(unsafe { Ctx::from_raw(ctx) });
    });
}

/// Where a load of the data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loading {
    /// It began.
    Started,
    /// It is complete.
    Ended,
    /// It broke off.
    Failed,
}

/// An event of the server. All but [`Event::Import`] exist with the same number and shape on every server supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The node became a primary or a replica.
    Role {
        /// A primary.
        primary: bool,
    },
    /// A database is flushed.
    Flush {
        /// True before, false after.
        start: bool,
        /// The database, `None` for all.
        db: Option<i32>,
    },
    /// The node loads its data from a file or from its primary.
    Loading(Loading),
    /// The node loads its primary's data aside and swaps it in when complete.
    AsyncLoading(Loading),
    /// Two databases changed places.
    SwapDb {
        /// One of them.
        first: i32,
        /// The other.
        second: i32,
    },
    /// The server's own periodic work, `hz` times a second.
    Cron,
    /// The server shuts down.
    Shutdown,
    /// Slots are taken over, on servers that do so with all their keys at once.
    Import(Import),
}

/// Handles events of the server.
pub(crate) type EventHandler = fn(Ctx<'_>, Event);

static EVENT_HANDLER: OnceLock<EventHandler> = OnceLock::new();

/// Has `handler` called for every [`Event`]; false if the server refused.
pub(crate) fn subscribe(ctx: Ctx<'_>, handler: EventHandler) -> bool {
    // A second subscription is of the same handler.
    let _ = EVENT_HANDLER.set(handler);
    [
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_FLUSHDB,
        raw::REDISMODULE_EVENT_LOADING,
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
        raw::REDISMODULE_EVENT_SWAPDB,
        raw::REDISMODULE_EVENT_CRON_LOOP,
        raw::REDISMODULE_EVENT_SHUTDOWN,
    ]
    .into_iter()
    .chain(migration::event())
    .all(|id| {
        let event = RedisModuleEvent { id, dataver: 1 };
        // SAFETY: the context is valid; the callback lives as long as the module.
        unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, Some(on_event)) == OK }
    })
}

unsafe extern "C" fn on_event(ctx: *mut RedisModuleCtx, event: RedisModuleEvent, subevent: u64, data: *mut c_void) {
    guarded("a server event", (), || {
        // SAFETY: the server passes the data that belongs to the event.
        let event = unsafe { decode(event.id, subevent, data) };
        if let (Some(event), Some(handler)) = (event, EVENT_HANDLER.get()) {
            // SAFETY: the context is valid during this call.
            handler(unsafe { Ctx::from_raw(ctx) }, event);
        }
    });
}

/// # Safety
/// `data` must be null or what the server passes with this event.
unsafe fn decode(id: u64, subevent: u64, data: *mut c_void) -> Option<Event> {
    Some(match id {
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => {
            Event::Role { primary: subevent == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER }
        }
        raw::REDISMODULE_EVENT_FLUSHDB => {
            // SAFETY: the caller's promise.
            let info = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() }?;
            Event::Flush {
                start: subevent == raw::REDISMODULE_SUBEVENT_FLUSHDB_START,
                db: (info.dbnum >= 0).then_some(info.dbnum),
            }
        }
        raw::REDISMODULE_EVENT_LOADING => Event::Loading(match subevent {
            raw::REDISMODULE_SUBEVENT_LOADING_ENDED => Loading::Ended,
            raw::REDISMODULE_SUBEVENT_LOADING_FAILED => Loading::Failed,
            raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
            | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START
            | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => Loading::Started,
            _ => return None,
        }),
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD => Event::AsyncLoading(match subevent {
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED => Loading::Started,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_ABORTED => Loading::Failed,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED => Loading::Ended,
            _ => return None,
        }),
        raw::REDISMODULE_EVENT_SWAPDB => {
            // SAFETY: the caller's promise.
            let info = unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() }?;
            Event::SwapDb { first: info.dbnum_first, second: info.dbnum_second }
        }
        raw::REDISMODULE_EVENT_CRON_LOOP => Event::Cron,
        raw::REDISMODULE_EVENT_SHUTDOWN => Event::Shutdown,
        // SAFETY: the caller's promise.
        id if migration::event() == Some(id) => Event::Import(unsafe { migration::decode(subevent, data) }?),
        _ => return None,
    })
}

/// Handles a turn of the server's event loop: true when it wakes up, false when all is done and it goes to sleep.
pub(crate) type TurnHandler = fn(bool);

static TURN_HANDLER: OnceLock<TurnHandler> = OnceLock::new();

/// Has `handler` called for every turn of the event loop; false if the server refused.
pub(crate) fn subscribe_turns(ctx: Ctx<'_>, handler: TurnHandler) -> bool {
    // A second subscription is of the same handler.
    let _ = TURN_HANDLER.set(handler);
    let event = RedisModuleEvent { id: raw::REDISMODULE_EVENT_EVENTLOOP, dataver: 1 };
    // SAFETY: the context is valid; the callback lives as long as the module.
    unsafe { api!(RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, Some(on_turn)) == OK }
}

unsafe extern "C" fn on_turn(_: *mut RedisModuleCtx, _: RedisModuleEvent, subevent: u64, _: *mut c_void) {
    guarded("a turn of the event loop", (), || {
        if let Some(handler) = TURN_HANDLER.get() {
            handler(subevent == raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP);
        }
    });
}

/// Handles keyspace notifications: the event's name and the key. It must not write.
pub(crate) type KeyspaceHandler = fn(Ctx<'_>, &[u8], Str<'_>);

static KEYSPACE_HANDLER: OnceLock<KeyspaceHandler> = OnceLock::new();

/// Has `handler` called for the generic events (del, rename_to, move_to, …) of all keys; false if the server refused.
pub(crate) fn subscribe_generic(ctx: Ctx<'_>, handler: KeyspaceHandler) -> bool {
    // A second subscription is of the same handler.
    let _ = KEYSPACE_HANDLER.set(handler);
    // SAFETY: the context is valid; the callback lives as long as the module.
    unsafe {
        api!(RedisModule_SubscribeToKeyspaceEvents)(ctx.as_ptr(), raw::REDISMODULE_NOTIFY_GENERIC, Some(on_generic))
            == OK
    }
}

unsafe extern "C" fn on_generic(
    ctx: *mut RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut RedisModuleString,
) -> c_int {
    guarded("a keyspace notification", OK, || {
        // SAFETY: context, event (which ends in NUL) and key are valid during this call.
        let (ctx, event, key) = unsafe { (Ctx::from_raw(ctx), CStr::from_ptr(event).to_bytes(), Str::from_raw(key)) };
        if let (Some(handler), Some(key)) = (KEYSPACE_HANDLER.get(), key) {
            handler(ctx, event, key);
        }
        OK
    })
}
