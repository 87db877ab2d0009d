//! A room under a virtual clock, with a replica that follows it, and everything that it announces written down.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

pub mod twin;

use presence_engine::announce::To;
use presence_engine::effects::{Effects, Notice};
use presence_engine::error::Refusal;
use presence_engine::hearing::FreshPoints;
use presence_engine::member::{Attributes, Reason};
use presence_engine::room::{Beat, Env, FriendState, PageRequest, Room};
use presence_engine::settings::{NodeConfig, SettingsChange, Share};
use presence_engine::table::HashKeys;
use presence_engine::uniques::Day;

pub const KEYS: &HashKeys = &HashKeys(11, 22);
/// Where heard time begins here; any moment above 2^32 would do.
pub const START: u64 = 1 << 33;
pub const UNIX: u64 = 1_557_100_800_000;
pub const TERM: u64 = 77;

/// What was announced: `online`, `grace`, `back`, `timeout`, `goodbye` or `update`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Ms since the start.
    pub at: u64,
    pub member: String,
    pub kind: &'static str,
    pub seq: Option<u64>,
    pub count: u32,
}

/// A message: `count`, `feed` or `member:<id>`, and its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Ms since the start.
    pub at: u64,
    pub to: String,
    pub body: String,
}

impl Published {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn published(at: u64, effects: &Effects) -> Vec<Published> {
    let messages = effects.messages.iter().map(|message| {
        assert!(message.body.len() <= presence_engine::announce::MAX_MESSAGE, "{} bytes", message.body.len());
        let to = match message.to {
            To::Count => "count".to_owned(),
            To::Feed => "feed".to_owned(),
            To::Member(id) => format!("member:{}", text(id)),
        };
        Published { at, to, body: std::str::from_utf8(message.body).unwrap().to_owned() }
    });
    messages.collect()
}

pub fn kind_of(notice: Notice) -> &'static str {
    match notice {
        Notice::Online => "online",
        Notice::Grace => "grace",
        Notice::Back => "back",
        Notice::Offline(Reason::Timeout) => "timeout",
        Notice::Offline(Reason::Goodbye) => "goodbye",
        Notice::Update => "update",
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is replicated, in an order of its own.
pub fn digest(room: &Room, now: u64) -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    room.digest(now, &mut |parts: &[&[u8]]| all.push(parts.iter().map(|part| part.to_vec()).collect()));
    all.sort();
    all
}

/// The whole room as payloads.
pub fn saved(room: &Room, term: Option<u64>, now: u64) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    room.save(term, now, &mut |payload| payloads.push(payload));
    payloads
}

pub struct Driver {
    pub room: Room,
    pub replica: Option<Room>,
    pub now: u64,
    pub day: Day,
    pub config: NodeConfig,
    pub generation: u16,
    pub fresh: FreshPoints,
    pub oom: bool,
    pub told: Vec<Told>,
    pub published: Vec<Published>,
    /// Messages of this node are heard.
    pub tells: bool,
    pub payloads: u64,
    pub flickers: u64,
    effects: Effects,
}

/// `env` of a driver, leaving its room free to be changed.
macro_rules! env {
    ($driver:expr, $term:expr) => {
        Env {
            now: $driver.now,
            unix_ms: UNIX + ($driver.now - START),
            today: $driver.day,
            fresh: &$driver.fresh,
            config: &$driver.config,
            generation: $driver.generation,
            term: $term,
            oom: $driver.oom,
            tells: $driver.tells,
        }
    };
}

impl Driver {
    pub fn new(config: NodeConfig) -> Self {
        let (fresh, day) = (FreshPoints::default(), Day::parse(b"20190506").unwrap());
        let env = Env {
            now: START,
            unix_ms: UNIX,
            today: day,
            fresh: &fresh,
            config: &config,
            generation: 0,
            term: Some(TERM),
            oom: false,
            tells: true,
        };
        let room = Room::new(KEYS, 5, &env);
        // Intervals of 5 s and parts of it end at the same moments as the primary's.
        let replica = Room::new(KEYS, 5_000_005, &Env { term: None, ..env });
        Self {
            room,
            replica: Some(replica),
            now: START,
            day,
            config,
            generation: 0,
            fresh,
            oom: false,
            told: Vec::new(),
            published: Vec::new(),
            tells: true,
            payloads: 0,
            flickers: 0,
            effects: Effects::default(),
        }
    }

    /// The room of the field cases: T 400, G 300, RECENT 600, SHARE everyone.
    pub fn field() -> Self {
        Self::with(400, 300, 600, Share::Everyone)
    }

    pub fn with(timeout: u32, grace: u32, recent: u32, share: Share) -> Self {
        Self::new(NodeConfig { timeout, grace, recent, share, ..NodeConfig::default() })
    }

