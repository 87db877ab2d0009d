//! "Online" is private: whatever a viewer can receive is the same whether a member hides or is not there at all.
//!
//! Each property runs one random history twice, with one difference that must not show, and compares everything that a
//! viewer can get: FRIENDS, MEMBERS, CHANGES, the member channels and the feed. Numbers of changes and members may
//! differ: they count the hidden, by contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use common::{text, Driver, TERM};
use presence_engine::announce::FeedChange;
use presence_engine::member::Attributes;
use presence_engine::room::{ChangesRequest, FriendState, PageRequest, Room};
use presence_engine::settings::{NodeConfig, Share};
use proptest::prelude::*;
use serde_json::Value;

const OTHERS: [&str; 3] = ["ann", "bob", "cid"];
const SECRET: &str = "zoe";
const SESSIONS: [&str; 3] = ["", "s1", "s2"];
const TEXTS: [&str; 3] = ["", "away", "busy"];

#[derive(Clone, Debug)]
enum Act {
    Beat { session: usize, status: Option<usize>, data: Option<usize> },
    Bye { session: Option<usize>, soft: bool },
}

#[derive(Clone, Debug)]
enum Op {
    Secret(Act),
    Other { member: usize, act: Act },
    Share { member: usize, share: Share },
    Advance(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let some = || proptest::option::of(0..3_usize);
    prop_oneof![
        3 => (0..3_usize, some(), some()).prop_map(|(session, status, data)| Act::Beat { session, status, data }),
        1 => (some(), any::<bool>()).prop_map(|(session, soft)| Act::Bye { session, soft }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let share = prop_oneof![Just(Share::Nobody), Just(Share::Friends), Just(Share::Everyone)];
    prop_oneof![
        4 => act().prop_map(Op::Secret),
        4 => (0..3_usize, act()).prop_map(|(member, act)| Op::Other { member, act }),
        1 => (0..3_usize, share).prop_map(|(member, share)| Op::Share { member, share }),
        3 => prop_oneof![0..60_u64, 200..1_500_u64].prop_map(Op::Advance),
    ]
}

fn world(share: Share, reciprocal: bool) -> Driver {
    let config = NodeConfig { timeout: 400, grace: 300, recent: 600, share, reciprocal, ..NodeConfig::default() };
    let mut d = Driver::new(NodeConfig { feed: 1_000, interval_over: 1_000, count_every: 0, ..config });
    // Reads of the replica are compared elsewhere.
    d.replica = None;
    d
}

fn act_on(d: &mut Driver, member: &str, act: &Act, share: Option<Share>) {
    match act {
        Act::Beat { session, status, data } => {
            let [status, data] = [status, data].map(|text| text.map(|text| TEXTS[text].as_bytes()));
            d.beat_with(member, SESSIONS[*session], &Attributes { share, status, data, ..Attributes::default() });
        }
        Act::Bye { session, soft } => {
            d.bye(member, session.map(|session| SESSIONS[session]), *soft);
        }
    }
}

/// All that a viewer can receive, without what counts the hidden.
#[derive(Debug, PartialEq)]
struct Seen {
    friends: Vec<FriendState>,
    members: Vec<(String, String, String)>,
    feed: Vec<Value>,
    channels: Vec<(String, Value)>,
}

fn bare(mut event: Value) -> Value {
    for field in ["seq", "epoch"] {
        event.as_object_mut().unwrap().remove(field);
    }
    event
}

fn told(change: &FeedChange) -> Value {
    let mut event = serde_json::json!({"event": change.told.as_str(), "member": text(&change.id)});
    match change.told {
        presence_engine::announce::Told::Offline(reason) => event["reason"] = reason.as_str().into(),
        _ => {
            for (name, value) in [("status", &change.status), ("data", &change.data)] {
                if !value.is_empty() {
                    event[name] = text(value).into();
                }
            }
        }
    }
    event
}

fn seen(d: &mut Driver) -> Seen {
    let friends = OTHERS.iter().chain([&SECRET]).map(|friend| d.friend("viewer", friend)).collect();
    let page = d.room.page(&d.env(), PageRequest { cursor: 0, count: 100, all: false });
    let mut members: Vec<_> = page.members.iter().map(|m| (text(&m.id), text(&m.status), text(&m.data))).collect();
    members.sort();
    let (mut feed, mut channels) = (Vec::new(), Vec::new());
    let mut first = None;
    for message in std::mem::take(&mut d.published) {
        let json = message.json();
        match message.to.as_str() {
            "count" => {}
            "feed" => {
                first = first.or(json["from"].as_u64());
                feed.extend(json["events"].as_array().unwrap().iter().cloned().map(bare));
            }
            to => channels.push((to.to_owned(), bare(json))),
        }
    }
    if let Some(first) = first {
        // CHANGES tells exactly what the feed did.
        let epoch = Some(d.room.epoch(Some(TERM)));
        let request = ChangesRequest { epoch, seq: first - 1, count: 10_000, all: false };
        let again = Room::changes(Some(&d.room), &d.env(), request).unwrap().events;
        assert_eq!(again.iter().map(told).collect::<Vec<_>>(), feed);
    }
    // Goings of one millisecond come in no defined order; each member's own order is kept.
    feed.sort_by_key(|event| event["member"].to_string());
    channels.sort_by_key(|(to, _)| to.clone());
    Seen { friends, members, feed, channels }
}

fn step(d: &mut Driver, op: &Op, shares: &mut [Share; 3]) {
    match op {
        Op::Secret(_) => unreachable!("the two worlds differ in it"),
        Op::Other { member, act } => act_on(d, OTHERS[*member], act, Some(shares[*member])),
        Op::Share { member, share } => {
            shares[*member] = *share;
            d.share(OTHERS[*member], *share);
        }
        Op::Advance(ms) => d.go(d.at() + ms),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Of two worlds one has a member that shares with nobody.
    #[test]
    fn who_hides_is_like_who_is_not_there(
        ops in proptest::collection::vec(op(), 1..120),
        default in prop_oneof![Just(Share::Nobody), Just(Share::Everyone)],
    ) {
        let (mut with, mut without) = (world(default, false), world(default, false));
        let mut shares = [[Share::Everyone, Share::Friends, Share::Nobody]; 2];
        for op in &ops {
            if let Op::Secret(act) = op {
                // Clients send SHARE with each joining beat.
                act_on(&mut with, SECRET, act, Some(Share::Nobody));
            } else {
                step(&mut with, op, &mut shares[0]);
                step(&mut without, op, &mut shares[1]);
            }
            prop_assert_eq!(seen(&mut with), seen(&mut without));
        }
    }

    /// In one world a member hides and goes on, in the other it says goodbye and is away; later it shows itself again,
    /// or comes again.
    #[test]
    fn hiding_is_like_a_goodbye(
        before in proptest::collection::vec(op(), 0..30),
        hidden in proptest::collection::vec(op(), 1..60),
        after in proptest::collection::vec(op(), 0..30),
        share in prop_oneof![Just(Share::Friends), Just(Share::Everyone)],
    ) {
        let (mut hides, mut leaves) = (world(Share::Nobody, false), world(Share::Nobody, false));
        let mut shares = [[Share::Everyone, Share::Friends, Share::Nobody]; 2];
        let plain = Act::Beat { session: 0, status: None, data: None };
        let mut both = |hides: &mut Driver, leaves: &mut Driver, op: &Op| match op {
            Op::Secret(_) => {
                // One unnamed session, so that both can come again as they were.
                act_on(hides, SECRET, &plain, Some(share));
                act_on(leaves, SECRET, &plain, Some(share));
            }
            op => {
                step(hides, op, &mut shares[0]);
                step(leaves, op, &mut shares[1]);
            }
        };
        for op in &before {
            both(&mut hides, &mut leaves, op);
            prop_assert_eq!(seen(&mut hides), seen(&mut leaves));
        }
        hides.share(SECRET, Share::Nobody);
        leaves.bye(SECRET, None, false);
        prop_assert_eq!(seen(&mut hides), seen(&mut leaves));
        for op in &hidden {
            if let Op::Secret(act) = op {
                act_on(&mut hides, SECRET, act, Some(Share::Nobody));
            } else {
                both(&mut hides, &mut leaves, op);
            }
            prop_assert_eq!(seen(&mut hides), seen(&mut leaves));
        }
        // All that it had hidden is over before it shows itself.
        hides.bye(SECRET, None, false);
        hides.share(SECRET, Share::Nobody);
        for op in &after {
            both(&mut hides, &mut leaves, op);
            prop_assert_eq!(seen(&mut hides), seen(&mut leaves));
        }
    }

    /// A viewer who shares with nobody sees nobody, but itself.
    #[test]
    fn who_does_not_share_sees_nobody_where_that_is_the_rule(ops in proptest::collection::vec(op(), 1..80)) {
        let mut d = world(Share::Nobody, true);
        let mut shares = [Share::Everyone, Share::Friends, Share::Nobody];
        for op in &ops {
            if let Op::Secret(act) = op {
                act_on(&mut d, SECRET, act, Some(Share::Nobody));
            } else {
                step(&mut d, op, &mut shares);
            }
            for friend in OTHERS {
                prop_assert_eq!(d.friend(SECRET, friend), FriendState::Offline);
            }
            let own = d.state(SECRET).is_some_and(|state| state != "recent");
            prop_assert_eq!(d.friend(SECRET, SECRET) == FriendState::Online, own);
        }
    }

    /// Whatever a member that shares with nobody does, its id is in no message.
    #[test]
    fn who_shares_with_nobody_is_named_on_no_channel(ops in proptest::collection::vec(op(), 1..120)) {
        let mut d = world(Share::Nobody, false);
        let mut shares = [Share::Everyone, Share::Friends, Share::Everyone];
        for op in &ops {
            if let Op::Secret(act) = op {
                act_on(&mut d, SECRET, act, None);
            } else {
                step(&mut d, op, &mut shares);
            }
        }
        for message in &d.published {
            prop_assert!(!message.to.contains(SECRET) && !message.body.contains(SECRET), "{:?}", message);
            // And no message has a time in it, exact or not.
            let json = message.json();
            for name in json.as_object().unwrap().keys() {
                prop_assert!(
                    ["event", "member", "epoch", "seq", "reason", "status", "data", "from", "count", "events", "badge"]
                        .contains(&name.as_str()),
                    "{}", name
                );
            }
        }
    }
}
