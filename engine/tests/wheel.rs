//! The wheel against a sorted twin that knows every deadline.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics fails, as it should"
)]

use std::collections::BTreeSet;

use presence_engine::wheel::{Link, Links, Wheel};
use proptest::prelude::*;

struct Entries(Vec<Link>);

impl Links for Entries {
    fn link(&self, slot: u32) -> Link {
        self.0.get(slot as usize).copied().unwrap_or_default()
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(place) = self.0.get_mut(slot as usize) {
            *place = link;
        }
    }
}

/// A wheel, its entries, and the twin.
struct Bench {
    wheel: Wheel,
    entries: Entries,
    /// Real moments by slot; a passed one counts as the moment of insertion.
    due: Vec<Option<u64>>,
    twin: BTreeSet<(u64, u32)>,
    now: u64,
}

impl Bench {
    fn new(now: u64, slots: usize) -> Self {
        Self {
            wheel: Wheel::new(now),
            entries: Entries(vec![Link::UNLINKED; slots]),
            due: vec![None; slots],
            twin: BTreeSet::new(),
            now,
        }
    }

    fn insert(&mut self, slot: u32, due: u64) {
        self.wheel.insert(&mut self.entries, slot, due);
        self.set_due(slot, Some(due.max(self.now)));
    }

    fn remove(&mut self, slot: u32) {
        self.wheel.remove(&mut self.entries, slot);
        self.set_due(slot, None);
    }

    /// What a beat does: the deadline moves on, the wheel is not told.
    fn postpone(&mut self, slot: u32, by: u64) {
        if let Some(due) = self.due[slot as usize] {
            self.set_due(slot, Some(due.saturating_add(by)));
        }
    }

    fn set_due(&mut self, slot: u32, due: Option<u64>) {
        if let Some(old) = std::mem::replace(&mut self.due[slot as usize], due) {
            self.twin.remove(&(old, slot));
        }
        self.twin.extend(due.map(|due| (due, slot)));
    }

    /// Pops until `until`, and returns those that were due, in the order in which they came out. What is later than the
    /// moment that `early` tells is inserted again.
    fn run(&mut self, until: u64, early: impl Fn(&Wheel) -> u64) -> Vec<(u64, u32)> {
        let mut gone = Vec::new();
        let most = 17 * (self.due.len() + 1);
        for _ in 0..most {
            let Some(slot) = self.wheel.pop(&mut self.entries, until) else {
                self.now = until;
                return gone;
            };
            assert!(!self.entries.link(slot).is_linked());
            assert!(self.wheel.now() <= until);
            let due = self.due[slot as usize].unwrap();
            if due > early(&self.wheel) {
                self.wheel.insert(&mut self.entries, slot, due);
            } else {
                self.set_due(slot, None);
                gone.push((due, slot));
            }
        }
        panic!("no end after {most} pops");
    }

    /// What the twin says is due until then.
    fn expected(&self, until: u64) -> Vec<(u64, u32)> {
        self.twin.range(..=(until, u32::MAX)).copied().collect()
    }

