//! The unsafe layer: everything the module asks of the server, behind types that are safe to use.
//!
//! The crate's raw bindings are used directly and its wrappers are not, because those assume a newer server, pass
//! client bytes as a printf format, or panic on bytes that are no UTF-8. Rules that every wrapper keeps:
//!
//! - Bytes of clients stay bytes; lengths are passed, nothing is looked up by NUL.
//! - What Redis 7.0 has is required once, at load ([`ffi::first_missing`]); what only newer servers have is asked for
//!   where it is used, never guessed from a version.
//! - Every call from the server goes through [`guard::guarded`], so that no panic unwinds into C.

#[macro_use]
pub(crate) mod ffi;

pub(crate) mod alloc;
pub(crate) mod context;
pub(crate) mod event;
pub(crate) mod guard;
pub(crate) mod info;
pub(crate) mod io;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod migration;
pub(crate) mod reply;
pub(crate) mod string;

pub(crate) use context::Ctx;
pub(crate) use string::{OwnedStr, Str};
