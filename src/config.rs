//! The node's configuration: `presence.*` in CONFIG GET, SET and REWRITE, in the configuration file, and the same
//! names as arguments of `loadmodule`.
//!
//! A load argument becomes the default of its setting, as far as the server is concerned. So a line of the
//! configuration file beats it, CONFIG REWRITE leaves it where it stands (in the `loadmodule` line), and a value set
//! later is written as soon as it differs, even if it is the default of this module. The server does not check
//! defaults against the range; [`LoadArgs`] does.

use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_longlong, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lazy_static::lazy_static;
use presence_engine::settings::{
    NodeConfig, Number, Pubsub, Share, COUNT_EVERY, FEED, GRACE, INTERVAL_OVER, MAX_DATA, MAX_MEMBERS, MAX_SESSIONS,
    RECENT, TICK_BUDGET_US, TIMEOUT, UNIQUES_DAYS,
};
use presence_engine::uniques::Calendar;
use redis_module::raw::{self, RedisModuleString};

use crate::sys::guard::guarded;
use crate::sys::key::OK;
use crate::sys::{Ctx, OwnedStr, Str};

const ERR: c_int = raw::REDISMODULE_ERR as c_int;
const DEFAULT_ZONE: &str = "UTC";

/// All settings of the node.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What the engine needs to know.
    pub(crate) node: NodeConfig,
    /// Which channels announcements go to.
    pub(crate) pubsub: Pubsub,
    /// [`TICK_BUDGET_US`]
    pub(crate) tick_budget_us: u32,
    /// The IANA zone whose calendar days UNIQUE counts by.
    pub(crate) day_zone: Arc<str>,
}

struct Store {
    config: Config,
    /// `day_zone` as the server reads it. It keeps no reference of its own.
    zone_string: Option<OwnedStr>,
}

lazy_static! {
    static ref CONFIG: Mutex<Store> = Mutex::new(Store {
        config: Config {
            node: NodeConfig::default(),
            pubsub: Pubsub::default(),
            tick_budget_us: 1_000,
            day_zone: Arc::from(DEFAULT_ZONE),
        },
        zone_string: None,
    });
}

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that changes whenever a setting does, for callers that keep a copy.
#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// A copy of all settings.
pub(crate) fn current() -> Config {
    read(|store| store.config.clone())
}

// A panic while the lock is held leaves plain values behind, so poison says nothing here.

fn read<R>(f: impl FnOnce(&Store) -> R) -> R {
    f(&CONFIG.lock().unwrap_or_else(PoisonError::into_inner))
}

fn write<R>(f: impl FnOnce(&mut Store) -> R) -> R {
    let result = f(&mut CONFIG.lock().unwrap_or_else(PoisonError::into_inner));
    GENERATION.fetch_add(1, Ordering::AcqRel);
    result
}

/// One setting whose value is a number, a yes or no, or one of some words.
struct Setting {
    name: &'static str,
    kind: Kind,
    get: fn(&Config) -> i64,
    set: fn(&mut Config, i64),
}

enum Kind {
    Number(&'static Number),
    Flag {
        default: bool,
    },
    /// Words, whose numbers are their places; the first is the default.
    Words(&'static [&'static CStr]),
}

/// Of a value that the server checked against a range: the cast cannot change it.
macro_rules! number {
    ($range:ident, $($field:ident).+) => {
        Setting {
            name: $range.name,
            kind: Kind::Number(&$range),
            get: |config| config.$($field).+.into(),
            set: |config, value| {
                if let Ok(value) = value.try_into() {
                    config.$($field).+ = value;
                }
            },
        }
    };
}

const SHARE_WORDS: &[&CStr] = &[c"nobody", c"friends", c"everyone"];
const PUBSUB_WORDS: &[&CStr] = &[c"auto", c"classic", c"sharded"];
const DAY_ZONE: &str = "day-zone";

