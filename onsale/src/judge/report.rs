//! What came of it all, and whether it was what is promised.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{BadgeFigures, DepartureFigures, DotFigures};
use crate::scenario::Tally;
use crate::Moment;

/// What is promised.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// Greatest error of a number that is broadcast, in parts of the truth.
    pub error: f64,
    /// What 99 of 100 badges and dots do not exceed.
    pub late: Moment,
}

/// How many sockets stood.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sockets {
    /// Fewest viewers with a socket each, in a second of the show.
    pub least: u32,
    /// Most.
    pub most: u32,
}

/// See the module.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Seconds that were judged.
    pub seconds: f64,
    /// Viewers who were there, fewest and most at a broadcast.
    pub there: (u32, u32),
    /// Viewers with a socket each.
    pub sockets: Sockets,
    /// What happened.
    pub tally: Tally,
    /// Gateways that died.
    pub gateways_died: usize,
    /// From the death of a gateway until the last of its viewers was welcomed elsewhere, in ms.
    pub refuge_ms: Option<f64>,
    /// Badges.
    pub badges: BadgeFigures,
    /// Dots.
    pub dots: DotFigures,
    /// Departures.
    pub departures: DepartureFigures,
    /// Viewers who were not taken in.
    pub refused: u64,
    /// What the server counted meanwhile, by the names of INFO presence.
    pub server: BTreeMap<String, i64>,
    /// By how much the load itself was behind at most, in ms.
    pub behind_ms: f64,
    /// The first things that were wrong, in words.
    pub wrong: Vec<String>,
    /// Phones whose connection to a living gateway ended without their doing.
    pub cuts: Vec<String>,
    /// Promises that were not kept, in words.
    pub broken: Vec<String>,
}

impl Report {
    /// For how long the server was deaf meanwhile, in ms: silences last so much longer.
    pub fn deaf_ms(&self) -> f64 {
        let deaf = self.server.iter().filter(|(name, _)| name.starts_with("deaf_ms_"));
        deaf.map(|(_, &ms)| ms as f64).sum()
    }

    /// Finds the promises that were not kept.
    pub fn judge(&mut self, promises: Promises) {
        let late = promises.late.as_secs_f64() * 1000.0;
        let (badges, dots, departures) = (&self.badges, &self.dots, &self.departures);
        let mut broken = Vec::new();
        let mut promise = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        promise(departures.wrong == 0, format!("{} false departures", departures.wrong));
        promise(departures.missing == 0, format!("{} departures were not announced", departures.missing));
        promise(badges.broadcasts > 0, "no count was broadcast".into());
        promise(badges.error <= promises.error, format!("the count was wrong by {:.2} %", badges.error * 100.0));
        promise(badges.wrong == 0, format!("{} badges were no rounding of the count", badges.wrong));
        promise(badges.stale == 0, format!("{} phones had an old badge at the end", badges.stale));
        promise(dots.wrong == 0, format!("{} dots were wrong", dots.wrong));
        promise(dots.missing == 0, format!("{} dots were not told", dots.missing));
        promise(dots.stale == 0, format!("{} dots were not right at the end", dots.stale));
        promise(self.refused == 0, format!("{} viewers were refused", self.refused));
        let unanswered = self.tally.unanswered;
        promise(unanswered == 0, format!("{unanswered} hellos were not answered"));
        promise(self.cuts.is_empty(), format!("{} connections were cut", self.cuts.len()));
        // A server that stands still does not hear anybody: that time is nobody's silence.
        let deaf = self.deaf_ms();
        let spreads = [
            ("badges", badges.late, late),
            ("dots of friends who came", dots.came, late),
            ("dots of friends who left", dots.left, late),
            ("dots of friends who fell silent", dots.silent, late + deaf),
            ("first dots", dots.first, late),
        ];
        for (what, spread, late) in spreads {
            promise(spread.p99 <= late, format!("{what} were late by {:.0} ms (p99)", spread.p99));
        }
        self.broken = broken;
    }
}

/// One second, for whoever watches.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Line {
    /// Seconds since the start.
    pub at: f64,
    /// Viewers who are there.
    pub there: u32,
    /// Viewers with a socket each.
    pub sockets: u32,
    /// The last number that was broadcast.
    pub count: Option<u64>,
    /// Its error, in parts of the truth.
    pub error: Option<f64>,
    /// Waiting for a welcome.
    pub entering: u32,
    /// What happened since the doors were open.
    pub tally: Tally,
    /// Messages with badges and dots to phones.
    pub messages: u64,
    /// False departures.
    pub false_departures: u64,
    /// By how much the load itself was behind in that second, in ms.
    pub behind_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;

    const PROMISES: Promises = Promises { error: 0.01, late: Moment::from_millis(100) };

    fn broken(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let mut report = Report::default();
        report.badges.broadcasts = 10;
        change(&mut report);
        report.judge(PROMISES);
        report.broken
    }

    #[test]
    fn each_promise_can_be_broken() {
        assert_eq!(broken(|_| {}), Vec::<String>::new());
        let mut late = Spread::default();
        late.add(Moment::from_millis(101));
        let late = late.figures();
        assert_eq!(broken(|report| report.departures.wrong = 2), ["2 false departures"]);
        assert_eq!(broken(|report| report.badges.error = 0.0101), ["the count was wrong by 1.01 %"]);
        assert_eq!(broken(|report| report.badges.late = late), ["badges were late by 101 ms (p99)"]);
        let others: [fn(&mut Report); 10] = [
            |report| report.departures.missing = 1,
            |report| report.badges.broadcasts = 0,
            |report| report.badges.wrong = 1,
            |report| report.badges.stale = 1,
            |report| report.dots.wrong = 1,
            |report| report.dots.missing = 1,
            |report| report.dots.stale = 1,
            |report| report.refused = 1,
            |report| report.tally.unanswered = 1,
            |report| report.cuts.push("v1".into()),
        ];
        for change in others {
            assert_eq!(broken(change).len(), 1);
        }
        assert_eq!(broken(|report| report.dots.came = late).len(), 1);
        assert_eq!(broken(|report| (report.dots.left, report.dots.silent) = (late, late)).len(), 2);
        assert_eq!(broken(|report| report.dots.first = late).len(), 1);
        let excused = broken(|report| {
            report.server.insert("deaf_ms_stall".into(), 1);
            report.dots.silent = late;
        });
        assert_eq!(excused, Vec::<String>::new());
    }
}
