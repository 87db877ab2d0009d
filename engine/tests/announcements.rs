//! What is published, when, and what of it can be told again: counts, members' events, the feed and its history.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use common::{Driver, TERM};
use presence_engine::announce::{epoch_text, parse_epoch};
use presence_engine::error::Refusal;
use presence_engine::member::Attributes;
use presence_engine::room::{ChangesRequest, Env, PageRequest, Room};
use presence_engine::settings::{NodeConfig, SettingsChange, Share};
use serde_json::{json, Value};

fn driver(config: NodeConfig) -> Driver {
    Driver::new(NodeConfig { timeout: 400, grace: 300, recent: 600, share: Share::Everyone, ..config })
}

fn fed(feed: u32) -> Driver {
    driver(NodeConfig { feed, ..NodeConfig::default() })
}

fn batch(driver: &mut Driver, members: impl IntoIterator<Item = String>) {
    let ids: Vec<_> = members.into_iter().collect();
    driver.batch(&ids.iter().map(String::as_str).collect::<Vec<_>>());
}

fn counts(driver: &mut Driver) -> Vec<(u64, u64)> {
    driver.heard("count").iter().map(|m| (m.at, m.json()["count"].as_u64().unwrap())).collect()
}

fn bodies(driver: &mut Driver, to: &str) -> Vec<Value> {
    driver.heard(to).iter().map(|message| message.json()).collect()
}

fn saved(room: &Room) -> Vec<Vec<u8>> {
    common::saved(room, Some(TERM), 0)
}

fn request(driver: &Driver, seq: u64) -> ChangesRequest {
    ChangesRequest { epoch: Some(driver.room.epoch(Some(TERM))), seq, count: 10_000, all: false }
}

// -- counts -----------------------------------------------------------------------------------------------------------

#[test]
fn the_first_and_the_last_are_told_at_once_and_all_else_once_an_interval() {
    let mut d = driver(NodeConfig { count_every: 1_000, timeout: 10_000, ..NodeConfig::default() });
    d.config.timeout = 100_000;
    batch(&mut d, (0..7).map(|n| format!("m{n}")));
    assert_eq!(d.published.last().unwrap().body, r#"{"count":7,"badge":"7"}"#);
    assert_eq!(counts(&mut d), [(0, 7)]);
    for n in 0..50 {
        d.go(n * 10);
        d.beat(&format!("more{n}"), "");
    }
    d.go(2_500);
    let told = counts(&mut d);
    assert!(told.len() <= 2 && told.last().unwrap().1 == 57, "{told:?}");
    d.go(10_000);
    assert_eq!(counts(&mut d), [], "an idle room says nothing");
    assert_eq!(d.room.say_due(), None, "and plans nothing");
    d.bye("more0", None, false);
    d.beat("more0", "");
    d.go(20_000);
    assert_eq!(counts(&mut d), [], "the number is what it was");
    for id in (0..50).map(|n| format!("more{n}")).chain((0..7).map(|n| format!("m{n}"))) {
        d.bye(&id, None, false);
    }
    assert_eq!(counts(&mut d), [(20_000, 0)]);
    d.beat("one", "");
    assert_eq!(counts(&mut d), [(20_000, 1)]);
}

#[test]
fn counts_can_be_off_and_an_interval_can_be_changed() {
    let mut d = driver(NodeConfig { count_every: 0, ..NodeConfig::default() });
    d.beat("a", "");
    d.go(50);
    assert_eq!(counts(&mut d), []);
    d.alter(&SettingsChange { count_every: Some(Some(86_400_000)), ..SettingsChange::default() });
    assert_eq!(counts(&mut d), [(50, 1)], "from nothing told to one");
    d.beat("b", "");
    let far = d.room.say_due().unwrap();
    d.alter(&SettingsChange { count_every: Some(Some(100)), ..SettingsChange::default() });
    assert!(d.room.say_due().unwrap() <= d.now + 100 && far > d.now + 100);
    d.go(150);
    assert_eq!(counts(&mut d).len(), 1);
}

#[test]
fn rooms_do_not_all_say_their_counts_at_one_moment() {
    let d = driver(NodeConfig::default());
    let mut moments = std::collections::BTreeSet::new();
    for nonce in 0..100_u64 {
        let mut room = Room::new(common::KEYS, nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15), &d.env());
        let mut fx = presence_engine::effects::Effects::default();
        for id in ["a", "b"] {
            room.beat(&d.env(), id.as_bytes(), b"", &Attributes::default(), &mut fx).unwrap();
            room.finish(&d.env(), &mut fx);
        }
        let due = room.say_due().unwrap();
        assert!((1..=5_000).contains(&(due - d.now)));
        moments.insert(due);
    }
    assert!(moments.len() > 90, "{moments:?}");
}

