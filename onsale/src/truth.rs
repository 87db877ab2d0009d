//! Who is there, by what the viewers themselves did; and who may still be counted, by the contract of the room.
//!
//! A viewer is there from the welcome until they leave, with or without a word; in a tunnel they are there. Who leaves
//! without a word is counted until timeout and grace after the last beat, and so is who says goodbye on a new connection
//! while one that was lost is still waited for: these are the `ghosts`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Moment;

/// A gateway that dies may not have passed on what it was told so recently.
const UNTOLD: Moment = Moment::from_secs(2);

#[derive(Clone, Copy, Debug, Default)]
struct Who {
    there: bool,
    /// Said hello, and waits for the welcome.
    entering: bool,
    ghost: bool,
    last_beat: Moment,
    /// When the last of the connections that were lost is waited for no longer.
    waited_until: Moment,
}

/// Somebody who is to be announced as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Who.
    pub viewer: u32,
    /// When it is due.
    pub due: Moment,
    /// Without a word.
    pub silent: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Truth {
    /// Timeout and grace.
    patience: Moment,
    who: Vec<Who>,
    there: u32,
    ghosts: u32,
    dues: BinaryHeap<Reverse<(Moment, u32)>>,
    goodbyes: VecDeque<(Moment, u32, u16)>,
}

impl Truth {
    /// Nobody is there. `patience`: timeout and grace.
    pub fn new(patience: Moment) -> Self {
        Self { patience, who: Vec::new(), there: 0, ghosts: 0, dues: BinaryHeap::new(), goodbyes: VecDeque::new() }
    }

    fn of(&self, viewer: u32) -> Who {
        self.who.get(viewer as usize).copied().unwrap_or_default()
    }

    fn change(&mut self, viewer: u32, change: impl FnOnce(&mut Who)) -> Who {
        let place = viewer as usize;
        if self.who.len() <= place {
            self.who.resize(place + 1, Who::default());
        }
        if let Some(who) = self.who.get_mut(place) {
            change(who);
        }
        self.of(viewer)
    }

    /// Viewers who are there.
    pub fn there(&self) -> u32 {
        self.there
    }

    /// Viewers who are not there and still counted, rightly.
    pub fn ghosts(&self) -> u32 {
        self.ghosts
    }

    /// Whether the viewer is there.
    pub fn has(&self, viewer: u32) -> bool {
        self.of(viewer).there
    }

    /// Whether the viewer may be counted and shown.
    pub fn may_show(&self, viewer: u32) -> bool {
        let who = self.of(viewer);
        who.there || who.entering || who.ghost
    }

    /// A hello.
    pub fn hello(&mut self, viewer: u32, now: Moment) {
        self.change(viewer, |who| (who.entering, who.last_beat) = (true, now));
    }

    /// A welcome. Whether the viewer came with it: was neither there nor counted.
    pub fn welcome(&mut self, viewer: u32) -> bool {
        let before = self.of(viewer);
        self.change(viewer, |who| (who.entering, who.there, who.ghost) = (false, true, false));
        self.there += u32::from(!before.there);
        self.ghosts -= u32::from(before.ghost);
        !before.there && !before.ghost
    }

    /// A beat.
    pub fn beat(&mut self, viewer: u32, now: Moment) {
        self.change(viewer, |who| who.last_beat = now);
    }

    /// The connection is lost; the viewer will be back.
    pub fn cut(&mut self, viewer: u32) {
        let patience = self.patience;
        self.change(viewer, |who| {
            // The hello may have been heard, although the welcome was not: who comes may be shown.
            who.entering &= !who.there;
            who.waited_until = who.waited_until.max(who.last_beat + patience);
        });
    }

    /// A goodbye to that gateway. When the viewer is to be announced as gone is told now, or later by [`Truth::due`].
    pub fn goodbye(&mut self, viewer: u32, gateway: u16, now: Moment) -> Option<Departure> {
        while self.goodbyes.front().is_some_and(|&(at, ..)| at + UNTOLD < now) {
            self.goodbyes.pop_front();
        }
        self.goodbyes.push_back((now, viewer, gateway));
        self.leave(viewer, now, false)
    }

    /// The viewer is gone for good, without a word.
    pub fn vanish(&mut self, viewer: u32, now: Moment) {
        self.cut(viewer);
        self.leave(viewer, now, true);
    }

    fn leave(&mut self, viewer: u32, now: Moment, silent: bool) -> Option<Departure> {
        let before = self.of(viewer);
        let who = self.change(viewer, |who| {
            who.ghost = who.waited_until > now;
            (who.there, who.entering) = (false, false);
        });
        self.there -= u32::from(before.there);
        if !who.ghost {
            return Some(Departure { viewer, due: now, silent });
        }
        self.ghosts += 1;
        self.dues.push(Reverse((who.waited_until, viewer)));
        None
    }

