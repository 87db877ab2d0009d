//! The count that the room broadcasts, held against the truth; and the badges that phones show, held against the count.

use std::collections::HashMap;

use presence_engine::badge::badge;
use serde::Serialize;

use crate::spread::{Figures, Spread};
use crate::truth::Truth;
use crate::Moment;

/// A badge of so long ago is none any more: whoever is told of it now is told something wrong.
const OLD: Moment = Moment::from_secs(10);

/// One number that was broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Broadcast {
    /// When, in s since the start.
    pub at: f64,
    /// What was told.
    pub count: u64,
    /// Viewers who were there.
    pub there: u32,
    /// Viewers who were not there and rightly counted.
    pub ghosts: u32,
}

impl Broadcast {
    /// By how much the count is wrong, in parts of the truth.
    pub fn error(&self) -> f64 {
        part(self.count.abs_diff(self.there.into()), self.there)
    }

    /// The same without those who are rightly counted.
    pub fn unexplained(&self) -> f64 {
        part(self.count.abs_diff(u64::from(self.there) + u64::from(self.ghosts)), self.there)
    }
}

fn part(difference: u64, of: u32) -> f64 {
    difference as f64 / f64::from(of.max(1))
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BadgeFigures {
    /// Numbers broadcast.
    pub broadcasts: usize,
    /// The greatest error of one, in parts of the truth.
    pub error: f64,
    /// The mean error.
    pub mean_error: f64,
    /// The greatest error without those who are rightly counted.
    pub unexplained: f64,
    /// Most who were rightly counted and not there, at one broadcast.
    pub ghosts: u32,
    /// How often the badge changed.
    pub changes: usize,
    /// From the broadcast that changed the badge to a phone.
    pub late: Figures,
    /// Phones told of a badge that was not the rounding of a number broadcast a moment before.
    pub wrong: u64,
    /// Phones whose badge was not the last one at the end.
    pub stale: u64,
    /// All messages with badges, since the opening.
    pub messages: u64,
}

#[derive(Clone, Debug)]
struct Watching {
    since: Moment,
    /// Which change of the badge is shown.
    shown: Option<usize>,
}

/// See the module.
#[derive(Default)]
pub struct Badges {
    opened: Option<Moment>,
    broadcasts: Vec<Broadcast>,
    /// Each change of the badge, and when it was heard.
    changes: Vec<(Moment, String)>,
    changes_before: usize,
    /// Phones that were told sooner than we.
    ahead: Vec<(u32, Moment, String)>,
    watching: HashMap<u32, Watching>,
    late: Spread,
    wrong: Vec<String>,
    wrongs: u64,
    messages: u64,
}

impl Badges {
    /// From now on it is judged.
    pub fn open(&mut self, now: Moment) {
        self.opened = Some(now);
        self.changes_before = self.changes.len();
    }

    /// The last number that was broadcast since the opening.
    pub fn last(&self) -> Option<Broadcast> {
        self.broadcasts.last().copied()
    }

    /// A phone shows the badge from now on.
    pub fn drawn(&mut self, viewer: u32, now: Moment) {
        self.watching.insert(viewer, Watching { since: now, shown: None });
    }

    /// It shows it no longer.
    pub fn dark(&mut self, viewer: u32) {
        if self.watching.remove(&viewer).is_some() {
            self.ahead.retain(|(other, ..)| *other != viewer);
        }
    }

    /// The room broadcast a number. `truth` is that of this moment.
    pub fn broadcast(&mut self, count: u64, now: Moment, truth: &Truth) {
        if self.opened.is_some() {
            let (there, ghosts) = (truth.there(), truth.ghosts());
            self.broadcasts.push(Broadcast { at: now.as_secs_f64(), count, there, ghosts });
        }
        let text = badge(count);
        if self.changes.last().is_none_or(|(_, last)| *last != text) {
            self.changes.push((now, text));
        }
        for (viewer, at, text) in std::mem::take(&mut self.ahead) {
            self.heard(viewer, &text, at.max(now));
        }
    }

    /// A phone is told of a badge.
    pub fn told(&mut self, viewer: u32, text: &str, at: Moment) {
        self.messages += u64::from(self.opened.is_some());
        self.heard(viewer, text, at);
    }

    fn heard(&mut self, viewer: u32, text: &str, at: Moment) {
        let Some(watching) = self.watching.get(&viewer) else { return };
        let said =
            |which: usize| self.changes.get(which).filter(|(_, said)| said == text).map(|(since, _)| (which, *since));
        let found = match watching.shown {
            // Phones hear changes in their order, and may skip some.
            Some(shown) => (shown + 1..self.changes.len()).find_map(said),
            None => (0..self.changes.len()).rev().take_while(|which| !self.is_old(*which, at)).find_map(said),
        };
        if let Some((which, since)) = found {
            let news = watching.shown.is_some() && watching.since < since;
            if let Some(watching) = self.watching.get_mut(&viewer) {
                watching.shown = Some(which);
            }
            if news && self.opened.is_some_and(|opened| opened <= since) {
                self.late.add(at.saturating_sub(since));
            }
        } else if watching.shown.and_then(said).is_none() {
            // Sooner than we, or wrong.
            self.ahead.push((viewer, at, text.to_owned()));
        }
    }

    /// Whether this badge was no longer the badge long before.
    fn is_old(&self, which: usize, at: Moment) -> bool {
        self.changes.get(which + 1).is_some_and(|&(end, _)| end + OLD <= at)
    }

    /// What phones were told, and what was not broadcast until now, is wrong. To be called now and then.
    pub fn settle(&mut self, now: Moment) {
        let late: Vec<_> = self.ahead.extract_if(.., |(_, at, _)| *at + OLD < now).collect();
        for (viewer, at, text) in late {
            self.is_wrong(viewer, &text, at);
        }
    }

    fn is_wrong(&mut self, viewer: u32, text: &str, at: Moment) {
        if self.opened.is_some_and(|opened| opened <= at) {
            self.wrongs += 1;
            if self.wrong.len() < 20 {
                self.wrong.push(format!("v{viewer} was told {text} at {at:.2?}"));
            }
        }
    }

    /// The first things that were wrong, in words.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// What came of it. What happened after `until` may be under way.
    pub fn figures(&self, until: Moment) -> BadgeFigures {
        let errors = || self.broadcasts.iter().map(Broadcast::error);
        // An older badge than this one is stale, unless it reads the same.
        let last = self.changes.iter().rposition(|(since, _)| *since < until);
        let text = |which: Option<usize>| which.and_then(|which| self.changes.get(which)).map(|(_, text)| text);
        let stale = |watching: &&Watching| {
            watching.since < until && watching.shown < last && text(watching.shown) != text(last)
        };
        BadgeFigures {
            broadcasts: self.broadcasts.len(),
            error: errors().fold(0.0, f64::max),
            mean_error: errors().sum::<f64>() / self.broadcasts.len().max(1) as f64,
            unexplained: self.broadcasts.iter().map(Broadcast::unexplained).fold(0.0, f64::max),
            ghosts: self.broadcasts.iter().map(|broadcast| broadcast.ghosts).max().unwrap_or_default(),
            changes: self.changes.len() - self.changes_before,
            late: self.late.figures(),
            wrong: self.wrongs,
            stale: self.watching.values().filter(stale).count() as u64,
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

    fn truth(there: u32, ghosts: u32) -> Truth {
        let mut truth = Truth::new(ms(40_000));
        for viewer in 0..there + ghosts {
            truth.hello(viewer, ms(1));
            truth.welcome(viewer);
        }
        (there..there + ghosts).for_each(|viewer| truth.vanish(viewer, ms(2)));
        truth
    }

    #[test]
    fn the_count_is_held_against_who_is_there_at_that_moment() {
        let mut badges = Badges::default();
        badges.broadcast(5, ms(1), &truth(1, 0));
        badges.open(ms(2));
        badges.broadcast(200, ms(3), &truth(200, 0));
        badges.broadcast(203, ms(4), &truth(200, 2));
        let figures = badges.figures(ms(1_000_000));
        assert_eq!((figures.broadcasts, figures.error, figures.mean_error), (2, 0.015, 0.0075));
        assert_eq!((figures.unexplained, figures.ghosts), (0.005, 2));
    }

    #[test]
    fn a_badge_is_timed_from_the_broadcast_that_changed_it() {
        let (mut badges, truth) = (Badges::default(), truth(1, 0));
        badges.open(ms(0));
        badges.broadcast(1_000, ms(1), &truth);
        badges.drawn(7, ms(2));
        badges.told(7, "1k", ms(9));
        badges.broadcast(1_234, ms(1_000), &truth);
        badges.broadcast(1_250, ms(2_000), &truth);
        badges.told(7, "1.2k", ms(2_005));
        let figures = badges.figures(ms(1_000_000));
        // The first is an answer to the question, and no news.
        assert_eq!((figures.late.number, figures.late.max), (1, 1_005.0));
        assert_eq!((figures.changes, figures.wrong, figures.stale, figures.messages), (2, 0, 0, 2));
    }

    #[test]
    fn who_is_told_before_us_is_in_time() {
        let (mut badges, truth) = (Badges::default(), truth(1, 0));
        badges.open(ms(0));
        badges.broadcast(1_000, ms(1), &truth);
        badges.drawn(7, ms(2));
        badges.told(7, "1k", ms(9));
        badges.told(7, "1.2k", ms(999));
        badges.broadcast(1_234, ms(1_000), &truth);
        badges.settle(ms(20_000));
        let figures = badges.figures(ms(1_000_000));
        assert_eq!((figures.late.number, figures.late.max, figures.wrong, figures.stale), (1, 0.0, 0, 0));
    }

    #[test]
    fn a_badge_that_reads_as_an_earlier_one_is_a_new_one() {
        let (mut badges, truth) = (Badges::default(), truth(1, 0));
        badges.open(ms(0));
        badges.broadcast(1_000, ms(1), &truth);
        badges.drawn(7, ms(2));
        badges.told(7, "1k", ms(3));
        badges.broadcast(1_200, ms(1_000), &truth);
        badges.told(7, "1.2k", ms(1_003));
        badges.told(7, "1k", ms(1_999));
        badges.broadcast(1_000, ms(2_000), &truth);
        let figures = badges.figures(ms(1_000_000));
        assert_eq!((figures.late.number, figures.late.max, figures.wrong, figures.stale), (2, 3.0, 0, 0));
    }

    #[test]
    fn a_badge_of_no_broadcast_or_of_an_old_one_is_wrong() {
        let (mut badges, truth) = (Badges::default(), truth(1, 0));
        badges.open(ms(0));
        badges.broadcast(1_000, ms(1), &truth);
        badges.broadcast(1_200, ms(1_000), &truth);
        badges.drawn(7, ms(2_000));
        badges.told(7, "1k", ms(2_001));
        badges.settle(ms(12_000));
        // On its way when it changed: not wrong, but it must be put right.
        assert_eq!((badges.figures(ms(1_000_000)).wrong, badges.figures(ms(1_000_000)).stale), (0, 1));
        badges.drawn(7, ms(20_000));
        badges.told(7, "1k", ms(20_000));
        badges.settle(ms(40_000));
        assert_eq!(badges.figures(ms(1_000_000)).wrong, 1);
        badges.told(7, "1.1k", ms(40_001));
        badges.settle(ms(60_000));
        assert_eq!((badges.figures(ms(1_000_000)).wrong, badges.wrong().len()), (2, 2));
    }

    #[test]
    fn a_phone_that_keeps_an_old_badge_is_stale() {
        let (mut badges, truth) = (Badges::default(), truth(1, 0));
        badges.broadcast(1_000, ms(1), &truth);
        badges.drawn(7, ms(2));
        badges.told(7, "1k", ms(3));
        assert_eq!(badges.figures(ms(1_000_000)).stale, 0);
        badges.broadcast(1_200, ms(4), &truth);
        assert_eq!(badges.figures(ms(1_000_000)).stale, 1);
        badges.dark(7);
        assert_eq!(badges.figures(ms(1_000_000)).stale, 0);
    }
}
