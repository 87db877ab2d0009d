//! Holds what phones and services were told against the truth.

mod badges;
mod departures;
mod dots;
mod report;

pub use self::badges::{BadgeFigures, Badges, Broadcast};
pub use self::departures::{DepartureFigures, Departures};
pub use self::dots::{Claim, DotFigures, Dots};
pub use self::report::{Line, Promises, Report, Sockets};

use crate::audience::Audience;
use crate::scenario::{Deed, Step};
use crate::truth::{Departure, Truth};
use crate::Moment;

/// What happened since is still on its way at the end.
const UNDER_WAY: Moment = Moment::from_secs(2);

/// Knows the truth, and who was told what.
pub struct Judge {
    truth: Truth,
    badges: Badges,
    dots: Dots,
    departures: Departures,
    refused: u64,
}

impl Judge {
    /// Nobody is there. `patience`: the room's timeout and grace.
    pub fn new(audience: Audience, patience: Moment) -> Self {
        Self {
            truth: Truth::new(patience),
            badges: Badges::default(),
            dots: Dots::new(audience),
            departures: Departures::default(),
            refused: 0,
        }
    }

    /// From now on badges and lateness are judged.
    pub fn open(&mut self, now: Moment) {
        self.badges.open(now);
        self.dots.open(now);
        self.departures.open(now);
    }

    /// A viewer did something.
    pub fn did(&mut self, step: Step, now: Moment) {
        let viewer = step.viewer;
        match step.deed {
            Deed::Enter => return self.truth.hello(viewer, now),
            Deed::Beat => return self.truth.beat(viewer, now),
            Deed::Bye => {
                if let Some(departure) = self.truth.goodbye(viewer, step.gateway, now) {
                    self.gone(departure);
                }
            }
            Deed::Tunnel { .. } | Deed::GiveUp => self.truth.cut(viewer),
            Deed::Vanish => self.truth.vanish(viewer, now),
        }
        self.dark(viewer);
    }

    /// The gateway ended a viewer's connection.
    pub fn cut(&mut self, viewer: u32) {
        self.truth.cut(viewer);
        self.dark(viewer);
    }

    /// A gateway is dead. Its viewers are told of by [`Judge::cut`].
    pub fn gateway_died(&mut self, gateway: u16, now: Moment) {
        for viewer in self.truth.untold(gateway, now) {
            if self.departures.excuse(viewer) {
                self.truth.vanish(viewer, now);
                self.dots.excuse(viewer);
            }
        }
    }

    /// A viewer was welcomed.
    pub fn welcomed(&mut self, viewer: u32, now: Moment) {
        if self.truth.welcome(viewer) {
            self.dots.came(viewer, now);
            self.departures.came(viewer);
        }
    }

    /// A viewer with a socket asked for the badge, and for the dots of its friends.
    pub fn drawn(&mut self, viewer: u32, now: Moment) {
        self.badges.drawn(viewer, now);
        self.dots.drawn(viewer, now);
    }

    /// The room took viewers not in.
    pub fn refused(&mut self, viewers: u64) {
        self.refused += viewers;
    }

    /// A phone was told of a badge.
    pub fn badge(&mut self, viewer: u32, text: &str, at: Moment) {
        self.badges.told(viewer, text, at);
    }

    /// A phone was told of a friend.
    pub fn dot(&mut self, viewer: u32, friend: u32, online: bool, at: Moment) {
        let truth = if !online {
            if self.truth.has(friend) {
                Claim::False
            } else {
                Claim::True
            }
        } else if self.truth.may_show(friend) {
            Claim::True
        } else if self.departures.is_under_way(friend, at) {
            Claim::Past
        } else {
            Claim::False
        };
        self.dots.heard(viewer, friend, online, at, truth);
    }

    /// The room broadcast its count.
    pub fn broadcast(&mut self, count: u64, at: Moment) {
        self.badges.broadcast(count, at, &self.truth);
    }

    /// The service was told that somebody is gone.
    pub fn offline(&mut self, viewer: u32, at: Moment) {
        self.departures.heard(viewer, at, &self.truth);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        while let Some(departure) = self.truth.due(now) {
            self.gone(departure);
        }
        self.badges.settle(now);
    }

    fn gone(&mut self, departure: Departure) {
        self.dots.gone(departure);
        self.departures.gone(departure);
    }

    fn dark(&mut self, viewer: u32) {
        self.badges.dark(viewer);
        self.dots.dark(viewer);
    }

    /// Who is there.
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// The last number that was broadcast.
    pub fn last(&self) -> Option<Broadcast> {
        self.badges.last()
    }

