//! Keys and the module's data type.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw::{self, RedisModuleKey, RedisModuleType, RedisModuleTypeMethods};

use super::string::Str;
use super::Ctx;

/// What the server's functions return when they did as asked.
pub(crate) const OK: c_int = raw::REDISMODULE_OK as c_int;

/// How to open a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To read, as a client would.
    Read,
    /// To change. Deletes the key if its TTL has passed, so not while replica traffic is paused.
    Write,
    /// To read without a trace: no touch of LRU or LFU, and where the server can, no miss event and no statistics.
    Peek,
}

impl Mode {
    fn bits(self) -> c_int {
        let read = raw::REDISMODULE_READ as c_int;
        match self {
            Self::Read => read,
            Self::Write => read | raw::REDISMODULE_WRITE as c_int,
            Self::Peek => {
                let base = read | raw::REDISMODULE_OPEN_KEY_NOTOUCH as c_int;
                let silent = (raw::REDISMODULE_OPEN_KEY_NONOTIFY | raw::REDISMODULE_OPEN_KEY_NOSTATS) as c_int;
                super::ffi::known_open_modes(base | silent, base)
            }
        }
    }
}

/// A data type of the module whose values are boxed `T`.
pub(crate) struct DataType<T> {
    raw: AtomicPtr<RedisModuleType>,
    values: PhantomData<fn() -> T>,
}

impl<T> DataType<T> {
    /// A type that is not registered yet.
    pub(crate) const fn new() -> Self {
        Self { raw: AtomicPtr::new(ptr::null_mut()), values: PhantomData }
    }

    /// Registers the type under its name of nine characters; false if the server refused.
    ///
    /// # Safety
    /// `rdb_load` and `copy` of the methods return what [`into_raw`] returned or null, and `free` takes it back with
    /// [`from_raw`]; the others treat the value as a valid `T` that others may read.
    pub(crate) unsafe fn register(
        &self,
        ctx: Ctx<'_>,
        name: &CStr,
        encoding: c_int,
        mut methods: RedisModuleTypeMethods,
    ) -> bool {
        methods.version = u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION);
        // SAFETY: the server copies the methods; a server that knows fewer of them reads those only.
        let raw = unsafe { api!(RedisModule_CreateDataType)(ctx.as_ptr(), name.as_ptr(), encoding, &raw mut methods) };
        self.raw.store(raw, Ordering::Release);
        !raw.is_null()
    }

    fn as_ptr(&self) -> *mut RedisModuleType {
        self.raw.load(Ordering::Acquire)
    }
}

/// A value as the server holds it.
pub(crate) fn into_raw<T>(value: Box<T>) -> *mut c_void {
    Box::into_raw(value).cast()
}

/// Takes a value back.
///
/// # Safety
/// `value` came from [`into_raw`] with the same `T`, and this is done once.
pub(crate) unsafe fn from_raw<T>(value: *mut c_void) -> Box<T> {
    // SAFETY: the caller's promise.
    unsafe { Box::from_raw(value.cast()) }
}

/// What a key holds.
pub(crate) enum Held<T> {
    /// Nothing.
    Nothing,
    /// A value of our type. The pointer is good until the key is changed, deleted, or anything that may do so runs:
    /// a notification, a publish, a call, a delete or set through any handle.
    Ours(NonNull<T>),
    /// A value of another type.
    Other,
}

/// An open key, closed when dropped.
pub(crate) struct Key<'a> {
    raw: *mut RedisModuleKey,
    ctx: PhantomData<Ctx<'a>>,
}

impl<'a> Key<'a> {
    /// Opens `name` in the context's database.
    #[inline]
    pub(crate) fn open(ctx: Ctx<'a>, name: Str<'_>, mode: Mode) -> Self {
        // SAFETY: context and name are valid; the server keeps its own reference to the name.
        let raw = unsafe { api!(RedisModule_OpenKey)(ctx.as_ptr(), name.as_ptr(), mode.bits()) }.cast();
        Self { raw, ctx: PhantomData }
    }

