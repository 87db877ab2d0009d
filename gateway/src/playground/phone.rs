//! What happens in truth: a phone comes, loses its signal ten times for a short while, and leaves for good.
//!
//! The phone beats in a fixed rhythm, signal or not. What it sends without a signal is lost.

use super::Span;

/// How long the story is, in milliseconds.
pub const LENGTH: u64 = 30 * 60_000;
/// When the phone leaves for good, in milliseconds since the beginning.
pub const LEAVES: u64 = 25 * 60_000;

/// A beat falls at this moment, whatever the heartbeat.
const BEATS_AT: u64 = 44_000;

/// The times without a signal: lifts, cellars, and a tunnel of 50 s.
///
/// Why these. A beat that comes in the very millisecond of a deadline is heard before anybody is judged, but a network
/// is not so punctual, and a figure that hangs on it proves nothing. As the timeout is two heartbeats, one lost beat is
/// such a case. So with beats each 5 s five drops are too short to lose a beat, five lose two or more, and of those only
/// the tunnel outlasts 30 s of grace, by 15 s. With beats each 60 s all of them lie between two beats. The lengths differ
/// so that they disappear one after the other when grace grows. They begin and end at odd tenths of a second, where no
/// heartbeat of whole seconds has a beat.
pub const DROPS: [Span; 10] = [
    lost(1, 50_500, 3_000),
    lost(3, 30_300, 12_500),
    lost(5, 25_600, 2_700),
    lost(7, 47_500, 50_000),
    lost(10, 5_400, 3_400),
    lost(12, 500, 20_900),
    lost(14, 55_300, 2_200),
    lost(16, 49_400, 31_200),
    lost(19, 10_600, 3_100),
    lost(21, 56_500, 16_600),
];

const fn lost(minute: u64, ms: u64, length: u64) -> Span {
    let from = minute * 60_000 + ms;
    Span { from, to: from + length }
}

/// The moments at which a phone that beats each `heartbeat` ms does so, with a signal or not.
pub fn beats(heartbeat: u32) -> impl Iterator<Item = u64> {
    let every = u64::from(heartbeat.max(1));
    (0..).map(move |number| BEATS_AT % every + number * every).take_while(|&at| at < LEAVES)
}

/// Whether the phone has a signal at `at`.
pub fn has_signal(at: u64) -> bool {
    at < LEAVES && !DROPS.iter().any(|drop| (drop.from..drop.to).contains(&at))
}
