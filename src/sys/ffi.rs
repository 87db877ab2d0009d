//! Which functions of the server the module may call, and which server this is.

use std::ffi::CStr;
use std::io::Write;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use redis_module::raw;

/// The function `$name` of the server, which must be in the list of [`first_missing`]: a name that is not does not compile.
///
/// Reading it is unsafe, because the bindings are mutable statics; they are written once, before anything else runs.
macro_rules! api {
    ($name:ident) => {
        match redis_module::raw::$name {
            Some(function) => {
                let () = $crate::sys::ffi::required::$name;
                function
            }
            None => $crate::sys::ffi::absent(stringify!($name)),
        }
    };
}

macro_rules! require {
    ($($name:ident),+ $(,)?) => {
        /// The names that [`api!`] accepts.
        #[allow(non_upper_case_globals, reason = "named as in the server's header")]
        #[allow(dead_code, reason = "the allocator calls its functions without the macro")]
        pub(crate) mod required {
            $(pub(crate) const $name: () = ();)+
        }

        /// The first function that the module cannot do without and this server does not have.
        pub(crate) fn first_missing() -> Option<&'static str> {
            $(
                // SAFETY: the bindings are written once, when the module's load begins, and this runs after that.
                let function = unsafe { raw::$name };
                if function.is_none() {
                    return Some(stringify!($name));
                }
            )+
            None
        }
    };
}

require!(
    RedisModule_Alloc,
    RedisModule_AvoidReplicaTraffic,
    RedisModule_Call,
    RedisModule_CallReplyStringPtr,
    RedisModule_CallReplyType,
    RedisModule_Calloc,
    RedisModule_CloseKey,
    RedisModule_CreateCommand,
    RedisModule_CreateDataType,
    RedisModule_CreateString,
    RedisModule_CreateTimer,
    RedisModule_DeleteKey,
    RedisModule_DigestAddStringBuffer,
    RedisModule_DigestEndSequence,
    RedisModule_EmitAOF,
    RedisModule_Free,
    RedisModule_FreeCallReply,
    RedisModule_FreeString,
    RedisModule_GetApi,
    RedisModule_GetCommand,
    RedisModule_GetContextFlags,
    RedisModule_GetDbIdFromIO,
    RedisModule_GetDetachedThreadSafeContext,
    RedisModule_GetKeyNameFromIO,
    RedisModule_GetRandomBytes,
    RedisModule_GetSelectedDb,
    RedisModule_GetToDbIdFromOptCtx,
    RedisModule_GetToKeyNameFromOptCtx,
    RedisModule_InfoAddFieldULongLong,
    RedisModule_InfoAddSection,
    RedisModule_IsIOError,
    RedisModule_IsKeysPositionRequest,
    RedisModule_KeyAtPos,
    RedisModule_KeyType,
    RedisModule_LoadConfigs,
    RedisModule_LoadStringBuffer,
    RedisModule_Log,
    RedisModule_Milliseconds,
    RedisModule_ModuleTypeGetType,
    RedisModule_ModuleTypeGetValue,
    RedisModule_ModuleTypeSetValue,
    RedisModule_MonotonicMicroseconds,
    RedisModule_NotifyKeyspaceEvent,
    RedisModule_OpenKey,
    RedisModule_PublishMessage,
    RedisModule_PublishMessageShard,
    RedisModule_Realloc,
    RedisModule_RegisterBoolConfig,
    RedisModule_RegisterEnumConfig,
    RedisModule_RegisterInfoFunc,
    RedisModule_RegisterNumericConfig,
    RedisModule_RegisterStringConfig,
    RedisModule_Replicate,
    RedisModule_ReplicateVerbatim,
    RedisModule_ReplyWithArray,
    RedisModule_ReplyWithError,
    RedisModule_ReplyWithLongLong,
    RedisModule_ReplyWithMap,
    RedisModule_ReplyWithNull,
    RedisModule_ReplyWithSimpleString,
    RedisModule_ReplyWithStringBuffer,
    RedisModule_SaveStringBuffer,
    RedisModule_ScanCursorCreate,
    RedisModule_ScanCursorDestroy,
    RedisModule_ScanKey,
    RedisModule_SelectDb,
    RedisModule_SetCommandInfo,
    RedisModule_SetModuleOptions,
    RedisModule_SignalModifiedKey,
    RedisModule_StopTimer,
    RedisModule_StringPtrLen,
    RedisModule_SubscribeToKeyspaceEvents,
    RedisModule_SubscribeToServerEvent,
    RedisModule_ValueLength,
);

