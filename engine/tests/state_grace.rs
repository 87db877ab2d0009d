//! Flicker, grace, goodbyes and late packets: field cases that the engine alone can show, to the millisecond.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use common::{Driver, START};
use presence_engine::member::Attributes;
use presence_engine::room::{FriendState, Room};
use presence_engine::settings::{NodeConfig, SettingsChange, Share};

/// Only what is numbered: what watchers are told.
fn told(d: &mut Driver) -> Vec<String> {
    d.news().into_iter().filter(|news| !news.starts_with("grace") && !news.starts_with("back")).collect()
}

#[test]
fn f01_a_refresh_inside_grace_is_silent() {
    let mut d = Driver::field();
    assert_eq!(d.beat("u", "s1"), 1);
    d.go(200);
    assert_eq!(d.bye("u", Some("s1"), true), 0);
    for at in (300..=1500).step_by(100) {
        d.go(at);
        assert_eq!(d.beat("u", "s2"), 0);
        assert_eq!((d.room.count(), d.friend("f", "u")), (1, FriendState::Online));
    }
    assert_eq!(told(&mut d), ["online(u)@0"]);
    assert_eq!(d.flickers, 1);
    d.check_copies();

    // Just before the end of the grace it is the same, just after it is not.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(200);
    d.bye("u", Some("s1"), true);
    d.go(460);
    assert_eq!(d.beat("u", "s2"), 0);
    assert_eq!(told(&mut d), ["online(u)@0"]);
    d.bye("u", Some("s2"), true);
    d.go(460 + 360);
    assert_eq!(d.beat("u", "s3"), 1);
    assert_eq!(told(&mut d), ["timeout(u)@760", "online(u)@820"]);
}

#[test]
fn f03_a_flap_train() {
    let mut d = Driver::field();
    d.beat("u", "s0");
    let mut most = 0;
    for n in 0..50 {
        d.bye("u", Some(&format!("s{n}")), true);
        d.go(d.at() + 50);
        assert_eq!(d.beat("u", &format!("s{}", n + 1)), 0);
        most = most.max(d.room.sessions());
    }
    assert_eq!((told(&mut d).len(), d.flickers), (1, 50));
    assert!(most <= 8, "{most}");
    let memory = d.room.memory();
    d.go(d.at() + 399);
    assert_eq!(d.room.sessions(), 1);
    assert!(d.room.memory() <= memory);
    for n in 0..5 {
        d.go(d.at() + 800);
        assert_eq!(d.beat("u", &format!("later{n}")), 1);
    }
    let kinds: Vec<String> = told(&mut d).iter().map(|news| news.split('(').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["timeout", "online"].repeat(5));
}

#[test]
fn f04_an_old_grace_does_not_serve_a_newer_outage() {
    let mut d = Driver::field();
    // Each member's sequence, shifted by one: the steps of all of them in order.
    let mut steps: Vec<(u64, u64, u8)> =
        (0..1_000).flat_map(|n| [(n, n, 0), (100 + n, n, 1), (350 + n, n, 2), (380 + n, n, 3)]).collect();
    steps.sort_unstable();
    for (at, n, step) in steps {
        d.go(at);
        let member = format!("u{n}");
        match step {
            0 => assert_eq!(d.beat(&member, "s1"), 1),
            1 => assert_eq!(d.bye(&member, Some("s1"), true), 0),
            2 => assert_eq!(d.beat(&member, "s2"), 0),
            _ => assert_eq!(d.bye(&member, Some("s2"), true), 0),
        }
    }
    d.go(5_000);
    let gone: Vec<_> = d.told.iter().filter(|told| told.kind == "timeout").map(|t| (t.at, t.member.clone())).collect();
    assert_eq!(gone, (0..1_000).map(|n| (680 + n, format!("u{n}"))).collect::<Vec<_>>());
}

#[test]
fn f07_one_stray_beat_after_a_goodbye() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    d.bye("u", Some("s1"), true);
    d.go(250);
    assert_eq!(d.beat("u", "s2"), 0);
    d.go(3_000);
    assert_eq!(told(&mut d), ["online(u)@0", "timeout(u)@950"]);

    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    assert_eq!(d.bye("u", Some("s1"), false), 1);
    d.go(250);
    assert_eq!(d.beat("u", "s1"), -1);
    d.go(300);
    assert_eq!(d.beat("u", "s2"), 1);
    d.go(3_000);
    assert_eq!(told(&mut d), ["online(u)@0", "goodbye(u)@100", "online(u)@300", "timeout(u)@1000"]);
}