    /// The next who is waited for no longer at `now`.
    pub fn due(&mut self, now: Moment) -> Option<Departure> {
        while let Some(&Reverse((due, viewer))) = self.dues.peek() {
            if due > now {
                return None;
            }
            self.dues.pop();
            let who = self.of(viewer);
            if who.ghost && who.waited_until == due {
                self.change(viewer, |who| who.ghost = false);
                self.ghosts -= 1;
                return Some(Departure { viewer, due, silent: true });
            }
        }
        None
    }

    /// Who said goodbye to that gateway a moment before it died: it may never have been passed on.
    pub fn untold(&self, gateway: u16, now: Moment) -> Vec<u32> {
        let late = self.goodbyes.iter().filter(|&&(at, _, of)| of == gateway && at + UNTOLD >= now);
        late.map(|&(_, viewer, _)| viewer).filter(|&viewer| !self.may_show(viewer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    fn entered(truth: &mut Truth, viewer: u32, now: Moment) {
        truth.hello(viewer, now);
        assert!(truth.welcome(viewer));
    }

    #[test]
    fn a_viewer_is_there_from_the_welcome_to_the_goodbye() {
        let mut truth = Truth::new(s(40));
        truth.hello(3, s(1));
        assert!(!truth.has(3) && truth.may_show(3) && truth.there() == 0);
        assert!(truth.welcome(3));
        assert!(truth.has(3) && truth.there() == 1);
        assert_eq!(truth.goodbye(3, 0, s(9)), Some(Departure { viewer: 3, due: s(9), silent: false }));
        assert!(!truth.may_show(3));
        assert_eq!((truth.there(), truth.ghosts(), truth.due(s(100))), (0, 0, None));
    }

    #[test]
    fn who_goes_without_a_word_is_counted_until_timeout_and_grace_after_the_last_beat() {
        let mut truth = Truth::new(s(40));
        entered(&mut truth, 3, s(1));
        truth.beat(3, s(5));
        truth.vanish(3, s(9));
        assert_eq!((truth.has(3), truth.may_show(3), truth.there(), truth.ghosts()), (false, true, 0, 1));
        assert_eq!(truth.due(s(44)), None);
        assert_eq!(truth.due(s(45)), Some(Departure { viewer: 3, due: s(45), silent: true }));
        assert_eq!((truth.due(s(45)), truth.ghosts(), truth.may_show(3)), (None, 0, false));
    }

    #[test]
    fn in_a_tunnel_a_viewer_is_there_and_coming_out_is_no_news() {
        let mut truth = Truth::new(s(40));
        entered(&mut truth, 3, s(1));
        truth.cut(3);
        assert!(truth.has(3));
        truth.hello(3, s(20));
        assert!(!truth.welcome(3));
        assert_eq!((truth.there(), truth.due(s(100))), (1, None));
    }

    #[test]
    fn who_lost_the_gateway_before_the_welcome_may_be_shown() {
        let mut truth = Truth::new(s(40));
        truth.hello(3, s(1));
        truth.cut(3);
        assert!(truth.may_show(3) && truth.there() == 0);
        truth.hello(3, s(2));
        assert!(truth.welcome(3));
    }

    #[test]
    fn a_goodbye_after_a_tunnel_waits_for_the_lost_connection() {
        let mut truth = Truth::new(s(40));
        entered(&mut truth, 3, s(1));
        truth.cut(3);
        truth.hello(3, s(20));
        truth.welcome(3);
        assert_eq!(truth.goodbye(3, 0, s(30)), None);
        assert_eq!((truth.there(), truth.ghosts()), (0, 1));
        assert_eq!(truth.due(s(41)), Some(Departure { viewer: 3, due: s(41), silent: true }));
    }

    #[test]
    fn a_goodbye_to_a_gateway_that_dies_may_be_lost() {
        let mut truth = Truth::new(s(40));
        for viewer in 0..4 {
            entered(&mut truth, viewer, s(1));
        }
        truth.goodbye(0, 7, s(10));
        truth.goodbye(1, 7, s(13));
        truth.goodbye(2, 8, s(13));
        assert_eq!(truth.untold(7, s(14)), [1]);
        truth.vanish(1, s(14));
        assert_eq!((truth.there(), truth.ghosts()), (1, 1));
        assert_eq!(truth.due(s(41)).map(|departure| departure.viewer), Some(1));
    }
}