// -- members ----------------------------------------------------------------------------------------------------------

#[test]
fn those_who_watch_a_member_hear_what_it_shows() {
    let mut d = Driver::with(400, 300, 600, Share::Friends);
    let epoch = || epoch_text(0);
    let hear = |d: &mut Driver| -> Vec<Value> {
        let mut heard = bodies(d, "member:a");
        heard.iter_mut().for_each(|message| message["epoch"] = epoch().into());
        heard
    };
    d.status("a", "s1", "here");
    assert_eq!(hear(&mut d), [json!({"event":"online","member":"a","epoch":epoch(),"seq":1,"status":"here"})]);
    d.status("a", "s1", "here");
    d.beat("a", "s2");
    d.beat("a", "s1");
    assert_eq!(hear(&mut d), [] as [Value; 0], "an unchanged repeat is no news");
    d.status("a", "s2", "away");
    assert_eq!(hear(&mut d), [json!({"event":"update","member":"a","epoch":epoch(),"seq":2,"status":"away"})]);
    d.bye("a", Some("s2"), false);
    assert_eq!(hear(&mut d), [json!({"event":"update","member":"a","epoch":epoch(),"seq":3,"status":"here"})]);
    d.share("a", Share::Everyone);
    assert_eq!(hear(&mut d), [] as [Value; 0], "friends see what they saw");
    d.share("a", Share::Nobody);
    assert_eq!(
        hear(&mut d),
        [json!({"event":"offline","member":"a","epoch":epoch(),"seq":5,"reason":"goodbye"})],
        "hiding is a goodbye"
    );
    d.status("a", "s1", "secret");
    d.bye("a", None, false);
    assert_eq!(hear(&mut d), [] as [Value; 0], "later goings of who hides show nothing");
    d.beat_with("a", "s3", &Attributes { share: Some(Share::Friends), ..Attributes::default() });
    d.go(5_000);
    assert_eq!(
        hear(&mut d),
        [
            json!({"event":"online","member":"a","epoch":epoch(),"seq":8}),
            json!({"event":"offline","member":"a","epoch":epoch(),"seq":9,"reason":"timeout"})
        ]
    );
}

#[test]
fn bytes_that_are_no_text_travel_as_base64() {
    let d = fed(10);
    let mut fx = presence_engine::effects::Effects::default();
    let attributes = Attributes { status: Some("ü\"".as_bytes()), data: Some(b"\xff\x00"), ..Attributes::default() };
    let mut room = Room::new(common::KEYS, 5, &d.env());
    room.beat(&d.env(), b"\xfe\x01", b"", &attributes, &mut fx).unwrap();
    room.finish(&d.env(), &mut fx);
    let said: Vec<Value> = fx.messages.iter().map(|m| serde_json::from_slice(m.body).unwrap()).collect();
    let event = &said[1]["events"][0];
    assert_eq!(*event, json!({"event":"online","member64":"/gE=","seq":1,"status":"ü\"","data64":"/wA="}));
    assert_eq!(said[0]["member64"], "/gE=");
}

// -- the feed ---------------------------------------------------------------------------------------------------------

/// Each message begins where the one before ended.
fn assert_gapless(messages: &[Value], mut seq: u64) -> u64 {
    for message in messages {
        assert_eq!(message["from"].as_u64(), Some(seq + 1), "{message}");
        let to = message["seq"].as_u64().unwrap();
        let within = |event: &Value| (seq + 1..=to).contains(&event["seq"].as_u64().unwrap());
        assert!(message["events"].as_array().is_none_or(|events| events.iter().all(within)), "{message}");
        seq = to;
    }
    seq
}