#[test]
fn f09_an_unchanged_beat_extends_and_a_read_does_not() {
    let mut d = Driver::field();
    let same = Attributes { status: Some(b"x"), data: Some(b"y"), ..Attributes::default() };
    assert_eq!(d.beat_with("u", "s1", &same), 1);
    for at in (200..=4_000).step_by(200) {
        d.go(at);
        assert_eq!(d.beat_with("u", "s1", &same), 0);
    }
    assert_eq!(d.news(), ["online(u)@0"]);
    for at in (4_050..4_700).step_by(50) {
        d.go(at);
        assert!(d.state("u").is_some() && d.friend("u", "v") == FriendState::Offline && !d.listed(true, 10).is_empty());
    }
    d.go(5_000);
    assert_eq!(d.news(), ["grace(u)@4400", "timeout(u)@4700"]);
}

#[test]
fn f10_timeouts_are_of_rooms_and_sessions_and_hold_at_once() {
    let own = Attributes { timeout: Some(800), ..Attributes::default() };
    let mut a = Driver::with(300, 200, 600, Share::Everyone);
    a.beat("u", "s1");
    a.beat_with("v", "s1", &own);
    a.go(500);
    a.beat("v", "s1");
    a.go(3_000);
    assert_eq!(told(&mut a), ["online(u)@0", "online(v)@0", "timeout(u)@500", "timeout(v)@1500"]);

    let mut a = Driver::with(300, 200, 600, Share::Everyone);
    a.beat("u", "s1");
    a.beat_with("v", "s1", &own);
    a.go(200);
    a.alter(&SettingsChange { timeout: Some(Some(600)), ..Default::default() });
    a.go(3_000);
    assert_eq!(told(&mut a)[2..], ["timeout(u)@1000", "timeout(v)@1200"]);
}

#[test]
fn no_change_of_a_number_makes_anyone_leave() {
    let timeout = |ms| SettingsChange { timeout: Some(Some(ms)), ..Default::default() };
    let mut d = Driver::with(1_000, 100, 600, Share::Everyone);
    d.beat("u", "s1");
    d.go(500);
    d.alter(&timeout(60_000));
    d.go(5_000);
    // Silent since the beat, and far beyond the new number; also after a stall and a change before.
    d.stall();
    d.go(6_000);
    d.alter(&timeout(200));
    d.go(20_000);
    assert_eq!(told(&mut d)[1..], ["timeout(u)@6300"]);

    // RECENT is no deadline of anybody present: nobody gets a fresh timeout for it.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.beat("w", "s1");
    d.bye("w", None, false);
    d.go(300);
    d.alter(&SettingsChange { recent: Some(Some(400)), ..Default::default() });
    d.go(399);
    assert_eq!(d.friend("f", "w"), FriendState::Recent);
    d.go(400);
    assert_eq!(d.friend("f", "w"), FriendState::Offline);
    d.go(2_000);
    assert!(told(&mut d).contains(&"timeout(u)@700".to_owned()));
}

#[test]
fn a_promotion_takes_nobody_offline_whatever_the_replica_went_through() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    // A stall long ago, after the only beat of which a replica heard; then a promotion.
    d.stall();
    d.room = d.replica.take().unwrap();
    d.now = START + 100_000;
    d.hear_all();
    let promoted = d.at();
    d.told.clear();
    d.go(promoted + 2_000);
    assert_eq!(d.news(), [format!("grace(u)@{}", promoted + 400), format!("timeout(u)@{}", promoted + 700)]);
}

#[test]
fn whoever_was_loaded_has_one_fresh_timeout_and_after_soft_the_grace() {
    let mut d = Driver::field();
    for member in ["u", "waits", "soft"] {
        d.beat(member, "s1");
    }
    d.go(390);
    d.beat("u", "s1");
    d.bye("soft", None, true);
    d.go(600);
    let payloads = common::saved(&d.room, Some(1), d.now);
    d.room = Room::load_from(common::KEYS, 3, &d.env(), payloads.iter().map(Vec::as_slice)).unwrap();
    d.replica = None;
    d.news();
    d.go(5_000);
    let mut news = told(&mut d);
    news.sort();
    assert_eq!(news, ["timeout(soft)@900", "timeout(u)@1300", "timeout(waits)@1300"]);
}

