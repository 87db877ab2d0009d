//! Who sees whom, what is remembered, uniques, settings and epochs: cases that the engine alone can show.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use common::{saved, Driver, KEYS, TERM};
use presence_engine::effects::Effects;
use presence_engine::member::Attributes;
use presence_engine::room::{Env, FriendState, PageRequest, Room};
use presence_engine::settings::{SettingsChange, Share};
use presence_engine::uniques::Day;

use FriendState::{Offline, Online, Recent};

fn sharing(share: Share) -> Attributes<'static> {
    Attributes { share: Some(share), ..Attributes::default() }
}

#[test]
fn f83_never_seen_is_nil() {
    let mut d = Driver::field();
    assert_eq!((d.state("never"), d.friend("f", "never")), (None, Offline));
    d.beat("u", "s1");
    d.go(500);
    assert_eq!((d.state("u"), d.friend("f", "u")), (Some("grace"), Online));
    d.go(800);
    let view = d.room.member(&d.env(), b"u").unwrap();
    assert_eq!((view.state, view.idle, view.sessions.len(), d.friend("f", "u")), ("recent", 800, 0, Recent));
    assert_eq!(view.since, common::UNIX);
    assert_eq!(d.listed(true, 10), []);
    d.go(1_299);
    assert_eq!(d.friend("f", "u"), Recent);
    d.go(1_300);
    assert_eq!((d.state("u"), d.friend("f", "u")), (None, Offline));
    d.beat_with("shy", "s1", &sharing(Share::Nobody));
    d.bye("shy", None, false);
    assert_eq!((d.state("shy"), d.friend("f", "shy"), d.friend("shy", "shy")), (None, Offline, Offline));
}

#[test]
fn f115_invisible_equals_absent() {
    let mut d = Driver::field();
    for (member, share) in [("a", Share::Nobody), ("c", Share::Friends), ("d", Share::Everyone)] {
        d.beat_with(member, "s1", &sharing(share));
    }
    let seen = |d: &Driver| ["a", "b", "c", "d"].map(|friend| d.friend("f", friend));
    assert_eq!(seen(&d), [Offline, Offline, Online, Online]);
    assert_eq!((d.friend("a", "a"), d.room.count()), (Online, 3));
    assert_eq!(d.listed(false, 1), [("d".to_owned(), "online")]);
    assert_eq!(d.listed(true, 1).len(), 3);
    d.status("a", "s1", "busy");
    d.go(500);
    assert_eq!(seen(&d)[..2], [Offline, Offline]);
    d.go(800);
    assert_eq!(seen(&d), [Offline, Offline, Recent, Recent]);
    d.go(5_000);
    assert_eq!(seen(&d), [Offline; 4]);
}

#[test]
fn f117_reciprocal_rooms_show_nothing_to_those_who_do_not_share() {
    let mut d = Driver::field();
    d.config.reciprocal = true;
    d.beat("u", "s1");
    assert_eq!(d.friend("f", "u"), Offline, "absent");
    d.beat_with("f", "s1", &sharing(Share::Friends));
    assert_eq!(d.friend("f", "u"), Online);
    assert_eq!(d.share("f", Share::Nobody), 1);
    assert_eq!((d.friend("f", "u"), d.friend("f", "f"), d.friend("u", "f")), (Offline, Online, Recent));
    assert_eq!(d.share("f", Share::Friends), 1);
    assert_eq!((d.friend("f", "u"), d.friend("u", "f")), (Online, Online));
    d.bye("f", None, false);
    assert_eq!((d.friend("f", "u"), d.friend("u", "f")), (Offline, Recent));
}

#[test]
fn hiding_is_a_goodbye_at_that_moment() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    assert_eq!((d.share("u", Share::Nobody), d.share("u", Share::Nobody)), (1, 0));
    assert_eq!((d.friend("f", "u"), d.friend("u", "u"), d.state("u")), (Recent, Online, Some("online")));
    assert_eq!((d.listed(false, 10).len(), d.room.count()), (0, 1));
    // What really happens afterwards moves nothing: the trace fades RECENT after the hiding.
    d.go(300);
    d.bye("u", None, false);
    assert_eq!(d.friend("f", "u"), Recent);
    d.beat("u", "s2");
    assert_eq!((d.friend("f", "u"), d.state("u")), (Recent, Some("online")));
    d.check_copies();
    d.go(699);
    assert_eq!(d.friend("f", "u"), Recent);
    d.go(700);
    assert_eq!((d.friend("f", "u"), d.room.count()), (Offline, 1));
    assert_eq!(d.share("u", Share::Friends), 1);
    assert_eq!(d.friend("f", "u"), Online);
    let kinds: Vec<&str> = d.told.iter().map(|told| told.kind).filter(|kind| *kind != "grace").collect();
    assert_eq!(kinds, ["online", "update", "goodbye", "online", "update"]);
}

