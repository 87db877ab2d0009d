//! Recorded crowds in virtual time: every coming and going, its exact moment and the count after it, and the uniques of
//! each day, against a map of last beats.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Driver, START};
use presence_engine::room::Room;
use presence_engine::settings::{NodeConfig, Share};
use presence_engine::uniques::{Day, EXACT};

#[derive(Clone, Copy)]
struct Row {
    at: u64,
    day: Day,
    room: &'static str,
    member: &'static str,
}

const WEB: &str = include_str!("../../tests/data/web-audience.tsv");
const CONFERENCE: &str = include_str!("../../tests/data/conference-checkins.tsv");

fn rows(recording: &'static str) -> Vec<Row> {
    let rows = recording.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let kind = columns.get(4).copied().unwrap_or("request");
        assert!(matches!(kind, "request" | "join" | "question"), "{kind} is no proof of life that this test knows");
        let day = Day::parse(columns[1].as_bytes()).unwrap();
        Row { at: columns[0].parse().unwrap(), day, room: columns[2], member: columns[3] }
    });
    rows.collect()
}

fn rooms(rows: &[Row]) -> BTreeMap<&'static str, Vec<Row>> {
    let mut rooms: BTreeMap<_, Vec<Row>> = BTreeMap::new();
    for row in rows {
        rooms.entry(row.room).or_default().push(*row);
    }
    rooms
}

