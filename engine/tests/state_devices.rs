//! Several devices of one member, what is shown of them, and limits: field cases that the engine alone can show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use common::{text, Driver};
use presence_engine::error::Refusal;
use presence_engine::member::Attributes;
use presence_engine::room::FriendState;
use presence_engine::settings::{NodeConfig, Share};

fn told(d: &mut Driver) -> Vec<String> {
    d.news().into_iter().filter(|news| !news.starts_with("grace") && !news.starts_with("back")).collect()
}

fn figures(d: &Driver) -> (u32, u32) {
    (d.room.count(), d.room.sessions())
}

#[test]
fn f06_logout_everywhere_shows_at_once() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.beat("u", "s2");
    assert_eq!(d.bye("u", None, false), 1);
    assert_eq!((figures(&d), told(&mut d)), ((0, 0), vec!["online(u)@0".into(), "goodbye(u)@0".into()]));
    assert_eq!((d.beat("u", "s1"), d.beat("u", "s2"), d.beat("u", "s3")), (-1, -1, 1));
    assert_eq!(told(&mut d), ["online(u)@0"]);
    d.check_copies();
}

#[test]
fn f11_only_the_last_session_takes_the_member_away() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut d = Driver::field();
        for session in ["s0", "s1", "s2"] {
            d.beat("u", session);
        }
        d.news();
        let left: Vec<_> =
            order.iter().map(|n| (d.bye("u", Some(&format!("s{n}")), false), figures(&d).0, figures(&d).1)).collect();
        assert_eq!(left, [(0, 1, 2), (0, 1, 1), (1, 0, 0)]);
        assert_eq!(d.news(), ["goodbye(u)@0"]);
    }
    let mut d = Driver::field();
    d.beat("u", "s1");
    for at in [0, 200, 400] {
        d.go(at);
        d.beat("u", "s2");
    }
    d.go(500);
    assert_eq!(d.bye("u", Some("s2"), false), 0);
    d.go(699);
    assert_eq!((figures(&d), told(&mut d).len()), ((1, 1), 1));
    d.go(3_000);
    assert_eq!(told(&mut d), ["timeout(u)@700"]);
}

#[test]
fn f13_surviving_sessions_decide_what_is_shown() {
    let mut d = Driver::field();
    let shown = |d: &Driver| d.shown("u").unwrap().0;
    d.status("u", "s1", "away");
    d.status("u", "s2", "away");
    assert_eq!((shown(&d), d.room.seq()), ("away".into(), 1));
    d.status("u", "s3", "typing");
    assert_eq!((shown(&d), d.room.seq()), ("typing".into(), 2));
    d.go(10);
    for session in ["s1", "s2", "s3"] {
        assert_eq!(d.beat("u", session), 0);
        assert_eq!(shown(&d), "typing");
    }
    d.beat("u", "s1");
    let view = d.room.member(&d.env(), b"u").unwrap();
    let own: Vec<_> = view.sessions.iter().map(|s| (text(&s.id), text(&s.status))).collect();
    assert!(own.contains(&("s1".into(), "away".into())) && own.contains(&("s3".into(), "typing".into())), "{own:?}");
    assert_eq!(d.bye("u", Some("s3"), false), 0);
    assert_eq!(shown(&d), "away");
    assert_eq!(d.news(), ["online(u)@0", "update(u)@0", "update(u)@10"]);
}

#[test]
fn mere_silence_is_no_update_and_an_ended_session_is() {
    let mut d = Driver::field();
    d.status("u", "s1", "old");
    d.go(10);
    d.status("u", "s2", "new");
    for at in (100..2_000).step_by(100) {
        d.go(at);
        d.beat("u", "s1");
        // Waiting from 410 on, it is shown until it ends: nobody did anything.
        assert_eq!(d.shown("u").unwrap().0, if at < 710 { "new" } else { "old" });
    }
    assert_eq!(d.news(), ["online(u)@0", "update(u)@10", "update(u)@710"]);
    // A session that shows the same text as the one that ends: no update.
    d.status("u", "s3", "old");
    d.bye("u", Some("s3"), false);
    assert_eq!(d.news(), [""; 0]);
}

#[test]
fn f16_a_member_is_listed_once() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(300);
    d.beat("u", "s2");
    d.go(320);
    assert_eq!(d.listed(true, 100), [("u".to_owned(), "online")]);
    let view = d.room.member(&d.env(), b"u").unwrap();
    let idle: Vec<u64> = view.sessions.iter().map(|session| session.idle).collect();
    assert_eq!((view.idle, idle, figures(&d)), (20, vec![320, 20], (1, 2)));
    d.bye("u", Some("s2"), false);
    assert_eq!((d.listed(false, 100).len(), figures(&d)), (1, (1, 1)));
}

