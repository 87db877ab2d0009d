//! Calendar days, the calendar at its boundaries, and the days of a room.
// The linter knows only test functions as tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use presence_engine::uniques::{member_hash, Calendar, Day, Sketch, Uniques, EXACT, MAX_DAYS};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

fn day(text: &str) -> Day {
    Day::parse(text.as_bytes()).unwrap()
}

/// Unix milliseconds of a time in UTC.
fn utc(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

/// Asserts that in `zone` the day changes from `before` to `after` at the very millisecond `instant`, whether the
/// calendar lives through the change or is made anew on either side of it.
fn assert_change(zone: &str, instant: &str, before: &str, after: &str) {
    let instant = utc(instant);
    let fresh = |unix_ms| Calendar::new(zone).unwrap().today(unix_ms).to_string();
    assert_eq!(fresh(instant - 1), before, "{zone}, a millisecond before");
    assert_eq!(fresh(instant), after, "{zone}, at the change");

    for start in [instant - 1, instant - HOUR, instant - 20 * HOUR] {
        let mut calendar = Calendar::new(zone).unwrap();
        calendar.today(start);
        assert_eq!(calendar.today(instant - 1).to_string(), before, "{zone}, since {start}");
        assert_eq!(calendar.today(instant).to_string(), after, "{zone}, since {start}");
        assert_eq!(calendar.today(instant - 1).to_string(), after, "{zone} reopened a day");
    }
}

#[test]
fn days_parse_and_print() {
    assert_eq!(day("19700101"), Day::MIN);
    assert_eq!(day("19700101").number(), 0);
    assert_eq!(day("20000301").number(), 11_017);
    assert_eq!(day("21490606"), Day::MAX);
    assert_eq!(Day::from_number(11_017), day("20000301"));
    for number in 0..=u16::MAX {
        let day = Day::from_number(number);
        assert_eq!(Day::parse(day.to_string().as_bytes()), Some(day));
    }
    let refused = [
        "",
        "2024010",
        "202401011",
        "2024-1-1",
        "20240230",
        "20230229",
        "21000229",
        "20240431",
        "20241301",
        "20240001",
        "20240100",
        "00000000",
        "19691231",
        "21490607",
        "99991231",
        "+2024011",
        " 2024011",
        "2024010a",
        "２０",
    ];
    for text in refused {
        assert_eq!(Day::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["20240229", "20000229", "20241231"] {
        assert_eq!(day(text).to_string(), text);
    }
}

#[test]
fn days_subtract() {
    assert_eq!(day("20240301").minus(1), day("20240229"));
    assert_eq!(day("20240101").minus(366), day("20221231"));
    assert_eq!(day("20240101").minus(0), day("20240101"));
    assert_eq!(day("19700103").minus(5), Day::MIN);
}

#[test]
fn zones_are_found_by_name() {
    for (given, name) in [
        ("UTC", "UTC"),
        ("utc", "UTC"),
        ("europe/BERLIN", "Europe/Berlin"),
        ("Asia/Kathmandu", "Asia/Kathmandu"),
        ("Etc/GMT+12", "Etc/GMT+12"),
    ] {
        assert_eq!(Calendar::new(given).unwrap().name(), name);
    }
    for unknown in
        ["", "Mars/Olympus", "Europe", "Etc/Unknown", "+02:00", "EST5EDT,M3.2.0,M11.1.0", "../etc/passwd", "UTC "]
    {
        assert!(Calendar::new(unknown).is_none(), "{unknown:?}");
    }
    assert_eq!(Calendar::default().name(), "UTC");
}

#[test]
fn changes_at_midnight_of_the_zone() {
    assert_change("UTC", "2024-02-29T00:00:00Z", "20240228", "20240229");
    assert_change("UTC", "1970-01-02T00:00:00Z", "19700101", "19700102");
    assert_change("Asia/Kathmandu", "2024-05-09T18:15:00Z", "20240509", "20240510");
    assert_change("America/St_Johns", "2024-07-15T02:30:00Z", "20240714", "20240715");
    assert_change("America/St_Johns", "2024-01-15T03:30:00Z", "20240114", "20240115");
    assert_change("Pacific/Kiritimati", "2024-12-31T10:00:00Z", "20241231", "20250101");
    assert_change("Etc/GMT+12", "2025-01-01T12:00:00Z", "20241231", "20250101");
    // Far ahead, by the zone's rule instead of its table.
    assert_change("Europe/Berlin", "2101-07-14T22:00:00Z", "21010714", "21010715");
}

#[test]
fn days_of_23_and_25_hours_end_at_midnight() {
    // Berlin, 31 March 2024: 23 hours. 27 October 2024: 25 hours.
    assert_change("Europe/Berlin", "2024-03-30T23:00:00Z", "20240330", "20240331");
    assert_change("Europe/Berlin", "2024-03-31T22:00:00Z", "20240331", "20240401");
    assert_change("Europe/Berlin", "2024-10-26T22:00:00Z", "20241026", "20241027");
    assert_change("Europe/Berlin", "2024-10-27T23:00:00Z", "20241027", "20241028");
    // Half an hour only.
    assert_change("Australia/Lord_Howe", "2024-04-06T13:00:00Z", "20240406", "20240407");
    assert_change("Australia/Lord_Howe", "2024-04-07T13:30:00Z", "20240407", "20240408");
}

#[test]
fn days_without_midnight_begin_when_they_begin() {
    // The clock jumped from 00:00 to 01:00 ...
    assert_change("America/Sao_Paulo", "2018-11-04T03:00:00Z", "20181103", "20181104");
    // ... and back from 00:00 to 23:00: midnight came an hour later.
    assert_change("America/Sao_Paulo", "2018-02-18T03:00:00Z", "20180217", "20180218");
    // The clock jumped over midnight, from 23:30 to 00:30.
    assert_change("Africa/Monrovia", "1972-01-07T00:44:30Z", "19720106", "19720107");
}

#[test]
fn skipped_days_never_come() {
    // Samoa went from 29 to 31 December.
    assert_change("Pacific/Apia", "2011-12-30T10:00:00Z", "20111229", "20111231");
    assert_change("Pacific/Apia", "2011-12-31T10:00:00Z", "20111231", "20120101");
    assert_change("Pacific/Kwajalein", "1993-08-21T12:00:00Z", "19930820", "19930822");
}

#[test]
fn a_day_that_comes_back_stays_closed() {
    // St John's, 7 November 2010, 00:01: the clock was set back to 23:01 of the 6th, and the 7th began a second time at
    // 03:30.
    assert_change("America/St_Johns", "2010-11-07T02:30:00Z", "20101106", "20101107");
    let instants = ["02:30:59.999", "02:31:00", "02:45:00", "03:29:59.999", "03:30:00", "20:00:00"];
    for time in instants {
        let instant = utc(&format!("2010-11-07T{time}Z"));
        assert_eq!(Calendar::new("America/St_Johns").unwrap().today(instant), day("20101107"), "{time}");
    }
    // Nor does that bring the next day early.
    assert_change("America/St_Johns", "2010-11-08T03:30:00Z", "20101107", "20101108");
}

#[test]
fn agrees_with_the_zone_hour_by_hour() {
    // An independent way to the same day: what jiff says of each instant, never going back.
    for zone in
        ["America/St_Johns", "Pacific/Apia", "Africa/Cairo", "America/Godthab", "Asia/Tehran", "Antarctica/Troll"]
    {
        let rules = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
        let mut calendar = Calendar::new(zone).unwrap();
        let mut greatest = Day::MIN;
        let from = utc("2009-01-01T00:00:00Z");
        for quarter in 0..4 * 365 * 24 * 3 {
            let unix_ms = from + quarter * HOUR / 4;
            let date = rules.to_datetime(jiff::Timestamp::from_millisecond(unix_ms).unwrap()).date();
            greatest = greatest.max(day(&date.strftime("%Y%m%d").to_string()));
            assert_eq!(calendar.today(unix_ms), greatest, "{zone} at {unix_ms}");
        }
    }
}

#[test]
fn a_clock_stepping_back_reopens_nothing() {
    let mut calendar = Calendar::default();
    let noon = utc("2024-05-10T12:00:00Z");
    assert_eq!(calendar.today(noon), day("20240510"));
    assert_eq!(calendar.today(noon - 3 * DAY), day("20240510"));
    assert_eq!(calendar.today(i64::MIN), day("20240510"));
    assert_eq!(calendar.today(noon + 11 * HOUR), day("20240510"));
    assert_eq!(calendar.today(noon + 12 * HOUR), day("20240511"));
    assert_eq!(calendar.today(noon + 30 * DAY), day("20240609"));
    assert_eq!(calendar.today(noon), day("20240609"));
    assert_eq!(calendar.today(noon + 31 * DAY), day("20240610"), "the clock has caught up");
}

#[test]
fn another_zone_reopens_nothing() {
    let mut calendar = Calendar::new("Pacific/Kiritimati").unwrap();
    let instant = utc("2024-05-10T10:00:00Z");
    assert_eq!(calendar.today(instant), day("20240511"));
    assert!(calendar.set_zone("etc/gmt+12"));
    assert_eq!(calendar.name(), "Etc/GMT+12");
    // There it is the 9th, and the 10th comes and goes.
    assert_eq!(calendar.today(instant), day("20240511"));
    assert_eq!(calendar.today(instant + DAY), day("20240511"));
    let midnight = utc("2024-05-12T12:00:00Z");
    assert_eq!(calendar.today(midnight - 1), day("20240511"));
    assert_eq!(calendar.today(midnight), day("20240512"));

    assert!(!calendar.set_zone("Mars/Olympus"));
    assert_eq!(calendar.name(), "Etc/GMT+12");
    assert_eq!(calendar.today(midnight), day("20240512"));
    assert!(calendar.set_zone("Pacific/Kiritimati"));
    assert_eq!(calendar.today(midnight), day("20240513"), "forwards at once");
}

#[test]
fn instants_beyond_the_days_are_the_first_and_the_last() {
    for zone in ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"] {
        let mut calendar = Calendar::new(zone).unwrap();
        for early in [i64::MIN, -400 * DAY, -DAY, -14 * HOUR] {
            assert_eq!(calendar.today(early), Day::MIN, "{zone} at {early}");
        }
        for late in [65_537 * DAY, 100_000 * DAY, i64::MAX] {
            assert_eq!(Calendar::new(zone).unwrap().today(late), Day::MAX, "{zone} at {late}");
            assert_eq!(calendar.today(late), Day::MAX, "{zone} at {late}");
        }
    }
    let mut calendar = Calendar::default();
    assert_eq!(calendar.today(i64::MIN), Day::MIN);
    assert_eq!(calendar.today(DAY - 1), Day::MIN);
    assert_eq!(calendar.today(DAY), Day::from_number(1), "a wrong clock does not freeze the calendar");
    assert_eq!(calendar.today(65_535 * DAY - 1), Day::from_number(65_534));
    assert_eq!(calendar.today(65_535 * DAY), Day::MAX);
}

fn hash(member: u64) -> u64 {
    member_hash(&member.to_le_bytes())
}

fn room(days: &[(&str, std::ops::Range<u64>)]) -> Uniques {
    let mut room = Uniques::new();
    for (text, members) in days {
        for member in members.clone() {
            room.add(day(text), hash(member));
        }
    }
    room
}

fn bytes(room: &Uniques) -> Vec<u8> {
    let mut out = Vec::new();
    room.encode(&mut out);
    out
}

fn numbers(room: &Uniques) -> Vec<u16> {
    room.days().map(|(day, _)| day.number()).collect()
}

#[test]
fn a_room_counts_each_day_for_itself() {
    let mut room = Uniques::default();
    assert!(room.is_empty());
    assert_eq!(room.memory(), 0);
    let (today, yesterday) = (day("20240301"), day("20240229"));
    assert!(room.add(today, hash(1)));
    assert!(room.memory() < 100, "{} bytes for the first member", room.memory());
    assert!(!room.add(today, hash(1)));
    assert!(room.add(yesterday, hash(1)), "another day is another matter, even if it comes late");
    assert!(room.add(yesterday, hash(2)));
    assert_eq!(room.day(today).map(Sketch::count), Some(1));
    assert_eq!(room.day(yesterday).map(Sketch::count), Some(2));
    assert_eq!(room.day(day("20240228")), None);
    assert_eq!(numbers(&room), [yesterday.number(), today.number()]);
    assert!(!room.is_empty());
}

#[test]
fn a_room_forgets_days_past_retention() {
    let days = ["20240226", "20240228", "20240229", "20240301", "20240302"];
    let full = room(&days.map(|text| (text, 0..3)));
    let today = day("20240301");
    for (keep, left) in [(400, 5), (5, 5), (4, 4), (3, 4), (2, 3), (1, 2), (0, 0)] {
        let mut room = full.clone();
        assert_eq!(room.retain(today, keep), left < 5, "keep {keep}");
        assert_eq!(numbers(&room).len(), left, "keep {keep}");
        assert!(!room.retain(today, keep), "nothing is dropped twice");
        assert!(numbers(&room).iter().all(|&number| number > today.number() - keep));
    }
    let mut room = full.clone();
    room.retain(today, 0);
    assert_eq!(room, Uniques::new());
    assert_eq!(room.memory(), 0);
    assert!(!full.clone().retain(Day::MIN, 400));
}

#[test]
fn counts_are_united_over_days_and_rooms() {
    let a = room(&[("20240301", 0..10), ("20240302", 5..20), ("20240303", 0..1)]);
    let b = room(&[("20240302", 100..110), ("20240303", 0..5)]);
    let none = Uniques::new();
    let count = |rooms: &[&Uniques], last: &str, days| Uniques::count_union(rooms.iter().copied(), day(last), days);
    assert_eq!(count(&[&a], "20240302", 1), 15);
    assert_eq!(count(&[&a], "20240302", 2), 20);
    assert_eq!(count(&[&a, &b], "20240302", 2), 30);
    assert_eq!(count(&[&a, &b, &none, &a], "20240302", 1), 25);
    assert_eq!(count(&[&a, &b], "20240303", 1), 5);
    assert_eq!(count(&[&a, &b], "20240303", u16::MAX), 30);
    assert_eq!(count(&[&a, &b], "20240304", 1), 0);
    assert_eq!(count(&[&a], "20240302", 0), 0);
    assert_eq!(count(&[], "20240302", 2), 0);

    // Across the change from exact to estimated: the same as counting all in one.
    let limit = EXACT as u64;
    let (c, d) = (room(&[("20240301", 0..limit)]), room(&[("20240301", limit / 2..4 * limit)]));
    let all = room(&[("20240301", 0..4 * limit)]);
    assert_eq!(count(&[&c, &d], "20240301", 1), count(&[&all], "20240301", 1));
    assert_eq!(count(&[&c, &c], "20240301", 1), limit);
}

#[test]
fn days_of_a_room_are_bounded() {
    let mut room = Uniques::new();
    for number in 0..MAX_DAYS as u16 + 10 {
        assert!(room.add(Day::from_number(100 + number), hash(1)));
    }
    assert_eq!(numbers(&room).len(), MAX_DAYS);
    assert_eq!(numbers(&room)[0], 110, "the oldest made place");
    assert!(!room.add(Day::from_number(109), hash(1)), "older than all that are kept");
    assert!(room.add(Day::from_number(1_000), hash(1)));
    let encoded = bytes(&room);
    assert_eq!(Uniques::decode(&encoded), Some((room, encoded.len())));
}

#[test]
fn a_room_decodes_what_it_encodes_and_nothing_else() {
    let room = room(&[("20240229", 0..2), ("20240301", 0..40), ("20240302", 0..2_000)]);
    for room in [&Uniques::new(), &room] {
        let mut input = bytes(room);
        let len = input.len();
        input.push(7);
        let (decoded, taken) = Uniques::decode(&input).unwrap();
        assert_eq!((&decoded, taken), (room, len));
        assert!(decoded.memory() <= room.memory());
        for len in 0..len {
            assert_eq!(Uniques::decode(&input[..len]), None, "{len} bytes");
        }
    }

    let mut input = bytes(&room);
    for place in (0..400).chain((400..input.len()).step_by(97)) {
        for flip in [1, 0x20, 0xff] {
            input[place] ^= flip;
            if let Some((other, taken)) = Uniques::decode(&input) {
                assert_eq!(bytes(&other), &input[..taken], "byte {place}");
            }
            input[place] ^= flip;
        }
    }
}

#[test]
fn a_room_refuses_what_no_room_encodes() {
    let encoded = |days: &[(u16, u64)]| {
        let mut input = (days.len() as u16).to_le_bytes().to_vec();
        for (number, members) in days {
            input.extend_from_slice(&number.to_le_bytes());
            let mut sketch = Sketch::new();
            (0..*members).for_each(|member| assert!(sketch.add(hash(member))));
            sketch.encode(&mut input);
        }
        input
    };
    assert!(Uniques::decode(&encoded(&[(7, 1), (8, 1)])).is_some());
    assert!(Uniques::decode(&encoded(&[(8, 1), (7, 1)])).is_none(), "not ascending");
    assert!(Uniques::decode(&encoded(&[(8, 1), (8, 1)])).is_none(), "a repeat");
    assert!(Uniques::decode(&encoded(&[(7, 1), (8, 0)])).is_none(), "a day without members");
    let many: Vec<(u16, u64)> = (0..=MAX_DAYS as u16).map(|number| (number, 1)).collect();
    assert!(Uniques::decode(&encoded(&many[..MAX_DAYS])).is_some());
    assert!(Uniques::decode(&encoded(&many)).is_none(), "too many days");
    assert!(Uniques::decode(&u16::MAX.to_le_bytes()).is_none());
}