static SETTINGS: [Setting; 15] = [
    number!(TIMEOUT, node.timeout),
    number!(GRACE, node.grace),
    number!(RECENT, node.recent),
    number!(UNIQUES_DAYS, node.uniques_days),
    number!(FEED, node.feed),
    number!(COUNT_EVERY, node.count_every),
    number!(INTERVAL_OVER, node.interval_over),
    number!(MAX_MEMBERS, node.max_members),
    number!(MAX_SESSIONS, node.max_sessions),
    number!(MAX_DATA, node.max_data),
    number!(TICK_BUDGET_US, tick_budget_us),
    Setting {
        name: "reciprocal",
        kind: Kind::Flag { default: false },
        get: |config| config.node.reciprocal.into(),
        set: |config, value| config.node.reciprocal = value != 0,
    },
    Setting {
        name: "auto-create",
        kind: Kind::Flag { default: true },
        get: |config| config.node.auto_create.into(),
        set: |config, value| config.node.auto_create = value != 0,
    },
    Setting {
        name: "share-default",
        kind: Kind::Words(SHARE_WORDS),
        get: |config| match config.node.share {
            Share::Nobody => 0,
            Share::Friends => 1,
            Share::Everyone => 2,
        },
        set: |config, value| {
            config.node.share = match value {
                1 => Share::Friends,
                2 => Share::Everyone,
                _ => Share::Nobody,
            };
        },
    },
    Setting {
        name: "pubsub",
        kind: Kind::Words(PUBSUB_WORDS),
        get: |config| match config.pubsub {
            Pubsub::Auto => 0,
            Pubsub::Classic => 1,
            Pubsub::Sharded => 2,
        },
        set: |config, value| {
            config.pubsub = match value {
                1 => Pubsub::Classic,
                2 => Pubsub::Sharded,
                _ => Pubsub::Auto,
            };
        },
    },
];

/// `zone`, if it names a zone that UNIQUE can count days in.
///
/// # Errors
/// What to tell the operator.
fn check_zone(zone: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(zone)
        .ok()
        .filter(|zone| Calendar::new(zone).is_some())
        .ok_or_else(|| "day-zone must be the name of an IANA time zone, such as Europe/Berlin".to_owned())
}

impl Setting {
    /// The number that stands for the text of a load argument.
    fn parse(&self, text: &[u8]) -> Result<i64, String> {
        let text = std::str::from_utf8(text).unwrap_or_default();
        match &self.kind {
            Kind::Number(range) => {
                let wanted = || format!("{} must be a number between {} and {}", range.name, range.min, range.max);
                let value = text.parse().map_err(|_| wanted())?;
                range.check(value).map_err(|_| wanted())
            }
            Kind::Flag { .. } => match text.to_ascii_lowercase().as_str() {
                "yes" => Ok(1),
                "no" => Ok(0),
                _ => Err(format!("{} must be yes or no", self.name)),
            },
            Kind::Words(words) => words
                .iter()
                .zip(0..)
                .find_map(|(word, number)| word.to_bytes().eq_ignore_ascii_case(text.as_bytes()).then_some(number))
                .ok_or_else(|| {
                    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                    format!("{} must be one of {}", self.name, words.join(", "))
                }),
        }
    }

    fn default(&self) -> i64 {
        match self.kind {
            Kind::Number(range) => range.default,
            Kind::Flag { default } => default.into(),
            Kind::Words(_) => 0,
        }
    }
}

/// What the `loadmodule` line set.
#[derive(Default)]
struct LoadArgs {
    numbers: [Option<i64>; SETTINGS.len()],
    zone: Option<String>,
}

impl LoadArgs {
    fn parse<'a>(mut args: impl Iterator<Item = &'a [u8]>) -> Result<Self, String> {
        let mut parsed = Self::default();
        while let Some(given) = args.next() {
            let shown = String::from_utf8_lossy(given);
            let lower = given.to_ascii_lowercase();
            let name = lower.strip_prefix(b"presence.").unwrap_or(&lower);
            let index = SETTINGS.iter().position(|setting| setting.name.as_bytes() == name);
            if index.is_none() && name != DAY_ZONE.as_bytes() {
                return Err(format!("unknown load argument '{shown}'"));
            }
            let value = args.next().ok_or_else(|| format!("load argument '{shown}' has no value"))?;
            let repeated = if let Some(index) = index {
                let setting = SETTINGS.get(index).map_or(Ok(0), |setting| setting.parse(value))?;
                parsed.numbers.get_mut(index).is_some_and(|number| number.replace(setting).is_some())
            } else {
                parsed.zone.replace(check_zone(value)?.to_owned()).is_some()
            };
            if repeated {
                return Err(format!("load argument '{shown}' is given twice"));
            }
        }
        Ok(parsed)
    }
}

/// Registers all settings and reads their values: configuration file, else load argument, else default.
///
/// # Errors
/// Why the module must not be loaded.
pub(crate) fn load<'a>(ctx: Ctx<'_>, args: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
    let args = LoadArgs::parse(args)?;
    for (setting, given) in SETTINGS.iter().zip(args.numbers) {
        register(ctx, setting, given.unwrap_or_else(|| setting.default()))
            .ok_or_else(|| format!("the server refused the setting presence.{}", setting.name))?;
    }
    register_zone(ctx, args.zone.as_deref().unwrap_or(DEFAULT_ZONE))
        .ok_or_else(|| "the server refused the setting presence.day-zone".to_owned())?;
    // SAFETY: the context is valid, and the module is being loaded.
    if unsafe { api!(RedisModule_LoadConfigs)(ctx.as_ptr()) } != OK {
        return Err("a presence.* setting of the configuration is invalid, see the line above".to_owned());
    }
    Ok(())
}

