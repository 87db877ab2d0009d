//! The state machine of one member: sessions, waiting, goodbyes, burials, what is shown. The only place with its rules.
//!
//! A session is live until its timeout has passed, then waited for until its grace has passed, then gone. A member is
//! online while any session is live, in grace while none is live and any is waited for, and away when none is left.

mod rules;
mod steps;

pub use self::rules::Rules;
use crate::hearing::HeardMs;
use crate::settings::Share;

/// Where a member stands, as announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not present; remembered for a while, or only for a buried session.
    #[default]
    Away,
    /// At least one session is live.
    Online,
    /// No session is live, at least one is waited for. Still present.
    Grace,
}

/// Why a member went offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Silence longer than timeout and grace.
    Timeout,
    /// The last session said goodbye.
    Goodbye,
}

impl Reason {
    /// The word used in announcements.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Goodbye => "goodbye",
        }
    }
}

/// A numbered change of a member; what replicas and readers are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing that anybody is told.
    #[default]
    None,
    /// Came online.
    Online,
    /// Went offline.
    Offline(Reason),
    /// Shown status, data or visibility changed.
    Update,
}

/// One connection of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Empty for the unnamed session.
    pub id: Vec<u8>,
    /// Last beat.
    pub last: HeardMs,
    /// Lost, and waited for.
    pub waiting: bool,
    /// Moment of a goodbye `SOFT`: waited for at most the grace from then on.
    pub soft: Option<HeardMs>,
    /// Own timeout in ms.
    pub timeout: Option<u32>,
    /// Own grace in ms.
    pub grace: Option<u32>,
    /// Own status, UTF-8.
    pub status: Vec<u8>,
    /// Own data, any bytes.
    pub data: Vec<u8>,
    /// Has ever set its status or data; such sessions stand in the order of their last change.
    pub changed: bool,
}

/// A session that said goodbye: late packets of it are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burial {
    /// Session id, never empty.
    pub id: Vec<u8>,
    /// When it began.
    pub since: HeardMs,
    /// How long it lasts, ms.
    pub span: u32,
}

impl Burial {
    fn until(&self) -> HeardMs {
        self.since + u64::from(self.span)
    }
}

/// What remains of a member in the eyes of others after it went offline or hid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// When it did.
    pub at: HeardMs,
    /// Shown as `recent`; otherwise only its choice of SHARE is kept.
    pub shown: bool,
}

/// One member, unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Where it stands.
    pub phase: Phase,
    /// Who may see it by name.
    pub share: Share,
    /// Unix ms at which it came online.
    pub since: u64,
    /// Last beat of any session.
    pub last: HeardMs,
    /// At most `max-sessions`; those that changed their status or data stand last, in the order of their changes.
    pub sessions: Vec<Session>,
    /// At most `max-sessions`, the oldest first.
    pub burials: Vec<Burial>,
    /// Index of the session whose status and data are shown.
    pub shown: Option<usize>,
    /// See [`Left`].
    pub left: Option<Left>,
}

/// What a beat brings beside its proof of life; `None` leaves things as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// SHARE, of the member.
    pub share: Option<Share>,
    /// STATUS, of the session.
    pub status: Option<&'a [u8]>,
    /// DATA, of the session.
    pub data: Option<&'a [u8]>,
    /// TIMEOUT in ms, of the session.
    pub timeout: Option<u32>,
    /// GRACE in ms, of the session.
    pub grace: Option<u32>,
}

/// What an operation on a member did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The numbered change.
    pub change: Change,
    /// What the member shows is no longer what it was.
    pub shows_anew: bool,
    /// The last live session was lost.
    pub grace: bool,
    /// It came back from grace.
    pub back: bool,
    /// Something that replicas must know has changed.
    pub replicate: bool,
    /// The moment at which a member that went offline was due.
    pub due: HeardMs,
}

/// What a beat did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beaten {
    /// The session has said goodbye.
    Refused,
    /// It counts.
    Taken(Outcome),
}
