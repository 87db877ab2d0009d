//! Departures, as the server announces them to the service: false ones, missing ones, and how late the true ones are.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::UNDER_WAY;
use crate::spread::{Figures, Spread};
use crate::truth::{Departure, Truth};
use crate::Moment;

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DepartureFigures {
    /// Viewers announced as gone who were there.
    pub wrong: u64,
    /// Viewers who went, and nobody was told.
    pub missing: u64,
    /// From the goodbye to the event.
    pub left: Figures,
    /// From the moment at which a silent departure was due to the event.
    pub silent: Figures,
    /// All events, since the opening.
    pub messages: u64,
}

/// See the module.
#[derive(Default)]
pub struct Departures {
    opened: Option<Moment>,
    awaited: HashMap<u32, Departure>,
    /// Announced before they were due by what we know.
    early: HashSet<u32>,
    announced: HashMap<u32, Moment>,
    left: Spread,
    silent: Spread,
    wrong: Vec<String>,
    wrongs: u64,
    messages: u64,
}

impl Departures {
    /// From now on lateness is judged. That nobody is taken for gone, always.
    pub fn open(&mut self, now: Moment) {
        self.opened = Some(now);
    }

    /// Somebody came.
    pub fn came(&mut self, viewer: u32) {
        self.early.remove(&viewer);
    }

    /// Somebody is to be announced as gone.
    pub fn gone(&mut self, departure: Departure) {
        if self.early.remove(&departure.viewer) {
            self.told(departure, departure.due);
        } else {
            self.awaited.insert(departure.viewer, departure);
        }
    }

    /// Whether somebody went and that is still on its way, to us or to others.
    pub fn is_under_way(&self, viewer: u32, now: Moment) -> bool {
        let announced = self.announced.get(&viewer);
        self.awaited.contains_key(&viewer) || announced.is_some_and(|&at| at + UNDER_WAY > now)
    }

    /// It may be that a goodbye was lost with a gateway: it is not waited for. Whether it was.
    pub fn excuse(&mut self, viewer: u32) -> bool {
        self.awaited.remove(&viewer).is_some()
    }

    /// Somebody was announced as gone. `truth` is that of this moment.
    pub fn heard(&mut self, viewer: u32, at: Moment, truth: &Truth) {
        self.messages += u64::from(self.opened.is_some());
        self.announced.insert(viewer, at);
        if let Some(departure) = self.awaited.remove(&viewer) {
            self.told(departure, at);
        } else if truth.has(viewer) {
            self.wrongs += 1;
            if self.wrong.len() < 20 {
                self.wrong.push(format!("v{viewer} was announced as gone at {at:.2?}, and is there"));
            }
        } else {
            self.early.insert(viewer);
        }
    }

    fn told(&mut self, departure: Departure, at: Moment) {
        if self.opened.is_some_and(|opened| opened <= departure.due) {
            let spread = if departure.silent { &mut self.silent } else { &mut self.left };
            spread.add(at.saturating_sub(departure.due));
        }
    }

    /// The first that were wrong, in words.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Viewers announced as gone who were there.
    pub fn wrongs(&self) -> u64 {
        self.wrongs
    }

    /// What came of it. What was due after `until` may be under way.
    pub fn figures(&self, until: Moment) -> DepartureFigures {
        DepartureFigures {
            wrong: self.wrongs,
            missing: self.awaited.values().filter(|departure| departure.due < until).count() as u64,
            left: self.left.figures(),
            silent: self.silent.figures(),
            messages: self.messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn gone(viewer: u32, due: Moment, silent: bool) -> Departure {
        Departure { viewer, due, silent }
    }

    #[test]
    fn who_is_there_and_announced_as_gone_is_a_false_departure() {
        let (mut truth, mut departures) = (Truth::new(ms(40_000)), Departures::default());
        truth.hello(1, ms(1));
        truth.welcome(1);
        truth.cut(1);
        departures.heard(1, ms(9), &truth);
        assert_eq!((departures.wrongs(), departures.figures(ms(100)).wrong, departures.wrong().len()), (1, 1, 1));
    }

    #[test]
    fn true_departures_are_timed_and_missing_ones_counted() {
        let (truth, mut departures) = (Truth::new(ms(40_000)), Departures::default());
        departures.open(ms(5));
        departures.gone(gone(1, ms(10), false));
        departures.gone(gone(2, ms(10), true));
        departures.gone(gone(3, ms(10), true));
        departures.heard(1, ms(13), &truth);
        departures.heard(2, ms(14), &truth);
        departures.heard(4, ms(15), &truth);
        departures.gone(gone(4, ms(16), true));
        let figures = departures.figures(ms(100));
        assert_eq!((figures.left.max, figures.silent.max, figures.silent.p50), (3.0, 4.0, 0.0));
        assert_eq!((figures.wrong, figures.missing, figures.messages), (0, 1, 3));
        assert_eq!(departures.figures(ms(10)).missing, 0);
    }
}
