//! One room: operations in, effects out. Nothing else changes a member.
//!
//! Every operation unpacks the members it concerns, lets the state machine in [`crate::member`] decide, and commits what
//! came of it here, in one place: counts, seq, events, the log for replicas, the table, the wheel.

mod advice;
mod announce;
mod beat;
mod epoch;
mod leave;
mod settings;
mod tick;
mod view;
mod wire;

pub use self::announce::{Changes, ChangesRequest, Parting};
pub use self::beat::{Beat, Found};
pub use self::epoch::Epoch;
pub use self::view::{FriendState, Info, MemberView, Page, PageRequest, SessionView};

use self::advice::Advice;
use crate::announce::{Feed, Sight};
use crate::codec::member::{self as form, Moments};
use crate::effects::{Effects, Notice};
use crate::hearing::{widen, FreshPoints, HeardMs};
use crate::member::{Change, Member, Outcome, Phase, Rules, Session};
use crate::settings::{NodeConfig, RoomSettings, Share};
use crate::table::{HashKeys, Place, Table};
use crate::uniques::Day;
use crate::uniques::Uniques;
use crate::wheel::Wheel;

/// What a step needs to know of the world: read once per command.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// Heard now.
    pub now: HeardMs,
    /// Wall clock, for `since`.
    pub unix_ms: u64,
    /// Calendar day, for the uniques.
    pub today: Day,
    /// Fresh timeouts of the node.
    pub fresh: &'a FreshPoints,
    /// The node's configuration.
    pub config: &'a NodeConfig,
    /// Changes with every change of a timeout in `config`.
    pub generation: u16,
    /// This primary's term, which is never 0; `None` on a replica.
    pub term: Option<u64>,
    /// Memory is short.
    pub oom: bool,
    /// Messages of this node are published: they are worth making.
    pub tells: bool,
}

/// More than any count.
const UNTOLD: u32 = u32::MAX;

/// A room. Most rooms are small and there are many of them, so every field is as short as it can be.
pub struct Room {
    table: Table,
    wheel: Wheel,
    present: u32,
    sessions: u32,
    seq: u64,
    epoch: Epoch,
    /// The count that was published last; [`UNTOLD`] if whoever watches may not know any.
    told: u32,
    /// When [`Room::say`] is due; 0 if nothing is to be said.
    say_due: HeardMs,
    /// While the room has a feed, from its first change on.
    feed: Option<Box<Feed>>,
    own: Option<Box<RoomSettings>>,
    uniques: Uniques,
    /// Everybody in the room counts as heard at this moment at least: see [`Rules::room_fresh`].
    fresh: HeardMs,
    /// Where to go on with giving every member a new due moment, after a change of settings: [`Place::short`].
    recheck: u32,
    /// No uniques were kept when last looked.
    uncounted: bool,
    generation: u16,
    advice: Advice,
}

/// What a member counts for, and how it is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    sight: Sight,
    sessions: u32,
}

impl Tally {
    fn of(member: &Member) -> Self {
        Self { sight: Sight::of(member), sessions: member.sessions.len() as u32 }
    }

    fn present(self) -> u32 {
        self.sight.present.into()
    }
}

const PHASE_BITS: u8 = 3;
const ONLINE: u8 = 1;
const GRACE: u8 = 2;
const SHARE_SHIFT: u8 = 2;

fn flags_of(member: &Member) -> u8 {
    let phase = match member.phase {
        Phase::Away => 0,
        Phase::Online => ONLINE,
        Phase::Grace => GRACE,
    };
    phase | (member.share as u8) << SHARE_SHIFT
}

fn phase_in(flags: u8) -> Phase {
    match flags & PHASE_BITS {
        ONLINE => Phase::Online,
        GRACE => Phase::Grace,
        _ => Phase::Away,
    }
}

fn share_in(flags: u8) -> Share {
    match flags >> SHARE_SHIFT {
        1 => Share::Friends,
        2 => Share::Everyone,
        _ => Share::Nobody,
    }
}

impl Room {
    /// An empty room. `keys` are the process's, `nonce` is random: it makes this life of the room unlike any other.
    pub fn new(keys: &'static HashKeys, nonce: u64, env: &Env<'_>) -> Self {
        Self {
            table: Table::new(keys),
            wheel: Wheel::new(env.now),
            present: 0,
            sessions: 0,
            seq: 0,
            epoch: Epoch::new(nonce, env.term),
            told: 0,
            say_due: 0,
            feed: None,
            own: None,
            uniques: Uniques::default(),
            fresh: 0,
            recheck: Place::END.short(),
            uncounted: false,
            generation: env.generation,
            advice: Advice::default(),
        }
    }

    /// Members present.
    pub fn count(&self) -> u32 {
        self.present
    }

    /// Members held, those who are only remembered included.
    pub fn records(&self) -> usize {
        self.table.len()
    }

    /// Sessions of members present.
    pub fn sessions(&self) -> u32 {
        self.sessions
    }

    /// Number of the last change.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Name of this life of the room's history: see [`Epoch`].
    pub fn epoch(&self, term: Option<u64>) -> u64 {
        self.epoch.name(term)
    }

    /// Nothing is left that would justify a key.
    pub fn is_disposable(&self) -> bool {
        self.table.is_empty() && self.uniques.is_empty() && self.own.is_none()
    }

