//! How a command is declared, beside its implementation, and how the server learns it.

use std::ffi::CStr;
use std::mem::size_of;
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::slice;

use presence_engine::error::Refusal;
use redis_module::raw::{
    self, RedisModuleCommandArg, RedisModuleCommandHistoryEntry, RedisModuleCommandInfo, RedisModuleCommandInfoVersion,
    RedisModuleCommandKeySpec, RedisModuleCtx, RedisModuleString,
};

use crate::sys::guard::guarded;
use crate::sys::key::OK;
use crate::sys::log::{log, Level};
use crate::sys::string::Str;
use crate::sys::Ctx;

/// The module's own ACL category, where the server can have one.
const CATEGORY: &CStr = c"presence";

/// What a command does. An error becomes the reply; so nothing is replied before all that can be refused is decided.
pub(crate) type Handler = fn(Ctx<'_>, Args<'_>) -> Result<(), Refusal>;

/// A handler as the server calls it; made by [`entry!`].
pub(crate) type Entry = unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;

/// The arguments of a command, in place.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(&'a [Str<'a>]);

impl<'a> Args<'a> {
    /// How many there are, the command's name included: 1 or more.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// The bytes of an argument; 0 is the command's name.
    #[inline]
    pub(crate) fn get(self, index: usize) -> Option<&'a [u8]> {
        self.string(index).map(Str::as_bytes)
    }

    /// An argument as the server's string, to open a key with.
    #[inline]
    pub(crate) fn string(self, index: usize) -> Option<Str<'a>> {
        self.0.get(index).copied()
    }

    /// The bytes of all arguments from `index` on.
    #[inline]
    pub(crate) fn from(self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.0.get(index..).unwrap_or(&[]).iter().map(|argument| argument.as_bytes())
    }
}

/// The C function that the server calls for a handler.
macro_rules! entry {
    ($handler:path) => {{
        unsafe extern "C" fn entry(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::os::raw::c_int,
        ) -> std::os::raw::c_int {
            // SAFETY: the server calls this, with a valid context and `argc` valid arguments.
            unsafe {
                $crate::commands::spec::run(
                    concat!("a command (", stringify!($handler), ")"),
                    ctx,
                    argv,
                    argc,
                    $handler,
                )
            }
        }
        entry
    }};
}
pub(crate) use entry;

/// Runs a handler for the server.
///
/// # Safety
/// The context and the `argc` strings at `argv` must be valid during the call.
#[inline]
pub(crate) unsafe fn run(
    what: &'static str,
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
    handler: Handler,
) -> c_int {
    // SAFETY: the caller's promise.
    let ctx = unsafe { Ctx::from_raw(ctx) };
    // SAFETY: the caller's promise; a `Str` is a pointer that is never null, as the server's arguments are.
    let args = Args(unsafe { slice::from_raw_parts(argv.cast(), usize::try_from(argc).unwrap_or(0)) });
    let outcome = guarded(what, None, || Some(handler(ctx, args)));
    match outcome {
        Some(Ok(())) => {}
        Some(Err(refusal)) => ctx.reply().error(refusal),
        None => ctx.reply().error("ERR internal error, see the server log"),
    }
    OK
}

/// A command: one static beside its handler.
pub(crate) struct Command {
    /// Its name, in capitals.
    pub(crate) name: &'static CStr,
    /// The server's flags, such as `write fast`.
    pub(crate) flags: &'static CStr,
    /// The number of words, name included; negative: at least so many.
    pub(crate) arity: i32,
    /// Where its keys are.
    pub(crate) keys: &'static [Keys],
    /// What it does, in one line.
    pub(crate) summary: &'static CStr,
    /// How its cost grows.
    pub(crate) complexity: &'static CStr,
    /// Version of the module that brought it.
    pub(crate) since: &'static CStr,
    /// Its arguments, for COMMAND DOCS.
    pub(crate) args: &'static [Arg],
    /// ACL categories besides `@presence` and those that follow from the flags; space separated.
    pub(crate) categories: &'static CStr,
    /// What runs it: `entry!(handler)`.
    pub(crate) entry: Entry,
}

/// Where keys are among the arguments, and what becomes of them.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    begin: Begin,
    last: i32,
    flags: u32,
}

#[derive(Clone, Copy)]
enum Begin {
    Index(i32),
    Keyword(&'static CStr, i32),
}

/// What a command does with its keys. (The server takes at most one of update, insert and delete.)
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Reads what the key holds.
    Read,
    /// Changes what the key holds, and does not tell what it held.
    Update,
    /// Changes what the key holds and tells of it.
    ReadUpdate,
    /// Fills a key that holds nothing.
    Insert,
}