#[test]
fn the_feed_covers_every_change_and_names_those_who_share_with_everyone() {
    let mut d = fed(100);
    d.beat("a", "");
    d.beat_with("b", "", &Attributes { share: Some(Share::Friends), ..Attributes::default() });
    batch(&mut d, ["a", "b", "c", "d"].map(str::to_owned));
    d.beat("a", "");
    d.share("b", Share::Everyone);
    d.share("a", Share::Nobody);
    let heard = bodies(&mut d, "feed");
    let names = |message: &Value| -> Vec<String> {
        let events = message["events"].as_array().unwrap();
        events.iter().map(|e| format!("{} {}", e["event"].as_str().unwrap(), e["member"].as_str().unwrap())).collect()
    };
    let named: Vec<_> = heard.iter().map(names).collect();
    assert_eq!(named, [vec!["online a"], vec![], vec!["online c", "online d"], vec!["online b"], vec!["offline a"]]);
    assert_eq!(heard[1], json!({"epoch":heard[0]["epoch"],"from":2,"seq":2,"count":2,"events":[]}));
    assert_eq!(assert_gapless(&heard, 0), 6);
}

#[test]
fn a_long_batch_becomes_several_messages_without_a_gap() {
    let mut d = driver(NodeConfig { feed: 10, interval_over: 1_000_000, ..NodeConfig::default() });
    batch(&mut d, (0..4_096).map(|n| format!("{n:0>200}")));
    let heard = bodies(&mut d, "feed");
    assert!(heard.len() > 10);
    assert_eq!(assert_gapless(&heard, 0), 4_096);
    let events: usize = heard.iter().map(|message| message["events"].as_array().unwrap().len()).sum();
    assert_eq!(events, 4_096);
    for message in &heard {
        assert_eq!(message["count"], message["seq"], "the count is that after the last change covered");
    }
}

#[test]
fn above_the_limit_nobody_is_named_until_a_tenth_below() {
    let mut d = driver(NodeConfig { feed: 1_000, interval_over: 20, count_every: 1_000, ..NodeConfig::default() });
    d.config.timeout = 1_000_000;
    batch(&mut d, (0..20).map(|n| format!("m{n}")));
    let at_limit = bodies(&mut d, "feed");
    assert_eq!(at_limit[0]["events"].as_array().unwrap().len(), 20);
    d.beat("one more", "");
    let entered = bodies(&mut d, "feed");
    assert_eq!(
        entered,
        [json!({"epoch":entered[0]["epoch"],"from":21,"seq":21,"count":21,"mode":"interval","came":1,"went":0})]
    );
    for n in 0..3 {
        d.bye(&format!("m{n}"), None, false);
    }
    assert_eq!(bodies(&mut d, "feed"), [] as [Value; 0], "18 is not a tenth below");
    d.go(1_000);
    let told = bodies(&mut d, "feed");
    assert_eq!((told.len(), &told[0]["went"], &told[0]["mode"]), (1, &json!(3), &json!("interval")));
    d.go(3_000);
    assert_eq!(bodies(&mut d, "feed"), [] as [Value; 0], "nothing changed");
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 23)), Err(Refusal::Resync));
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 24)).unwrap().events, []);
    d.bye("m3", None, false);
    let left = bodies(&mut d, "feed");
    assert_eq!(left, [json!({"epoch":left[0]["epoch"],"from":25,"seq":25,"count":17,"resync":true,"events":[]})]);
    d.bye("m4", None, false);
    let named = bodies(&mut d, "feed");
    assert_eq!((&named[0]["from"], &named[0]["events"][0]["member"]), (&json!(26), &json!("m4")));
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 24)), Err(Refusal::Resync));
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 25)).unwrap().events.len(), 1);
}