/// Ends the process over a function that is not there. Unreachable: the load was refused if it was missing.
#[cold]
pub(crate) fn absent(name: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "presence: the server has no {name}");
    std::process::abort();
}

/// Whether the server exports `name`.
pub(crate) fn exports(name: &CStr) -> bool {
    let mut function: *mut c_void = std::ptr::null_mut();
    // SAFETY: GetApi reads the name and writes at most one pointer, to a local.
    let status = unsafe { api!(RedisModule_GetApi)(name.as_ptr(), (&raw mut function).cast()) };
    status == super::key::OK && !function.is_null()
}

/// Whether this is Valkey, whose numbers above the common ones mean other things than Redis's: server events above
/// 17, notification bits above 14, module options above 3.
pub(crate) fn is_valkey() -> bool {
    const UNKNOWN: u8 = 2;
    static FLAVOUR: AtomicU8 = AtomicU8::new(UNKNOWN);
    match FLAVOUR.load(Ordering::Relaxed) {
        UNKNOWN => {
            let valkey = exports(c"ValkeyModule_Alloc");
            FLAVOUR.store(u8::from(valkey), Ordering::Relaxed);
            valkey
        }
        known => known == 1,
    }
}

/// The module option of Valkey 9 by which a module says that it can follow migrations of slots.
pub(crate) const VALKEY_SLOT_MIGRATION: u32 = 1 << 5;

/// Whether this is a Valkey that migrates slots with all their keys.
pub(crate) fn has_valkey_slot_migration() -> bool {
    // SAFETY: the bindings were written when the load began; the function takes no argument.
    let known = unsafe { raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all()) } as u32;
    is_valkey() && known & VALKEY_SLOT_MIGRATION != 0
}

/// Whether RM_Call knows the flag `D` (run the admission checks, not the command). It came with Redis 7.2, together
/// with this function; an older server would take the letter for a broken format.
pub(crate) fn has_dry_run() -> bool {
    // SAFETY: the bindings were written when the load began.
    let function = unsafe { raw::RedisModule_GetModuleOptionsAll };
    function.is_some()
}

/// `wanted`, as far as the server knows these modes of opening a key. Redis 7.0 cannot be asked and knows `base` only.
pub(crate) fn known_open_modes(wanted: i32, base: i32) -> i32 {
    const UNASKED: i32 = i32::MIN;
    static KNOWN: AtomicI32 = AtomicI32::new(UNASKED);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == UNASKED {
        // SAFETY: the bindings were written when the load began; the function takes no argument.
        known = unsafe { raw::RedisModule_GetOpenKeyModesAll.map_or(0, |all| all()) };
        KNOWN.store(known, Ordering::Relaxed);
    }
    wanted & (known | base)
}

/// Keeps the crate from warning, at every load on Redis 7 and Valkey, that it skips defragmentation callbacks: there are
/// none to skip. Where the server has the function, nothing changes.
pub(crate) fn silence_defrag_warning() {
    unsafe extern "C" fn nothing(
        _ctx: *mut raw::RedisModuleCtx,
        _start: raw::RedisModuleDefragFunc,
        _end: raw::RedisModuleDefragFunc,
    ) -> c_int {
        super::key::OK
    }
    // SAFETY: the bindings were written when the load began.
    let present = unsafe { raw::RedisModule_RegisterDefragCallbacks };
    if present.is_none() {
        // SAFETY: this runs during the load, when no other thread knows of the module.
        unsafe { raw::RedisModule_RegisterDefragCallbacks = Some(nothing) };
    }
}
