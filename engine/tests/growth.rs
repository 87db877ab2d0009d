//! No single step on a large room is long: joins one by one, a change of settings, goings, all of them within a budget.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use std::time::{Duration, Instant};

use common::Driver;
use presence_engine::settings::{SettingsChange, Share};

const MEMBERS: u32 = 300_000;
/// Generous, for machines that do other things as well; a walk over the whole room is far above it.
const BOUND: Duration = Duration::from_millis(20);

/// The three longest of many steps. A scheduler may take the processor away once or twice; a growth step is met by name.
#[derive(Debug, Default)]
struct Longest(Vec<(Duration, u32)>);

impl Longest {
    fn time<T>(&mut self, number: u32, step: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = step();
        self.0.push((started.elapsed(), number));
        if self.0.len() > 64 {
            self.trim();
        }
        result
    }

    fn trim(&mut self) {
        self.0.sort_unstable_by(|one, other| other.cmp(one));
        self.0.truncate(3);
    }

    fn check(mut self, what: &str) {
        self.trim();
        println!("{what}: {:?}", self.0);
        // The longest but one, so that one interruption from outside is forgiven.
        assert!(self.0.get(1).is_none_or(|(time, _)| *time < BOUND), "{what}: {:?}", self.0);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "measures time: for release builds")]
fn no_step_on_a_large_room_is_long() {
    let mut d = Driver::with(60_000, 1_000, 1_000, Share::Friends);
    d.replica = None;
    let mut joins = Longest::default();
    for n in 0..MEMBERS {
        let member = format!("member {n:08}");
        joins.time(n, || d.beat(&member, ""));
    }
    joins.check("a join");
    d.told.clear();

    let mut altering = Longest::default();
    altering.time(0, || d.alter(&SettingsChange { timeout: Some(Some(1_000)), ..Default::default() }));
    altering.time(1, || d.alter(&SettingsChange { uniques_days: Some(Some(1)), ..Default::default() }));
    altering.check("ALTER");

    let mut ticks = Longest::default();
    let (mut number, mut last) = (0, usize::MAX);
    while d.room.count() > 0 || last != d.told.len() {
        last = d.told.len();
        d.now += 2;
        ticks.time(number, || d.tick_some(d.now, 256));
        number += 1;
        assert!(number < 2_000_000, "nobody stays for ever");
    }
    ticks.check("a tick of 256 items");
    assert_eq!(d.told.iter().filter(|told| told.kind == "timeout").count(), MEMBERS as usize);
}
