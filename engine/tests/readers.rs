//! A reader of the feed that loses messages, against the room itself: whenever it is level, its list is the room's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use std::collections::BTreeMap;

use common::{text, Driver, TERM};
use presence_engine::announce::{epoch_text, parse_epoch, Told};
use presence_engine::member::Attributes;
use presence_engine::room::{ChangesRequest, PageRequest, Room};
use presence_engine::settings::{NodeConfig, Share};
use proptest::prelude::*;
use serde_json::Value;

/// Shown status and data, by id.
type List = BTreeMap<String, (String, String)>;

/// What the room itself says.
fn list(d: &Driver) -> List {
    let page = d.room.page(&d.env(), PageRequest { cursor: 0, count: 1_000, all: false });
    page.members.iter().map(|m| (text(&m.id), (text(&m.status), text(&m.data)))).collect()
}

/// The reader's side of the contract, as `docs/realtime.md` describes it.
#[derive(Default)]
struct Reader {
    epoch: String,
    seq: u64,
    /// `None` while the feed names nobody.
    list: Option<List>,
    repaired: u64,
    restarted: u64,
}

impl Reader {
    fn start_over(&mut self, d: &Driver) {
        self.restarted += 1;
        (self.epoch, self.seq) = (epoch_text(d.room.epoch(Some(TERM))), d.room.seq());
        self.list = Some(list(d));
    }

    fn apply(&mut self, told: &str, id: String, status: String, data: String) {
        let Some(list) = &mut self.list else { return };
        if told == "offline" {
            list.remove(&id);
        } else {
            list.insert(id, (status, data));
        }
    }

    fn hear(&mut self, d: &Driver, message: &Value) {
        let (from, seq) = (message["from"].as_u64().unwrap(), message["seq"].as_u64().unwrap());
        if message["epoch"] != self.epoch.as_str() || message["resync"] == true {
            return self.start_over(d);
        }
        if message["mode"] == "interval" {
            (self.seq, self.list) = (seq, None);
            return;
        }
        if seq <= self.seq {
            return;
        }
        if self.list.is_none() {
            // The message that said that names are told again was lost.
            return self.start_over(d);
        }
        if from > self.seq + 1 {
            return self.catch_up(d);
        }
        let field = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        for event in message["events"].as_array().unwrap() {
            if event["seq"].as_u64().unwrap() > self.seq {
                self.apply(
                    event["event"].as_str().unwrap(),
                    field(event, "member"),
                    field(event, "status"),
                    field(event, "data"),
                );
            }
        }
        self.seq = seq;
    }

    fn catch_up(&mut self, d: &Driver) {
        loop {
            let request =
                ChangesRequest { epoch: parse_epoch(self.epoch.as_bytes()), seq: self.seq, count: 3, all: false };
            let Ok(changes) = Room::changes(Some(&d.room), &d.env(), request) else { return self.start_over(d) };
            self.repaired += 1;
            for change in changes.events {
                let told = if matches!(change.told, Told::Offline(_)) { "offline" } else { "online" };
                self.apply(told, text(&change.id), text(&change.status), text(&change.data));
            }
            if changes.seq == self.seq {
                return;
            }
            self.seq = changes.seq;
        }
    }

    fn check(&self, d: &Driver) {
        if let Some(known) = self.list.as_ref().filter(|_| self.seq == d.room.seq()) {
            assert_eq!(*known, list(d), "level at {}", self.seq);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Beat { member: usize, session: usize, share: Option<Share>, status: Option<usize> },
    Bye { member: usize, session: Option<usize> },
    Share { member: usize, share: Share },
    Advance(u64),
}

const MEMBERS: [&str; 8] = ["ann", "bob", "cid", "dot", "eve", "fay", "gus", "hal"];
const SESSIONS: [&str; 3] = ["", "s1", "s2"];
const TEXTS: [&str; 3] = ["", "away", "busy"];

fn op() -> impl Strategy<Value = Op> {
    let share = || prop_oneof![1 => Just(Share::Nobody), 1 => Just(Share::Friends), 3 => Just(Share::Everyone)];
    prop_oneof![
        6 => (0..8_usize, 0..3_usize, proptest::option::of(share()), proptest::option::of(0..3_usize))
            .prop_map(|(member, session, share, status)| Op::Beat { member, session, share, status }),
        2 => (0..8_usize, proptest::option::of(0..3_usize)).prop_map(|(member, session)| Op::Bye { member, session }),
        1 => (0..8_usize, share()).prop_map(|(member, share)| Op::Share { member, share }),
        2 => prop_oneof![0..50_u64, 200..900_u64].prop_map(Op::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_that_is_level_knows_the_list(
        feed in 1..40_u32,
        interval_over in prop_oneof![2 => Just(1_000_u32), 1 => 2..7_u32],
        ops in proptest::collection::vec((op(), 0..10_u8), 1..200),
    ) {
        let config = NodeConfig {
            timeout: 400, grace: 300, recent: 100, share: Share::Everyone, feed, interval_over, count_every: 1_000,
            ..NodeConfig::default()
        };
        let mut d = Driver::new(config);
        let mut reader = Reader::default();
        reader.start_over(&d);
        for (op, fate) in ops {
            match op {
                Op::Beat { member, session, share, status } => {
                    let status = status.map(|status| TEXTS[status].as_bytes());
                    d.beat_with(MEMBERS[member], SESSIONS[session], &Attributes { share, status, ..Attributes::default() });
                }
                Op::Bye { member, session } => {
                    d.bye(MEMBERS[member], session.map(|session| SESSIONS[session]), false);
                }
                Op::Share { member, share } => {
                    d.share(MEMBERS[member], share);
                }
                Op::Advance(ms) => d.go(d.at() + ms),
            }
            for message in d.heard("feed") {
                // One in ten is lost. A reader hears each when it comes; the room may be further by then.
                if fate != 0 {
                    reader.hear(&d, &message.json());
                }
            }
            reader.check(&d);
        }
        // Whoever loses nothing from here on is level after the next named change.
        d.go(d.at() + 10_000);
        d.heard("feed");
        d.beat("last", "");
        for message in d.heard("feed") {
            reader.hear(&d, &message.json());
        }
        reader.check(&d);
        prop_assert!(reader.seq == d.room.seq());
        prop_assert!(reader.list.is_some() || interval_over < 1_000);
    }
}