#[test]
fn the_choice_to_hide_outlives_the_trace() {
    // Where sharing is the default, whoever hid must not be shown by a beat that says nothing of it.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.go(100);
    d.share("u", Share::Nobody);
    d.go(600);
    d.bye("u", None, false);
    for at in [650, 750, 1_199] {
        d.go(at);
        assert_ne!(d.friend("f", "u"), Online);
    }
    assert_eq!((d.state("u"), d.friend("f", "u")), (None, Offline));
    assert_eq!(d.beat("u", "s2"), 1);
    assert_eq!((d.friend("f", "u"), d.room.member(&d.env(), b"u").unwrap().share), (Offline, Share::Nobody));
    // It is kept from the last going on, not from an earlier one.
    d.bye("u", None, false);
    d.go(1_700);
    assert_eq!(d.beat("u", "s4"), 1);
    d.bye("u", None, false);
    d.go(2_299);
    assert_eq!(d.beat("u", "s5"), 1);
    assert_eq!(d.friend("f", "u"), Offline);
    // Not for ever: a record that has lapsed is a new one.
    d.bye("u", None, false);
    d.go(5_000);
    d.beat("u", "s6");
    assert_eq!(d.friend("f", "u"), Online);
    d.check_copies();
}

#[test]
fn share_of_somebody_remembered_is_silent() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.bye("u", None, false);
    let seq = d.room.seq();
    assert_eq!((d.share("u", Share::Friends), d.share("u", Share::Friends)), (1, 0));
    assert_eq!(d.friend("f", "u"), Recent);
    assert_eq!(d.share("u", Share::Nobody), 1);
    assert_eq!((d.friend("f", "u"), d.room.seq()), (Recent, seq), "it lapses as it would have");
    d.check_copies();
    d.go(600);
    assert_eq!(d.friend("f", "u"), Offline);
}

#[test]
fn a_member_present_throughout_is_listed_once() {
    let mut d = Driver::field();
    d.config.max_members = 0;
    for n in 0..700 {
        d.beat(&format!("m{n:03}"), "s1");
    }
    let (mut cursor, mut seen, mut pages) = (0, Vec::new(), 0);
    loop {
        let page = d.room.page(&d.env(), PageRequest { cursor, count: 50, all: true });
        seen.extend(page.members.iter().map(|member| common::text(&member.id)));
        pages += 1;
        // Some come and go, before and behind the cursor, those listed next among them.
        for n in 0..20 {
            d.bye(&format!("m{:03}", (pages * 37 + n * 31) % 350 * 2), None, false);
            d.beat(&format!("new{pages}-{n}"), "s1");
        }
        cursor = page.cursor;
        if cursor == 0 {
            break;
        }
    }
    for n in (1..700).step_by(2) {
        let member = format!("m{n:03}");
        assert_eq!(seen.iter().filter(|id| **id == member).count(), 1, "{member}");
    }
    // Cursors from elsewhere end cleanly.
    for cursor in [1, 77, 100_000, u64::from(u32::MAX), u64::MAX] {
        let page = d.room.page(&d.env(), PageRequest { cursor, count: 1_000, all: true });
        assert!(page.cursor == 0 || page.cursor > cursor);
    }
}

#[test]
fn a_room_of_hidden_members_is_listed_in_bounded_steps() {
    let mut d = Driver::field();
    d.replica = None;
    for n in 0..5_000 {
        d.beat_with(&format!("m{n}"), "", &sharing(Share::Nobody));
    }
    d.beat("seen", "");
    let page = d.room.page(&d.env(), PageRequest { cursor: 0, count: 10, all: false });
    assert!(page.members.is_empty() && page.cursor > 0, "empty, but not the last");
    assert_eq!(d.listed(false, 10), [("seen".to_owned(), "online")]);
}

