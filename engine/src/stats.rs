//! Figures of a node since its start.

/// How late goings by timeout were announced, in ms of heard time: exact to 255 ms, above that only the greatest.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: [u64; 256],
    total: u64,
    max: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { counts: [0; 256], total: 0, max: 0 }
    }
}

impl Lateness {
    /// Takes one in.
    pub fn add(&mut self, ms: u64) {
        let index = usize::try_from(ms).unwrap_or(usize::MAX).min(self.counts.len() - 1);
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(ms);
    }

    /// The lateness in ms that `permille` of 1,000 goings did not exceed; 0 without any.
    pub fn percentile(&self, permille: u64) -> u64 {
        let wanted = self.total * permille / 1000;
        let mut seen = 0;
        for (ms, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen > wanted || (seen == self.total && seen > 0) {
                return if ms + 1 == self.counts.len() { self.max } else { ms as u64 };
            }
        }
        0
    }

    /// The greatest, in ms.
    pub fn max(&self) -> u64 {
        self.max
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.percentile(500), 0);
        for ms in 0..100 {
            lateness.add(ms);
        }
        assert_eq!(lateness.percentile(500), 50);
        assert_eq!(lateness.percentile(990), 99);
        lateness.add(5_000);
        assert_eq!(lateness.max(), 5_000);
        assert_eq!(lateness.percentile(1000), 5_000);
    }
}
