//! What a step changed, as data. The module performs it; nothing here knows how.

use crate::announce::Messages;
use crate::codec::Log;
use crate::hearing::HeardMs;
use crate::member::Reason;
use crate::stats::Stats;

/// What a keyspace notification tells of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Came online.
    Online,
    /// The last live session was lost; still present.
    Grace,
    /// Back from grace.
    Back,
    /// Went offline.
    Offline(Reason),
    /// Shown status, data or visibility changed.
    Update,
}

/// An event of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What happened.
    pub notice: Notice,
    /// To whom.
    pub member: &'a [u8],
    /// Number of the change; `None` for those that are no change (grace and back).
    pub seq: Option<u64>,
    /// Members present after it.
    pub count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    notice: Notice,
    end: usize,
    seq: Option<u64>,
    count: u32,
}

/// The effects of one step on one room. Meant to be reused: [`Effects::clear`] keeps the memory that usual steps need.
#[derive(Debug, Default)]
pub struct Effects {
    events: Vec<Stored>,
    ids: Vec<u8>,
    /// What replicas and the log must be told.
    pub log: Log,
    /// What is to be published.
    pub messages: Messages,
    /// When [`crate::room::Room::say`] is to be called, if that is new.
    pub say_at: Option<HeardMs>,
    /// The room's visible content has changed.
    pub visible: bool,
    /// What the step adds to the node's figures.
    pub stats: Stats,
    /// How late each going by silence was, in heard ms.
    pub lateness: Vec<u64>,
    pub(crate) scratch: Vec<u8>,
}

/// Events for which memory is kept between steps.
const KEPT: usize = 256;

impl Effects {
    /// Forgets the last step.
    pub fn clear(&mut self) {
        self.events.clear();
        self.ids.clear();
        self.messages.clear();
        self.say_at = None;
        self.visible = false;
        self.stats = Stats::default();
        self.lateness.clear();
        // A large batch needs hundreds of kilobytes; they go back when it is done.
        self.events.shrink_to(KEPT);
        self.ids.shrink_to(KEPT * 16);
        self.lateness.shrink_to(KEPT);
        self.scratch.shrink_to(KEPT * 16);
        self.log.shrink_to(KEPT * 64);
    }

    /// The events, in the order in which they happened.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Event<'_>> {
        let mut start = 0;
        self.events.iter().map(move |stored| {
            let member = self.ids.get(start..stored.end).unwrap_or_default();
            start = stored.end;
            Event { notice: stored.notice, member, seq: stored.seq, count: stored.count }
        })
    }

    /// Whether the step had no effect at all.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.log.is_empty() && self.messages.is_empty() && !self.visible
    }

    pub(crate) fn tell(&mut self, notice: Notice, member: &[u8], seq: Option<u64>, count: u32) {
        self.ids.extend_from_slice(member);
        self.events.push(Stored { notice, end: self.ids.len(), seq, count });
        match notice {
            Notice::Online => self.stats.comings += 1,
            Notice::Offline(Reason::Timeout) => self.stats.timeouts += 1,
            Notice::Offline(Reason::Goodbye) => self.stats.goodbyes += 1,
            Notice::Back => self.stats.flickers += 1,
            Notice::Update => self.stats.updates += 1,
            Notice::Grace => self.stats.graces += 1,
        }
    }

    pub(crate) fn late(&mut self, due: HeardMs, now: HeardMs) {
        self.lateness.push(now.saturating_sub(due));
    }
}
