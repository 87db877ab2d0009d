//! Random histories of a room against a naive twin of the contract: replies, announcements in order, every view, copies.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use std::collections::BTreeMap;

use common::twin::{Reply, Twin};
use common::{text, Driver, Told, START, UNIX};
use presence_engine::error::Refusal;
use presence_engine::member::Attributes;
use presence_engine::room::{FriendState, PageRequest, Room};
use presence_engine::settings::{NodeConfig, SettingsChange, Share};
use presence_engine::uniques::Day;
use proptest::prelude::*;

const MEMBERS: [&str; 4] = ["ann", "bob", "cid", "dot"];
const SESSIONS: [&str; 5] = ["", "s1", "s2", "s3", "s4"];
const TEXTS: [&str; 4] = ["", "away", "typing", "busy"];

#[derive(Clone, Debug)]
enum Op {
    Beat { member: usize, session: usize, with: With },
    Bye { member: usize, session: Option<usize>, soft: bool },
    Share { member: usize, share: Share },
    Timeout(Option<u32>),
    Grace(Option<u32>),
    Recent(Option<u32>),
    Uniques(Option<u16>),
    NodeTimeout(u32),
    Stall,
    Unheard,
    HearAll,
    Oom(bool),
    Advance { ms: u64, steps: bool, late: u64, items: usize },
    NextDay,
}

#[derive(Clone, Debug, Default)]
struct With {
    share: Option<Share>,
    status: Option<usize>,
    data: Option<usize>,
    timeout: Option<u32>,
    grace: Option<u32>,
}

fn share() -> impl Strategy<Value = Share> {
    prop_oneof![Just(Share::Nobody), Just(Share::Friends), Just(Share::Everyone)]
}

fn rarely<T: Clone + std::fmt::Debug + 'static>(of: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Option<T>> {
    prop_oneof![4 => Just(None), 1 => of.prop_map(Some)].boxed()
}

fn with() -> impl Strategy<Value = With> {
    let rich = (
        rarely(share()),
        proptest::option::of(0..TEXTS.len()),
        rarely(0..TEXTS.len()),
        rarely(100..500_u32),
        rarely(prop_oneof![Just(0), 1..300_u32]),
    )
        .prop_map(|(share, status, data, timeout, grace)| With { share, status, data, timeout, grace });
    prop_oneof![2 => Just(With::default()), 3 => rich]
}

fn op() -> impl Strategy<Value = Op> {
    let (member, session) = (|| 0..MEMBERS.len(), || 0..SESSIONS.len());
    let ms = prop_oneof![Just(0), Just(1), 2..60_u64, 60..400_u64, Just(2_000), Just(100_000_000)];
    let advance = (ms, any::<bool>(), prop_oneof![Just(0), 0..50_u64], prop_oneof![Just(1), Just(usize::MAX)])
        .prop_map(|(ms, steps, late, items)| Op::Advance { ms, steps: steps && ms <= 400, late, items });
    prop_oneof![
        24 => (member(), session(), with()).prop_map(|(member, session, with)| Op::Beat { member, session, with }),
        8 => (member(), proptest::option::weighted(0.8, session()), any::<bool>())
            .prop_map(|(member, session, soft)| Op::Bye { member, session, soft }),
        4 => (member(), share()).prop_map(|(member, share)| Op::Share { member, share }),
        24 => advance,
        1 => proptest::option::of(100..600_u32).prop_map(Op::Timeout),
        1 => proptest::option::of(0..400_u32).prop_map(Op::Grace),
        1 => proptest::option::of(0..700_u32).prop_map(Op::Recent),
        1 => proptest::option::of(0..4_u16).prop_map(Op::Uniques),
        1 => (100..600_u32).prop_map(Op::NodeTimeout),
        1 => Just(Op::Stall),
        1 => Just(Op::Unheard),
        1 => Just(Op::HearAll),
        1 => any::<bool>().prop_map(Op::Oom),
        1 => Just(Op::NextDay),
    ]
}