    fn check(&self) {
        assert_eq!(self.wheel.is_empty(), self.twin.is_empty());
        match (self.wheel.next_due(), self.twin.first()) {
            (Some(bound), Some(&(due, _))) => assert!(bound <= due, "next_due {bound} is later than {due}"),
            (bound, first) => assert!(bound.is_none() && first.is_none(), "{bound:?}, {first:?}"),
        }
        for (due, link) in self.due.iter().zip(&self.entries.0) {
            assert_eq!(due.is_some(), link.is_linked());
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u64),
    InsertPast(u32, u64),
    Remove(u32),
    Postpone(u32, u64),
    Advance(u64),
}

const SLOTS: u32 = 40;

/// Spans that matter: none, within each level, at the edges of levels, and beyond all time.
fn span() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..4_u64,
        0..600_u64,
        0..150_000_u64,
        0..1_u64 << 36,
        (0..8_u32, -2..3_i64).prop_map(|(level, by)| (1_u64 << (8 * level)).saturating_add_signed(by)),
        any::<u64>(),
        Just(u64::MAX),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS;
    prop_oneof![
        4 => (slot.clone(), span()).prop_map(|(slot, delay)| Op::Insert(slot, delay)),
        1 => (slot.clone(), span()).prop_map(|(slot, ago)| Op::InsertPast(slot, ago)),
        1 => slot.clone().prop_map(Op::Remove),
        1 => (slot, span()).prop_map(|(slot, by)| Op::Postpone(slot, by)),
        3 => prop_oneof![Just(0), Just(1), 0..400_u64, 0..70_000_u64, span()].prop_map(Op::Advance),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(255), Just(0xff_ffff), any::<u64>(), Just(u64::MAX - 70_000)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Everything comes out once, never early, not late, in due order, however far a step goes.
    #[test]
    fn strict_order_by_the_wheels_own_moment(start in start(), ops in prop::collection::vec(op(), 1..80)) {
        let mut bench = Bench::new(start, SLOTS as usize);
        for op in ops.into_iter().chain([Op::Advance(u64::MAX)]) {
            match op {
                Op::Insert(slot, delay) => bench.insert(slot, bench.now.saturating_add(delay)),
                Op::InsertPast(slot, ago) => bench.insert(slot, bench.now.saturating_sub(ago)),
                Op::Remove(slot) => bench.remove(slot),
                Op::Postpone(slot, by) => bench.postpone(slot, by),
                Op::Advance(step) => {
                    let until = bench.now.saturating_add(step);
                    let expected = bench.expected(until);
                    let mut gone = bench.run(until, Wheel::now);
                    prop_assert!(gone.is_sorted_by_key(|&(due, _)| due));
                    gone.sort_unstable();
                    prop_assert_eq!(gone, expected);
                }
            }
            bench.check();
        }
        prop_assert!(bench.wheel.is_empty());
    }

    /// The same with the caller's own moment as the measure: the order is then that of the caller's steps.
    #[test]
    fn order_of_steps_by_the_callers_moment(start in start(), ops in prop::collection::vec(op(), 1..80)) {
        let mut bench = Bench::new(start, SLOTS as usize);
        for op in ops {
            match op {
                Op::Insert(slot, delay) => bench.insert(slot, bench.now.saturating_add(delay)),
                Op::InsertPast(slot, ago) => bench.insert(slot, bench.now.saturating_sub(ago)),
                Op::Remove(slot) => bench.remove(slot),
                Op::Postpone(slot, by) => bench.postpone(slot, by),
                Op::Advance(step) => {
                    let until = bench.now.saturating_add(step);
                    let expected = bench.expected(until);
                    let mut gone = bench.run(until, |_| until);
                    gone.sort_unstable();
                    prop_assert_eq!(gone, expected);
                }
            }
            bench.check();
        }
    }
}

/// A steady advance by a millisecond needs nothing but the caller's own moment for the exact order.
#[test]
fn steady_advance_is_exact() {
    let mut bench = Bench::new(1_000, 3_000);
    for slot in 0..3_000_u32 {
        bench.insert(slot, 1_000 + u64::from(slot.wrapping_mul(2_654_435_761) % 70_000));
    }
    let mut count = 0;
    for until in 1_000..=71_000 {
        let gone = bench.run(until, |_| until);
        assert!(gone.iter().all(|&(due, _)| due == until));
        count += gone.len();
    }
    assert_eq!(count, 3_000);
}

/// A popped entry costs at most one pop per level until it is due.
#[test]
fn a_far_entry_comes_down_one_level_at_a_time() {
    let mut bench = Bench::new(0, 1);
    let due = 0x0102_0304_0506_0708;
    bench.insert(0, due);
    let mut starts = Vec::new();
    while let Some(slot) = bench.wheel.pop(&mut bench.entries, u64::MAX) {
        starts.push(bench.wheel.now());
        if due > bench.wheel.now() {
            bench.wheel.insert(&mut bench.entries, slot, due);
        }
    }
    let expected: Vec<u64> = (0..8).rev().map(|level| due >> (8 * level) << (8 * level)).collect();
    assert_eq!(starts, expected);
}

#[test]
fn inserting_again_moves() {
    let mut bench = Bench::new(0, 2);
    bench.insert(0, 10);
    bench.insert(1, 10);
    bench.insert(0, 90_000);
    bench.check();
    assert_eq!(bench.run(89_999, Wheel::now), [(10, 1)]);
    assert_eq!(bench.run(90_000, Wheel::now), [(90_000, 0)]);
}

/// Slots that cannot be linked leave no trace.
#[test]
fn impossible_slots_are_ignored() {
    let mut bench = Bench::new(0, 2);
    bench.insert(0, 5);
    for slot in [2, 1 << 31, u32::MAX] {
        bench.wheel.insert(&mut bench.entries, slot, 5);
        bench.wheel.insert(&mut bench.entries, slot, 500);
        bench.wheel.remove(&mut bench.entries, slot);
    }
    bench.check();
    assert_eq!(bench.run(1_000, Wheel::now), [(5, 0)]);
    assert_eq!(bench.wheel.next_due(), None);
}

/// A small room's wheel is small, a large one stays so, and an empty one gives its memory back.
#[test]
fn memory_follows_the_occupied_buckets() {
    let mut bench = Bench::new(0, 100_000);
    assert_eq!(bench.wheel.memory(), 0);
    bench.insert(0, 30_000);
    bench.insert(1, 31_000);
    assert!(bench.wheel.memory() <= 32, "{}", bench.wheel.memory());
    for slot in 0..100_000 {
        bench.insert(slot, u64::from(slot));
    }
    assert!(bench.wheel.memory() <= 20_000, "{}", bench.wheel.memory());
    for slot in 0..100_000 {
        bench.remove(slot);
    }
    assert!(bench.wheel.memory() <= 128, "{}", bench.wheel.memory());
    bench.check();
}
