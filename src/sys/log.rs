//! The server's log.

use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw::{self, RedisModuleCtx};

use super::Ctx;

/// The server cuts a line at 1,024 bytes, its own prefix included.
const LINE: usize = 1000;

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Notice,
    Warning,
}

/// A context of the module that outlives every call, for lines written where there is none. Never freed.
static CONTEXT: AtomicPtr<RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// Makes the lines carry the module's name.
pub(crate) fn init(ctx: Ctx<'_>) {
    // SAFETY: the context is valid; the one returned is kept for good.
    let own = unsafe { api!(RedisModule_GetDetachedThreadSafeContext)(ctx.as_ptr()) };
    CONTEXT.store(own, Ordering::Release);
}

/// Says that this server lacks `missing`, by the little that every server has.
///
/// # Safety
/// The context must be valid.
pub(crate) unsafe fn log_too_old(ctx: *mut RedisModuleCtx, missing: &str) {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    let _ = write!(line, "not loaded: Redis 7.0, Valkey 7.2 or later is needed, this server has no {missing}");
    // SAFETY: the bindings were written when the load began.
    if let Some(log) = unsafe { raw::RedisModule_Log } {
        // SAFETY: the context is valid, all texts end in NUL, and the format takes the one argument that follows.
        unsafe { log(ctx, c"warning".as_ptr(), c"%s".as_ptr(), line.bytes.as_ptr()) };
    }
}

/// Writes one line, from any thread, without allocating. Control characters, NUL among them, become `?`: a client's
/// bytes can neither end the line nor the server.
pub(crate) fn log(level: Level, message: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE], len: 0 };
    // Cutting a long message is all that can go wrong.
    let _ = line.write_fmt(message);
    let level = match level {
        Level::Notice => c"notice",
        Level::Warning => c"warning",
    };
    // SAFETY: `level` and the line end in NUL, the line because its last byte is never written; the message is an
    // argument, not the format. The context is null or one that is never freed, and the server accepts both.
    unsafe {
        api!(RedisModule_Log)(CONTEXT.load(Ordering::Acquire), level.as_ptr(), c"%s".as_ptr(), line.bytes.as_ptr());
    }
}

struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match self.bytes.get_mut(self.len) {
                Some(place) if self.len < LINE - 1 => *place = if byte.is_ascii_control() { b'?' } else { byte },
                _ => return Err(fmt::Error),
            }
            self.len += 1;
        }
        Ok(())
    }
}