fn config() -> impl Strategy<Value = NodeConfig> {
    (100..400_u32, prop_oneof![Just(0), 1..300_u32], prop_oneof![Just(0), 1..600_u32], share(), 0..3_u16, any::<bool>())
        .prop_flat_map(|(timeout, grace, recent, share, uniques_days, reciprocal)| {
            let told = (prop_oneof![Just(0), 1..9_u32], prop_oneof![Just(0), Just(1_000_u32)], 1..9_u32);
            let limits = (prop_oneof![Just(0), 2..4_u32], 1..4_u16);
            (limits, told).prop_map(move |((max_members, max_sessions), (feed, count_every, interval_over))| {
                NodeConfig {
                    feed,
                    count_every,
                    interval_over,
                    timeout,
                    grace,
                    recent,
                    share,
                    uniques_days,
                    reciprocal,
                    max_members,
                    max_sessions,
                    ..NodeConfig::default()
                }
            })
        })
}

struct Pair {
    real: Driver,
    twin: Twin,
    /// By member: whether it is online for those who saw every announcement.
    here: BTreeMap<String, bool>,
    seq: u64,
    count: i64,
}

impl Pair {
    fn new(config: NodeConfig) -> Self {
        let twin = Twin {
            timeout: config.timeout.into(),
            grace: config.grace.into(),
            recent: config.recent.into(),
            share: config.share,
            keep: config.uniques_days.into(),
            max_sessions: config.max_sessions.into(),
            max_members: config.max_members as usize,
            now: START,
            ..Twin::default()
        };
        Self { real: Driver::new(config), twin, here: BTreeMap::new(), seq: 0, count: 0 }
    }

    fn run(&mut self, op: &Op) {
        self.settle_clock();
        match op {
            Op::Beat { member, session, with } => self.beat(MEMBERS[*member], SESSIONS[*session], with),
            Op::Bye { member, session, soft } => {
                let (member, session) = (MEMBERS[*member], session.map(|session| SESSIONS[session]));
                assert_eq!(self.real.bye(member, session, *soft), self.twin.bye(member, session, *soft), "bye");
            }
            Op::Share { member, share } => {
                let member = MEMBERS[*member];
                assert_eq!(self.real.share(member, *share), self.twin.share(member, *share), "share");
            }
            Op::Timeout(value) => self.alter(&SettingsChange { timeout: Some(*value), ..Default::default() }),
            Op::Grace(value) => self.alter(&SettingsChange { grace: Some(*value), ..Default::default() }),
            Op::Recent(value) => self.alter(&SettingsChange { recent: Some(*value), ..Default::default() }),
            Op::Uniques(value) => self.alter(&SettingsChange { uniques_days: Some(*value), ..Default::default() }),
            Op::NodeTimeout(timeout) => {
                if self.real.config.timeout != *timeout {
                    self.real.config.timeout = *timeout;
                    self.real.generation += 1;
                    self.real.hear_all();
                    self.settle_clock();
                    self.twin.hear_all();
                    self.real.visit();
                    self.adopt_settings();
                }
            }
            Op::Stall => {
                self.real.stall();
                self.settle_clock();
                self.twin.stalls.push(self.twin.now);
            }
            Op::Unheard => {
                self.real.unheard();
                self.twin.hear_all();
            }
            Op::HearAll => {
                self.real.hear_all();
                self.settle_clock();
                self.twin.hear_all();
            }
            Op::Oom(oom) => (self.real.oom, self.twin.oom) = (*oom, *oom),
            Op::Advance { ms, steps, late, items } => self.advance(*ms, *steps, *late, *items),
            Op::NextDay => {
                self.real.day = Day::from_number(self.real.day.number() + 1);
                self.real.visit();
                self.settle_clock();
                self.twin.retain_days();
            }
        }
        self.compare_events();
        self.compare_views();
    }

    fn settle_clock(&mut self) {
        self.twin.now = self.real.now;
        self.twin.unix = UNIX + (self.real.now - START);
        self.twin.day = self.real.day.number();
    }

