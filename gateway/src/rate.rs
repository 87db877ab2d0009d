//! How much one phone may say.

use std::time::{Duration, Instant};

/// Seconds of messages that may come at once: a page that was asleep, or a screen full of watches.
const BURST_S: u32 = 10;

/// A bucket of messages that fills with time.
pub struct Rate {
    per_second: f64,
    left: f64,
    at: Instant,
}

impl Rate {
    /// A full one.
    pub fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second: per_second.into(), left: f64::from(per_second.saturating_mul(BURST_S)), at: now }
    }

    /// Whether one more message is within the limit.
    pub fn admits(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).min(Duration::from_secs(BURST_S.into()));
        let most = self.per_second * f64::from(BURST_S);
        self.left = (self.left + passed.as_secs_f64() * self.per_second).min(most);
        self.at = now;
        let admits = self.left >= 1.0;
        if admits {
            self.left -= 1.0;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_a_flood_does_not_and_time_heals() {
        let start = Instant::now();
        let mut rate = Rate::new(2, start);
        assert_eq!((0..100).filter(|_| rate.admits(start)).count(), 20);
        let later = start + Duration::from_millis(1_500);
        assert_eq!((0..100).filter(|_| rate.admits(later)).count(), 3);
        let much_later = start + Duration::from_secs(3_600);
        assert_eq!((0..100).filter(|_| rate.admits(much_later)).count(), 20);
    }
}
