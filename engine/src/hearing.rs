//! Heard time: milliseconds in which the server could have heard a beat.
//!
//! Silence is evidence only while the server could hear. So deadlines are measured on a clock that stands still while the
//! server was deaf, and after a long deafness everybody gets one fresh timeout, which is one number here and no walk over
//! members. The monotonic clock comes in as an argument.

/// Heard milliseconds. Starts above 2^32, so that differences to older moments never go below zero.
pub type HeardMs = u64;

const START: HeardMs = 1 << 33;
/// A tick that comes later than this after the one before was preceded by deafness.
const DEAF_GAP_US: u64 = 250_000;
/// Deafness from which on everybody gets a fresh timeout.
const AMNESTY_US: u64 = 1_000_000;
/// No deadline reaches further back than a timeout and a grace of a day each; a little more for lateness.
const HORIZON_MS: u64 = 50 * 60 * 60 * 1000;
const MAX_POINTS: usize = 64;

/// The full moment of which `low` are the low 32 bits, at or before `now` (at most 49 days back).
pub fn widen(now: HeardMs, low: u32) -> HeardMs {
    let back = (now as u32).wrapping_sub(low);
    now.saturating_sub(u64::from(back))
}

/// Moments from which on silence is counted afresh: "everybody gets one fresh timeout", without visiting anybody.
///
/// After a stall, of the points after a given last beat only the first counts, so that repeated stalls keep nobody for
/// ever. Where last beats are unknown or deadlines were redefined, nothing before that moment counts any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreshPoints {
    /// Everybody was heard at this moment, as it were.
    all_heard: HeardMs,
    /// Stalls since then, ascending.
    points: Vec<HeardMs>,
}

impl FreshPoints {
    /// From `at` on everybody counts as heard then, whatever was granted before.
    pub fn hear_all(&mut self, at: HeardMs) {
        self.all_heard = self.all_heard.max(at);
        self.points.retain(|&point| point > at);
    }

    /// Grants a fresh timeout to everybody whose last beat is before `at`, unless an earlier one has been granted since
    /// that beat.
    pub fn grant(&mut self, at: HeardMs) {
        if self.points.last().is_some_and(|&last| last >= at) {
            return;
        }
        self.points.retain(|&point| point + HORIZON_MS >= at);
        if self.points.len() >= MAX_POINTS {
            self.merge_closest();
        }
        self.points.push(at);
    }

    /// The moment from which the silence of somebody whose last beat is `last` counts.
    pub fn silent_from(&self, last: HeardMs) -> HeardMs {
        let last = last.max(self.all_heard);
        // Usually there is none or the latest one is older: the hot answer first.
        match self.points.last() {
            Some(&latest) if latest > last => {
                let first = self.points.partition_point(|&point| point <= last);
                self.points.get(first).copied().unwrap_or(last)
            }
            _ => last,
        }
    }

    /// Drops the earlier point of the two closest: it lengthens somebody's fresh timeout by that smallest gap at most.
    fn merge_closest(&mut self) {
        let gaps = self.points.iter().zip(self.points.iter().skip(1)).map(|(a, b)| b - a);
        if let Some((closest, _)) = gaps.enumerate().min_by_key(|&(_, gap)| gap) {
            self.points.remove(closest);
        }
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        self.points.capacity() * size_of::<HeardMs>()
    }
}

/// Why the server could not hear, or why last beats are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deafness {
    /// The event loop did not come round: a stopped process, a long script, a slow command.
    Stall,
    /// Writes are paused: CLIENT PAUSE, FAILOVER, SHUTDOWN, the handoff of a slot.
    Paused,
    /// The server refuses beats: MISCONF, NOREPLICAS, CLUSTERDOWN.
    Refusing,
    /// The data set was being loaded.
    Loading,
    /// This server became the primary.
    Promotion,
    /// The operator changed a timeout.
    Settings,
}