    fn beat(&mut self, member: &str, session: &str, with: &With) {
        let attributes = Attributes {
            share: with.share,
            status: with.status.map(|at| TEXTS[at].as_bytes()),
            data: with.data.map(|at| TEXTS[at].as_bytes()),
            timeout: with.timeout,
            grace: with.grace,
        };
        let renewed = attributes == Attributes::default() && {
            let (id, session, now, day) = (member.as_bytes(), session.as_bytes(), self.real.now, self.real.day);
            let room = &mut self.real.room;
            // As a single beat does it, and as a batch.
            if now % 2 == 0 {
                room.renew(id, session, now, day)
            } else {
                let mut found = Vec::new();
                room.find_all([id], &mut found);
                found[0].is_some_and(|found| room.renew_found(found, session, now, day))
            }
        };
        let real = if renewed { Ok(0) } else { self.real.try_beat(member, session, &attributes) };
        let left: Vec<String> = match self.real.room.member(&self.real.env(), member.as_bytes()) {
            Some(view) => view.sessions.iter().map(|session| text(&session.id)).collect(),
            None => Vec::new(),
        };
        let (events, uniques) = (self.twin.events.len(), self.twin.uniques.clone());
        let twin = self.twin.beat(member, session, &attributes, &|id| !left.iter().any(|left| left == id));
        if renewed {
            assert_eq!((&twin, self.twin.events.len()), (&Reply::Renewed, events), "renew took what was no renewal");
            assert_eq!(self.twin.uniques, uniques, "renew took a beat that had to be counted");
        }
        let reply = match real {
            Ok(1) => Reply::Came,
            Ok(0) => Reply::Renewed,
            Ok(-1) => Reply::Refused,
            Err(Refusal::RoomFull { .. }) => Reply::Full,
            Err(Refusal::OutOfMemory) => Reply::Memory,
            Err(Refusal::TooManySessions { .. }) => Reply::Sessions,
            other => panic!("{other:?}"),
        };
        assert_eq!(reply, twin, "beat {member} {session} {with:?}");
    }

    fn alter(&mut self, change: &SettingsChange) {
        self.real.alter(change);
        self.adopt_settings();
    }

    fn adopt_settings(&mut self) {
        let info = self.real.room.info(&self.real.env());
        let settings = info.settings;
        self.twin.recent = settings.recent.unwrap().into();
        self.twin.keep = settings.uniques_days.unwrap().into();
        self.twin.retime(settings.timeout.unwrap().into(), settings.grace.unwrap().into());
        self.twin.retain_days();
    }

    fn advance(&mut self, ms: u64, steps: bool, late: u64, items: usize) {
        let end = self.real.now + ms;
        while self.real.now < end || ms == 0 {
            self.real.now = if steps { self.real.now + 1 } else { end };
            self.settle_clock();
            // As the node's ticks do, up to a moment before now, which never goes back.
            let until = if steps { self.real.now } else { self.real.now.saturating_sub(late.min(ms)) };
            let quiet = self.real.room.next_due().is_none_or(|due| due > until);
            let told = self.real.told.len();
            let mut rounds = 0;
            while !self.real.tick_some(until, items) {
                rounds += 1;
                assert!(rounds < 10_000, "a tick that never ends");
            }
            assert!(!quiet || told == self.real.told.len(), "before the next due moment");
            self.twin.advance(until);
            self.compare_events();
            if ms == 0 {
                break;
            }
        }
    }