const FLAGS: c_uint = raw::REDISMODULE_CONFIG_DEFAULT;

fn register(ctx: Ctx<'_>, setting: &'static Setting, default: i64) -> Option<()> {
    let name = CString::new(setting.name).ok()?;
    let data: *mut c_void = std::ptr::from_ref(setting).cast_mut().cast();
    let small = c_int::try_from(default);
    // SAFETY: the context is valid, the server copies names and words, and `data` is a static that it only passes on
    // to the callbacks, which live as long as the module.
    let status = unsafe {
        match &setting.kind {
            Kind::Number(range) => api!(RedisModule_RegisterNumericConfig)(
                ctx.as_ptr(),
                name.as_ptr(),
                default,
                FLAGS,
                range.min,
                range.max,
                Some(get_number),
                Some(set_number),
                None,
                data,
            ),
            Kind::Flag { .. } => api!(RedisModule_RegisterBoolConfig)(
                ctx.as_ptr(),
                name.as_ptr(),
                small.ok()?,
                FLAGS,
                Some(get_small),
                Some(set_small),
                None,
                data,
            ),
            Kind::Words(words) => {
                let mut texts: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
                let numbers: Vec<c_int> = (0..).take(words.len()).collect();
                api!(RedisModule_RegisterEnumConfig)(
                    ctx.as_ptr(),
                    name.as_ptr(),
                    small.ok()?,
                    FLAGS,
                    texts.as_mut_ptr(),
                    numbers.as_ptr(),
                    c_int::try_from(words.len()).ok()?,
                    Some(get_small),
                    Some(set_small),
                    None,
                    data,
                )
            }
        }
    };
    (status == OK).then_some(())
}

fn register_zone(ctx: Ctx<'_>, default: &str) -> Option<()> {
    let name = CString::new(DAY_ZONE).ok()?;
    let default = CString::new(default).ok()?;
    // SAFETY: the context is valid, the server copies the texts, and the callbacks live as long as the module.
    let status = unsafe {
        api!(RedisModule_RegisterStringConfig)(
            ctx.as_ptr(),
            name.as_ptr(),
            default.as_ptr(),
            FLAGS,
            Some(get_zone),
            Some(set_zone),
            None,
            std::ptr::null_mut(),
        )
    };
    (status == OK).then_some(())
}

/// # Safety
/// `data` must be what [`register`] passed.
unsafe fn setting<'a>(data: *mut c_void) -> &'a Setting {
    // SAFETY: the caller's promise; it was a static.
    unsafe { &*data.cast_const().cast() }
}

unsafe extern "C" fn get_number(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the data on.
    let setting = unsafe { setting(data) };
    guarded("CONFIG GET", 0, || read(|store| (setting.get)(&store.config)))
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the data on.
    let setting = unsafe { setting(data) };
    guarded("CONFIG SET", ERR, || {
        write(|store| (setting.set)(&mut store.config, value));
        OK
    })
}

unsafe extern "C" fn get_small(name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the arguments are passed on.
    let value = unsafe { get_number(name, data) };
    c_int::try_from(value).unwrap_or(0)
}

unsafe extern "C" fn set_small(
    name: *const c_char,
    value: c_int,
    data: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> c_int {
    // SAFETY: the arguments are passed on.
    unsafe { set_number(name, value.into(), data, error) }
}

/// The server copies the string and leaves ours alone.
unsafe extern "C" fn get_zone(_name: *const c_char, _data: *mut c_void) -> *mut RedisModuleString {
    guarded("CONFIG GET", std::ptr::null_mut(), || {
        read(|store| store.zone_string.as_ref().map_or(std::ptr::null_mut(), |string| string.as_str().as_ptr()))
    })
}

unsafe extern "C" fn set_zone(
    _name: *const c_char,
    value: *mut RedisModuleString,
    _data: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> c_int {
    guarded("CONFIG SET", ERR, || {
        // SAFETY: the string is valid during this call.
        let value = unsafe { Str::from_raw(value) }.map_or(&[][..], Str::as_bytes);
        match check_zone(value) {
            Ok(zone) => {
                write(|store| {
                    store.config.day_zone = Arc::from(zone);
                    store.zone_string = Some(OwnedStr::new(value));
                });
                OK
            }
            Err(why) => {
                if !error.is_null() {
                    // SAFETY: the server passed the place for an error, which it frees.
                    unsafe { error.write(OwnedStr::new(why.as_bytes()).into_raw()) };
                }
                ERR
            }
        }
    })
}
