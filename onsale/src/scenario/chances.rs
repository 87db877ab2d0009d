//! How much happens in which second of the show.

use std::f64::consts::PI;

use crate::Moment;

/// Of the audience, those who come and those who go over the show, beside what the swaying takes.
const CHURN: f64 = 0.06;
/// Of the audience, those who are in a tunnel once.
const TUNNELS: f64 = 0.1;
/// Of the audience, by how much it grows and shrinks, and how often. The badge shall have something to tell.
const SWAY: f64 = 0.01;
const SWAYS: f64 = 2.0;

/// Counts what is to happen, and what of it has happened.
#[derive(Debug)]
pub(super) struct Owed {
    size: f64,
    show: f64,
    arrivals: i64,
    departures: i64,
    tunnels: i64,
}

impl Owed {
    pub(super) fn new(size: u32, show: Moment) -> Self {
        Self { size: f64::from(size), show: show.as_secs_f64(), arrivals: 0, departures: 0, tunnels: 0 }
    }

    /// Somebody came of their own accord: one less to be made up.
    pub(super) fn arrived(&mut self) {
        self.arrivals += 1;
    }

    /// Arrivals, departures and tunnels that are owed, `since` into the show. They count as happened.
    pub(super) fn until(&mut self, since: Moment) -> (i64, i64, i64) {
        let part = (since.as_secs_f64() / self.show).clamp(0.0, 1.0);
        let phase = part * SWAYS;
        // Up in the first quarter of each sway, down in the next two, up in the last: all that went up by then, and down.
        let (whole, quarter) = (phase.floor(), (phase.fract() * 4.0).floor());
        let height = (2.0 * PI * phase).sin();
        let up = 2.0 * whole
            + if quarter < 1.0 {
                height
            } else if quarter < 3.0 {
                1.0
            } else {
                2.0 + height
            };
        let down = up - height;
        let due = |share: f64| (self.size * share) as i64;
        let arrivals = (due(CHURN * part + SWAY * up) - self.arrivals).max(0);
        let departures = (due(CHURN * part + SWAY * down) - self.departures).max(0);
        let tunnels = (due(TUNNELS * part) - self.tunnels).max(0);
        // Arrivals are counted as they come.
        self.departures += departures;
        self.tunnels += tunnels;
        (arrivals, departures, tunnels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audience_sways_and_comes_back_to_its_size() {
        let mut owed = Owed::new(100_000, Moment::from_secs(100));
        let (mut size, mut sizes, mut came, mut tunnelled) = (0, Vec::new(), 0, 0);
        for second in 1..=110 {
            let (arrivals, departures, tunnels) = owed.until(Moment::from_secs(second));
            (0..arrivals).for_each(|_| owed.arrived());
            assert!(arrivals >= 0 && departures >= 0);
            size += arrivals - departures;
            came += arrivals;
            tunnelled += tunnels;
            sizes.push(size);
        }
        assert!((990..=1001).contains(sizes.iter().max().unwrap()), "{sizes:?}");
        assert!((-1001..=-990).contains(sizes.iter().min().unwrap()), "{sizes:?}");
        assert!(size.abs() <= 2, "{size}");
        assert!((9_900..=10_001).contains(&came), "{came}");
        assert_eq!(tunnelled, 10_000);
    }

    #[test]
    fn who_comes_back_is_not_made_up_for() {
        let mut owed = Owed::new(100_000, Moment::from_secs(100));
        let (arrivals, ..) = owed.until(Moment::from_secs(1));
        (0..arrivals + 50).for_each(|_| owed.arrived());
        let mut other = Owed::new(100_000, Moment::from_secs(100));
        other.until(Moment::from_secs(1));
        (0..arrivals).for_each(|_| other.arrived());
        assert_eq!(owed.until(Moment::from_secs(2)).0 + 50, other.until(Moment::from_secs(2)).0);
    }
}
