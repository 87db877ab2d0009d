//! Reading a room: who sees whom. The only place that judges by SHARE. Reads change nothing.

use super::{phase_in, share_in, Env, Room};
use crate::error::Refusal;
use crate::hearing::HeardMs;
use crate::member::{Member, Phase, Session};
use crate::settings::{RoomSettings, Share};
use crate::table::{Place, Record};
use crate::uniques::Day;
use crate::uniques::Uniques;

/// What a viewer may see of a friend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FriendState {
    /// Present.
    Online,
    /// Not present, but was a short while ago.
    Recent,
    /// Hidden, absent or unknown: the three cannot be told apart.
    Offline,
}

impl FriendState {
    /// The word used in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Recent => "recent",
            Self::Offline => "offline",
        }
    }
}

/// One session in the service's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Session id.
    pub id: Vec<u8>,
    /// Lost, and waited for.
    pub waiting: bool,
    /// Own status.
    pub status: Vec<u8>,
    /// Own data.
    pub data: Vec<u8>,
    /// Heard ms since its last beat.
    pub idle: u64,
    /// Timeout in force for it, ms.
    pub timeout: u32,
    /// Grace in force for it, ms.
    pub grace: u32,
}

/// The service's full view of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// `online`, `grace` or `recent`.
    pub state: &'static str,
    /// Who may see it.
    pub share: Share,
    /// Unix ms at which it came online.
    pub since: u64,
    /// Heard ms since its last beat.
    pub idle: u64,
    /// Shown status.
    pub status: Vec<u8>,
    /// Shown data.
    pub data: Vec<u8>,
    /// Its sessions.
    pub sessions: Vec<SessionView>,
}

/// A member in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Member id.
    pub id: Vec<u8>,
    /// Shown status.
    pub status: Vec<u8>,
    /// Shown data.
    pub data: Vec<u8>,
    /// `online` or `grace`.
    pub state: &'static str,
    /// Who may see it.
    pub share: Share,
}

/// What part of the list is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// 0 to begin, else the cursor of the page before.
    pub cursor: u64,
    /// Most members in the page.
    pub count: usize,
    /// Everybody, not only those sharing with everyone.
    pub all: bool,
}

/// A part of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Where to go on; 0 at the end.
    pub cursor: u64,
    /// Its members.
    pub members: Vec<Listed>,
}

/// A room's settings in force and figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Settings in force, all `Some`.
    pub settings: RoomSettings,
    /// Whether the room has settings of its own.
    pub own: bool,
    /// Members present.
    pub members: u32,
    /// Sessions of members present.
    pub sessions: u32,
    /// Records, those only remembered included.
    pub records: usize,
    /// Epoch.
    pub epoch: u64,
    /// Number of the last change.
    pub seq: u64,
    /// Days of uniques held.
    pub unique_days: usize,
    /// Observed beat interval, ms.
    pub beat_interval: Option<u32>,
    /// See [`Room::advice`].
    pub advised_timeout: Option<u32>,
}

/// Records that one page looks at for each member it may return, so that a page of a room full of hidden members stays
/// short. Such a page may be empty without being the last.
const LOOKS_PER_MEMBER: usize = 10;
const LOOKS_AT_LEAST: usize = 1_000;

