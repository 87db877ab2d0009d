//! The table against a hash map, and its promises about memory, slots and chosen ids.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails, as it should")]

use std::collections::{HashMap, HashSet};

use presence_engine::table::{HashKeys, Place, Table};
use presence_engine::wheel::{Links, Wheel};
use proptest::prelude::*;

const KEYS: &HashKeys = &HashKeys(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

/// Twelve bytes, all different.
fn id12(number: u64) -> [u8; 12] {
    let mut id = *b"user00000000";
    id[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id
}

/// A repeatable sequence of numbers (xorshift, Marsaglia 2003).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Ids of every length from 1 to 256, all different, with common beginnings.
fn id(number: u16) -> Vec<u8> {
    if number < 256 {
        return vec![number as u8];
    }
    let mut id = vec![7; usize::from(number) * 31 % 255];
    id.truncate(254);
    id.extend(number.to_le_bytes());
    id
}

/// Inserts into a table without a wheel.
fn insert(table: &mut Table, id: &[u8]) -> Option<u32> {
    table.insert(id, &mut Wheel::new(0))
}

/// Removes from a table without a wheel.
fn remove(table: &mut Table, id: &[u8]) {
    let slot = table.find(id).unwrap();
    table.remove(slot, &mut Wheel::new(0));
}

#[derive(Clone, Debug)]
enum Op {
    Insert { from: u16, count: u16 },
    Remove { from: u16, count: u16, every: u16 },
    Pack { from: u16, count: u16, len: usize },
    Poke { number: u16 },
}

const NUMBERS: u16 = 2_000;

fn op() -> impl Strategy<Value = Op> {
    let count = || prop_oneof![3 => 1..9_u16, 1 => 1..700_u16];
    let len = prop_oneof![0..40_usize, 500..530_usize, 0..2_000_usize];
    prop_oneof![
        4 => (0..NUMBERS, count()).prop_map(|(from, count)| Op::Insert { from, count }),
        3 => (0..NUMBERS, count(), 1..4_u16).prop_map(|(from, count, every)| Op::Remove { from, count, every }),
        3 => (0..NUMBERS, 1..30_u16, len).prop_map(|(from, count, len)| Op::Pack { from, count, len }),
        1 => (0..NUMBERS).prop_map(|number| Op::Poke { number }),
    ]
}

struct Member {
    last: u32,
    due: u64,
    pack: Vec<u8>,
}

/// A table whose members are in a wheel, and what should be in it.
struct World {
    table: Table,
    wheel: Wheel,
    twin: HashMap<u16, Member>,
}

impl World {
    fn new() -> Self {
        Self { table: Table::new(KEYS), wheel: Wheel::new(0), twin: HashMap::new() }
    }

    fn apply(&mut self, op: Op, step: usize) {
        let Self { table, wheel, twin } = self;
        match op {
            Op::Insert { from, count } => {
                for number in from..(from + count).min(NUMBERS) {
                    if twin.contains_key(&number) {
                        assert!(table.find(&id(number)).is_some());
                        continue;
                    }
                    let slot = table.insert(&id(number), wheel).unwrap();
                    let record = table.record_mut(slot).unwrap();
                    assert_eq!((record.last(), record.since(), record.day(), record.flags()), (0, 0, 0, 0));
                    assert!(!record.link().is_linked());
                    let last = step as u32 ^ u32::from(number);
                    record.set_last(last);
                    record.set_since(u64::from(number) << 24);
                    assert!(table.pack(slot).is_empty());
                    // Some alone in their buckets, some not, some on a coarser level.
                    let due = u64::from(number) * 7 % 613;
                    wheel.insert(table, slot, due);
                    twin.insert(number, Member { last, due, pack: Vec::new() });
                }
            }
            Op::Remove { from, count, every } => {
                for number in (from..(from + count).min(NUMBERS)).step_by(every.into()) {
                    if twin.remove(&number).is_some() {
                        let slot = table.find(&id(number)).unwrap();
                        wheel.remove(table, slot);
                        table.remove(slot, wheel);
                    }
                    assert_eq!(table.find(&id(number)), None);
                }
            }
            Op::Pack { from, count, len } => {
                for number in from..(from + count).min(NUMBERS) {
                    if let Some(member) = twin.get_mut(&number) {
                        member.pack = (0..len).map(|at| (at * 7 + step) as u8).collect();
                        table.set_pack(table.find(&id(number)).unwrap(), &member.pack);
                    }
                }
            }
            Op::Poke { number } => {
                if let Some(member) = twin.get_mut(&number) {
                    member.pack.iter_mut().for_each(|byte| *byte ^= 0x55);
                    let slot = table.find(&id(number)).unwrap();
                    let (_, pack) = table.member_mut(slot).unwrap();
                    pack.iter_mut().for_each(|byte| *byte ^= 0x55);
                }
            }
        }
    }

    fn compare(&self) {
        let Self { table, twin, .. } = self;
        assert_eq!(table.len(), twin.len());
        assert_eq!(table.is_empty(), twin.is_empty());
        let mut expected = Vec::new();
        for (&number, member) in twin {
            let id = id(number);
            let slot = table.find(&id).unwrap();
            expected.push(slot);
            assert_eq!(table.id(slot), Some(&*id));
            assert_eq!(table.pack(slot), member.pack);
            let record = table.record(slot).unwrap();
            assert_eq!((record.last(), record.since()), (member.last, u64::from(number) << 24));
        }
        expected.sort_unstable();
        assert_eq!(table.slots().collect::<Vec<_>>(), expected);
    }

    /// Whoever lies wherever by now comes out of the wheel when it is due.
    fn all_come_out(mut self) {
        let mut due: Vec<(u64, Vec<u8>)> = self.twin.iter().map(|(&number, member)| (member.due, id(number))).collect();
        let moments: HashMap<Vec<u8>, u64> = due.iter().map(|(due, id)| (id.clone(), *due)).collect();
        let mut out = Vec::new();
        while let Some(slot) = self.wheel.pop(&mut self.table, 1_000) {
            let id = self.table.id(slot).unwrap().to_vec();
            if moments[&id] > self.wheel.now() {
                self.wheel.insert(&mut self.table, slot, moments[&id]);
            } else {
                out.push((self.wheel.now(), id));
            }
        }
        due.sort_unstable();
        out.sort_unstable();
        assert!(self.wheel.is_empty());
        assert_eq!(out, due);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn behaves_as_a_map(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for (step, op) in ops.into_iter().enumerate() {
            world.apply(op, step);
            prop_assert_eq!(world.table.len(), world.twin.len());
        }
        world.compare();
        let mut empty = World::new();
        std::mem::swap(&mut world, &mut empty);
        empty.all_come_out();
        for op in [Op::Insert { from: 0, count: NUMBERS }, Op::Remove { from: 0, count: NUMBERS, every: 1 }] {
            world.apply(op, 0);
        }
        prop_assert_eq!(world.table.memory(), 0);
    }

    /// Around the bounds at which the first blocks are split and merged.
    #[test]
    fn small_tables_behave_as_a_map(ops in prop::collection::vec(prop_oneof![
        3 => (0..80_u16).prop_map(|from| Op::Insert { from, count: 4 }),
        2 => (0..80_u16).prop_map(|from| Op::Remove { from, count: 4, every: 1 }),
        1 => (0..80_u16, 0..700_usize).prop_map(|(from, len)| Op::Pack { from, count: 1, len }),
    ], 1..120)) {
        let mut world = World::new();
        for (step, op) in ops.into_iter().enumerate() {
            world.apply(op, step);
            world.compare();
        }
        world.all_come_out();
    }
}

#[test]
fn finds_everybody_at_300_000() {
    let mut table = Table::new(KEYS);
    (0..300_000).for_each(|number| assert!(insert(&mut table, &id12(number)).is_some()));
    let slots: HashSet<u32> = (0..300_000).map(|number| table.find(&id12(number)).unwrap()).collect();
    assert_eq!(slots.len(), 300_000);
    assert!((300_000..310_000).all(|number| table.find(&id12(number)).is_none()));
    for number in 0..300_000 {
        remove(&mut table, &id12(number));
        assert_eq!(table.find(&id12(number)), None);
        assert!(table.find(&id12(299_999)).is_some() || number == 299_999);
    }
    assert_eq!((table.len(), table.memory()), (0, 0));
}

/// No phase of growth takes more than 36 bytes a member beyond its id.
#[test]
fn memory_per_member_is_bounded_at_every_size() {
    let mut table = Table::new(KEYS);
    let mut number = 0;
    for size in (1..=40).map(|step| step * 5_000).chain([220_000, 240_000]) {
        while number < size {
            insert(&mut table, &id12(number)).unwrap();
            number += 1;
        }
        let per_member = table.memory() as f64 / size as f64 - 12.0;
        assert!(per_member <= 36.0, "{per_member} bytes a member at {size}");
    }
}

#[test]
fn a_room_of_two_is_tiny() {
    let mut table = Table::new(KEYS);
    assert_eq!(table.memory(), 0);
    insert(&mut table, b"alice-0001").unwrap();
    insert(&mut table, b"bob-000002").unwrap();
    assert!(table.memory() < 100, "{}", table.memory());
}

/// A million come and go in a room of 100,000: the memory stays, and in the end there is none.
#[test]
fn churn_does_not_grow() {
    let mut table = Table::new(KEYS);
    let mut present: Vec<u64> = (0..100_000).collect();
    present.iter().for_each(|&number| assert!(insert(&mut table, &id12(number)).is_some()));
    let steady = table.memory();
    let mut numbers = Numbers(42);
    for number in 100_000..1_100_000 {
        let leaving = numbers.below(present.len());
        remove(&mut table, &id12(present[leaving]));
        insert(&mut table, &id12(number)).unwrap();
        present[leaving] = number;
    }
    assert!(table.memory() * 100 <= steady * 110, "{} after churn, {steady} before", table.memory());
    present.iter().for_each(|&number| remove(&mut table, &id12(number)));
    assert_eq!((table.len(), table.memory()), (0, 0));
}

/// The same with packs that grow and shrink.
#[test]
fn churn_of_packs_does_not_grow() {
    let mut table = Table::new(KEYS);
    (0..5_000).for_each(|number| assert!(insert(&mut table, &id12(number)).is_some()));
    // Nobody comes or goes from here on.
    let members: Vec<u32> = table.slots().collect();
    members.iter().for_each(|&slot| table.set_pack(slot, &[1; 60]));
    let steady = table.memory();
    let mut numbers = Numbers(7);
    for _ in 0..200_000 {
        let slot = members[numbers.below(members.len())];
        let len = numbers.below(120);
        table.set_pack(slot, &[2; 800][..len]);
        if len == 119 {
            table.set_pack(slot, &[3; 100_000]);
            assert_eq!(table.pack(slot).len(), 100_000);
            table.set_pack(slot, &[4; 60]);
        }
    }
    members.iter().for_each(|&slot| table.set_pack(slot, &[5; 60]));
    assert!(table.memory() * 100 <= steady * 135, "{} after churn, {steady} before", table.memory());
    members.iter().for_each(|&slot| table.set_pack(slot, &[]));
    assert!(table.memory() < 5_000 * 70, "{}", table.memory());
}

/// Few who are left of many take little.
#[test]
fn shrinks_with_its_members() {
    let mut table = Table::new(KEYS);
    (0..200_000).for_each(|number| assert!(insert(&mut table, &id12(number)).is_some()));
    for number in (0..200_000).filter(|number| number % 1_000 != 0) {
        remove(&mut table, &id12(number));
        assert_eq!(table.find(&id12(number)), None);
    }
    assert_eq!(table.len(), 200);
    assert!((0..200).all(|number| table.find(&id12(number * 1_000)).is_some()));
    assert!(table.memory() < 200 * 70, "{}", table.memory());
}

/// Who stays is met exactly once by a walk along the places, whoever comes and goes between the steps, be it that the
/// table grows to many times its size or shrinks to a part of it.
#[test]
fn a_walk_meets_who_stays_exactly_once() {
    for (coming, going) in [(3, 3), (60, 1), (1, 60)] {
        let mut table = Table::new(KEYS);
        let mut numbers = Numbers(9);
        let mut others: Vec<u64> = (5_000..20_000).collect();
        (0..20_000).for_each(|number| assert!(insert(&mut table, &id12(number)).is_some()));
        let staying: HashSet<[u8; 12]> = (0..5_000).map(id12).collect();
        let mut seen = Vec::new();
        let (mut start, mut fresh) = (Place::START, 20_000);
        while start != Place::END {
            assert_eq!(Place::from_number(start.number()), start);
            let run = table.run(start);
            for slot in table.slots_of(run) {
                let place = table.place(slot).unwrap();
                assert!(place < run.next);
                let id: [u8; 12] = table.id(slot).unwrap().try_into().unwrap();
                if place >= start && staying.contains(&id) {
                    seen.push(id);
                }
            }
            assert!(run.next > start);
            assert_eq!(Place::from_short(run.next.short()), run.next);
            start = run.next;
            for _ in 0..numbers.below(going + 1).min(others.len()) {
                remove(&mut table, &id12(others.swap_remove(numbers.below(others.len()))));
            }
            for _ in 0..numbers.below(coming + 1) {
                insert(&mut table, &id12(fresh)).unwrap();
                others.push(fresh);
                fresh += 1;
            }
        }
        assert_eq!((seen.len(), seen.into_iter().collect::<HashSet<_>>()), (5_000, staying.clone()));
    }
    assert_eq!(Place::from_number(u64::MAX), Place::END);
}

/// Ids chosen to lie in one block, by someone who knows the keys: the table keeps working until a block has no position
/// left, and says so then.
#[test]
fn chosen_collisions_are_refused_before_they_do_harm() {
    let mut table = Table::new(KEYS);
    (0..20_000).for_each(|number| assert!(insert(&mut table, &id12(number)).is_some()));
    let full = table.find(&id12(0)).unwrap() / 256;
    let mut chosen = Vec::new();
    let mut refused = None;
    for number in 20_000.. {
        // Where would it lie? As many as come go again, so that no block is split.
        let Some(slot) = insert(&mut table, &id12(number)) else {
            refused = Some(number);
            break;
        };
        if slot / 256 == full {
            chosen.push(number);
        } else {
            remove(&mut table, &id12(number));
        }
        assert!(chosen.len() <= 256);
    }
    assert!(chosen.len() > 150, "{}", chosen.len());
    assert_eq!(table.find(&id12(refused.unwrap())), None);
    assert!((0..20_000).chain(chosen.iter().copied()).all(|number| table.find(&id12(number)).is_some()));
    remove(&mut table, &id12(chosen[0]));
    assert!(insert(&mut table, &id12(refused.unwrap())).is_some());
}

/// Ids and packs as long as they may be, in blocks as full as they get: what does not fit goes elsewhere.
#[test]
fn the_longest_ids_and_packs_fit() {
    let mut table = Table::new(KEYS);
    let id = |number: u32| {
        let mut id = [9; 256];
        id[..4].copy_from_slice(&number.to_le_bytes());
        id
    };
    for number in 0..4_000 {
        let slot = insert(&mut table, &id(number)).unwrap();
        table.set_pack(slot, &[number as u8; 300][..200 + number as usize % 100]);
    }
    for number in 0..4_000 {
        let slot = table.find(&id(number)).unwrap();
        assert_eq!(table.pack(slot), &[number as u8; 300][..200 + number as usize % 100]);
    }
    (0..4_000).for_each(|number| remove(&mut table, &id(number)));
    assert_eq!((table.len(), table.memory()), (0, 0));
}

/// Many at once are found as one by one: present and absent, few and many, small tables and large ones.
#[test]
fn a_batch_finds_who_is_there() {
    let mut table = Table::new(KEYS);
    for size in [0, 3, 500, 30_000] {
        for number in table.len() as u64..size {
            insert(&mut table, &id12(number)).unwrap();
        }
        let memory = table.memory();
        for batch in [0, 1, 63, 64, 65, 1_000] {
            let ids: Vec<[u8; 12]> = (0..batch).map(|number| id12(number * 61)).collect();
            let mut found = Vec::new();
            table.find_all(ids.iter().map(|id| &id[..]), |slot| found.push(slot));
            assert_eq!(found, ids.iter().map(|id| table.find(id)).collect::<Vec<_>>());
            assert!(found.iter().zip(0..).all(|(slot, number)| slot.is_some() == (number * 61 < size)));
        }
        assert_eq!((table.len() as u64, table.memory()), (size, memory));
    }
}

#[test]
fn bounds() {
    let mut table = Table::new(KEYS);
    assert_eq!(insert(&mut table, b""), None);
    assert_eq!(insert(&mut table, &[1; 257]), None);
    assert_eq!((table.len(), table.memory(), table.find(b""), table.find(&[1; 257])), (0, 0, None, None));
    let slot = insert(&mut table, &[1; 256]).unwrap();
    assert_eq!((table.find(&[1; 256]), table.find(&[1; 255])), (Some(slot), None));

    let record = table.record_mut(slot).unwrap();
    for (given, kept) in [(0, 0), (1_785_000_000_123, 1_785_000_000_123), (u64::MAX, (1 << 48) - 1)] {
        record.set_since(given);
        assert_eq!(record.since(), kept);
    }
    for vacant in [slot + 1, slot + 256, u32::MAX] {
        table.remove(vacant, &mut Wheel::new(0));
        table.set_pack(vacant, b"pack");
        assert!(table.pack(vacant).is_empty() && table.member_mut(vacant).is_none());
        assert!(table.record(vacant).is_none() && table.record_mut(vacant).is_none() && table.id(vacant).is_none());
        assert!(table.place(vacant).is_none());
    }
    assert_eq!(table.len(), 1);
}

/// Members keep their links while others come and go around them and their slots change.
#[test]
fn carries_the_links_of_a_wheel() {
    let mut table = Table::new(KEYS);
    let mut wheel = Wheel::new(0);
    let due = |id: &[u8]| u64::from(id[11] ^ id[7]);
    for number in 0..10_000 {
        let id = id12(number);
        let slot = table.insert(&id, &mut wheel).unwrap();
        wheel.insert(&mut table, slot, due(&id));
    }
    for number in (0..10_000).filter(|number| number % 7 != 0) {
        let slot = table.find(&id12(number)).unwrap();
        wheel.remove(&mut table, slot);
        table.remove(slot, &mut wheel);
    }
    let mut out = 0;
    while let Some(slot) = wheel.pop(&mut table, 300) {
        let due = due(table.id(slot).unwrap());
        if due > wheel.now() {
            wheel.insert(&mut table, slot, due);
        } else {
            assert_eq!(due, wheel.now());
            out += 1;
        }
    }
    assert_eq!(out, table.len());
    assert!(table.slots().all(|slot| !table.link(slot).is_linked()));
}
