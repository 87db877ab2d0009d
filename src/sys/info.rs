//! The module's part of INFO.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::sync::OnceLock;

use redis_module::raw::RedisModuleInfoCtx;

use super::guard::guarded;
use super::key::OK;
use super::Ctx;

/// An INFO reply in the making. The server puts `presence_` before names of sections and fields.
pub(crate) struct Info<'a> {
    raw: *mut RedisModuleInfoCtx,
    call: PhantomData<&'a ()>,
}

impl Info<'_> {
    /// Begins a section; the empty name is the module's own. False if the client did not ask for it.
    pub(crate) fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: the INFO context is valid during the call that got it.
        unsafe { api!(RedisModule_InfoAddSection)(self.raw, name.as_ptr()) == OK }
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &CStr, value: u64) {
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.raw, name.as_ptr(), value) };
    }
}

/// Writes the module's part of INFO.
pub(crate) type Handler = fn(&mut Info<'_>);

static HANDLER: OnceLock<Handler> = OnceLock::new();

/// Has `handler` called for INFO. It is not called for crash reports, where nothing may allocate or lock.
pub(crate) fn register(ctx: Ctx<'_>, handler: Handler) -> bool {
    // A second registration is of the same handler.
    let _ = HANDLER.set(handler);
    // SAFETY: the context is valid; the callback lives as long as the module.
    unsafe { api!(RedisModule_RegisterInfoFunc)(ctx.as_ptr(), Some(on_info)) == OK }
}

unsafe extern "C" fn on_info(raw: *mut RedisModuleInfoCtx, for_crash_report: c_int) {
    if for_crash_report != 0 {
        return;
    }
    guarded("INFO", (), || {
        if let Some(handler) = HANDLER.get() {
            handler(&mut Info { raw, call: PhantomData });
        }
    });
}
