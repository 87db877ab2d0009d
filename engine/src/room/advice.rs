//! The answer to the classic mistake: a timeout that two beats do not fit into.

/// How often members of a room beat: an exponential mean of the intervals between the beats of live sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advice {
    /// Sixteenths of a millisecond; 0 is "nothing observed".
    mean: u32,
}

/// Longest interval that is taken in, so that the sums below fit 32 bits. Two days.
const LONGEST_MS: u32 = 172_800_000;

impl Advice {
    /// Takes in one interval between two beats, in ms.
    #[inline]
    pub(super) fn observe(&mut self, interval_ms: u32) {
        if interval_ms == 0 {
            return;
        }
        let interval = interval_ms.min(LONGEST_MS);
        self.mean = if self.mean == 0 { interval * 16 } else { self.mean - self.mean / 16 + interval };
    }

    /// The observed beat interval in ms.
    pub(super) fn interval(&self) -> Option<u32> {
        (self.mean > 0).then(|| (self.mean + 8) / 16)
    }

    /// The timeout to set, in ms, if two intervals exceed the one in force.
    pub(super) fn timeout_to_set(&self, timeout_ms: u32) -> Option<u32> {
        let two = self.interval()?.saturating_mul(2);
        (two > timeout_ms).then_some(two)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advises_twice_the_interval_only_where_it_exceeds_the_timeout() {
        let mut advice = Advice::default();
        assert_eq!(advice.timeout_to_set(100), None);
        for _ in 0..40 {
            advice.observe(400);
        }
        assert_eq!(advice.interval(), Some(400));
        assert_eq!(advice.timeout_to_set(600), Some(800));
        assert_eq!(advice.timeout_to_set(800), None);
        advice.observe(u32::MAX);
        assert!(advice.interval() > Some(400));
    }
}
