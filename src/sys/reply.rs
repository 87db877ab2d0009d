//! Replies, streamed to the client without building values first.

use std::ffi::CStr;
use std::fmt::Display;
use std::os::raw::c_long;

use super::Ctx;

/// The reply of a command. The server turns maps into flat arrays for RESP2.
///
/// A command replies once all that can be refused has been decided: an error cannot replace half a reply.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'a>(Ctx<'a>);

impl<'a> Reply<'a> {
    #[inline]
    pub(super) const fn new(ctx: Ctx<'a>) -> Self {
        Self(ctx)
    }

    /// An integer.
    #[inline]
    pub(crate) fn int(self, value: i64) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.0.as_ptr(), value) };
    }

    /// A bulk string of any bytes.
    #[inline]
    pub(crate) fn bytes(self, value: &[u8]) {
        // SAFETY: the context is valid; the server copies the bytes.
        unsafe { api!(RedisModule_ReplyWithStringBuffer)(self.0.as_ptr(), value.as_ptr().cast(), value.len()) };
    }

    /// A simple string, such as OK.
    pub(crate) fn simple(self, value: &'static CStr) {
        // SAFETY: the context is valid; the server copies the text.
        unsafe { api!(RedisModule_ReplyWithSimpleString)(self.0.as_ptr(), value.as_ptr()) };
    }

    /// Nil.
    pub(crate) fn null(self) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithNull)(self.0.as_ptr()) };
    }

    /// The head of an array; its `len` elements follow.
    pub(crate) fn array(self, len: usize) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithArray)(self.0.as_ptr(), to_long(len)) };
    }

    /// The head of a map; `pairs` keys, each followed by its value, follow.
    pub(crate) fn map(self, pairs: usize) {
        // SAFETY: the context is valid.
        unsafe { api!(RedisModule_ReplyWithMap)(self.0.as_ptr(), to_long(pairs)) };
    }

    /// An error, its code included. CR, LF and NUL, which would break the protocol or the text, become spaces.
    #[cold]
    pub(crate) fn error(self, error: impl Display) {
        let mut text = error.to_string().into_bytes();
        for byte in &mut text {
            if matches!(byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
        text.push(0);
        // SAFETY: the context is valid and the text ends in NUL; the server copies it.
        unsafe { api!(RedisModule_ReplyWithError)(self.0.as_ptr(), text.as_ptr().cast()) };
    }
}

/// No collection has more elements than a `long` counts.
fn to_long(len: usize) -> c_long {
    c_long::try_from(len).unwrap_or(c_long::MAX)
}