impl Access {
    const fn bits(self) -> u32 {
        const RW: u32 = raw::REDISMODULE_CMD_KEY_RW;
        match self {
            Self::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Self::Update => RW | raw::REDISMODULE_CMD_KEY_UPDATE,
            Self::ReadUpdate => RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE,
            Self::Insert => RW | raw::REDISMODULE_CMD_KEY_INSERT,
        }
    }
}

impl Keys {
    /// One key, the argument at `index` (the name is 0).
    pub(crate) const fn at(index: i32, access: Access) -> Self {
        Self { begin: Begin::Index(index), last: 0, flags: access.bits() }
    }

    /// All arguments from `index` on.
    pub(crate) const fn from(index: i32, access: Access) -> Self {
        Self { begin: Begin::Index(index), last: -1, flags: access.bits() }
    }

    /// All arguments after the word `keyword`, which is looked for from `start` on.
    pub(crate) const fn after(keyword: &'static CStr, start: i32, access: Access) -> Self {
        Self { begin: Begin::Keyword(keyword, start), last: -1, flags: access.bits() }
    }

    /// First, last and step as RM_CreateCommand wants them. A keyword cannot be said there; RM_SetCommandInfo does.
    const fn range(&self) -> (c_int, c_int, c_int) {
        match self.begin {
            Begin::Index(index) => (index, if self.last < 0 { self.last } else { index + self.last }, 1),
            Begin::Keyword(..) => (0, 0, 0),
        }
    }

    fn to_raw(self) -> RedisModuleCommandKeySpec {
        let (begin_search_type, bs) = match self.begin {
            Begin::Index(pos) => (
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
                raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
                    index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos },
                },
            ),
            Begin::Keyword(keyword, startfrom) => (
                raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD,
                raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
                    keyword: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_2 {
                        keyword: keyword.as_ptr(),
                        startfrom,
                    },
                },
            ),
        };
        RedisModuleCommandKeySpec {
            notes: ptr::null(),
            flags: self.flags.into(),
            begin_search_type,
            bs,
            find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
            fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
                range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
                    lastkey: self.last,
                    keystep: 1,
                    limit: 0,
                },
            },
        }
    }
}

/// An argument, for COMMAND DOCS.
#[derive(Clone, Copy)]
pub(crate) struct Arg {
    name: &'static CStr,
    kind: u32,
    key: c_int,
    token: Option<&'static CStr>,
    flags: u32,
    parts: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static CStr, kind: u32) -> Self {
        Self { name, kind, key: -1, token: None, flags: raw::REDISMODULE_CMD_ARG_NONE, parts: &[] }
    }

    /// A key; `spec` is its place among the command's [`Keys`].
    pub(crate) const fn key(name: &'static CStr, spec: i32) -> Self {
        let mut key = Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY);
        key.key = spec;
        key
    }

    /// Any bytes.
    pub(crate) const fn string(name: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING)
    }

    /// A whole number.
    pub(crate) const fn integer(name: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER)
    }

    /// A word that is there or not.
    pub(crate) const fn word(name: &'static CStr, token: &'static CStr) -> Self {
        Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN).token(token)
    }

    /// One of `parts`.
    pub(crate) const fn one_of(name: &'static CStr, parts: &'static [Self]) -> Self {
        let mut arg = Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF);
        arg.parts = parts;
        arg
    }

    /// All of `parts`, in order.
    pub(crate) const fn block(name: &'static CStr, parts: &'static [Self]) -> Self {
        let mut arg = Self::new(name, raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK);
        arg.parts = parts;
        arg
    }

    /// The word that comes before it.
    pub(crate) const fn token(mut self, token: &'static CStr) -> Self {
        self.token = Some(token);
        self
    }

    /// It may be left out.
    pub(crate) const fn optional(mut self) -> Self {
        self.flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        self
    }

    /// It may come several times in a row.
    pub(crate) const fn multiple(mut self) -> Self {
        self.flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
        self
    }

    /// The server's form of `args`, ended by an empty one. The arrays of parts are kept in `arena`, which must live as
    /// long as the result is used.
    fn to_raw(args: &[Self], arena: &mut Vec<Box<[RedisModuleCommandArg]>>) -> Box<[RedisModuleCommandArg]> {
        let mut list = Vec::with_capacity(args.len() + 1);
        for arg in args {
            let subargs = if arg.parts.is_empty() {
                ptr::null_mut()
            } else {
                let mut parts = Self::to_raw(arg.parts, arena);
                let start = parts.as_mut_ptr();
                arena.push(parts);
                start
            };
            list.push(RedisModuleCommandArg {
                name: arg.name.as_ptr(),
                type_: arg.kind,
                key_spec_index: arg.key,
                token: pointer(arg.token),
                flags: arg.flags as c_int,
                subargs,
                ..EMPTY_ARG
            });
        }
        list.push(EMPTY_ARG);
        list.into_boxed_slice()
    }
}