#[test]
fn uniques_count_beats_of_the_day_and_of_days_that_are_kept() {
    let keep = |days| SettingsChange { uniques_days: Some(Some(days)), ..Default::default() };
    let mut d = Driver::field();
    let today = |d: &Driver| Room::unique(&[Some(&d.room)], &d.env(), None, 1).ok();
    d.beat("u", "s1");
    d.beat("v", "s1");
    assert_eq!(today(&d), Some(2));
    // Present over midnight is not enough: a beat is.
    d.day = Day::from_number(d.day.number() + 1);
    d.visit();
    assert_eq!(today(&d), Some(0));
    let payloads = d.payloads;
    for _ in 0..3 {
        d.beat("u", "s1");
    }
    assert_eq!((today(&d), d.payloads), (Some(1), payloads + 1), "once a member and day");
    assert_eq!(Room::unique(&[Some(&d.room), None], &d.env(), None, 2), Ok(2));
    // Kept no longer, then again: those present are counted by their next beat, though they have beaten today.
    d.alter(&keep(0));
    assert_eq!(today(&d), None);
    d.beat("u", "s1");
    d.beat("u", "s1");
    d.alter(&keep(3));
    assert_eq!(today(&d), Some(0));
    d.beat("u", "s1");
    assert_eq!(today(&d), Some(1));
    d.go(1);
    d.beat("v", "s1");
    assert_eq!(today(&d), Some(2));
    d.check_copies();
    d.day = Day::from_number(d.day.number() + 3);
    d.visit();
    assert_eq!(Room::unique(&[Some(&d.room)], &d.env(), None, 3), Ok(0));
    assert!(Room::unique(&[Some(&d.room)], &d.env(), None, 4).is_err());
    assert!(Room::unique(&[Some(&d.room)], &d.env(), Some(Day::from_number(d.day.number() + 1)), 1).is_err());
}

#[test]
fn advice_also_for_those_who_always_come_late() {
    // Every beat finds the session waiting: the mistake that advice is for.
    let mut d = Driver::with(400, 1_000, 0, Share::Nobody);
    for n in 0..50 {
        d.go(n * 1_000);
        d.beat("u", "s1");
    }
    assert_eq!((d.room.advice(&d.env()), d.flickers), (Some((1_000, 2_000)), 49));
    // An announced pause is no interval.
    let mut d = Driver::field();
    d.beat("u", "s1");
    d.bye("u", Some("s1"), true);
    d.go(290);
    d.beat("u", "s1");
    assert_eq!(d.room.info(&d.env()).beat_interval, None);
}

#[test]
fn created_rooms_stay_and_those_that_gave_everything_back_go() {
    let mut d = Driver::field();
    d.config.uniques_days = 0;
    d.create(&SettingsChange::default());
    assert!(!d.room.is_disposable());
    d.check_copies();
    d.alter(&SettingsChange { recent: Some(Some(5)), ..Default::default() });
    d.check_copies();
    d.alter(&SettingsChange { recent: Some(None), ..Default::default() });
    assert!(d.room.is_disposable());
    d.check_copies();
}

#[test]
fn no_two_lives_of_a_room_share_an_epoch() {
    let mut d = Driver::field();
    d.beat("u", "s1");
    let epoch = d.room.epoch(Some(TERM));
    d.beat("v", "s1");
    assert_eq!(d.room.epoch(Some(TERM)), epoch, "one term, one epoch");
    assert_eq!(d.replica.as_ref().unwrap().epoch(None), epoch, "a replica shows the primary's");
    let promoted = d.replica.as_ref().unwrap().epoch(Some(TERM + 1));
    assert_ne!(promoted, epoch);
    let payloads = saved(&d.room, Some(TERM), d.now);
    let load = |nonce| Room::load_from(KEYS, nonce, &d.env(), payloads.iter().map(Vec::as_slice)).unwrap();
    let epochs = [epoch, promoted, load(3).epoch(Some(TERM)), load(4).epoch(Some(TERM)), load(3).epoch(Some(TERM + 1))];
    assert!((0..5).all(|one| (0..one).all(|other| epochs[one] != epochs[other])), "{epochs:?}");
    // The first change of a new term carries the epoch that was shown before it.
    let (mut room, mut fx) = (load(3), Effects::default());
    let shown = room.epoch(Some(TERM + 1));
    let env = Env { term: Some(TERM + 1), ..d.env() };
    assert!(room.bye(&env, b"u", None, false, &mut fx));
    assert_eq!(room.epoch(Some(TERM + 1)), shown);
}