    pub fn env(&self) -> Env<'_> {
        env!(self, Some(TERM))
    }

    /// Ms since the start.
    pub fn at(&self) -> u64 {
        self.now - START
    }

    /// Ends a step: writes down what it announced and lets the replica follow.
    fn finish(&mut self) {
        let at = self.at();
        for event in self.effects.events() {
            let member = text(event.member);
            self.told.push(Told { at, member, kind: kind_of(event.notice), seq: event.seq, count: event.count });
        }
        self.flickers += self.effects.stats.flickers;
        let payload = self.room.finish(&env!(self, Some(TERM)), &mut self.effects);
        let published_now = published(at, &self.effects);
        if let (Some(payload), Some(replica)) = (&payload, &mut self.replica) {
            self.payloads += 1;
            let mut relayed = Effects::default();
            replica.apply(&env!(self, None), payload, &mut relayed).expect("an own payload is well-formed");
            // A replica relays what is numbered, as it was.
            let numbered: Vec<_> = self.effects.events().filter(|event| event.seq.is_some()).collect();
            assert_eq!(relayed.events().map(|e| (e.notice, e.member, e.seq)).collect::<Vec<_>>(), {
                numbered.iter().map(|e| (e.notice, e.member, e.seq)).collect::<Vec<_>>()
            });
            assert!(relayed.log.is_empty(), "a replica writes nothing");
            assert!(replica.finish(&env!(self, None), &mut relayed).is_none());
            assert_eq!(published(at, &relayed), published_now, "a replica publishes what its primary does");
        } else if self.replica.is_some() {
            assert!(self.effects.events().all(|event| event.seq.is_none()), "a change that no replica hears of");
        }
        self.published.extend(published_now);
        self.effects.clear();
    }

    /// What is said at intervals, if it is due.
    pub fn say(&mut self) {
        let at = self.at();
        self.room.say(&env!(self, Some(TERM)), &mut self.effects);
        let said = published(at, &self.effects);
        if let Some(replica) = &mut self.replica {
            let mut relayed = Effects::default();
            replica.say(&env!(self, None), &mut relayed);
            assert_eq!(published(at, &relayed), said, "a replica says what its primary does");
        }
        self.published.extend(said);
        self.effects.clear();
    }

    /// What was published on channels of this kind, or of this member, since the last call for it.
    pub fn heard(&mut self, to: &str) -> Vec<Published> {
        let (of, rest) = std::mem::take(&mut self.published).into_iter().partition(|message| message.to == to);
        self.published = rest;
        of
    }

    /// A beat as the module makes it: a plain one tries the short way first.
    pub fn try_beat(&mut self, member: &str, session: &str, attributes: &Attributes<'_>) -> Result<i32, Refusal> {
        let (member, session) = (member.as_bytes(), session.as_bytes());
        if *attributes == Attributes::default() && self.room.renew(member, session, self.now, self.day) {
            return Ok(0);
        }
        let reply = self.room.beat(&env!(self, Some(TERM)), member, session, attributes, &mut self.effects);
        self.finish();
        reply.map(|beat| match beat {
            Beat::Online => 1,
            Beat::Renewed => 0,
            Beat::Refused => -1,
        })
    }

    /// A batch of plain beats of unnamed sessions, in one step.
    pub fn batch(&mut self, members: &[&str]) {
        for member in members {
            if !self.room.renew(member.as_bytes(), b"", self.now, self.day) {
                let attributes = Attributes::default();
                self.room
                    .beat(&env!(self, Some(TERM)), member.as_bytes(), b"", &attributes, &mut self.effects)
                    .expect("no limit is reached");
            }
        }
        self.finish();
    }

    pub fn beat_with(&mut self, member: &str, session: &str, attributes: &Attributes<'_>) -> i32 {
        self.try_beat(member, session, attributes).unwrap()
    }

    pub fn beat(&mut self, member: &str, session: &str) -> i32 {
        self.beat_with(member, session, &Attributes::default())
    }

    pub fn status(&mut self, member: &str, session: &str, status: &str) -> i32 {
        self.beat_with(member, session, &Attributes { status: Some(status.as_bytes()), ..Attributes::default() })
    }

    pub fn bye(&mut self, member: &str, session: Option<&str>, soft: bool) -> i32 {
        let session = session.map(str::as_bytes);
        let gone = self.room.bye(&env!(self, Some(TERM)), member.as_bytes(), session, soft, &mut self.effects);
        self.finish();
        gone.into()
    }

    pub fn share(&mut self, member: &str, share: Share) -> i32 {
        let changed = self.room.share(&env!(self, Some(TERM)), member.as_bytes(), share, &mut self.effects);
        self.finish();
        changed.into()
    }

    pub fn create(&mut self, change: &SettingsChange) {
        self.room.create(&env!(self, Some(TERM)), change, &mut self.effects);
        self.finish();
    }

    pub fn alter(&mut self, change: &SettingsChange) {
        self.room.alter(&env!(self, Some(TERM)), change, &mut self.effects);
        self.finish();
    }

    pub fn visit(&mut self) {
        self.room.visit(&env!(self, Some(TERM)), &mut self.effects);
        self.finish();
    }

    /// One tick up to `until` with room for `items`; whether all was done.
    pub fn tick_some(&mut self, until: u64, mut items: usize) -> bool {
        let mut more = || {
            let some = items > 0;
            items = items.saturating_sub(1);
            some
        };
        let done = self.room.tick(&env!(self, Some(TERM)), until, &mut self.effects, &mut more);
        self.finish();
        done
    }

    /// One tick up to now without a limit.
    pub fn tick(&mut self) {
        let quiet = self.room.next_due().is_none_or(|due| due > self.now);
        let before = self.told.len();
        assert!(self.tick_some(self.now, usize::MAX));
        assert!(!quiet || before == self.told.len(), "something happened before the next due moment");
    }

    /// Goes to `at` ms since the start, with a tick at every millisecond at which the room asks for one.
    pub fn go(&mut self, at: u64) {
        let end = START + at;
        assert!(end >= self.now, "time goes on");
        loop {
            self.tick();
            self.say();
            let next = self.room.next_due().into_iter().chain(self.room.say_due()).min();
            let Some(due) = next.filter(|&due| due <= end) else { break };
            self.now = due.max(self.now);
        }
        self.now = end;
        self.tick();
        self.say();
    }

    /// A fresh timeout for everybody after a stall, as the node's clock grants it: a millisecond further on.
    pub fn stall(&mut self) {
        self.now += 1;
        self.fresh.grant(self.now);
    }

    /// The room's slot was not served until now.
    pub fn unheard(&mut self) {
        self.room.unheard(&env!(self, Some(TERM)));
    }

    /// A fresh timeout for everybody whatever was before, as at a promotion or with CONFIG SET.
    pub fn hear_all(&mut self) {
        self.now += 1;
        self.fresh.hear_all(self.now);
    }

    /// What was announced since the last call, as `kind(member)@ms`.
    pub fn news(&mut self) -> Vec<String> {
        self.told.drain(..).map(|told| format!("{}({})@{}", told.kind, told.member, told.at)).collect()
    }

    pub fn friend(&self, viewer: &str, friend: &str) -> FriendState {
        let mut seen = None;
        self.room.friends(&self.env(), viewer.as_bytes(), [friend.as_bytes()].into_iter(), |state| seen = Some(state));
        seen.expect("one state for each friend")
    }

    pub fn shown(&self, member: &str) -> Option<(String, String)> {
        let view = self.room.member(&self.env(), member.as_bytes())?;
        Some((text(&view.status), text(&view.data)))
    }

    pub fn state(&self, member: &str) -> Option<&'static str> {
        self.room.member(&self.env(), member.as_bytes()).map(|view| view.state)
    }

    /// Everybody listed, with their state, by id; in pages of `count`.
    pub fn listed(&self, all: bool, count: usize) -> Vec<(String, &'static str)> {
        let (mut cursor, mut found) = (0, Vec::new());
        loop {
            let page = self.room.page(&self.env(), PageRequest { cursor, count, all });
            assert!(page.members.len() <= count);
            found.extend(page.members.iter().map(|member| (text(&member.id), member.state)));
            cursor = page.cursor;
            if cursor == 0 {
                found.sort();
                return found;
            }
        }
    }

    /// What holds at all times: the replica and a copy made through the codec have the same content.
    pub fn check_copies(&self) {
        let wanted = digest(&self.room, self.now);
        if let Some(replica) = &self.replica {
            assert_eq!(digest(replica, self.now), wanted, "replica");
            assert_eq!(
                (replica.count(), replica.sessions(), replica.seq()),
                (self.room.count(), self.room.sessions(), self.room.seq())
            );
            if self.payloads > 0 {
                assert_eq!(replica.epoch(None), self.room.epoch(Some(TERM)));
            }
        }
        let payloads = saved(&self.room, Some(TERM), self.now);
        let copy = Room::load_from(KEYS, 9, &self.env(), payloads.iter().map(Vec::as_slice)).expect("own payloads");
        assert_eq!(digest(&copy, self.now), wanted, "copy");
        assert_eq!((copy.count(), copy.sessions()), (self.room.count(), self.room.sessions()));
        assert_ne!(copy.epoch(Some(TERM)), self.room.epoch(Some(TERM)), "a copy has a history of its own");
    }
}