#[test]
fn stalls_prolong_once_however_many_they_are() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    for at in (100..2_000).step_by(100) {
        d.go(at);
        d.stall();
    }
    d.go(3_000);
    assert_eq!(told(&mut d)[1..], ["timeout(u)@801"], "one fresh timeout from the first stall on");
    // Whoever waits has a fresh timeout and its grace, after SOFT the grace alone; neither is told of.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.beat("v", "s1");
    d.go(500);
    d.bye("v", None, true);
    d.stall();
    d.go(3_000);
    let (news, wanted) = (d.news(), ["grace(u)@400", "grace(v)@400", "timeout(v)@801", "timeout(u)@1201"]);
    assert_eq!(news.len(), 6, "{news:?}");
    assert!(wanted.iter().all(|wanted| news.iter().any(|news| news == wanted)), "{news:?}");
}

#[test]
fn f41_a_goodbye_lost_or_sent_five_times() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    let replies: Vec<i32> = (0..5).map(|_| d.bye("u", Some("s1"), false)).collect();
    assert_eq!((replies, d.room.count(), d.room.seq()), (vec![1, 0, 0, 0, 0], 0, 2));

    let mut d = Driver::field();
    d.beat("u", "s1");
    for at in [100, 150, 200, 250, 300] {
        d.go(at);
        assert_eq!(d.bye("u", Some("s1"), true), 0);
    }
    d.go(399);
    assert_eq!(told(&mut d), ["online(u)@0"]);
    d.go(2_000);
    assert_eq!(told(&mut d), ["timeout(u)@400"]);

    let mut d = Driver::field();
    d.beat("u", "s1");
    d.bye("u", Some("s1"), true);
    d.go(299);
    assert_eq!(d.beat("u", "s1"), 0, "SOFT buries nobody");
}

#[test]
fn f43_late_beats_after_a_goodbye_are_refused_and_do_not_prolong_it() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.beat("v", "s1");
    assert_eq!(d.bye("u", Some("s1"), false), 1);
    for at in [10, 200, 600, 699] {
        d.go(at);
        assert_eq!(d.beat("u", "s1"), -1);
        assert_eq!(d.beat("v", "s1"), 0);
    }
    assert_eq!((told(&mut d).len(), d.room.count(), d.room.sessions()), (3, 1, 1));
    d.check_copies();
    d.go(720);
    assert_eq!(d.beat("u", "s1"), 1);

    // A copy takes the burials along, each anew.
    let mut d = Driver::with(10_000, 0, 0, Share::Nobody);
    d.config.uniques_days = 0;
    d.beat("u", "s1");
    d.bye("u", None, false);
    d.go(9_000);
    let payloads = common::saved(&d.room, Some(1), d.now);
    d.room = Room::load_from(common::KEYS, 3, &d.env(), payloads.iter().map(Vec::as_slice)).unwrap();
    d.replica = None;
    d.go(18_999);
    assert_eq!(d.beat("u", "s1"), -1);
    assert_eq!((d.room.count(), d.state("u"), d.room.is_disposable()), (0, None, false));
    d.go(19_000);
    assert!(d.room.is_disposable(), "the burial's memory is freed");
}

#[test]
fn f45_a_return_at_the_very_moment_of_the_going() {
    for shift in 698..=702 {
        let mut d = Driver::field();
        d.beat("u", "s1");
        d.go(shift);
        let reply = d.beat("u", "s1");
        let wanted: &[&str] = if shift < 700 { &["online(u)@0"] } else { &["online(u)@0", "timeout(u)@700"] };
        assert_eq!(told(&mut d)[..wanted.len()], *wanted);
        assert_eq!(reply, i32::from(shift >= 700));
        d.go(shift + 699);
        assert_eq!(d.room.count(), 1);
    }
    // Due, but not processed: the beat renews, and that was all.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(650);
    d.now = START + 900;
    assert_eq!((d.room.count(), d.state("u")), (1, Some("grace")));
    assert_eq!(d.beat("u", "s1"), 0);
    d.go(1_599);
    assert_eq!(told(&mut d), ["online(u)@0"]);
    d.go(1_600);
    assert_eq!(told(&mut d), ["timeout(u)@1600"]);
}