type Event = (u64, &'static str, String);

/// The comings and goings, and the number of those present after each moment: from nothing but the last beats.
fn naive(rows: &[Row], silence: u64) -> (Vec<Event>, BTreeMap<u64, u32>) {
    let (mut last, mut events, mut counts) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for row in rows.iter().map(Some).chain([None]) {
        let now = row.map_or(u64::MAX, |row| row.at);
        let mut gone: Vec<(u64, &str)> =
            last.iter().map(|(&member, &beat)| (beat + silence, member)).filter(|&(due, _)| due <= now).collect();
        gone.sort_unstable();
        for (due, member) in gone {
            last.remove(member);
            events.push((due, "timeout", member.to_owned()));
            counts.insert(due, last.len() as u32);
        }
        let Some(row) = row else { break };
        if last.insert(row.member, row.at).is_none() {
            events.push((row.at, "online", row.member.to_owned()));
            counts.insert(row.at, last.len() as u32);
        }
    }
    events.sort();
    (events, counts)
}

/// Plays the rows; the driver afterwards, everybody having gone, and the uniques after the last beat of each day.
fn play(rows: &[Row], timeout: u32, grace: u32, keep: u16, follow: bool) -> (Driver, BTreeMap<Day, u64>) {
    let config =
        NodeConfig { timeout, grace, recent: 60_000, uniques_days: keep, share: Share::Friends, ..Default::default() };
    let mut driver = Driver::new(config);
    if !follow {
        driver.replica = None;
    }
    let mut uniques = BTreeMap::new();
    for row in rows {
        driver.go(row.at);
        if driver.day != row.day {
            driver.day = row.day;
            driver.visit();
        }
        driver.beat(row.member, "");
        if keep > 0 {
            uniques.insert(row.day, Room::unique(&[Some(&driver.room)], &driver.env(), None, 1).unwrap());
        }
    }
    driver.go(rows.last().map_or(0, |row| row.at) + 10 * (u64::from(timeout) + u64::from(grace)) + 60_000);
    (driver, uniques)
}

fn check_events(rows: &[Row], timeout: u32, grace: u32, follow: bool) {
    let (driver, _) = play(rows, timeout, grace, 0, follow);
    let (wanted, counts) = naive(rows, u64::from(timeout) + u64::from(grace));
    let numbered: Vec<_> = driver.told.iter().filter(|told| told.seq.is_some()).collect();
    let mut found: Vec<Event> = numbered.iter().map(|told| (told.at, told.kind, told.member.clone())).collect();
    found.sort();
    assert_eq!(found, wanted);
    let after: BTreeMap<u64, u32> = numbered.iter().map(|told| (told.at, told.count)).collect();
    assert_eq!(after, counts);
    assert!(numbered.windows(2).all(|pair| pair[0].at <= pair[1].at), "in due order");
    assert_eq!((driver.room.count(), driver.room.seq()), (0, wanted.len() as u64));
    assert!(driver.room.is_disposable(), "nobody is remembered any more");
    if follow {
        driver.check_copies();
    }
    // A grace is told of once for each time that somebody was lost, and each ends in a return or a going.
    let of = |kind: &str| driver.told.iter().filter(|told| told.kind == kind).count();
    assert_eq!(of("grace"), of("back") + if grace > 0 { of("timeout") } else { 0 });
    assert_eq!(driver.flickers, of("back") as u64);
}

const PAIRS: [(u32, u32); 4] = [(30_000, 15_000), (10_000, 0), (100, 900), (120_000, 60_000)];

#[test]
fn the_audience_of_a_site_as_one_room() {
    let rows = rows(WEB);
    assert_eq!(rows.len(), 10_000);
    for (timeout, grace) in PAIRS {
        check_events(&rows, timeout, grace, timeout == 30_000);
    }
}

#[test]
fn the_audience_of_each_page() {
    for (_, rows) in rooms(&rows(WEB)) {
        check_events(&rows, 30_000, 15_000, true);
        check_events(&rows, 5_000, 2_500, false);
    }
}

#[test]
fn a_conference_as_one_room_and_room_by_room() {
    let all = rows(CONFERENCE);
    assert_eq!(all.len(), 1_473);
    for (timeout, grace) in PAIRS.into_iter().chain([(3_600_000, 1_800_000)]) {
        check_events(&all, timeout, grace, true);
        for (_, rows) in rooms(&all) {
            check_events(&rows, timeout, grace, true);
        }
    }
}

fn check_uniques(rows: &[Row]) {
    let mut days: BTreeMap<Day, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        days.entry(row.day).or_default().insert(row.member);
    }
    let (driver, at_the_time) = play(rows, 30_000, 15_000, 10, true);
    let close = |found: u64, wanted: usize| match wanted {
        0..=EXACT => found == wanted as u64,
        _ => found.abs_diff(wanted as u64) * 40 < wanted as u64,
    };
    for (&day, members) in &days {
        let now = Room::unique(&[Some(&driver.room)], &driver.env(), Some(day), 1).unwrap();
        assert!(close(now, members.len()), "{day}: {now} instead of {}", members.len());
        assert_eq!(at_the_time[&day], now, "the end of the day is final");
    }
    for back in 1..=10 {
        let first = driver.day.minus(back - 1);
        let union: BTreeSet<_> =
            days.iter().filter(|(&day, _)| day >= first).flat_map(|(_, members)| members).collect();
        let found = Room::unique(&[Some(&driver.room)], &driver.env(), None, back).unwrap();
        assert!(close(found, union.len()), "{back} days: {found} instead of {}", union.len());
    }
    assert!(Room::unique(&[Some(&driver.room)], &driver.env(), None, 11).is_err());
    assert!(driver.now > START);
}

#[test]
fn uniques_of_each_day() {
    for recording in [WEB, CONFERENCE] {
        let all = rows(recording);
        check_uniques(&all);
        for (_, rows) in rooms(&all) {
            check_uniques(&rows);
        }
    }
}

#[test]
fn uniques_of_all_pages_together_are_those_of_the_site() {
    let all = rows(WEB);
    let played: Vec<Driver> = rooms(&all).values().map(|rows| play(rows, 30_000, 15_000, 400, false).0).collect();
    let pages: Vec<Option<&Room>> = played.iter().map(|driver| Some(&driver.room)).chain([None]).collect();
    let last = all.last().unwrap().day;
    let mut env = played[0].env();
    env.today = last;
    for days in 1..=4 {
        let first = last.minus(days - 1);
        let wanted: BTreeSet<_> = all.iter().filter(|row| row.day >= first).map(|row| row.member).collect();
        let found = Room::unique(&pages, &env, None, days).unwrap();
        assert!(found.abs_diff(wanted.len() as u64) * 40 < wanted.len() as u64, "{found} instead of {}", wanted.len());
    }
}