#[test]
fn f17_a_half_open_old_session_beside_the_new_one() {
    let mut d = Driver::field();
    d.beat_with("u", "s1", &Attributes { data: Some(b"role=host"), ..Attributes::default() });
    for at in (100..1_000).step_by(100) {
        d.go(at);
        d.beat("u", "s2");
        let view = d.room.member(&d.env(), b"u").unwrap();
        let old = view.sessions.iter().find(|session| session.id == b"s1");
        assert_eq!(old.map(|old| old.waiting), if at < 700 { Some(at >= 400) } else { None });
        assert_eq!(view.data == b"role=host", at < 700);
        assert_eq!(figures(&d), (1, if at < 700 { 2 } else { 1 }));
    }
    assert_eq!(d.news(), ["online(u)@0", "update(u)@700"]);
}

#[test]
fn f19_old_packets_bring_nobody_back_for_good() {
    let mut d = Driver::field();
    for n in 1..=50 {
        d.beat(&format!("u{n}"), &format!("g{n}"));
    }
    for n in 26..=50 {
        d.bye(&format!("u{n}"), None, false);
    }
    d.go(600);
    d.news();
    assert!((26..=50).all(|n| d.beat(&format!("u{n}"), &format!("g{n}")) == -1));
    assert_eq!(told(&mut d), [""; 0]);
    d.go(800);
    assert_eq!(told(&mut d).iter().filter(|news| news.ends_with("@700")).count(), 25);
    assert!((1..=25).all(|n| d.beat(&format!("u{n}"), &format!("g{n}")) == 1));
    d.go(5_000);
    assert_eq!(told(&mut d).iter().filter(|news| news.ends_with("@1500")).count(), 25);
    assert_eq!(d.room.count(), 0);
}

#[test]
fn f21_what_is_no_beat_makes_no_member() {
    let mut d =
        Driver::new(NodeConfig { timeout: 400, grace: 300, recent: 300, uniques_days: 0, ..Default::default() });
    d.beat("u", "s1");
    d.go(5_000);
    assert!(d.room.is_disposable());
    d.news();
    let payloads = d.payloads;
    assert_eq!(d.share("u", Share::Friends), 0);
    for (session, soft) in [(Some("s1"), false), (Some("s1"), true), (None, false)] {
        assert_eq!(d.bye("u", session, soft), 0);
    }
    assert_eq!(d.state("u"), None);
    assert!(d.room.is_disposable() && d.told.is_empty() && d.payloads == payloads && d.listed(true, 10).is_empty());
}

#[test]
fn f25_a_session_that_changes_its_user() {
    let mut d = Driver::field();
    d.beat("guest", "s1");
    assert_eq!((d.bye("guest", Some("s1"), false), d.beat("user", "s1")), (1, 1));
    assert_eq!((d.room.count(), d.room.seq()), (1, 3));
    assert_eq!((d.beat("guest", "s1"), d.beat("user", "s1")), (-1, 0));
    assert_eq!((d.bye("user", None, false), d.room.count()), (1, 0));
}

#[test]
fn f27_the_goodbye_overtakes_the_hello() {
    let mut d = Driver::field();
    d.config.uniques_days = 0;
    for n in 0..200 {
        let member = format!("u{n}");
        assert_eq!(d.bye(&member, Some("s1"), false), 0);
        d.go(d.at() + 1);
        assert_eq!(d.beat(&member, "s1"), 1);
    }
    // Of a present member it is kept until its packet comes.
    assert_eq!(d.bye("u199", Some("s2"), false), 0);
    assert_eq!(d.beat("u199", "s2"), -1);
    d.check_copies();
    d.go(10_000);
    assert_eq!(d.told.iter().filter(|told| told.kind == "timeout").count(), 200);
    assert!(d.room.is_disposable());
}

#[test]
fn f36_changed_data_is_an_update() {
    let mut d = Driver::field();
    for n in 1..=100 {
        d.status("u", "s1", &format!("v{n}"));
    }
    let since = d.room.member(&d.env(), b"u").unwrap().since;
    for _ in 0..50 {
        d.status("u", "s1", "v100");
        d.beat("u", "s1");
    }
    assert_eq!(d.room.seq(), 100);
    for n in 0..=100 {
        d.beat_with("u", "s1", &Attributes { data: Some(&[n / 2]), ..Attributes::default() });
    }
    assert_eq!(d.room.seq(), 151);
    d.beat_with("u", "s1", &Attributes { status: Some(b"x"), data: Some(b"y"), ..Attributes::default() });
    assert_eq!((d.room.seq(), d.room.count()), (152, 1));
    assert_eq!(d.room.member(&d.env(), b"u").unwrap().since, since);
    assert!(d.told[1..].iter().all(|told| told.kind == "update"));
}

