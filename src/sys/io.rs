//! Reading and writing values: RDB, AOF rewriting, DEBUG DIGEST, and what the server says about the keys concerned.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::c_char;
use std::ptr::NonNull;
use std::slice;

use redis_module::raw::{RedisModuleDigest, RedisModuleIO, RedisModuleKeyOptCtx};

use super::log::Level;
use super::string::Str;

/// The stream was cut or is damaged; the value must be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoError;

/// The stream of a value that is loaded, saved or rewritten.
#[derive(Clone, Copy)]
pub(crate) struct Io<'a> {
    raw: *mut RedisModuleIO,
    call: PhantomData<&'a ()>,
}

impl<'a> Io<'a> {
    /// Wraps the server's pointer.
    ///
    /// # Safety
    /// The stream must stay valid for `'a`.
    pub(crate) const unsafe fn from_raw(raw: *mut RedisModuleIO) -> Self {
        Self { raw, call: PhantomData }
    }

    /// Writes bytes.
    pub(crate) fn save_bytes(self, bytes: &[u8]) {
        // SAFETY: the stream is valid and the bytes are as many as said.
        unsafe { api!(RedisModule_SaveStringBuffer)(self.raw, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`IoError`] if the stream is broken.
    pub(crate) fn load_bytes(self) -> Result<LoadedBytes, IoError> {
        let mut len = 0;
        // SAFETY: the stream is valid.
        let start = unsafe { api!(RedisModule_LoadStringBuffer)(self.raw, &mut len) };
        let loaded = NonNull::new(start).map(|start| LoadedBytes { start, len });
        self.check(())?;
        loaded.ok_or(IoError)
    }

    fn check<T>(self, value: T) -> Result<T, IoError> {
        // SAFETY: the stream is valid.
        if unsafe { api!(RedisModule_IsIOError)(self.raw) } == 0 {
            Ok(value)
        } else {
            Err(IoError)
        }
    }

    /// The key of the value, if the server knows it.
    pub(crate) fn key(self) -> Option<Str<'a>> {
        // SAFETY: the stream is valid, and the name lives as long as it.
        unsafe { Str::from_raw(api!(RedisModule_GetKeyNameFromIO)(self.raw)) }
    }

    /// The database of the value, or -1.
    pub(crate) fn db(self) -> i32 {
        // SAFETY: the stream is valid.
        unsafe { api!(RedisModule_GetDbIdFromIO)(self.raw) }
    }

    /// Writes `command key payload` into the AOF that is being rewritten.
    pub(crate) fn emit_aof(self, command: &CStr, key: Str<'_>, payload: &[u8]) {
        // SAFETY: the format says a string and a buffer (a pointer and a size_t), and they follow.
        unsafe {
            api!(RedisModule_EmitAOF)(
                self.raw,
                command.as_ptr(),
                c"sb".as_ptr(),
                key.as_ptr(),
                payload.as_ptr(),
                payload.len(),
            );
        }
    }

    /// Says in the log why a value was given up.
    pub(crate) fn log_broken(self, why: &str) {
        super::log::log(Level::Warning, format_args!("a room could not be loaded: {why}"));
    }
}

/// Bytes that the server read and that are ours to free.
pub(crate) struct LoadedBytes {
    start: NonNull<c_char>,
    len: usize,
}

impl Deref for LoadedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server allocated that many bytes for us, and nobody else has them.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }
}

impl Drop for LoadedBytes {
    fn drop(&mut self) {
        // SAFETY: the bytes come from the server's allocator and are freed once.
        unsafe { api!(RedisModule_Free)(self.start.as_ptr().cast()) };
    }
}

/// The keys that a callback of the data type concerns.
#[derive(Clone, Copy)]
pub(crate) struct KeyInfo<'a> {
    raw: *mut RedisModuleKeyOptCtx,
    call: PhantomData<&'a ()>,
}

impl<'a> KeyInfo<'a> {
    /// Wraps the server's pointer.
    ///
    /// # Safety
    /// It must stay valid for `'a`.
    pub(crate) const unsafe fn from_raw(raw: *mut RedisModuleKeyOptCtx) -> Self {
        Self { raw, call: PhantomData }
    }

    /// The key copied to.
    pub(crate) fn to_key(self) -> Option<Str<'a>> {
        // SAFETY: the pointer is valid, and so is the name for as long.
        unsafe { Str::from_raw(api!(RedisModule_GetToKeyNameFromOptCtx)(self.raw)) }
    }

    /// The database copied to; -1 if unknown.
    pub(crate) fn to_db(self) -> i32 {
        // SAFETY: the pointer is valid.
        unsafe { api!(RedisModule_GetToDbIdFromOptCtx)(self.raw) }
    }
}

/// DEBUG DIGEST of one value.
pub(crate) struct Digest<'a> {
    raw: *mut RedisModuleDigest,
    call: PhantomData<&'a ()>,
}

impl Digest<'_> {
    /// Wraps the server's pointer.
    ///
    /// # Safety
    /// It must stay valid for the life of the wrapper.
    pub(crate) const unsafe fn from_raw(raw: *mut RedisModuleDigest) -> Self {
        Self { raw, call: PhantomData }
    }

    /// Adds bytes, in order.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        // SAFETY: the digest is valid and the bytes are as many as said.
        unsafe { api!(RedisModule_DigestAddStringBuffer)(self.raw, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Ends one element; the order of elements does not count.
    pub(crate) fn end(&mut self) {
        // SAFETY: the digest is valid.
        unsafe { api!(RedisModule_DigestEndSequence)(self.raw) };
    }
}