    /// The same announcements moment by moment; those of one moment in any order.
    fn compare_events(&mut self) {
        let real: Vec<Told> = std::mem::take(&mut self.real.told);
        let twin = std::mem::take(&mut self.twin.events);
        let names = |told: &[Told]| told.iter().map(|t| (t.member.clone(), t.kind)).collect::<Vec<_>>();
        assert_eq!(real.len(), twin.len(), "{:?} instead of {twin:?}", names(&real));
        let mut start = 0;
        while start < twin.len() {
            let alike = twin[start..].iter().take_while(|event| event.0 == twin[start].0).count();
            let mut wanted: Vec<_> =
                twin[start..start + alike].iter().map(|(_, id, kind)| (id.clone(), *kind)).collect();
            let mut found = names(&real[start..start + alike]);
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted, "at {}", twin[start].0 - START);
            start += alike;
        }
        for told in &real {
            let numbered = !matches!(told.kind, "grace" | "back");
            assert_eq!(told.seq.is_some(), numbered);
            if numbered {
                self.seq += 1;
                assert_eq!(told.seq, Some(self.seq), "one number a change");
            }
            let here = self.here.entry(told.member.clone()).or_default();
            match told.kind {
                "online" => assert!(!std::mem::replace(here, true), "online twice"),
                "timeout" | "goodbye" => assert!(std::mem::replace(here, false), "offline twice"),
                _ => assert!(*here, "{} of somebody absent", told.kind),
            }
            self.count += i64::from(told.kind == "online") - i64::from(matches!(told.kind, "timeout" | "goodbye"));
            assert_eq!(i64::from(told.count), self.count, "the count after it");
        }
        assert_eq!(self.real.room.seq(), self.seq);
    }

    fn compare_views(&self) {
        let (real, twin) = (&self.real, &self.twin);
        let env = real.env();
        assert_eq!((real.room.count() as usize, real.room.sessions() as usize), (twin.count(), twin.sessions()));
        for (all, page) in [(true, 2), (false, 100)] {
            let listed = twin.members.iter().filter(|(_, m)| m.present() && (all || m.share == Share::Everyone));
            let listed: Vec<_> = listed.map(|(id, m)| (id.clone(), m.state())).collect();
            assert_eq!(real.listed(all, page), listed);
        }
        let shown: BTreeMap<_, _> = real
            .room
            .page(&env, PageRequest { cursor: 0, count: 100, all: true })
            .members
            .into_iter()
            .map(|m| (text(&m.id), (text(&m.status), text(&m.data))))
            .collect();
        for id in MEMBERS {
            let view = real.room.member(&env, id.as_bytes());
            let known = twin.members.get(id).filter(|m| m.present() || m.recent.is_some());
            assert_eq!(view.is_some(), known.is_some(), "{id}");
            let (Some(view), Some(known)) = (view, known) else { continue };
            assert_eq!((view.state, view.share, view.since), (known.state(), known.share, known.since), "{id}");
            assert_eq!((text(&view.status), text(&view.data)), known.shown(), "{id}");
            if known.present() {
                assert_eq!(shown[id], known.shown());
            }
            let last = known.sessions.values().map(|s| s.last).max().unwrap_or(known.last);
            assert_eq!(view.idle, twin.now - last, "idle of {id}");
            let found: BTreeMap<_, _> = view
                .sessions
                .iter()
                .map(|s| {
                    let own = (text(&s.status), text(&s.data), s.idle, u64::from(s.timeout), u64::from(s.grace));
                    (text(&s.id), (s.waiting, own))
                })
                .collect();
            let wanted: BTreeMap<_, _> = known
                .sessions
                .iter()
                .map(|(id, s)| {
                    let (timeout, grace) = (s.timeout.unwrap_or(twin.timeout), s.grace.unwrap_or(twin.grace));
                    let own = (s.status.clone(), s.data.clone(), twin.now - s.last, timeout, grace);
                    (id.clone(), (s.waiting_since.is_some(), own))
                })
                .collect();
            assert_eq!(found, wanted, "sessions of {id}");
        }
        for viewer in MEMBERS.into_iter().chain(["eve"]) {
            let shares = |m: &common::twin::Member| m.present() && m.share != Share::Nobody;
            let sees = !real.config.reciprocal || twin.members.get(viewer).is_some_and(shares);
            for friend in MEMBERS {
                let wanted = match twin.members.get(friend) {
                    Some(m) if viewer == friend && m.present() => FriendState::Online,
                    Some(_) if viewer != friend && !sees => FriendState::Offline,
                    Some(m) if m.present() && m.share != Share::Nobody => FriendState::Online,
                    Some(m) if m.recent.is_some() => FriendState::Recent,
                    _ => FriendState::Offline,
                };
                assert_eq!(real.friend(viewer, friend), wanted, "{viewer} asks for {friend}");
            }
        }
        for back in 0..twin.keep {
            let day = Day::from_number(twin.day - back as u16);
            let wanted = twin.uniques.get(&day.number()).map_or(0, |ids| ids.len() as u64);
            assert_eq!(Room::unique(&[Some(&real.room)], &env, Some(day), 1), Ok(wanted));
        }
        assert!(Room::unique(&[Some(&real.room)], &env, None, twin.keep as u16 + 1).is_err());
        let own = real.room.own_settings().is_some();
        let uniques = twin.uniques.values().any(|ids| !ids.is_empty());
        assert_eq!(real.room.is_disposable(), twin.members.is_empty() && !uniques && !own, "the key goes in time");
        real.check_copies();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn histories_go_as_the_contract_says(config in config(), ops in prop::collection::vec(op(), 1..120)) {
        let mut pair = Pair::new(config);
        for op in &ops {
            pair.run(op);
        }
        // In the end nothing is left that nobody would notice.
        pair.run(&Op::Uniques(Some(0)));
        pair.run(&Op::Uniques(None));
        pair.run(&Op::Advance { ms: 100_000_000, steps: false, late: 0, items: usize::MAX });
        pair.run(&Op::Advance { ms: 100_000_000, steps: false, late: 0, items: usize::MAX });
        prop_assert_eq!(pair.real.room.count(), 0);
    }
}