#[test]
fn f55_capacity_counts_the_present() {
    let mut d = Driver::field();
    d.config.max_members = 20;
    for n in 0..20 {
        assert_eq!(d.beat(&format!("u{n}"), "s1"), 1);
    }
    let full = Err(Refusal::RoomFull { max: 20 });
    let plain = Attributes::default();
    assert_eq!(d.try_beat("late", "s1", &plain), full);
    assert_eq!(d.state("late"), None);
    for n in 0..5 {
        d.bye(&format!("u{n}"), None, false);
        assert_eq!(d.beat(&format!("v{n}"), "s1"), 1);
    }
    assert_eq!(d.try_beat("late", "s1", &plain), full);
    d.go(550);
    assert_eq!((d.beat("u10", "s1"), d.beat("u11", "s2"), d.room.count()), (0, 0, 20));
    d.check_copies();
}

#[test]
fn f72_sessions_have_a_limit_and_those_lost_make_place() {
    let mut d = Driver::field();
    for n in 0..64 {
        d.go(n);
        assert_eq!(d.beat("u", &format!("s{n}")), i32::from(n == 0));
    }
    d.go(64);
    let before = d.room.sessions();
    let refused = d.try_beat("u", "one more", &Attributes::default());
    assert_eq!(refused, Err(Refusal::TooManySessions { max: 64 }));
    assert_eq!((d.room.sessions(), d.beat("u", "s63")), (before, 0));
    // Lost first by a goodbye, then by silence.
    d.bye("u", Some("s40"), true);
    d.go(402);
    for (new, goes) in [("a", "s40"), ("b", "s0"), ("c", "s1")] {
        assert_eq!(d.beat("u", new), 0);
        let view = d.room.member(&d.env(), b"u").unwrap();
        assert!(!view.sessions.iter().any(|session| session.id == goes.as_bytes()), "{goes} makes place");
        assert_eq!(view.sessions.len(), 64);
    }
    // Who made place was not buried.
    assert_eq!(d.beat("u", "s40"), 0);
    d.check_copies();
}

#[test]
fn who_makes_place_shows_nothing_any_more() {
    let mut d = Driver::field();
    d.config.max_sessions = 2;
    d.status("u", "s1", "first");
    d.status("u", "s2", "second");
    d.bye("u", Some("s2"), true);
    d.news();
    assert_eq!(d.beat("u", "s3"), 0);
    assert_eq!((d.shown("u").unwrap().0, d.news()), ("first".to_owned(), vec!["update(u)@0".to_owned()]));
    d.check_copies();
}

#[test]
fn burials_have_a_limit_of_their_own_and_the_oldest_makes_place() {
    let mut d = Driver::field();
    d.config.max_sessions = 3;
    d.beat("u", "stays");
    for n in 0..5 {
        let session = format!("s{n}");
        d.beat("u", &session);
        d.bye("u", Some(&session), false);
    }
    let replies: Vec<i32> = (0..5).rev().map(|n| d.beat("u", &format!("s{n}"))).collect();
    assert_eq!(replies, [-1, -1, -1, 0, 0]);
    d.check_copies();
    // Each lasts as long as the session's own timeout and grace; the room's for one that never came.
    let mut d = Driver::field();
    d.beat("u", "stays");
    d.beat_with("u", "s1", &Attributes { timeout: Some(100), grace: Some(50), ..Attributes::default() });
    d.bye("u", Some("s1"), false);
    d.bye("u", Some("never"), false);
    d.go(149);
    assert_eq!((d.beat("u", "s1"), d.beat("u", "never"), d.beat("u", "stays")), (-1, -1, 0));
    d.go(150);
    assert_eq!((d.beat("u", "s1"), d.beat("u", "never")), (0, -1));
    d.go(500);
    d.beat("u", "stays");
    d.go(700);
    assert_eq!(d.beat("u", "never"), 0);
}

#[test]
fn short_of_memory_the_present_go_on_and_nobody_comes() {
    let mut d = Driver::field();
    let status = |text: &'static [u8]| Attributes { status: Some(text), ..Attributes::default() };
    d.beat_with("u", "s1", &status(b"four"));
    d.beat("v", "s1");
    d.bye("v", Some("s1"), false);
    d.oom = true;
    let seq = d.room.seq();
    let oom = Err(Refusal::OutOfMemory);
    assert_eq!(d.try_beat("new", "s1", &Attributes::default()), oom);
    assert_eq!(d.try_beat("v", "s2", &Attributes::default()), oom, "remembered is not present");
    assert_eq!(d.try_beat("v", "s1", &Attributes::default()), Ok(-1));
    assert_eq!(d.try_beat("u", "s1", &status(b"longer")), oom);
    assert_eq!(d.try_beat("u", "s2", &status(b"longer")), oom);
    assert_eq!((d.room.seq(), d.room.count(), d.room.sessions()), (seq, 1, 1), "nothing has changed");
    for (session, with) in [("s1", Attributes::default()), ("s1", status(b"four")), ("s2", status(b"four"))] {
        assert_eq!(d.try_beat("u", session, &with), Ok(0));
    }
    assert_eq!(d.bye("u", Some("s1"), false), 0);
    d.go(5_000);
    assert_eq!((d.room.count(), d.friend("f", "u")), (0, FriendState::Offline), "expiry passes");
}
