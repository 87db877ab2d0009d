//! How something is spread: how often, the median, and what 99 of 100 do not exceed.

use serde::Serialize;

use crate::Moment;

/// Collects durations.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    values: Vec<u32>,
}

/// What came of it, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How many there were.
    pub number: usize,
    /// The median.
    pub p50: f64,
    /// 99 of 100 were no greater.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// One more.
    pub fn add(&mut self, value: Moment) {
        self.values.push(u32::try_from(value.as_micros()).unwrap_or(u32::MAX));
    }

    /// What came of it.
    pub fn figures(&self) -> Figures {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share).ceil() as usize;
            f64::from(sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()) / 1000.0
        };
        Figures { number: sorted.len(), p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_nine_of_a_hundred_are_no_greater() {
        let mut spread = Spread::default();
        assert_eq!(spread.figures(), Figures::default());
        for ms in (1..=200).rev() {
            spread.add(Moment::from_millis(ms));
        }
        assert_eq!(spread.figures(), Figures { number: 200, p50: 100.0, p99: 198.0, max: 200.0 });
    }
}