    /// What the key holds.
    #[inline]
    pub(crate) fn held<T>(&self, of: &DataType<T>) -> Held<T> {
        if self.raw.is_null() {
            return Held::Nothing;
        }
        // SAFETY: the key is open.
        match unsafe { api!(RedisModule_KeyType)(self.raw) } {
            kind if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int => Held::Nothing,
            kind if kind == raw::REDISMODULE_KEYTYPE_MODULE as c_int => {
                // SAFETY: the key is open.
                let holder = unsafe { api!(RedisModule_ModuleTypeGetType)(self.raw) };
                if holder != of.as_ptr() {
                    return Held::Other;
                }
                // SAFETY: the key is open and holds a value of our type, so a boxed `T` by `register`'s contract.
                let value: *mut T = unsafe { api!(RedisModule_ModuleTypeGetValue)(self.raw) }.cast();
                NonNull::new(value).map_or(Held::Other, Held::Ours)
            }
            _ => Held::Other,
        }
    }

    /// Puts `value` into the key, freeing what it held.
    ///
    /// # Errors
    /// The value, if the key was not opened for writing.
    pub(crate) fn set<T>(&mut self, of: &DataType<T>, value: Box<T>) -> Result<(), Box<T>> {
        if self.raw.is_null() {
            return Err(value);
        }
        let value = into_raw(value);
        // SAFETY: the key is open, and the value is one that the type's methods can handle.
        if unsafe { api!(RedisModule_ModuleTypeSetValue)(self.raw, of.as_ptr(), value) } == OK {
            Ok(())
        } else {
            // SAFETY: the value came from `into_raw` above, and the server did not take it.
            Err(unsafe { from_raw(value) })
        }
    }

    /// Deletes the key, which frees its value, here or on another thread. The server neither signals nor notifies
    /// this by itself. False if the key was not opened for writing.
    pub(crate) fn delete(&mut self) -> bool {
        // SAFETY: the key is open.
        !self.raw.is_null() && unsafe { api!(RedisModule_DeleteKey)(self.raw) } == OK
    }

    /// Calls `f` with each member of the key's SET of strings, and returns their number; `None` if the key holds
    /// something else, 0 if nothing. `f` must not touch the key.
    pub(crate) fn for_each_set_member(&self, mut f: impl FnMut(&[u8])) -> Option<usize> {
        if self.raw.is_null() {
            return Some(0);
        }
        // SAFETY: the key is open.
        let (kind, len) = unsafe { (api!(RedisModule_KeyType)(self.raw), api!(RedisModule_ValueLength)(self.raw)) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Some(0);
        }
        if kind != raw::REDISMODULE_KEYTYPE_SET as c_int {
            return None;
        }
        let mut each: &mut dyn FnMut(&[u8]) = &mut f;
        // SAFETY: the cursor is destroyed below; `each` outlives the calls, which `member` makes one after another,
        // and the key does not change while it is scanned.
        unsafe {
            let cursor = api!(RedisModule_ScanCursorCreate)();
            let data: *mut c_void = (&raw mut each).cast();
            while api!(RedisModule_ScanKey)(self.raw, cursor, Some(member), data) != 0 {}
            api!(RedisModule_ScanCursorDestroy)(cursor);
        }
        Some(len)
    }

    /// How many elements the key's value has, 0 for a missing key; `None` if it is no SET.
    pub(crate) fn set_len(&self) -> Option<usize> {
        if self.raw.is_null() {
            return Some(0);
        }
        // SAFETY: the key is open.
        let kind = unsafe { api!(RedisModule_KeyType)(self.raw) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Some(0);
        }
        // SAFETY: the key is open.
        (kind == raw::REDISMODULE_KEYTYPE_SET as c_int).then(|| unsafe { api!(RedisModule_ValueLength)(self.raw) })
    }
}

/// Called by the server for each element of a scanned key; for a SET the element is the field.
unsafe extern "C" fn member(
    _key: *mut RedisModuleKey,
    field: *mut raw::RedisModuleString,
    _value: *mut raw::RedisModuleString,
    data: *mut c_void,
) {
    super::guard::guarded("reading a set", (), || {
        // SAFETY: the string is valid during this call.
        if let Some(field) = unsafe { Str::from_raw(field) } {
            // SAFETY: `data` is the closure that `for_each_set_member` passed, which nobody else uses now.
            let each = unsafe { &mut *data.cast::<&mut dyn FnMut(&[u8])>() };
            each(field.as_bytes());
        }
    });
}

impl Drop for Key<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the key is open and is closed once.
            unsafe { api!(RedisModule_CloseKey)(self.raw) };
        }
    }
}
