//! Figures of a node since its start.

/// How often which number came, such as a time in whole units: exact below 64, above that within an eighth.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    total: u64,
    max: u64,
}

/// Below this, a bucket for each number.
const EXACT: u64 = 64;
/// Above it, so many buckets for each doubling.
const PER_DOUBLING: u64 = 8;
/// Up to 64 times 2^20: in ms most of a day, in µs a minute.
const BUCKETS: usize = (EXACT + 20 * PER_DOUBLING) as usize;

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    /// Takes one in.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(Self::bucket(value)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// The number that `permille` of 1,000 did not exceed; 0 without any.
    pub fn percentile(&self, permille: u64) -> u64 {
        let wanted = self.total * permille / 1000;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen > wanted || (seen == self.total && seen > 0) {
                return Self::greatest(bucket).min(self.max);
            }
        }
        0
    }

    /// How many came.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The greatest.
    pub fn max(&self) -> u64 {
        self.max
    }

    fn bucket(value: u64) -> usize {
        if value < EXACT {
            return value as usize;
        }
        let doubling = u64::from(value.ilog2() - EXACT.ilog2());
        let part = (value >> (doubling + u64::from((EXACT / PER_DOUBLING).ilog2()))) - PER_DOUBLING;
        ((EXACT + doubling * PER_DOUBLING + part) as usize).min(BUCKETS - 1)
    }

    /// The greatest number that falls into a bucket.
    fn greatest(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let Some(above) = bucket.checked_sub(EXACT) else { return bucket };
        let (doubling, part) = (above / PER_DOUBLING, above % PER_DOUBLING);
        ((PER_DOUBLING + part + 1) << (doubling + u64::from((EXACT / PER_DOUBLING).ilog2()))) - 1
    }
}

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Beats taken, those of batches included.
    pub beats: u64,
    /// Beats refused because the session had said goodbye.
    pub refused: u64,
    /// Members that came online.
    pub comings: u64,
    /// Members that went offline by silence.
    pub timeouts: u64,
    /// Members that went offline by goodbye.
    pub goodbyes: u64,
    /// Returns from grace: flickers that nobody saw.
    pub flickers: u64,
    /// Members whose last live session was lost.
    pub graces: u64,
    /// Changes of shown status, data or visibility.
    pub updates: u64,
    /// Messages published on count channels.
    pub count_messages: u64,
    /// Messages published on member channels.
    pub member_messages: u64,
    /// Messages published on feeds.
    pub feed_messages: u64,
}

impl Stats {
    /// Adds the counts of a step.
    pub fn absorb(&mut self, step: &Self) {
        self.beats += step.beats;
        self.refused += step.refused;
        self.comings += step.comings;
        self.timeouts += step.timeouts;
        self.goodbyes += step.goodbyes;
        self.flickers += step.flickers;
        self.graces += step.graces;
        self.updates += step.updates;
        self.count_messages += step.count_messages;
        self.member_messages += step.member_messages;
        self.feed_messages += step.feed_messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile(500), 0);
        for ms in 0..100 {
            times.add(ms);
        }
        assert_eq!(times.percentile(500), 50);
        assert_eq!(times.percentile(990), 99);
        times.add(5_000);
        assert_eq!(times.max(), 5_000);
        assert_eq!(times.percentile(1000), 5_000);
    }

    #[test]
    fn a_bucket_is_as_wide_as_an_eighth() {
        for ms in (0..70_000).chain([1 << 20, (1 << 26) - 1]) {
            let greatest = Histogram::greatest(Histogram::bucket(ms));
            assert!((ms..=ms + ms / 8).contains(&greatest), "{ms} {greatest}");
            assert!(ms == 0 || Histogram::bucket(ms - 1) <= Histogram::bucket(ms));
        }
        assert_eq!(Histogram::bucket(u64::MAX), BUCKETS - 1);
    }
}
