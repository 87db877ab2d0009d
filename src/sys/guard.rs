//! No panic leaves the module: a panic that unwinds into C ends the server.

use std::mem;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};

use super::log::{log, Level};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Panics caught since the load.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Runs `f`, the body of a call from the server; `fallback` is the answer if it panics.
///
/// The panic hook has then logged the reason and the place already; a second line names `what` was abandoned.
#[inline]
pub(crate) fn guarded<R>(what: &'static str, fallback: R, f: impl FnOnce() -> R) -> R {
    let f = || {
        #[cfg(feature = "inject-panics")]
        injected::panic_if_asked(what);
        f()
    };
    // What `f` may leave half done is its caller's concern; this keeps the server alive and says so.
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(answer) => answer,
        Err(payload) => {
            // Dropping a payload may run code that panics again.
            mem::forget(payload);
            abandoned(what);
            fallback
        }
    }
}

#[cold]
fn abandoned(what: &'static str) {
    log(Level::Warning, format_args!("{what} was abandoned because of the panic above; please report this"));
}

/// Sends panics to the server's log. The standard hook writes to stderr, which a daemon does not have.
pub(crate) fn install_hook() {
    panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    let payload = info.payload();
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    // The log formats into a buffer on the stack: memory may be what went wrong.
    match info.location() {
        Some(place) => log(Level::Warning, format_args!("panic: {message} @ {place}")),
        None => log(Level::Warning, format_args!("panic: {message}")),
    }
}

/// Panics on demand, to prove that none of them ends the server. Not in a build that anybody is given.
#[cfg(feature = "inject-panics")]
pub(crate) mod injected {
    use std::sync::{Mutex, PoisonError};

    static NEXT: Mutex<Option<Vec<u8>>> = Mutex::new(None);

    /// Has the next entry whose name contains `what` panic.
    pub(crate) fn ask(what: &[u8]) {
        *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_vec());
    }

    #[expect(clippy::panic, reason = "that is what it is for")]
    pub(super) fn panic_if_asked(what: &str) {
        let asked = {
            let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = next.as_ref().is_some_and(|next| what.as_bytes().windows(next.len()).any(|part| part == next));
            if asked {
                *next = None;
            }
            asked
        };
        if asked {
            panic!("injected");
        }
    }
}