impl Deafness {
    /// Every cause, in the order of INFO.
    pub const ALL: [Self; 6] =
        [Self::Stall, Self::Paused, Self::Refusing, Self::Loading, Self::Promotion, Self::Settings];

    /// The word used in INFO.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Paused => "paused",
            Self::Refusing => "refusing",
            Self::Loading => "loading",
            Self::Promotion => "promotion",
            Self::Settings => "settings",
        }
    }
}

/// What one cause has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeafTime {
    /// Microseconds that did not count as silence.
    pub deaf_us: u64,
    /// Fresh timeouts granted to everybody.
    pub amnesties: u64,
}

/// What a tick may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the server is, or was until just now, deaf.
    Wait,
    /// Process what is due up to `until`.
    Act {
        /// The moment of this tick.
        now: HeardMs,
        /// The moment of the tick before. Every beat that had arrived by then has been processed since.
        until: HeardMs,
    },
}

/// The node's heard clock.
#[derive(Clone, Debug)]
pub struct Hearing {
    anchor_us: u64,
    anchor_heard_us: u64,
    given_us: u64,
    episode: Option<(Deafness, u64)>,
    fresh: FreshPoints,
    totals: [DeafTime; Deafness::ALL.len()],
}

impl Hearing {
    /// Starts at `mono_us`. [`Hearing::tick`] is meant to be called well more often than every 250 ms.
    pub fn new(mono_us: u64) -> Self {
        let start = START * 1000;
        Self {
            anchor_us: mono_us,
            anchor_heard_us: start,
            given_us: start,
            episode: None,
            fresh: FreshPoints::default(),
            totals: Default::default(),
        }
    }

    /// Heard time at `mono_us`, for a command. Never goes back; stands still from the moment at which the last tick is
    /// so long ago that the server must have been deaf, and while it is deaf.
    pub fn now(&mut self, mono_us: u64) -> HeardMs {
        let elapsed = mono_us.saturating_sub(self.anchor_us);
        if self.episode.is_none() && elapsed <= DEAF_GAP_US {
            self.given_us = self.given_us.max(self.anchor_heard_us + elapsed);
        }
        self.given_us / 1000
    }

    /// To be called once per tick with the reason, if any, why beats cannot be heard now.
    ///
    /// A tick acts only up to the moment of the tick before: beats that were waiting in a socket then have been read
    /// since, because the event loop polls between two ticks.
    pub fn tick(&mut self, mono_us: u64, deaf: Option<Deafness>) -> Verdict {
        let elapsed = mono_us.saturating_sub(self.anchor_us);
        let before = self.anchor_heard_us;
        let cause = deaf.or((elapsed > DEAF_GAP_US).then_some(Deafness::Stall));
        if let Some(cause) = cause {
            // What commands were told in the meantime has counted as heard; the rest of the gap is deaf.
            let heard = self.given_us.saturating_sub(before);
            let gap = elapsed.saturating_sub(heard);
            self.total(cause).deaf_us += gap;
            let so_far = self.episode.map_or(0, |(_, us)| us);
            let first_cause = self.episode.map_or(cause, |(first, _)| first);
            self.episode = Some((first_cause, so_far + gap));
            self.anchor_us = mono_us;
            self.anchor_heard_us = self.given_us;
            return Verdict::Wait;
        }
        if let Some((cause, us)) = self.episode.take() {
            // This tick came on time, so what had queued up has been processed. When since the tick before the server
            // could hear again is not known: none of that counts as silence, and the fresh timeout begins now.
            self.total(cause).deaf_us += elapsed;
            self.anchor_us = mono_us;
            if us + elapsed >= AMNESTY_US {
                let at = self.fresh_moment(cause);
                self.fresh.grant(at);
            }
            return Verdict::Act { now: self.given_us / 1000, until: before / 1000 };
        }
        self.anchor_us = mono_us;
        self.anchor_heard_us = before + elapsed;
        self.given_us = self.given_us.max(self.anchor_heard_us);
        self.anchor_heard_us = self.given_us;
        Verdict::Act { now: self.given_us / 1000, until: before / 1000 }
    }

