//! Random histories of phones and failures before a naive Redis: whatever happens on the way, in the end Redis knows who is
//! connected, and each screen shows what Redis would answer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::FutureExt;
use presence_gateway::hub::{Ask, BeatAsk, BeatReply, Hub, Listening, Newcomer, Outlet, Seen, Topic, Verb};
use presence_gateway::metrics::Metrics;
use presence_gateway::outbox::{Out, Outbox};
use presence_gateway::protocol::{Message, Share, State};
use presence_gateway::settings::Limits;

/// xorshift64*: histories are told by their number.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

/// A Redis without time: nobody times out unless the history says so.
#[derive(Default)]
struct Redis {
    /// Sessions of each user present.
    sessions: BTreeMap<String, BTreeSet<String>>,
    shares: BTreeMap<String, Share>,
    buried: BTreeSet<String>,
    subscribed: BTreeSet<Vec<u8>>,
    /// Published, and not yet heard.
    wire: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl Redis {
    fn shown(&self, user: &str) -> bool {
        self.sessions.contains_key(user) && self.shares.get(user).is_some_and(|&share| share != Share::Nobody)
    }

    /// Makes a change, and publishes what a watcher of the user may know of it.
    fn change<T>(&mut self, user: &str, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.shown(user);
        let result = change(self);
        let after = self.shown(user);
        if before != after && self.subscribed.contains(user.as_bytes()) {
            let event = if after { "online" } else { "offline" };
            self.wire.push_back((user.into(), format!(r#"{{"event":"{event}"}}"#).into_bytes()));
        }
        result
    }

    fn beat(&mut self, user: &str, session: &str, share: Option<Share>) -> i64 {
        if self.buried.contains(session) {
            return -1;
        }
        self.change(user, |redis| {
            let came = !redis.sessions.contains_key(user);
            if came {
                redis.shares.insert(user.into(), Share::Nobody);
            }
            redis.sessions.entry(user.into()).or_default().insert(session.into());
            if let Some(share) = share {
                redis.shares.insert(user.into(), share);
            }
            i64::from(came)
        })
    }

    fn end(&mut self, user: &str, session: &str, bury: bool) {
        self.change(user, |redis| {
            if bury && redis.sessions.contains_key(user) {
                redis.buried.insert(session.into());
            }
            if let Some(sessions) = redis.sessions.get_mut(user) {
                sessions.remove(session);
                if sessions.is_empty() {
                    redis.sessions.remove(user);
                }
            }
        });
    }

    fn told(&mut self, ask: &BeatAsk) -> BeatReply {
        let joins = ask.joins.iter().map(|j| Ok(self.beat(&j.user, &j.session, j.share))).collect();
        let beats = ask.beats.iter().map(|(_, user, session)| Ok(self.beat(user, session, None))).collect();
        for (user, share) in &ask.shares {
            if self.sessions.contains_key(&**user) {
                self.change(user, |redis| redis.shares.insert(user.to_string(), *share));
            }
        }
        for bye in &ask.byes {
            if !bye.soft {
                self.end(&bye.user, &bye.session, true);
            }
        }
        BeatReply { joins, beats, timeout: ask.pace.then_some(30_000) }
    }

    fn look(&self, user: &str, members: &[(Arc<str>, u64)]) -> Vec<Seen> {
        let dot = |member: &str| if self.shown(member) { (State::Online, None) } else { (State::Offline, None) };
        members.iter().map(|(m, heard)| (m.clone(), *heard, is_friend(user, m).then(|| dot(m)))).collect()
    }
}

const USERS: u64 = 8;

/// Neighbours are friends.
fn is_friend(user: &str, other: &str) -> bool {
    let number = |name: &str| name[1..].parse::<u64>().unwrap();
    number(user).abs_diff(number(other)) <= 2
}

struct History {
    dice: Dice,
    hub: Hub,
    redis: Redis,
    up: bool,
    /// Number of the line that stands, or stood last.
    line: u64,
    /// Asked on a line, and not yet answered.
    asked: VecDeque<(u64, Ask)>,
    phones: BTreeMap<u64, Phone>,
    next: u64,
}

struct Phone {
    user: String,
    outbox: Arc<Outbox>,
    share: Share,
    watches: BTreeSet<String>,
    screen: BTreeMap<String, State>,
    session: Option<String>,
}

impl History {
    fn new(number: u64) -> Self {
        let metrics = Arc::new(Metrics::new());
        let limits = Limits { queue: 10_000, ..Limits::default() };
        let hub = Hub::new(limits, false, "gw".into(), metrics);
        let dice = Dice(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (redis, asked, phones) = (Redis::default(), VecDeque::new(), BTreeMap::new());
        Self { dice, hub, redis, up: false, line: 0, asked, phones, next: 0 }
    }

    fn take_asks(&mut self) {
        let line = self.line;
        self.asked.extend(self.hub.asks().into_iter().map(|ask| (line, ask)));
    }

    fn user(&mut self) -> String {
        format!("u{}", self.dice.roll(USERS))
    }

    fn phone(&mut self) -> Option<u64> {
        let nth = self.dice.roll(self.phones.len().max(1) as u64) as usize;
        self.phones.keys().nth(nth).copied()
    }

    fn step(&mut self) {
        match self.dice.roll(16) {
            0..=2 => self.enter(),
            3 | 4 => self.each(|hub, id| hub.beat(id)),
            5 => self.leave(|hub, id| hub.bye(id, false)),
            6 => self.leave(|hub, id| hub.lost(id)),
            7 | 8 => self.watch(true),
            9 => self.watch(false),
            10 => {
                let share = [Share::Nobody, Share::Friends][self.dice.roll(2) as usize];
                if let Some(id) = self.phone() {
                    self.phones.get_mut(&id).unwrap().share = share;
                    self.hub.share(id, share);
                }
            }
            // The service sends a user away, or a silence does.
            11 => {
                let user = self.user();
                let bury = self.dice.one_in(2);
                for session in self.redis.sessions.get(&user).cloned().unwrap_or_default() {
                    self.redis.end(&user, &session, bury);
                }
            }
            12 => self.cut_or_mend(),
            13 => self.hub.flush(),
            14 => self.hear(),
            _ => self.hub.look_around(),
        }
        self.take_asks();
        for _ in 0..self.dice.roll(4) {
            self.answer(true);
        }
    }

    fn enter(&mut self) {
        let (user, id) = (self.user(), self.next);
        self.next += 1;
        let share = [Share::Nobody, Share::Friends][self.dice.roll(2) as usize];
        let outbox = Arc::new(Outbox::new(10_000));
        let outlet = Outlet::Phone(outbox.clone());
        let newcomer =
            Newcomer { user: user.as_str().into(), room: Some("gig".into()), share: Some(share), status: None, outlet };
        self.hub.enter(id, newcomer);
        let (watches, screen) = (BTreeSet::new(), BTreeMap::new());
        self.phones.insert(id, Phone { user, outbox, share, watches, screen, session: None });
    }

    fn each(&mut self, act: impl Fn(&mut Hub, u64)) {
        for &id in self.phones.keys() {
            act(&mut self.hub, id);
        }
    }

    fn leave(&mut self, act: impl Fn(&mut Hub, u64)) {
        if let Some(id) = self.phone() {
            act(&mut self.hub, id);
            self.phones.remove(&id);
        }
    }

    fn watch(&mut self, on: bool) {
        let member = self.user();
        let Some(id) = self.phone() else { return };
        let phone = self.phones.get_mut(&id).unwrap();
        if on {
            phone.watches.insert(member.clone());
            self.hub.watch(id, vec![member]);
        } else if phone.watches.remove(&member) {
            phone.screen.remove(&member);
            self.hub.unwatch(id, &[member]);
        }
    }

    /// The line is cut, or stands again.
    fn cut_or_mend(&mut self) {
        self.up = !self.up;
        self.line += u64::from(self.up);
        self.redis.subscribed.clear();
        self.redis.wire.clear();
        if self.up {
            self.hub.connected();
        } else {
            self.hub.disconnected();
        }
    }

    fn hear(&mut self) {
        if let Some((channel, payload)) = self.redis.wire.pop_front() {
            self.hub.published(&channel, &payload);
        }
    }

    /// Answers what was asked first. Redis may have done it, and the answer been lost.
    fn answer(&mut self, may_fail: bool) {
        let Some((line, ask)) = self.asked.pop_front() else { return };
        let stands = self.up && line == self.line;
        let fails = !stands || (may_fail && self.dice.one_in(5));
        let done = !fails || self.dice.one_in(2);
        match ask {
            Ask::Beat(room, ask) => {
                let reply = done.then(|| self.redis.told(&ask));
                self.hub.beaten(&room, ask, reply.filter(|_| !fails));
            }
            Ask::Name(topic) => {
                let Topic::Member(_, member) = &topic else { panic!() };
                let channel = Listening { channel: member.as_bytes().to_vec(), verb: Verb::Classic };
                self.hub.named(topic, (!fails).then_some(channel));
            }
            Ask::Subscribe(listening) => {
                if !fails {
                    self.redis.subscribed.insert(listening.channel.clone());
                    // What was published before this word comes before it.
                    while !self.redis.wire.is_empty() {
                        self.hear();
                    }
                    self.hub.subscribed(&listening.channel);
                } else {
                    self.hub.unheard(listening);
                }
            }
            Ask::Unsubscribe(listening) => {
                if done && stands && self.redis.subscribed.remove(&listening.channel) {
                    self.hub.unsubscribed(&listening.channel);
                }
                if fails {
                    self.hub.unended(listening);
                }
            }
            Ask::Look { viewer, user, members, .. } => {
                if fails {
                    self.hub.unseen(viewer, members);
                } else {
                    let seen = self.redis.look(&user, &members);
                    self.hub.looked(viewer, seen);
                }
            }
            Ask::Count { .. } => panic!("nobody watches a room here"),
        }
        self.take_asks();
    }

    /// No more failures, and everybody beats: everything comes to rest.
    fn settle(&mut self) {
        if !self.up {
            self.cut_or_mend();
        }
        for _ in 0..6 {
            self.each(|hub, id| hub.beat(id));
            self.hub.flush();
            self.take_asks();
            while !self.asked.is_empty() {
                self.answer(false);
            }
            while !self.redis.wire.is_empty() {
                self.hear();
                self.take_asks();
            }
        }
        for phone in self.phones.values_mut() {
            while let Some(Out::Text(text)) = phone.outbox.next().now_or_never() {
                match serde_json::from_str(&text).unwrap() {
                    Message::Welcome { session, .. } => phone.session = Some(session),
                    Message::Member { member, state, .. } if phone.watches.contains(&member) => {
                        phone.screen.insert(member, state);
                    }
                    _ => {}
                }
            }
        }
    }

    fn check(&self, number: u64) {
        for (id, phone) in &self.phones {
            let session = phone.session.as_ref().unwrap_or_else(|| panic!("{number}: {id} was never welcomed"));
            let known = self.redis.sessions.get(&phone.user).is_some_and(|sessions| sessions.contains(session));
            assert!(known, "history {number}: Redis does not know {id} ({}, {session})", phone.user);
            for member in &phone.watches {
                let expected = is_friend(&phone.user, member) && self.redis.shown(member);
                let expected = if expected { State::Online } else { State::Offline };
                assert_eq!(phone.screen.get(member), Some(&expected), "history {number}: {} sees {member}", phone.user);
            }
        }
        let watched: BTreeSet<Vec<u8>> = self
            .phones
            .values()
            .flat_map(|phone| {
                let friends = phone.watches.iter().filter(|member| is_friend(&phone.user, member));
                friends.map(|member| member.as_bytes().to_vec()).collect::<Vec<_>>()
            })
            .collect();
        assert!(watched.is_subset(&self.redis.subscribed), "history {number}: somebody watched is not listened to");
    }
}

#[test]
fn whatever_happens_redis_knows_who_is_there_and_screens_show_what_redis_knows() {
    for number in 1..=2_000 {
        let mut history = History::new(number);
        for _ in 0..120 {
            history.step();
        }
        history.settle();
        history.check(number);
    }
}

#[test]
fn who_said_goodbye_is_gone() {
    for number in 1..=500 {
        let mut history = History::new(number);
        for _ in 0..80 {
            history.step();
        }
        history.settle();
        let ids: Vec<u64> = history.phones.keys().copied().collect();
        let sessions: Vec<_> = history.phones.values().map(|p| (p.user.clone(), p.session.clone().unwrap())).collect();
        for id in ids {
            history.hub.bye(id, false);
            history.phones.remove(&id);
        }
        history.settle();
        for (user, session) in sessions {
            let left = history.redis.sessions.get(&user).is_some_and(|sessions| sessions.contains(&session));
            assert!(!left, "history {number}: {user} is still there");
        }
        assert!(history.redis.subscribed.is_empty(), "history {number}: nobody watches, and somebody listens");
    }
}