#[test]
fn changes_tell_what_the_feed_told() {
    let mut d = fed(50);
    d.beat_with("hidden", "", &Attributes { share: Some(Share::Nobody), ..Attributes::default() });
    d.status("a", "", "x");
    d.go(2_000);
    for n in 0..30 {
        d.beat(&format!("m{n}"), "");
    }
    let feed: Vec<Value> =
        bodies(&mut d, "feed").iter().flat_map(|message| message["events"].as_array().unwrap().clone()).collect();
    let told = Room::changes(Some(&d.room), &d.env(), request(&d, 0)).unwrap();
    let rows = |changes: &[presence_engine::announce::FeedChange]| -> Vec<(u64, &'static str, String)> {
        changes.iter().map(|change| (change.seq, change.told.as_str(), common::text(&change.id))).collect()
    };
    let expected: Vec<_> =
        feed.iter().map(|e| (e["seq"].as_u64().unwrap(), e["event"].as_str().unwrap().to_owned())).collect();
    assert_eq!(rows(&told.events).iter().map(|row| (row.0, row.1.to_owned())).collect::<Vec<_>>(), expected);
    assert_eq!(told.seq, d.room.seq());
    let all = Room::changes(Some(&d.room), &d.env(), ChangesRequest { all: true, ..request(&d, 0) }).unwrap();
    assert_eq!(rows(&all.events)[0], (1, "online", "hidden".to_owned()));
    assert_eq!(all.events.len() as u64, d.room.seq());
    // In parts: each goes on where the last ended.
    let (mut seq, mut parts) = (0, Vec::new());
    while seq < d.room.seq() {
        let part = Room::changes(Some(&d.room), &d.env(), ChangesRequest { count: 7, ..request(&d, seq) }).unwrap();
        assert!(part.seq > seq && part.events.len() <= 7);
        seq = part.seq;
        parts.extend(part.events);
    }
    assert_eq!(parts, told.events);
    // The replica knows the same.
    let replica = d.replica.as_ref().unwrap();
    let env = Env { term: None, ..d.env() };
    assert_eq!(Room::changes(Some(replica), &env, request(&d, 0)).unwrap(), told);
    for (epoch, seq) in [(None, 0), (Some(1), 0), (request(&d, 0).epoch, d.room.seq() + 1)] {
        let request = ChangesRequest { epoch, seq, ..request(&d, 0) };
        assert_eq!(Room::changes(Some(&d.room), &d.env(), request), Err(Refusal::Resync));
    }
    for n in 0..50 {
        d.beat(&format!("n{n}"), "");
    }
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, d.room.seq() - 51)), Err(Refusal::Resync));
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, d.room.seq() - 50)).unwrap().events.len(), 50);
}

#[test]
fn without_a_feed_only_who_is_up_to_date_need_not_resync() {
    let mut d = fed(0);
    d.beat("a", "");
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 1)).unwrap().seq, 1);
    assert_eq!(Room::changes(Some(&d.room), &d.env(), request(&d, 0)), Err(Refusal::Resync));
    assert_eq!(bodies(&mut d, "feed"), [] as [Value; 0]);
    let nothing = ChangesRequest { epoch: parse_epoch(b"0000000000000000"), seq: 0, count: 1, all: false };
    assert_eq!(Room::changes(None, &d.env(), nothing).unwrap().seq, 0);
    assert_eq!(Room::changes(None, &d.env(), ChangesRequest { seq: 1, ..nothing }), Err(Refusal::Resync));
}

#[test]
fn a_promotion_begins_a_new_history_and_tells_its_readers() {
    let mut d = fed(100);
    d.beat("a", "");
    let old = request(&d, 1);
    let mut room = d.replica.take().unwrap();
    let mut fx = presence_engine::effects::Effects::default();
    let primary = Env { term: Some(TERM + 1), ..d.env() };
    assert_eq!(Room::changes(Some(&room), &primary, old), Err(Refusal::Resync));
    room.visit(&primary, &mut fx);
    room.finish(&primary, &mut fx);
    let due = fx.say_at.expect("it has something to say");
    fx.clear();
    room.say(&Env { now: due, ..primary }, &mut fx);
    let said: Vec<Value> = fx.messages.iter().map(|m| serde_json::from_slice(m.body).unwrap()).collect();
    let epoch = epoch_text(room.epoch(primary.term));
    assert_eq!(said[0], json!({"epoch":epoch,"from":2,"seq":1,"count":1,"resync":true,"events":[]}));
    assert_eq!(said[1], json!({"count":1,"badge":"1"}));
    assert_ne!(epoch, epoch_text(old.epoch.unwrap()));
    fx.clear();
    room.beat(&primary, b"b", b"", &Attributes::default(), &mut fx).unwrap();
    room.finish(&primary, &mut fx);
    let request = ChangesRequest { epoch: parse_epoch(epoch.as_bytes()), ..old };
    assert_eq!(Room::changes(Some(&room), &primary, request).unwrap().events.len(), 1);
    fx.clear();
    room.visit(&primary, &mut fx);
    assert_eq!(fx.say_at, None, "told once");
}

