//! Strings of the server: key names, arguments, messages.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::RedisModuleString;

/// A string that somebody else keeps, at least for `'a`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Str<'a> {
    raw: NonNull<RedisModuleString>,
    borrow: PhantomData<&'a [u8]>,
}

impl<'a> Str<'a> {
    /// Wraps a string of the server; `None` for null.
    ///
    /// # Safety
    /// The string must stay valid and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *const RedisModuleString) -> Option<Self> {
        Some(Self { raw: NonNull::new(raw.cast_mut())?, borrow: PhantomData })
    }

    /// The pointer, for calls into the server.
    #[inline]
    pub(crate) fn as_ptr(self) -> *mut RedisModuleString {
        self.raw.as_ptr()
    }

    /// The bytes.
    #[inline]
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string is valid, as promised to `from_raw`.
        let bytes = unsafe { api!(RedisModule_StringPtrLen)(self.raw.as_ptr(), &mut len) };
        if bytes.is_null() {
            return &[];
        }
        // SAFETY: the server returned the start and the length of the string's bytes, which stay as they are for `'a`.
        unsafe { slice::from_raw_parts(bytes.cast(), len) }
    }
}

/// A string of our own, freed when dropped.
pub(crate) struct OwnedStr(Str<'static>);

impl OwnedStr {
    /// A copy of `bytes`. Needs no context: nothing here uses the server's automatic memory.
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        // SAFETY: the server copies the bytes; it ends the process rather than return null for want of memory.
        let raw = unsafe { api!(RedisModule_CreateString)(std::ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        // SAFETY: the string lives until it is freed in `drop`, and it is lent out for the life of `self` only.
        match unsafe { Str::from_raw(raw) } {
            Some(string) => Self(string),
            None => super::ffi::absent("memory for a string"),
        }
    }

    /// Gives the string to the server, which frees it.
    pub(crate) fn into_raw(self) -> *mut RedisModuleString {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    /// The string, lent.
    #[inline]
    pub(crate) fn as_str(&self) -> Str<'_> {
        self.0
    }
}

impl Deref for OwnedStr {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

impl Drop for OwnedStr {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the string was created by us and is freed once.
        unsafe { api!(RedisModule_FreeString)(std::ptr::null_mut(), self.0.as_ptr()) };
    }
}

// SAFETY: a string of our own is reached through this one owner only; the server's reference count of it is never
// touched by another thread.
unsafe impl Send for OwnedStr {}
