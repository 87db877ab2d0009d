//! Dots: what each watcher is shown of each friend, and how late.

use serde::Serialize;

use crate::audience::{Audience, WATCHED};
use crate::spread::{Figures, Spread};
use crate::truth::{Departure, Truth};
use crate::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Came,
    Left,
    Silent,
}

/// One dot on one screen.
#[derive(Clone, Copy, Debug, Default)]
struct Dot {
    /// The screen is there, and was drawn at that moment.
    asked: Option<Moment>,
    /// Online or not, as told since.
    shown: Option<bool>,
    /// What is to be told, since when, and what happened.
    awaited: Option<(bool, Moment, Option<Cause>)>,
}

/// What is to be thought of something that a watcher is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is so, or may be.
    True,
    /// It was so a moment ago: it must be put right.
    Past,
    /// It is not so.
    False,
}

impl Dot {
    /// Something that happened before `until` was not told.
    fn is_missing(&self, until: Moment) -> bool {
        let old = |since: Moment| since < until;
        let unanswered = self.asked.is_some_and(old) && self.shown.is_none();
        unanswered || self.awaited.is_some_and(|(_, since, _)| old(since))
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DotFigures {
    /// From the friend's welcome to the watcher's screen.
    pub came: Figures,
    /// From the friend's goodbye.
    pub left: Figures,
    /// From the moment at which a silent departure was due.
    pub silent: Figures,
    /// From a screen's first drawing to each of its dots.
    pub first: Figures,
    /// Changes that were not told.
    pub missing: u64,
    /// Online friends shown as offline, and the other way round.
    pub wrong: u64,
    /// Screens' dots that were not right at the end.
    pub stale: u64,
    /// All messages about dots, since the opening.
    pub messages: u64,
}

/// See the module.
pub struct Dots {
    audience: Audience,
    dots: Vec<Dot>,
    /// What is caused before is not judged.
    opened: Option<Moment>,
    came: Spread,
    left: Spread,
    silent: Spread,
    first: Spread,
    wrong: Vec<String>,
    wrongs: u64,
    messages: u64,
}

impl Dots {
    /// Nobody watches yet.
    pub fn new(audience: Audience) -> Self {
        Self {
            audience,
            dots: vec![Dot::default(); audience.friends as usize * WATCHED as usize],
            opened: None,
            came: Spread::default(),
            left: Spread::default(),
            silent: Spread::default(),
            first: Spread::default(),
            wrong: Vec::new(),
            wrongs: 0,
            messages: 0,
        }
    }

    /// From now on it is judged.
    pub fn open(&mut self, now: Moment) {
        self.opened = Some(now);
    }

    fn dot(&mut self, watcher: u32, friend: u32) -> Option<&mut Dot> {
        let place = self.audience.place_of(watcher, friend)?;
        self.dots.get_mut((watcher * WATCHED + place) as usize)
    }

    fn screen(&mut self, watcher: u32) -> &mut [Dot] {
        let from = (watcher * WATCHED) as usize;
        match self.audience.has_friends(watcher) {
            true => self.dots.get_mut(from..from + WATCHED as usize).unwrap_or_default(),
            false => &mut [],
        }
    }

    /// The watcher's screen is drawn: all of its dots are asked for.
    pub fn drawn(&mut self, watcher: u32, now: Moment) {
        self.screen(watcher).fill(Dot { asked: Some(now), shown: None, awaited: None });
    }

    /// The watcher's screen is dark. Nothing needs to be told to it.
    pub fn dark(&mut self, watcher: u32) {
        self.screen(watcher).fill(Dot::default());
    }

    /// Somebody came.
    pub fn came(&mut self, friend: u32, now: Moment) {
        self.caused(friend, true, now, Cause::Came);
    }

    /// Somebody is to be shown as gone.
    pub fn gone(&mut self, departure: Departure) {
        let cause = if departure.silent { Cause::Silent } else { Cause::Left };
        self.caused(departure.viewer, false, departure.due, cause);
    }

    fn caused(&mut self, friend: u32, online: bool, since: Moment, cause: Cause) {
        for watcher in self.audience.friends_of(friend) {
            let Some(dot) = self.dot(watcher, friend) else { continue };
            if dot.asked.is_none() {
                continue;
            }
            let told = dot.shown == Some(online);
            dot.awaited = (!told).then_some((online, since, Some(cause)));
            if told {
                // Before we knew ourselves.
                self.told(since, Moment::ZERO, Some(cause));
            }
        }
    }

    fn told(&mut self, since: Moment, late: Moment, cause: Option<Cause>) {
        if self.opened.is_some_and(|opened| opened <= since) {
            let spread = match cause {
                Some(Cause::Came) => &mut self.came,
                Some(Cause::Left) => &mut self.left,
                Some(Cause::Silent) => &mut self.silent,
                None => return,
            };
            spread.add(late);
        }
    }

    /// It may be that a friend's goodbye was lost with a gateway: it is not waited for.
    pub fn excuse(&mut self, friend: u32) {
        for watcher in self.audience.friends_of(friend) {
            if let Some(dot) = self.dot(watcher, friend) {
                dot.awaited = None;
            }
        }
    }

    /// A watcher is told of a friend.
    pub fn heard(&mut self, watcher: u32, friend: u32, online: bool, at: Moment, claim: Claim) {
        self.messages += u64::from(self.opened.is_some());
        let Some(dot) = self.dot(watcher, friend) else {
            return self.is_wrong(format!("v{watcher} was told of v{friend}, whom it does not watch"));
        };
        let Some(asked) = dot.asked else { return };
        let first = dot.shown.replace(online).is_none();
        let told = dot.awaited.take_if(|&mut (what, ..)| what == online);
        // What was on its way when something happened is put right by what is awaited.
        let older = dot.awaited.is_some();
        if claim == Claim::Past && !older && told.is_none() {
            dot.awaited = Some((!online, at, None));
        }
        if first && self.opened.is_some_and(|opened| opened <= asked) {
            self.first.add(at.saturating_sub(asked));
        }
        if let Some((_, since, cause)) = told {
            self.told(since, at.saturating_sub(since), cause);
        } else if claim == Claim::False && !older {
            let what = if online { "there, who is gone" } else { "gone, who is there" };
            self.is_wrong(format!("v{watcher} was told at {at:.2?} that v{friend} is {what}"));
        }
    }

    fn is_wrong(&mut self, what: String) {
        self.wrongs += 1;
        if self.wrong.len() < 20 {
            self.wrong.push(what);
        }
    }

    /// The first things that were wrong, in words.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// The first things that were not told, in words.
    pub fn missing(&self, until: Moment) -> Vec<String> {
        let dots = (0_u32..).zip(&self.dots).filter(|(_, dot)| dot.is_missing(until)).take(20);
        dots.map(|(number, dot)| {
            let watcher = number / WATCHED;
            let friend = self.audience.friends_of(watcher).nth((number % WATCHED) as usize).unwrap_or_default();
            let Dot { asked, shown, awaited } = dot;
            format!("v{watcher} was not told of v{friend}: asked {asked:.2?}, shown {shown:?}, awaited {awaited:.2?}")
        })
        .collect()
    }

    /// What came of it. What happened after `until` may be under way.
    pub fn figures(&self, truth: &Truth, until: Moment) -> DotFigures {
        let missing = self.dots.iter().filter(|dot| dot.is_missing(until));
        let mut stale = 0;
        for watcher in 0..self.audience.friends {
            for friend in self.audience.friends_of(watcher) {
                let place = self.audience.place_of(watcher, friend).unwrap_or_default();
                let dot = self.dots.get((watcher * WATCHED + place) as usize).copied().unwrap_or_default();
                let settled = dot.awaited.is_none_or(|(_, since, _)| since < until);
                let right = |shown| if shown { truth.may_show(friend) } else { !truth.has(friend) };
                stale += u64::from(settled && dot.shown.is_some_and(|shown| !right(shown)));
            }
        }
        DotFigures {
            came: self.came.figures(),
            left: self.left.figures(),
            silent: self.silent.figures(),
            first: self.first.figures(),
            missing: missing.count() as u64,
            wrong: self.wrongs,
            stale,
            messages: self.messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIENCE: Audience = Audience { size: 100, sockets: 40, friends: 20 };

    const fn ms(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    struct Seen {
        truth: Truth,
        dots: Dots,
    }

    impl Seen {
        /// v0 and v1 are there, and v0 has been told so.
        fn new() -> Self {
            let mut seen = Self { truth: Truth::new(ms(40_000)), dots: Dots::new(AUDIENCE) };
            seen.comes(0, ms(1));
            seen.comes(1, ms(1));
            seen.dots.drawn(0, ms(2));
            for friend in AUDIENCE.friends_of(0) {
                seen.hears(friend, friend == 1, ms(3));
            }
            seen.dots.open(ms(5));
            seen
        }

        fn comes(&mut self, viewer: u32, now: Moment) {
            self.truth.hello(viewer, now);
            if self.truth.welcome(viewer) {
                self.dots.came(viewer, now);
            }
        }

        fn leaves(&mut self, viewer: u32, now: Moment) {
            if let Some(departure) = self.truth.goodbye(viewer, 0, now) {
                self.dots.gone(departure);
            }
        }

        fn hears(&mut self, friend: u32, online: bool, at: Moment) {
            let may_be = if online { self.truth.may_show(friend) } else { !self.truth.has(friend) };
            self.dots.heard(0, friend, online, at, if may_be { Claim::True } else { Claim::False });
        }

        fn figures(&self) -> DotFigures {
            self.dots.figures(&self.truth, ms(1_000_000))
        }
    }

    #[test]
    fn what_is_told_is_timed_from_its_cause() {
        let mut seen = Seen::new();
        seen.comes(2, ms(10));
        seen.hears(2, true, ms(14));
        seen.leaves(1, ms(20));
        seen.hears(1, false, ms(27));
        seen.truth.vanish(2, ms(30));
        let departure = seen.truth.due(ms(50_000)).unwrap();
        seen.dots.gone(departure);
        seen.hears(2, false, ms(40_012));
        let figures = seen.figures();
        assert_eq!((figures.came.max, figures.left.max, figures.silent.max), (4.0, 7.0, 2.0));
        assert_eq!((figures.missing, figures.wrong, figures.stale, figures.messages), (0, 0, 0, 3));
    }

    #[test]
    fn what_is_not_told_is_missing() {
        let mut seen = Seen::new();
        seen.comes(2, ms(10));
        assert_eq!((seen.figures().missing, seen.figures().stale), (1, 1));
        seen.dots.drawn(0, ms(12));
        assert_eq!(seen.figures().missing, 8);
        seen.dots.dark(0);
        assert_eq!((seen.figures().missing, seen.figures().stale), (0, 0));
    }

    #[test]
    fn what_is_not_true_is_wrong() {
        let mut seen = Seen::new();
        seen.truth.cut(1);
        seen.hears(1, false, ms(10));
        assert_eq!(seen.figures().wrong, 1);
        seen.hears(3, true, ms(11));
        assert_eq!((seen.figures().wrong, seen.dots.wrong().len()), (2, 2));
        seen.hears(10, true, ms(12));
        assert_eq!(seen.figures().wrong, 3);
    }

    #[test]
    fn what_is_heard_before_its_cause_is_in_time_and_what_is_older_is_put_right() {
        let mut seen = Seen::new();
        seen.truth.hello(2, ms(9));
        seen.hears(2, true, ms(10));
        assert!(seen.truth.welcome(2));
        seen.dots.came(2, ms(11));
        assert_eq!((seen.figures().came.number, seen.figures().came.max), (1, 0.0));
        seen.dots.drawn(0, ms(20));
        seen.comes(3, ms(21));
        seen.hears(3, false, ms(22));
        assert_eq!(seen.figures().wrong, 0);
        seen.hears(3, true, ms(25));
        assert_eq!(seen.figures().came.max, 4.0);
    }

    #[test]
    fn a_ghost_may_be_shown_and_a_lost_goodbye_is_not_waited_for() {
        let mut seen = Seen::new();
        seen.leaves(1, ms(10));
        seen.truth.vanish(1, ms(11));
        seen.dots.excuse(1);
        assert_eq!((seen.figures().missing, seen.figures().stale), (0, 0));
        seen.dots.drawn(0, ms(20));
        seen.hears(1, true, ms(21));
        assert_eq!(seen.figures().wrong, 0);
    }
}
