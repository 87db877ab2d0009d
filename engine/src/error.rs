//! Refusals: what a command answers instead of an effect.

use std::fmt;

use crate::codec::Damage;
use crate::settings::{MAX_BATCH, MAX_MEMBER_ID, MAX_SESSION_ID, MAX_STATUS};

/// Why a command was refused. `Display` is the exact reply, error code included; it tells the user what to do and holds
/// no byte that came from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A number outside its range.
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// Least value allowed.
        min: i64,
        /// Greatest value allowed.
        max: i64,
    },
    /// Not a whole number.
    NotANumber {
        /// Name of the option.
        name: &'static str,
    },
    /// Too few or too many arguments.
    Arity {
        /// Command as users write it.
        command: &'static str,
    },
    /// An option that the command does not have, or one without its value.
    Option {
        /// Command as users write it.
        command: &'static str,
        /// The options it has.
        options: &'static str,
    },
    /// An option that was given twice.
    Repeated {
        /// Name of the option.
        name: &'static str,
    },
    /// A member id that is empty or too long.
    MemberId,
    /// A session id that is too long.
    SessionId,
    /// A STATUS that is too long or not UTF-8.
    Status,
    /// DATA that is too long.
    Data {
        /// Bytes allowed.
        max: u16,
    },
    /// Not a SHARE.
    Share,
    /// A batch without items, with half an item, or with too many.
    Batch,
    /// More friends than one command may ask for.
    Friends {
        /// Friends allowed.
        max: usize,
    },
    /// All sessions of the member are live and there is no place for one more.
    TooManySessions {
        /// Sessions allowed.
        max: usize,
    },
    /// The room admits nobody else.
    RoomFull {
        /// Members allowed.
        max: u32,
    },
    /// Memory is short.
    OutOfMemory,
    /// There is no such room.
    NoRoom,
    /// There is such a room already.
    RoomExists,
    /// Not a day.
    Day,
    /// Days outside the retention.
    DaysNotKept {
        /// Days kept.
        keep: u16,
    },
    /// Not a cursor.
    Cursor,
    /// The history does not reach back as far as was asked.
    Resync,
    /// The key holds another type.
    WrongType,
    /// A payload that was refused.
    Damage(Damage),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { name, min, max } => write!(f, "ERR {name} must be between {min} and {max}"),
            Self::NotANumber { name } => write!(f, "ERR {name} must be a whole number"),
            Self::Arity { command } => write!(f, "ERR wrong number of arguments for '{command}' command"),
            Self::Option { command, options } => {
                write!(f, "ERR syntax error: the options of {command} are {options}")
            }
            Self::Repeated { name } => write!(f, "ERR syntax error: {name} is given twice"),
            Self::MemberId => write!(f, "ERR a member id must have 1 to {MAX_MEMBER_ID} bytes"),
            Self::SessionId => write!(f, "ERR a session id must have at most {MAX_SESSION_ID} bytes"),
            Self::Status => write!(f, "ERR STATUS must be UTF-8 of at most {MAX_STATUS} bytes"),
            Self::Data { max } => write!(f, "ERR DATA must have at most {max} bytes (presence.max-data)"),
            Self::Share => f.write_str("ERR SHARE must be nobody, friends or everyone"),
            Self::Batch => write!(
                f,
                "ERR a batch is [EACH] MEMBERS member ... or [EACH] SESSIONS member session ..., of 1 to {MAX_BATCH} items"
            ),
            Self::Friends { max } => write!(f, "ERR at most {max} friends can be asked for at once"),
            Self::TooManySessions { max } => {
                write!(f, "ERR the member has {max} live sessions already (presence.max-sessions)")
            }
            Self::RoomFull { max } => write!(f, "ERR the room is full with {max} members (presence.max-members)"),
            Self::OutOfMemory => f.write_str("OOM command not allowed when used memory > 'maxmemory'."),
            Self::NoRoom => f.write_str("NOROOM no such room: make it with PRESENCE.CREATE"),
            Self::RoomExists => f.write_str("ERR the room exists already: change it with PRESENCE.ALTER"),
            Self::Day => f.write_str("ERR DAY must be a calendar day as yyyymmdd"),
            Self::DaysNotKept { keep: 0 } => {
                f.write_str("ERR the room keeps no uniques: set UNIQUES with PRESENCE.ALTER")
            }
            Self::DaysNotKept { keep } => {
                write!(f, "ERR the room keeps the uniques of {keep} days, today included (UNIQUES)")
            }
            Self::Resync => f.write_str(
                "RESYNC the history does not reach back to that epoch and seq: read PRESENCE.MEMBERS again",
            ),
            Self::WrongType => f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value"),
            Self::Damage(damage) => damage.fmt(f),
            Self::Cursor => f.write_str("ERR CURSOR must be 0 or the cursor of the page before"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Damage> for Refusal {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}