#[test]
fn f46_a_return_with_the_same_data_shows_at_once() {
    let mut d = Driver::field();
    let same = Attributes { status: Some(b"a"), data: Some(b"b"), ..Attributes::default() };
    for session in ["s1", "s2", "s3"] {
        assert_eq!(d.beat_with("u", session, &same), 1);
        assert_eq!(d.bye("u", Some(session), false), 1);
    }
    for _ in 0..3 {
        assert_eq!(d.beat("v", ""), 1);
        assert_eq!(d.bye("v", None, false), 1);
    }
    assert_eq!(d.beat_with("w", "s1", &same), 1);
    d.go(1_000);
    assert_eq!(d.beat_with("w", "s1", &same), 1);
    assert_eq!(d.shown("w"), Some(("a".to_owned(), "b".to_owned())));
}

#[test]
fn f48_a_goodbye_straight_after_a_beat_counts_from_the_goodbye() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(10);
    d.bye("u", Some("s1"), true);
    d.go(2_000);
    assert_eq!(told(&mut d)[1..], ["timeout(u)@310"]);

    for soft in [false, true] {
        let mut d = Driver::field();
        d.beat("u", "s1");
        d.beat("u", "s2");
        d.go(10);
        assert_eq!(d.bye("u", Some("s1"), soft), 0);
        d.go(350);
        d.beat("u", "s2");
        assert_eq!(d.news(), ["online(u)@0"]);
    }
}

#[test]
fn f85_measured_time_is_timeout_and_grace_and_not_twice() {
    for timeout in [300, 500, 1_000] {
        for grace in [0, 200, 500] {
            for (by_session, beats, soft) in [(false, 1, false), (true, 10, false), (false, 10, true), (true, 1, true)]
            {
                let room = if by_session { (9_999, 9_999) } else { (timeout, grace) };
                let mut d = Driver::with(room.0, room.1, 600, Share::Everyone);
                let own = Attributes { timeout: Some(timeout), grace: Some(grace), ..Attributes::default() };
                let attributes = if by_session { own } else { Attributes::default() };
                for n in 0..beats {
                    d.go(n * 37);
                    d.beat_with("u", "s1", &attributes);
                }
                let last = d.at();
                if soft {
                    d.bye("u", Some("s1"), true);
                }
                d.go(10_000);
                let due = last + u64::from(grace) + if soft { 0 } else { u64::from(timeout) };
                assert_eq!(told(&mut d)[1..], [format!("timeout(u)@{due}")]);
            }
        }
    }
}

#[test]
fn goings_come_in_due_order_after_a_long_pause() {
    let mut d = Driver::new(NodeConfig { timeout: 100, recent: 0, ..NodeConfig::default() });
    for n in 0..200u32 {
        // The shorter the timeout, the longer the grace.
        let own = Attributes { timeout: Some(100 + n), grace: Some((n * 7_919) % 600), ..Attributes::default() };
        d.beat_with(&format!("u{n}"), "", &own);
    }
    d.news();
    d.now += 100_000;
    d.tick();
    let due = |name: &str| {
        let n: u32 = name[1..].parse().unwrap();
        100 + n + (n * 7_919) % 600
    };
    let gone: Vec<u32> = d.told.iter().filter(|t| t.kind == "timeout").map(|t| due(&t.member)).collect();
    assert_eq!(gone.len(), 200);
    assert!(gone.windows(2).all(|pair| pair[0] <= pair[1]), "{gone:?}");
}

#[test]
fn a_beat_of_somebody_in_the_backlog_keeps_them() {
    let mut d = Driver::field();
    for n in 0..100 {
        d.beat(&format!("u{n}"), "");
    }
    d.news();
    d.now += 10_000;
    assert!(!d.tick_some(d.now, 350), "not all fits this tick");
    let kept: Vec<String> = (0..100).map(|n| format!("u{n}")).filter(|member| d.beat(member, "") == 0).collect();
    assert!(!kept.is_empty() && kept.len() < 100);
    d.tick();
    let gone = d.told.iter().filter(|told| told.kind == "timeout" && kept.contains(&told.member)).count();
    assert_eq!((gone, d.room.count()), (0, 100));
    let told = told(&mut d);
    assert_eq!(told.len(), 2 * (100 - kept.len()), "one going and one coming of each of the others");
}