impl Room {
    /// What `viewer` may see of each of `friends`, in their order.
    pub fn friends<'a>(
        &self,
        env: &Env<'_>,
        viewer: &'a [u8],
        friends: impl Iterator<Item = &'a [u8]> + Clone,
        mut each: impl FnMut(FriendState),
    ) {
        let blind = env.config.reciprocal && !self.shares(viewer);
        let mut ids = friends.clone();
        self.table.find_all(friends, |slot| {
            let own = ids.next() == Some(viewer);
            each(match slot {
                Some(slot) if own || !blind => self.state_of(env, slot, own),
                _ => FriendState::Offline,
            });
        });
    }

    /// Whether a member is present and shares with somebody.
    fn shares(&self, id: &[u8]) -> bool {
        let flags = self.table.find(id).and_then(|slot| self.table.record(slot)).map(Record::flags);
        flags.is_some_and(|flags| phase_in(flags) != Phase::Away && share_in(flags) != Share::Nobody)
    }

    fn state_of(&self, env: &Env<'_>, slot: u32, own: bool) -> FriendState {
        let Some(flags) = self.table.record(slot).map(Record::flags) else { return FriendState::Offline };
        if phase_in(flags) != Phase::Away && (own || share_in(flags) != Share::Nobody) {
            return FriendState::Online;
        }
        let left = if self.table.pack(slot).is_empty() { None } else { self.load(slot, env.now).and_then(|m| m.left) };
        match left {
            Some(left) if left.shown => FriendState::Recent,
            _ => FriendState::Offline,
        }
    }

    /// The service's view of one member.
    pub fn member(&self, env: &Env<'_>, id: &[u8]) -> Option<MemberView> {
        let slot = self.table.find(id)?;
        let member = self.load(slot, env.now)?;
        let remembered = member.left.is_some_and(|left| left.shown);
        if !member.is_present() && !remembered {
            return None;
        }
        let rules = self.rules(env);
        let idle = |last: HeardMs| env.now.saturating_sub(last);
        let view = |session: &Session| SessionView {
            id: session.id.clone(),
            waiting: session.waiting,
            status: session.status.clone(),
            data: session.data.clone(),
            idle: idle(session.last),
            timeout: session.timeout.unwrap_or(rules.timeout),
            grace: session.grace.unwrap_or(rules.grace),
        };
        let (status, data) = member.shown();
        Some(MemberView {
            state: state_word(&member),
            share: member.share,
            since: member.since,
            idle: idle(member.sessions.iter().map(|session| session.last).max().unwrap_or(member.last)),
            status: status.to_vec(),
            data: data.to_vec(),
            sessions: member.sessions.iter().map(view).collect(),
        })
    }

    /// A part of the list of those present. A member present throughout a whole run is in exactly one of its pages.
    pub fn page(&self, env: &Env<'_>, request: PageRequest) -> Page {
        let mut page = Page::default();
        let mut looks = LOOKS_AT_LEAST.max(request.count.saturating_mul(LOOKS_PER_MEMBER));
        let mut start = Place::from_number(request.cursor);
        while start != Place::END {
            if looks == 0 {
                page.cursor = start.number();
                break;
            }
            let run = self.table.run(start);
            let places = self.table.slots_of(run).filter_map(|slot| Some((self.table.place(slot)?, slot)));
            let mut members: Vec<_> = places.filter(|&(place, _)| place >= start).collect();
            members.sort_unstable();
            looks = looks.saturating_sub(members.len());
            let mut last = None;
            for (place, slot) in members {
                // Who is at the same place cannot be told apart by a cursor.
                if page.members.len() >= request.count && last != Some(place) {
                    page.cursor = place.number();
                    return page;
                }
                page.members.extend(self.listed(env, slot, request.all));
                last = Some(place);
            }
            start = run.next;
        }
        page
    }

    /// A member as lists show it, if it is to be listed.
    fn listed(&self, env: &Env<'_>, slot: u32, all: bool) -> Option<Listed> {
        let flags = self.table.record(slot)?.flags();
        if phase_in(flags) == Phase::Away || (!all && share_in(flags) != Share::Everyone) {
            return None;
        }
        let member = self.load(slot, env.now)?;
        let (status, data) = member.shown();
        Some(Listed {
            id: self.table.id(slot)?.to_vec(),
            status: status.to_vec(),
            data: data.to_vec(),
            state: state_word(&member),
            share: member.share,
        })
    }

    /// Settings in force and figures.
    pub fn info(&self, env: &Env<'_>) -> Info {
        let rules = self.rules(env);
        Info {
            settings: RoomSettings {
                timeout: Some(rules.timeout),
                grace: Some(rules.grace),
                recent: Some(rules.recent),
                uniques_days: Some(self.uniques_days(env)),
                share: Some(rules.share),
                feed: Some(self.feed_limit(env)),
                count_every: Some(self.count_every(env)),
                interval_over: Some(self.interval_over(env)),
            },
            own: self.own.is_some(),
            members: self.present,
            sessions: self.sessions,
            records: self.table.len(),
            epoch: self.epoch(env.term),
            seq: self.seq,
            unique_days: self.uniques.days().len(),
            beat_interval: self.advice.interval(),
            advised_timeout: self.advice(env).map(|(_, timeout)| timeout),
        }
    }

    /// The observed beat interval and the timeout to set instead of the one in force, in ms, if two of the intervals
    /// exceed it.
    pub fn advice(&self, env: &Env<'_>) -> Option<(u32, u32)> {
        Some((self.advice.interval()?, self.advice.timeout_to_set(self.rules(env).timeout)?))
    }

    /// Days of uniques that this room keeps; `None` stands for a room that is missing.
    pub fn days_kept(room: Option<&Self>, env: &Env<'_>) -> u16 {
        room.map_or(env.config.uniques_days, |room| room.uniques_days(env))
    }

    /// Distinct members of the `days` days ending with `last`, united over `rooms`, the first of which sets the
    /// retention.
    ///
    /// # Errors
    /// [`Refusal::DaysNotKept`] for days outside the retention.
    pub fn unique(rooms: &[Option<&Self>], env: &Env<'_>, last: Option<Day>, days: u16) -> Result<u64, Refusal> {
        let keep = Self::days_kept(rooms.first().copied().flatten(), env);
        let last = last.unwrap_or(env.today);
        let age = i32::from(env.today.number()) - i32::from(last.number());
        if age < 0 || age + i32::from(days) > i32::from(keep) {
            return Err(Refusal::DaysNotKept { keep });
        }
        let uniques = rooms.iter().flatten().map(|room| &room.uniques);
        Ok(Uniques::count_union(uniques, last, days))
    }
}

fn state_word(member: &Member) -> &'static str {
    match member.phase {
        Phase::Online => "online",
        Phase::Grace => "grace",
        Phase::Away => "recent",
    }
}
