//! A room's settings, the node's configuration, and every bound: the only place where limits live.

use crate::error::Refusal;

/// Longest member id, in bytes; the shortest has one.
pub const MAX_MEMBER_ID: usize = 256;
/// Longest session id, in bytes; the empty id is the unnamed session.
pub const MAX_SESSION_ID: usize = 128;
/// Longest STATUS, in bytes of UTF-8.
pub const MAX_STATUS: usize = 64;
/// Most items of one MBEAT.
pub const MAX_BATCH: usize = 4096;
/// Most friends of one FRIENDS.
pub const MAX_FRIENDS: usize = 5_000;
/// Most ids that FRIENDSFROM reads from its set.
pub const MAX_FRIENDS_FROM: usize = 10_000;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Who may see a member by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// Nobody: the member is counted, but never named. Presence is opt-in.
    #[default]
    Nobody,
    /// Those who ask with FRIENDS or FRIENDSFROM.
    Friends,
    /// Friends, and everyone who lists the room.
    Everyone,
}

impl Share {
    /// Every value, in ascending order of visibility.
    pub const ALL: [Self; 3] = [Self::Nobody, Self::Friends, Self::Everyone];

    /// The word used in commands and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Friends => "friends",
            Self::Everyone => "everyone",
        }
    }

    /// Parses the word, in any case.
    pub fn parse(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|share| word.eq_ignore_ascii_case(share.as_str().as_bytes()))
    }
}

/// Which channels announcements are published on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pubsub {
    /// Classic channels; sharded ones in cluster mode.
    #[default]
    Auto,
    /// Always classic channels.
    Classic,
    /// Always sharded channels.
    Sharded,
}

/// A number that an operator or a room may set: its name, default and range.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Name after `presence.` in CONFIG, and (in capitals) in CREATE and ALTER.
    pub name: &'static str,
    /// Value where nobody set one.
    pub default: i64,
    /// Least value allowed.
    pub min: i64,
    /// Greatest value allowed.
    pub max: i64,
}

impl Number {
    /// `value`, if it lies in the range.
    ///
    /// # Errors
    /// [`Refusal::OutOfRange`], which names the setting and its range.
    pub fn check(&self, value: i64) -> Result<i64, Refusal> {
        if (self.min..=self.max).contains(&value) {
            Ok(value)
        } else {
            Err(Refusal::OutOfRange { name: self.name, min: self.min, max: self.max })
        }
    }
}

/// Silence after which a session is lost, in milliseconds.
pub const TIMEOUT: Number = Number { name: "timeout", default: 30_000, min: 100, max: DAY_MS };
/// How long a lost session is still waited for, in milliseconds.
pub const GRACE: Number = Number { name: "grace", default: 15_000, min: 0, max: DAY_MS };
/// How long a member counts as "active recently", in milliseconds.
pub const RECENT: Number = Number { name: "recent", default: 300_000, min: 0, max: DAY_MS };
/// Days of uniques kept, today included; 0 keeps none.
pub const UNIQUES_DAYS: Number = Number { name: "uniques-days", default: 2, min: 0, max: 400 };
/// Events kept for CHANGES; 0 keeps none and sends no feed.
pub const FEED: Number = Number { name: "feed", default: 0, min: 0, max: 1_000_000 };
/// Least time between two counts on the count channel, in milliseconds; 0 sends none.
pub const COUNT_EVERY: Number = Number { name: "count-every", default: 5_000, min: 0, max: DAY_MS };
/// Members above which the feed sends summaries.
pub const INTERVAL_OVER: Number = Number { name: "interval-over", default: 1_000, min: 0, max: 1_000_000 };
/// Members present that a room admits; 0 is no limit.
pub const MAX_MEMBERS: Number = Number { name: "max-members", default: 0, min: 0, max: 1_000_000_000 };
/// Sessions that a member may have.
pub const MAX_SESSIONS: Number = Number { name: "max-sessions", default: 64, min: 1, max: 64 };
/// Longest DATA, in bytes.
pub const MAX_DATA: Number = Number { name: "max-data", default: 1_024, min: 0, max: 1_024 };
/// Time that one tick may spend on due members, in microseconds.
pub const TICK_BUDGET_US: Number = Number { name: "tick-budget-us", default: 1_000, min: 50, max: 100_000 };

/// The node's configuration: what holds where a room has no setting of its own, and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// [`TIMEOUT`]
    pub timeout: u32,
    /// [`GRACE`]
    pub grace: u32,
    /// [`RECENT`]
    pub recent: u32,
    /// [`UNIQUES_DAYS`]
    pub uniques_days: u16,
    /// SHARE of a new member where neither beat nor room says one.
    pub share: Share,
    /// [`FEED`]
    pub feed: u32,
    /// [`COUNT_EVERY`]
    pub count_every: u32,
    /// [`INTERVAL_OVER`]
    pub interval_over: u32,
    /// A viewer who does not share sees nobody.
    pub reciprocal: bool,
    /// A beat on a missing room creates it.
    pub auto_create: bool,
    /// [`MAX_MEMBERS`]
    pub max_members: u32,
    /// [`MAX_SESSIONS`]
    pub max_sessions: u16,
    /// [`MAX_DATA`]
    pub max_data: u16,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            timeout: 30_000,
            grace: 15_000,
            recent: 300_000,
            uniques_days: 2,
            share: Share::Nobody,
            feed: 0,
            count_every: 5_000,
            interval_over: 1_000,
            reciprocal: false,
            auto_create: true,
            max_members: 0,
            max_sessions: 64,
            max_data: 1_024,
        }
    }
}

/// A room's own settings; `None` follows the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomSettings {
    /// [`TIMEOUT`]
    pub timeout: Option<u32>,
    /// [`GRACE`]
    pub grace: Option<u32>,
    /// [`RECENT`]
    pub recent: Option<u32>,
    /// [`UNIQUES_DAYS`]
    pub uniques_days: Option<u16>,
    /// SHARE of a new member where the beat says none.
    pub share: Option<Share>,
    /// [`FEED`]
    pub feed: Option<u32>,
    /// [`COUNT_EVERY`]
    pub count_every: Option<u32>,
    /// [`INTERVAL_OVER`]
    pub interval_over: Option<u32>,
}

/// Changes of a room's own settings: `Some(None)` gives one back to the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// [`TIMEOUT`]
    pub timeout: Option<Option<u32>>,
    /// [`GRACE`]
    pub grace: Option<Option<u32>>,
    /// [`RECENT`]
    pub recent: Option<Option<u32>>,
    /// [`UNIQUES_DAYS`]
    pub uniques_days: Option<Option<u16>>,
    /// SHARE of new members.
    pub share: Option<Option<Share>>,
    /// [`FEED`]
    pub feed: Option<Option<u32>>,
    /// [`COUNT_EVERY`]
    pub count_every: Option<Option<u32>>,
    /// [`INTERVAL_OVER`]
    pub interval_over: Option<Option<u32>>,
}

impl SettingsChange {
    /// Makes the changes.
    pub fn apply(&self, own: &mut RoomSettings) {
        fn set<T: Copy>(field: &mut Option<T>, change: Option<Option<T>>) {
            if let Some(value) = change {
                *field = value;
            }
        }
        set(&mut own.timeout, self.timeout);
        set(&mut own.grace, self.grace);
        set(&mut own.recent, self.recent);
        set(&mut own.uniques_days, self.uniques_days);
        set(&mut own.share, self.share);
        set(&mut own.feed, self.feed);
        set(&mut own.count_every, self.count_every);
        set(&mut own.interval_over, self.interval_over);
    }
}