/// A primary of another term may have nothing to tell but a second session, which is no change.
#[test]
fn a_new_history_is_told_on_replicas_too_when_it_comes_without_a_change() {
    let mut d = fed(100);
    d.beat("a", "");
    let mut replica = d.replica.take().unwrap();
    let mut fx = presence_engine::effects::Effects::default();
    let primary = Env { term: Some(TERM + 1), ..d.env() };
    let before = replica.epoch(None);
    let mut promoted = Room::load_from(common::KEYS, 7, &primary, saved(&d.room).iter().map(Vec::as_slice)).unwrap();
    promoted.beat(&primary, b"a", b"two", &Attributes::default(), &mut fx).unwrap();
    let payload = promoted.finish(&primary, &mut fx).expect("a session began");
    fx.clear();
    let relay = Env { term: None, ..d.env() };
    replica.apply(&relay, &payload, &mut fx).unwrap();
    replica.finish(&relay, &mut fx);
    assert_ne!(replica.epoch(None), before);
    let due = fx.say_at.expect("it has something to say");
    fx.clear();
    replica.say(&Env { now: due, ..relay }, &mut fx);
    let said: Vec<Value> = fx.messages.iter().map(|m| serde_json::from_slice(m.body).unwrap()).collect();
    let epoch = epoch_text(replica.epoch(None));
    assert_eq!(said, [json!({"epoch":epoch,"from":2,"seq":1,"count":1,"resync":true,"events":[]})]);
    // A change says it by itself.
    promoted.beat(&Env { term: Some(TERM + 2), ..primary }, b"b", b"", &Attributes::default(), &mut fx).unwrap();
    let payload = promoted.finish(&Env { term: Some(TERM + 2), ..primary }, &mut fx).unwrap();
    fx.clear();
    replica.apply(&relay, &payload, &mut fx).unwrap();
    replica.finish(&relay, &mut fx);
    let said: Vec<Value> = fx.messages.iter().map(|m| serde_json::from_slice(m.body).unwrap()).collect();
    assert!(
        said.iter().any(|m| m["events"][0]["member"] == "b") && said.iter().all(|m| m["resync"] != true),
        "{said:?}"
    );
}

#[test]
fn a_room_without_a_change_has_nothing_to_say_at_a_visit() {
    let mut d = fed(100);
    d.create(&SettingsChange { grace: Some(Some(1)), ..SettingsChange::default() });
    d.visit();
    assert_eq!(d.room.say_due(), None, "it was made in this term: there is no reader of another one");
    d.beat("a", "");
    assert_eq!(counts(&mut d).first().map(|&(_, count)| count), Some(1));
}

#[test]
fn a_feed_that_is_switched_on_begins_there() {
    let mut d = fed(0);
    batch(&mut d, ["a", "b"].map(str::to_owned));
    d.alter(&SettingsChange { feed: Some(Some(10)), ..SettingsChange::default() });
    d.beat("c", "");
    let heard = bodies(&mut d, "feed");
    assert_eq!((&heard[0]["from"], heard.len()), (&json!(3), 1));
    d.alter(&SettingsChange { feed: Some(Some(0)), ..SettingsChange::default() });
    d.beat("d", "");
    assert_eq!(bodies(&mut d, "feed"), [] as [Value; 0]);
    let page = d.room.page(&d.env(), PageRequest { cursor: 0, count: 10, all: false });
    assert_eq!(page.members.len(), 4);
}