const EMPTY_ARG: RedisModuleCommandArg = RedisModuleCommandArg {
    name: ptr::null(),
    type_: raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
    key_spec_index: -1,
    token: ptr::null(),
    summary: ptr::null(),
    since: ptr::null(),
    flags: 0,
    deprecated_since: ptr::null(),
    subargs: ptr::null_mut(),
    display_text: ptr::null(),
};

/// The sizes by which a server steps through our structures. In the header this is a static of C.
static INFO_VERSION: RedisModuleCommandInfoVersion = RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<RedisModuleCommandArg>(),
};

fn pointer(text: Option<&CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

/// Registers `commands`; false, and a line in the log, if the server refused one.
pub(crate) fn register(ctx: Ctx<'_>, commands: &[&Command]) -> bool {
    let own_category = add_category(ctx);
    commands.iter().all(|command| {
        let done = register_one(ctx, command, own_category);
        if let Err(step) = done {
            log(Level::Warning, format_args!("the server refused {step} of {}", command.name.to_string_lossy()));
        }
        done.is_ok()
    })
}

/// Adds `@presence`, where the server can (Redis 7.4, Valkey 8).
fn add_category(ctx: Ctx<'_>) -> bool {
    // SAFETY: the bindings were written when the load began.
    let Some(add) = (unsafe { raw::RedisModule_AddACLCategory }) else { return false };
    // SAFETY: context and name are valid, and the module is being loaded.
    unsafe { add(ctx.as_ptr(), CATEGORY.as_ptr()) == OK }
}

fn register_one(ctx: Ctx<'_>, command: &Command, own_category: bool) -> Result<(), &'static str> {
    let (first, last, step) = command.keys.first().map_or((0, 0, 0), Keys::range);
    // SAFETY: the context and the texts are valid; the entry lives as long as the module.
    let created = unsafe {
        api!(RedisModule_CreateCommand)(
            ctx.as_ptr(),
            command.name.as_ptr(),
            Some(command.entry),
            command.flags.as_ptr(),
            first,
            last,
            step,
        )
    };
    if created != OK {
        return Err("the name or the flags");
    }
    // SAFETY: context and name are valid.
    let registered = unsafe { api!(RedisModule_GetCommand)(ctx.as_ptr(), command.name.as_ptr()) };
    if registered.is_null() {
        return Err("the name");
    }

    let mut keys: Vec<_> = command.keys.iter().map(|keys| keys.to_raw()).collect();
    keys.push(RedisModuleCommandKeySpec {
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INVALID,
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_OMITTED,
        flags: 0,
        ..Keys::at(0, Access::Read).to_raw()
    });
    let mut arena = Vec::new();
    let mut args = Arg::to_raw(command.args, &mut arena);
    let info = RedisModuleCommandInfo {
        version: &raw const INFO_VERSION,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: command.since.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: command.arity,
        key_specs: keys.as_mut_ptr(),
        args: args.as_mut_ptr(),
    };
    // SAFETY: all that `info` points to lives until the end of this function, each list is ended by an empty entry,
    // and the server copies all of it.
    if unsafe { api!(RedisModule_SetCommandInfo)(registered, &raw const info) } != OK {
        return Err("the description");
    }

    // SAFETY: the bindings were written when the load began. Redis 7.0 puts no module's command into a category.
    let Some(set) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else { return Ok(()) };
    let text = categories(command, own_category);
    // SAFETY: the command is valid and the text ends in NUL.
    if unsafe { set(registered, text.as_ptr().cast()) } == OK {
        Ok(())
    } else {
        Err("the ACL categories")
    }
}

/// The ACL categories of a command, ended by NUL. Those that the server derives from the flags of its own commands it
/// does not derive for modules.
fn categories(command: &Command, own_category: bool) -> Vec<u8> {
    let flags = command.flags.to_bytes();
    let has = |flag: &[u8]| flags.split(|byte| *byte == b' ').any(|word| word == flag);
    let mut text = if has(b"fast") { b"fast".to_vec() } else { b"slow".to_vec() };
    let mut add = |category: &[u8]| {
        if !category.is_empty() {
            text.push(b' ');
            text.extend_from_slice(category);
        }
    };
    if has(b"write") {
        add(b"write");
    }
    if has(b"readonly") {
        add(b"read");
    }
    add(command.categories.to_bytes());
    if own_category {
        add(CATEGORY.to_bytes());
    }
    text.push(0);
    text
}