    /// Bytes in use, the room itself included.
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.table.memory()
            + self.wheel.memory()
            + self.uniques.memory()
            + self.feed.as_ref().map_or(0, |feed| feed.memory())
            + self.own.as_ref().map_or(0, |_| size_of::<RoomSettings>())
    }

    /// About how many allocations freeing this room has to give back: the work is in proportion to it.
    pub fn allocations(&self) -> usize {
        // A table keeps some 32 members in an allocation.
        4 + self.table.len() / 24 + self.feed.as_ref().map_or(0, |feed| feed.allocations())
    }

    fn rules<'a>(&'a self, env: &Env<'a>) -> Rules<'a> {
        let own = self.own.as_deref();
        let config = env.config;
        Rules {
            now: env.now,
            timeout: own.and_then(|own| own.timeout).unwrap_or(config.timeout),
            grace: own.and_then(|own| own.grace).unwrap_or(config.grace),
            recent: own.and_then(|own| own.recent).unwrap_or(config.recent),
            share: own.and_then(|own| own.share).unwrap_or(config.share),
            max_sessions: usize::from(config.max_sessions),
            node_fresh: env.fresh,
            room_fresh: self.fresh,
            oom: env.oom,
        }
    }

    fn uniques_days(&self, env: &Env<'_>) -> u16 {
        self.own.as_ref().and_then(|own| own.uniques_days).unwrap_or(env.config.uniques_days)
    }

    /// Unpacks a member.
    fn load(&self, slot: u32, now: HeardMs) -> Option<Member> {
        let mut member = Member::default();
        self.load_into(&mut member, slot, now)?;
        Some(member)
    }

    /// As [`Room::load`], into the memory of a member that is not needed any more: for walks over all of them.
    fn load_into(&self, member: &mut Member, slot: u32, now: HeardMs) -> Option<()> {
        let record = self.table.record(slot)?;
        let mut sessions = std::mem::take(&mut member.sessions);
        sessions.clear();
        *member = Member {
            phase: phase_in(record.flags()),
            share: share_in(record.flags()),
            since: record.since(),
            last: widen(now, record.last()),
            sessions,
            ..Member::default()
        };
        let pack = self.table.pack(slot);
        if pack.is_empty() {
            if member.is_present() {
                let waiting = member.phase == Phase::Grace;
                member.sessions.push(Session { last: member.last, waiting, ..Session::default() });
            }
        } else {
            form::read(&mut crate::codec::bytes::Reader::new(pack), member, Moments::Kept, now)?;
        }
        Some(())
    }

    /// Packs a member. One with nothing but an unnamed session needs no pack: its record says it all.
    fn store(&mut self, slot: u32, member: &Member, scratch: &mut Vec<u8>) {
        scratch.clear();
        if !is_plain(member) {
            form::put(scratch, member, Moments::Kept);
        }
        if self.table.pack(slot) != scratch.as_slice() {
            self.table.set_pack(slot, scratch);
        }
        if let Some(record) = self.table.record_mut(slot) {
            record.set_flags(flags_of(member));
            record.set_last(member.last as u32);
            record.set_since(member.since);
        }
    }

    /// The one place where what an operation did to a member takes effect.
    fn commit(&mut self, env: &Env<'_>, slot: u32, before: Tally, member: &Member, outcome: Outcome, fx: &mut Effects) {
        self.count_change(before, Tally::of(member));
        let id = self.table.id(slot).unwrap_or_default().to_vec();
        if outcome.grace {
            fx.tell(Notice::Grace, &id, None, self.present);
        }
        if outcome.back {
            fx.tell(Notice::Back, &id, None, self.present);
        }
        let notice = match outcome.change {
            Change::None => None,
            Change::Online => Some(Notice::Online),
            Change::Offline(reason) => Some(Notice::Offline(reason)),
            Change::Update => Some(Notice::Update),
        };
        if let Some(notice) = notice {
            self.number(env);
            fx.visible = true;
            fx.tell(notice, &id, Some(self.seq), self.present);
            self.announce(env, &id, before.sight, member, outcome.change, outcome.shows_anew, self.seq, fx);
        }
        let due = member.next_due(&self.rules(env));
        self.keep(slot, member, due, fx);
        if outcome.replicate {
            fx.visible = true;
            if member.is_nothing() {
                fx.log.remove(&id, outcome.change, self.seq);
            } else {
                fx.log.put(&id, member, outcome.change, self.seq);
            }
        }
    }

    /// Stores or forgets a member and says when to look at it again.
    fn keep(&mut self, slot: u32, member: &Member, due: Option<HeardMs>, fx: &mut Effects) {
        match due {
            Some(due) if !member.is_nothing() => {
                self.store(slot, member, &mut fx.scratch);
                self.wheel.insert(&mut self.table, slot, due);
            }
            _ => {
                self.wheel.remove(&mut self.table, slot);
                self.table.remove(slot, &mut self.wheel);
            }
        }
    }

    fn count_change(&mut self, before: Tally, after: Tally) {
        self.present = (self.present + after.present()).saturating_sub(before.present());
        self.sessions = (self.sessions + after.sessions).saturating_sub(before.sessions);
    }

    /// A new number for a change, in this node's epoch.
    fn number(&mut self, env: &Env<'_>) {
        self.epoch.enter(env.term);
        self.seq += 1;
    }

    /// Ends a step: the messages for those who watch, and the payload for replicas and the log, if there is anything to
    /// tell them.
    pub fn finish(&mut self, env: &Env<'_>, fx: &mut Effects) -> Option<Vec<u8>> {
        self.finish_announcements(env, fx);
        (!fx.log.is_empty()).then(|| fx.log.finish(self.epoch(env.term), self.seq))
    }
}

fn is_plain(member: &Member) -> bool {
    let lone = match member.sessions.as_slice() {
        [] => !member.is_present(),
        [only] => {
            only.id.is_empty()
                && only.soft.is_none()
                && only.timeout.is_none()
                && only.grace.is_none()
                && !only.changed
                && only.last == member.last
        }
        _ => false,
    };
    lone && member.burials.is_empty() && member.left.is_none() && member.shown.is_none()
}