    /// False departures until now.
    pub fn false_departures(&self) -> u64 {
        self.departures.wrongs()
    }

    /// Fills in what came of it.
    pub fn report(&self, report: &mut Report, now: Moment) {
        let until = now.saturating_sub(UNDER_WAY);
        report.badges = self.badges.figures(until);
        report.dots = self.dots.figures(&self.truth, until);
        report.departures = self.departures.figures(until);
        report.refused = self.refused;
        let missing = self.dots.missing(until);
        let wrong = [self.departures.wrong(), self.dots.wrong(), self.badges.wrong(), &missing];
        report.wrong = wrong.concat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIENCE: Audience = Audience { size: 100, sockets: 40, friends: 20 };

    const fn s(seconds: u64) -> Moment {
        Moment::from_secs(seconds)
    }

    fn report(judge: &Judge) -> Report {
        let mut report = Report::default();
        judge.report(&mut report, s(1_000));
        report
    }

    fn enters(judge: &mut Judge, viewer: u32, now: Moment) {
        judge.did(Step { viewer, gateway: 0, deed: Deed::Enter }, now);
        judge.welcomed(viewer, now);
        judge.drawn(viewer, now);
    }

    #[test]
    fn a_tunnel_with_its_return_is_no_news_and_a_silent_departure_is_due_after_timeout_and_grace() {
        let mut judge = Judge::new(AUDIENCE, s(40));
        enters(&mut judge, 0, s(1));
        enters(&mut judge, 1, s(1));
        for friend in AUDIENCE.friends_of(0) {
            judge.dot(0, friend, friend == 1, s(2));
        }
        judge.open(s(3));
        judge.did(Step { viewer: 1, gateway: 0, deed: Deed::Tunnel { mute: true } }, s(4));
        enters(&mut judge, 1, s(20));
        judge.tick(s(50));
        judge.did(Step { viewer: 1, gateway: 0, deed: Deed::Beat }, s(50));
        judge.did(Step { viewer: 1, gateway: 0, deed: Deed::Vanish }, s(51));
        judge.tick(s(89));
        assert_eq!(report(&judge).departures.missing, 0);
        judge.tick(s(91));
        assert_eq!(report(&judge).departures.missing, 1);
        judge.offline(1, s(91));
        judge.dot(0, 1, false, s(92));
        let report = report(&judge);
        assert_eq!(
            (report.departures.missing, report.departures.wrong, report.dots.wrong, report.dots.missing),
            (0, 0, 0, 0)
        );
        assert_eq!((report.departures.silent.max, report.dots.silent.max), (1_000.0, 2_000.0));
    }

    #[test]
    fn who_looks_while_a_goodbye_is_under_way_may_see_the_friend_for_that_long() {
        let mut judge = Judge::new(AUDIENCE, s(40));
        enters(&mut judge, 1, s(1));
        judge.did(Step { viewer: 1, gateway: 0, deed: Deed::Bye }, s(2));
        enters(&mut judge, 0, s(3));
        judge.dot(0, 1, true, s(4));
        assert_eq!((report(&judge).dots.wrong, report(&judge).dots.missing), (0, 8));
        judge.offline(1, s(5));
        judge.dot(0, 1, false, s(6));
        judge.dot(0, 1, true, s(8));
        assert_eq!(report(&judge).dots.wrong, 1);
    }

    #[test]
    fn a_goodbye_that_died_with_its_gateway_is_due_later_and_one_that_was_announced_is_not() {
        let mut judge = Judge::new(AUDIENCE, s(40));
        for viewer in [1, 2] {
            enters(&mut judge, viewer, s(1));
            judge.did(Step { viewer, gateway: 0, deed: Deed::Bye }, s(2));
        }
        judge.offline(1, s(2));
        judge.gateway_died(0, s(3));
        assert_eq!((judge.truth().ghosts(), report(&judge).departures.missing), (1, 0));
        judge.tick(s(50));
        assert_eq!(report(&judge).departures.missing, 1);
    }

    #[test]
    fn who_lost_the_gateway_is_there_and_hears_nothing() {
        let mut judge = Judge::new(AUDIENCE, s(40));
        enters(&mut judge, 0, s(1));
        enters(&mut judge, 1, s(1));
        judge.gateway_died(0, s(2));
        judge.cut(0);
        assert_eq!(judge.truth().there(), 2);
        judge.dot(0, 1, false, s(3));
        judge.offline(0, s(3));
        let report = report(&judge);
        assert_eq!((report.dots.wrong, report.dots.missing, judge.false_departures()), (0, 8, 1));
    }
}