    /// Last beats are unknown (loading, promotion) or deadlines were redefined: everybody gets one fresh timeout, which
    /// begins at `mono_us` and not at the tick before.
    pub fn grant(&mut self, cause: Deafness, mono_us: u64) {
        self.now(mono_us);
        let at = self.fresh_moment(cause);
        self.fresh.hear_all(at);
    }

    /// A moment strictly after every beat told so far, of which some may carry the present millisecond. The clock is
    /// put forward by that step and no further: silence from then on must not be measured too long.
    fn fresh_moment(&mut self, cause: Deafness) -> HeardMs {
        self.given_us += 1000;
        self.anchor_heard_us += 1000;
        self.total(cause).amnesties += 1;
        self.given_us / 1000
    }

    /// The points of fresh timeouts for the whole node.
    pub fn fresh(&self) -> &FreshPoints {
        &self.fresh
    }

    /// Deaf time and amnesties of one cause.
    pub fn deaf_time(&self, cause: Deafness) -> DeafTime {
        self.totals.get(cause as usize).copied().unwrap_or_default()
    }

    /// Whether the server is deaf at present.
    pub fn is_deaf(&self) -> bool {
        self.episode.is_some()
    }

    fn total(&mut self, cause: Deafness) -> &mut DeafTime {
        // `Deafness::ALL` lists every variant in order, so the index is always valid; the fallback is for the compiler.
        let index = (cause as usize).min(self.totals.len() - 1);
        #[expect(clippy::indexing_slicing, reason = "clamped to the array above")]
        &mut self.totals[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;

    fn hearing() -> Hearing {
        Hearing::new(0)
    }

    fn run_ticks(hearing: &mut Hearing, from_ms: u64, to_ms: u64) {
        for ms in (from_ms..=to_ms).step_by(4) {
            hearing.tick(ms * MS, None);
        }
    }

    #[test]
    fn heard_time_follows_the_clock_while_ticks_come() {
        let mut h = hearing();
        let start = h.now(0);
        run_ticks(&mut h, 4, 1000);
        assert_eq!(h.now(1000 * MS) - start, 1000);
        assert_eq!(h.now(1003 * MS) - start, 1003);
    }

    #[test]
    fn a_tick_acts_up_to_the_tick_before() {
        let mut h = hearing();
        let start = h.now(0);
        assert_eq!(h.tick(4 * MS, None), Verdict::Act { now: start + 4, until: start });
        assert_eq!(h.tick(90 * MS, None), Verdict::Act { now: start + 90, until: start + 4 });
    }

    #[test]
    fn a_stall_does_not_count_and_grants_one_fresh_timeout() {
        let mut h = hearing();
        run_ticks(&mut h, 4, 100);
        let before = h.now(100 * MS);
        // A beat that queued up during the stall is answered before the tick: time stands still for it.
        assert_eq!(h.now(6100 * MS), before);
        assert_eq!(h.tick(6101 * MS, None), Verdict::Wait);
        assert_eq!(h.now(6102 * MS), before);
        assert!(matches!(h.tick(6105 * MS, None), Verdict::Act { .. }));
        assert!(h.fresh().silent_from(before) > before);
        assert_eq!(h.deaf_time(Deafness::Stall).amnesties, 1);
        assert_eq!(h.deaf_time(Deafness::Stall).deaf_us, 6005 * MS);
        assert!(h.now(6105 * MS) - before <= 6);
    }

    #[test]
    fn short_stalls_neither_accuse_nor_pardon() {
        let mut h = hearing();
        let start = h.now(0);
        for second in 0..10 {
            run_ticks(&mut h, second * 1000 + 304, second * 1000 + 1000);
        }
        assert_eq!(h.fresh().silent_from(start), start);
        let heard = h.now(10_000 * MS) - start;
        assert!((6_900..=7_100).contains(&heard), "{heard}");
    }

    #[test]
    fn a_freeze_lasts_until_a_tick_comes_on_time() {
        let mut h = hearing();
        run_ticks(&mut h, 4, 100);
        let before = h.now(100 * MS);
        for ms in (104..2000).step_by(4) {
            assert_eq!(h.tick(ms * MS, Some(Deafness::Paused)), Verdict::Wait);
        }
        assert_eq!(h.now(2000 * MS), before);
        // Ticks may be slow: nothing since the last deaf one counts.
        assert!(matches!(h.tick(2046 * MS, None), Verdict::Act { .. }));
        assert_eq!(h.deaf_time(Deafness::Paused).amnesties, 1);
        assert_eq!(h.fresh().silent_from(before), before + 1);
        assert_eq!(h.now(2056 * MS), before + 11);
    }

    #[test]
    fn only_the_first_point_after_the_last_beat_counts() {
        let mut fresh = FreshPoints::default();
        for at in [100, 200, 300] {
            fresh.grant(at);
        }
        assert_eq!(fresh.silent_from(50), 100);
        assert_eq!(fresh.silent_from(100), 200);
        assert_eq!(fresh.silent_from(299), 300);
        assert_eq!(fresh.silent_from(300), 300);
        assert_eq!(fresh.silent_from(301), 301);
    }

    #[test]
    fn nothing_before_a_promotion_counts() {
        let mut h = hearing();
        let joined = h.now(0);
        run_ticks(&mut h, 4, 1000);
        h.tick(5000 * MS, None);
        run_ticks(&mut h, 5004, 9000);
        // A replica heard of the member once, before that stall; its beats since then are unknown.
        h.grant(Deafness::Promotion, 9000 * MS);
        let promoted = h.now(9000 * MS);
        assert_eq!(h.fresh().silent_from(joined), promoted);
        assert_eq!(h.fresh().silent_from(promoted), promoted);
        // A stall after that is one more, and again the first of its kind.
        h.tick(19_000 * MS, None);
        h.tick(19_004 * MS, None);
        let stalled = h.fresh().silent_from(joined);
        assert!(stalled > promoted, "{stalled} {promoted}");
    }

    #[test]
    fn a_grant_begins_when_it_is_made() {
        let mut h = hearing();
        let joined = h.now(0);
        run_ticks(&mut h, 4, 1000);
        h.grant(Deafness::Promotion, 1040 * MS);
        assert_eq!(h.fresh().silent_from(joined) - joined, 1041, "not at the last tick, 40 ms before");
    }

    #[test]
    fn a_grant_between_two_ticks_does_not_hasten_the_clock() {
        let mut h = hearing();
        run_ticks(&mut h, 4, 1000);
        let before = h.now(1200 * MS);
        h.grant(Deafness::Settings, 1200 * MS);
        let granted = h.now(1200 * MS);
        assert_eq!(granted, before + 1);
        assert_eq!(h.now(1240 * MS), granted + 40);
        h.tick(1241 * MS, None);
        assert_eq!(h.now(1300 * MS), granted + 100);
    }

    #[test]
    fn points_are_bounded_and_old_ones_leave() {
        let mut fresh = FreshPoints::default();
        for n in 0..10_000u64 {
            fresh.grant(n * 1000);
        }
        assert!(fresh.points.len() <= MAX_POINTS);
        assert!(fresh.points.windows(2).all(|pair| pair[0] < pair[1]));
        fresh.grant(10_000_000 + HORIZON_MS + 1);
        assert_eq!(fresh.points.len(), 1);
    }

    #[test]
    fn widening_finds_the_moment_across_the_wrap() {
        for now in [START, START + u64::from(u32::MAX), START + (1 << 32) + 5] {
            for back in [0, 1, 1_000_000, 200_000_000] {
                assert_eq!(widen(now, (now - back) as u32), now - back);
            }
        }
    }
}
