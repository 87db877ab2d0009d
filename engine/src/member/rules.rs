//! The moments of a session, in heard time: when it is lost, when it is gone, what a fresh timeout does to both.

use super::{Burial, Session};
use crate::hearing::{FreshPoints, HeardMs};
use crate::settings::Share;

/// What holds for a member in its room at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Heard now.
    pub now: HeardMs,
    /// Room's timeout, ms.
    pub timeout: u32,
    /// Room's grace, ms.
    pub grace: u32,
    /// Room's recent, ms.
    pub recent: u32,
    /// Room's SHARE for new members.
    pub share: Share,
    /// Most sessions of a member.
    pub max_sessions: usize,
    /// Fresh timeouts of the node.
    pub node_fresh: &'a FreshPoints,
    /// Moment of the room's own last fresh timeout for everybody.
    pub room_fresh: HeardMs,
    /// Memory is short: nothing may grow.
    pub oom: bool,
}

impl Rules<'_> {
    fn timeout_of(&self, session: &Session) -> u64 {
        u64::from(session.timeout.unwrap_or(self.timeout))
    }

    fn grace_of(&self, session: &Session) -> u64 {
        u64::from(session.grace.unwrap_or(self.grace))
    }

    /// The moment from which the silence of somebody heard last at `last` counts.
    fn silent_from(&self, last: HeardMs) -> HeardMs {
        self.node_fresh.silent_from(last.max(self.room_fresh))
    }

    /// When a live session is lost.
    pub fn lost_at(&self, session: &Session) -> HeardMs {
        self.silent_from(session.last) + self.timeout_of(session)
    }

    /// When a session that is waited for was lost: fresh timeouts since then played no part.
    pub(super) fn was_lost_at(&self, session: &Session) -> HeardMs {
        let by_silence = session.last + self.timeout_of(session);
        let lost_at = if self.silent_from(session.last) > by_silence { by_silence } else { self.lost_at(session) };
        session.soft.map_or(lost_at, |soft| soft.min(lost_at))
    }

    /// When a session that stays silent is gone.
    pub fn gone_at(&self, session: &Session) -> HeardMs {
        let by_silence = self.lost_at(session) + self.grace_of(session);
        match session.soft {
            // SOFT never prolongs.
            Some(soft) => by_silence.min(self.silent_from(soft) + self.grace_of(session)),
            None => by_silence,
        }
    }

    pub(super) fn next_moment(&self, session: &Session) -> HeardMs {
        if session.waiting {
            self.gone_at(session)
        } else {
            self.lost_at(session)
        }
    }

    pub(super) fn burial(&self, id: &[u8], session: Option<&Session>) -> Burial {
        let (timeout, grace) = match session {
            Some(session) => (self.timeout_of(session), self.grace_of(session)),
            None => (u64::from(self.timeout), u64::from(self.grace)),
        };
        Burial { id: id.to_vec(), since: self.now, span: u32::try_from(timeout + grace).unwrap_or(u32::MAX) }
    }
}
