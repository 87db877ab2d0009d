//! Who may hear of what: the one rule by which a change of a member becomes an event for those who watch.

use crate::member::{Change, Member, Reason};
use crate::settings::Share;

/// What of a member matters to those who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Online or in grace.
    pub present: bool,
    /// Who may see it.
    pub share: Share,
}

impl Sight {
    /// Of this member.
    pub fn of(member: &Member) -> Self {
        Self { present: member.is_present(), share: member.share }
    }

    fn within(self, least: Share) -> bool {
        self.present && self.share >= least
    }
}

/// What watchers are told of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It came online.
    Online,
    /// It went offline.
    Offline(Reason),
    /// What it shows changed.
    Update,
}

impl Told {
    /// The word used in messages and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline(_) => "offline",
            Self::Update => "update",
        }
    }

    /// What the service is told, which sees everybody.
    pub fn to_service(change: Change) -> Option<Self> {
        match change {
            Change::None => None,
            Change::Online => Some(Self::Online),
            Change::Offline(reason) => Some(Self::Offline(reason)),
            Change::Update => Some(Self::Update),
        }
    }

    /// What those are told who see members that share with `least` or more. Hiding is a goodbye for them, showing an
    /// arrival; who changes nothing of what they see did nothing. `shows_anew`: the shown status or data changed.
    pub fn to_watchers(least: Share, before: Sight, after: Sight, change: Change, shows_anew: bool) -> Option<Self> {
        match (before.within(least), after.within(least)) {
            (false, true) => Some(Self::Online),
            (true, false) => Some(Self::Offline(match change {
                Change::Offline(reason) => reason,
                _ => Reason::Goodbye,
            })),
            (true, true) => shows_anew.then_some(Self::Update),
            (false, false) => None,
        }
    }
}
