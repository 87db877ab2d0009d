//! Calendar days, and which of them it is in the zone of the service.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

const EPOCH: Date = Date::constant(1970, 1, 1);
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A calendar day: 1970-01-01 to 2149-06-06.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(u16);

impl Day {
    /// The first day, 1970-01-01.
    pub const MIN: Self = Self(0);
    /// The last day, 2149-06-06.
    pub const MAX: Self = Self(u16::MAX);

    /// The day of this number, 0 being 1970-01-01.
    pub const fn from_number(number: u16) -> Self {
        Self(number)
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Parses `yyyymmdd`: exactly eight digits, a day that exists, and one that [`Day`] covers.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text: &[u8; 8] = text.try_into().ok()?;
        let mut digits = 0;
        for byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            digits = digits * 10 + u32::from(digit);
        }
        let (year, month, day) = (digits / 10_000, digits / 100 % 100, digits % 100);
        let date = Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
        let number = date.duration_since(EPOCH).as_secs() / DAY_SECONDS;
        number.try_into().ok().map(Self)
    }

    /// The day `days` earlier, at least [`Day::MIN`].
    pub const fn minus(self, days: u16) -> Self {
        Self(self.0.saturating_sub(days))
    }

    /// The day of an instant, given as Unix seconds shifted by the zone's offset; at least the first, at most the last
    /// day.
    fn of_local_seconds(seconds: i64) -> Self {
        let number = seconds.div_euclid(DAY_SECONDS);
        Self(number.clamp(0, i64::from(u16::MAX)) as u16)
    }

    /// When the next day begins, in Unix seconds shifted by the zone's offset.
    fn end_in_local_seconds(self) -> i64 {
        (i64::from(self.0) + 1) * DAY_SECONDS
    }
}

impl fmt::Display for Day {
    /// Writes `yyyymmdd`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = EPOCH.saturating_add(SignedDuration::from_secs(i64::from(self.0) * DAY_SECONDS));
        write!(f, "{:04}{:02}{:02}", date.year(), date.month(), date.day())
    }
}

/// Tells which calendar day it is in a zone, and never goes back.
///
/// The zone's data is built in; what the host has installed plays no part. A day begins with the first instant that has
/// its date, also where the day before it comes back for a while (a clock set back at one minute past midnight), and
/// wherever midnight or a whole day does not exist.
///
/// The greatest day given out stays: neither a wall clock that steps back nor another zone reopens a day. If the wall
/// clock was wrong far in the future, be it for a moment, then the day stays there for as long as the calendar lives,
/// or until the clock catches up.
#[derive(Clone, Debug)]
pub struct Calendar {
    zone: TimeZone,
    /// The greatest day given out.
    day: Day,
    /// The first instant, in Unix milliseconds, that may belong to a later day.
    until: i64,
}

impl Calendar {
    /// A calendar in the zone of this IANA name, whatever its case. None if there is no such zone.
    pub fn new(zone_name: &str) -> Option<Self> {
        Some(Self { zone: find_zone(zone_name)?, day: Day::MIN, until: i64::MIN })
    }

    /// The name of the zone as IANA writes it.
    pub fn name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// Moves the calendar to another zone. False, and nothing changed, if there is no zone of this name.
    pub fn set_zone(&mut self, zone_name: &str) -> bool {
        let Some(zone) = find_zone(zone_name) else { return false };
        self.zone = zone;
        self.until = i64::MIN;
        true
    }

    /// The day at `unix_ms`, a wall clock's Unix time in milliseconds, or a later one that was given out before.
    ///
    /// Within a day this is one comparison. Instants beyond the days that [`Day`] covers belong to its first or last
    /// day.
    pub fn today(&mut self, unix_ms: i64) -> Day {
        if unix_ms >= self.until {
            // Two days more at both ends, so that a clamped instant is outside in every zone.
            let seconds =
                unix_ms.div_euclid(1_000).clamp(-2 * DAY_SECONDS, Day::MAX.end_in_local_seconds() + 2 * DAY_SECONDS);
            if let Ok(now) = Timestamp::from_second(seconds) {
                self.day = self.day.max(day_at(&self.zone, now));
                self.until = end_of(self.day, &self.zone, now);
            }
        }
        self.day
    }
}

impl Default for Calendar {
    /// The calendar of UTC.
    fn default() -> Self {
        Self { zone: TimeZone::UTC, day: Day::MIN, until: i64::MIN }
    }
}

fn find_zone(name: &str) -> Option<TimeZone> {
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    // The database also knows a placeholder for "unknown", which is no zone and has no name.
    zone.iana_name().is_some().then_some(zone)
}

fn local_seconds(instant: Timestamp, offset: Offset) -> i64 {
    instant.as_second() + i64::from(offset.seconds())
}

/// The greatest day that the zone has had up to `now`.
fn day_at(zone: &TimeZone, now: Timestamp) -> Day {
    let mut day = Day::of_local_seconds(local_seconds(now, zone.to_offset(now)));
    // A clock set back across midnight was in that day before. No zone was ever set back by more than a day.
    let second = SignedDuration::from_secs(1);
    let long_ago = now.saturating_sub(SignedDuration::from_secs(2 * DAY_SECONDS)).unwrap_or(now);
    let after = now.saturating_add(second).unwrap_or(now);
    for transition in zone.preceding(after).take_while(|transition| transition.timestamp() > long_ago) {
        if let Ok(before) = transition.timestamp().checked_sub(second) {
            day = day.max(Day::of_local_seconds(local_seconds(before, zone.to_offset(before))));
        }
    }
    day
}

/// The first instant at which the zone has a day after `day`, in Unix milliseconds, given that it has none at `now`.
fn end_of(day: Day, zone: &TimeZone, now: Timestamp) -> i64 {
    if day == Day::MAX {
        return i64::MAX;
    }
    let end = day.end_in_local_seconds();
    let mut offset = zone.to_offset(now);
    for transition in zone.following(now) {
        let instant = transition.timestamp();
        if local_seconds(instant, offset) >= end {
            break;
        }
        offset = transition.offset();
        if local_seconds(instant, offset) >= end {
            return instant.as_second() * 1_000;
        }
    }
    (end - i64::from(offset.seconds())) * 1_000
}
