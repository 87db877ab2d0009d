//! The table against a hash map, and its promises about memory, slots and chosen ids.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails, as it should")]

use std::collections::{HashMap, HashSet};

use presence_engine::table::{HashKeys, Members};
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

fn slots(table: &Members) -> Vec<u32> {
    let mut slots = Vec::new();
    let mut next = table.next_occupied(0);
    while let Some(slot) = next {
        slots.push(slot);
        next = table.next_occupied(slot + 1);
    }
    slots
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
    slot: u32,
    last: u32,
    pack: Vec<u8>,
}

fn apply(table: &mut Members, twin: &mut HashMap<u16, Member>, op: Op, step: usize) {
    match op {
        Op::Insert { from, count } => {
            for number in from..(from + count).min(NUMBERS) {
                if let Some(member) = twin.get(&number) {
                    assert_eq!(table.find(&id(number)), Some(member.slot));
                    continue;
                }
                let slot = table.insert(&id(number)).unwrap();
                let record = table.record_mut(slot).unwrap();
                assert_eq!((record.last, record.since(), record.day, record.flags), (0, 0, 0, 0));
                record.last = step as u32 ^ slot;
                record.set_since(u64::from(number) << 24);
                assert!(table.pack(slot).is_empty());
                twin.insert(number, Member { slot, last: step as u32 ^ slot, pack: Vec::new() });
            }
        }
        Op::Remove { from, count, every } => {
            for number in (from..(from + count).min(NUMBERS)).step_by(every.into()) {
                if let Some(member) = twin.remove(&number) {
                    table.remove(member.slot);
                    assert!(table.record(member.slot).is_none());
                }
                assert_eq!(table.find(&id(number)), None);
            }
        }
        Op::Pack { from, count, len } => {
            for number in from..(from + count).min(NUMBERS) {
                if let Some(member) = twin.get_mut(&number) {
                    member.pack = (0..len).map(|at| (at * 7 + step) as u8).collect();
                    table.set_pack(member.slot, &member.pack);
                }
            }
        }
        Op::Poke { number } => {
            if let Some(member) = twin.get_mut(&number) {
                member.pack.iter_mut().for_each(|byte| *byte ^= 0x55);
                table.pack_mut(member.slot).iter_mut().for_each(|byte| *byte ^= 0x55);
            }
        }
    }
}

fn compare(table: &Members, twin: &HashMap<u16, Member>) {
    assert_eq!(table.len(), twin.len());
    assert_eq!(table.is_empty(), twin.is_empty());
    for (&number, member) in twin {
        let id = id(number);
        assert_eq!(table.find(&id), Some(member.slot));
        assert_eq!(table.find_hashed(table.hash(&id), &id), Some(member.slot));
        assert_eq!(table.id(member.slot), Some(&*id));
        assert_eq!(table.pack(member.slot), member.pack);
        let record = table.record(member.slot).unwrap();
        assert_eq!((record.last, record.since()), (member.last, u64::from(number) << 24));
    }
    let mut expected: Vec<u32> = twin.values().map(|member| member.slot).collect();
    expected.sort_unstable();
    assert_eq!(slots(table), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn behaves_as_a_map(ops in prop::collection::vec(op(), 1..60)) {
        let (mut table, mut twin) = (Members::new(KEYS), HashMap::new());
        for (step, op) in ops.into_iter().enumerate() {
            apply(&mut table, &mut twin, op, step);
            prop_assert_eq!(table.len(), twin.len());
        }
        compare(&table, &twin);
        apply(&mut table, &mut twin, Op::Remove { from: 0, count: NUMBERS, every: 1 }, 0);
        prop_assert_eq!(table.memory(), 0);
    }

    /// Around the bound where the index comes and goes.
    #[test]
    fn small_tables_behave_as_a_map(ops in prop::collection::vec(prop_oneof![
        (0..14_u16).prop_map(|from| Op::Insert { from, count: 1 }),
        (0..14_u16).prop_map(|from| Op::Remove { from, count: 1, every: 1 }),
        (0..14_u16, 0..700_usize).prop_map(|(from, len)| Op::Pack { from, count: 1, len }),
    ], 1..120)) {
        let (mut table, mut twin) = (Members::new(KEYS), HashMap::new());
        for (step, op) in ops.into_iter().enumerate() {
            apply(&mut table, &mut twin, op, step);
            compare(&table, &twin);
        }
    }
}

#[test]
fn finds_everybody_at_300_000() {
    let mut table = Members::new(KEYS);
    let slots: Vec<u32> = (0..300_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    assert_eq!(slots.iter().collect::<HashSet<_>>().len(), 300_000);
    for (number, &slot) in slots.iter().enumerate() {
        assert_eq!(table.find(&id12(number as u64)), Some(slot));
    }
    assert!((300_000..310_000).all(|number| table.find(&id12(number)).is_none()));
    for (number, &slot) in slots.iter().enumerate() {
        table.remove(slot);
        assert_eq!(table.find(&id12(number as u64)), None);
    }
    assert_eq!((table.len(), table.memory()), (0, 0));
}

/// No phase of growth takes more than 38 bytes a member beyond its id.
#[test]
fn memory_per_member_is_bounded_at_every_size() {
    let mut table = Members::new(KEYS);
    let mut number = 0;
    for size in (1..=40).map(|step| step * 5_000).chain([220_000, 240_000]) {
        while number < size {
            table.insert(&id12(number)).unwrap();
            number += 1;
        }
        let per_member = table.memory() as f64 / size as f64 - 12.0;
        assert!(per_member <= 38.0, "{per_member} bytes a member at {size}");
    }
}

#[test]
fn a_room_of_two_is_tiny() {
    let mut table = Members::new(KEYS);
    assert_eq!(table.memory(), 0);
    table.insert(b"alice-0001").unwrap();
    table.insert(b"bob-000002").unwrap();
    assert!(table.memory() < 250, "{}", table.memory());
}

/// A million come and go in a room of 100,000: the memory stays, and in the end there is none.
#[test]
fn churn_does_not_grow() {
    let mut table = Members::new(KEYS);
    let mut present: Vec<u32> = (0..100_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    let steady = table.memory();
    let mut numbers = Numbers(42);
    for number in 100_000..1_100_000 {
        let leaving = numbers.below(present.len());
        table.remove(present[leaving]);
        present[leaving] = table.insert(&id12(number)).unwrap();
    }
    assert!(table.memory() * 100 <= steady * 108, "{} after churn, {steady} before", table.memory());
    present.into_iter().for_each(|slot| table.remove(slot));
    assert_eq!((table.len(), table.memory()), (0, 0));
}

/// The same with packs that grow and shrink.
#[test]
fn churn_of_packs_does_not_grow() {
    let mut table = Members::new(KEYS);
    let members: Vec<u32> = (0..5_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
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

/// Few who are left of many take little, wherever they sit.
#[test]
fn shrinks_with_its_members() {
    let mut table = Members::new(KEYS);
    let slots: Vec<u32> = (0..200_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    for (number, &slot) in slots.iter().enumerate().filter(|(number, _)| number % 1_000 != 0) {
        table.remove(slot);
        assert_eq!(table.find(&id12(number as u64)), None);
    }
    assert_eq!(table.len(), 200);
    assert!((0..200).all(|number| table.find(&id12(number * 1_000)) == Some(slots[number as usize * 1_000])));
    assert!(table.memory() < 200 * 300, "{}", table.memory());
}

/// Paging by slot: who stays is seen exactly once, whoever comes and goes between the pages.
#[test]
fn paging_sees_who_stays_exactly_once() {
    let mut table = Members::new(KEYS);
    let mut numbers = Numbers(9);
    let staying: HashSet<u32> = (0..5_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    let mut others: Vec<u32> = (5_000..20_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    let mut seen = Vec::new();
    let (mut from, mut fresh) = (0, 20_000);
    while let Some(slot) = table.next_occupied(from) {
        assert!(slot >= from);
        seen.push(slot);
        from = slot + 1;
        for _ in 0..numbers.below(4) {
            table.remove(others.swap_remove(numbers.below(others.len())));
        }
        for _ in 0..numbers.below(4) {
            others.push(table.insert(&id12(fresh)).unwrap());
            fresh += 1;
        }
    }
    assert!(seen.is_sorted_by(|one, other| one < other));
    assert_eq!(seen.iter().filter(|slot| staying.contains(slot)).count(), staying.len());
}

#[test]
fn paging_crosses_vacant_stretches() {
    let mut table = Members::new(KEYS);
    let slots: Vec<u32> = (0..100_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    let kept = [slots[3], slots[60_000], slots[99_999]];
    slots.iter().filter(|slot| !kept.contains(slot)).for_each(|&slot| table.remove(slot));
    assert_eq!(self::slots(&table), kept);
    assert_eq!(table.next_occupied(u32::MAX), None);
    // The vacant chunks fill again before new ones are opened, and the slots of those who stayed are theirs.
    let again: HashSet<u32> = (0..99_997).map(|number| table.insert(&id12(200_000 + number)).unwrap()).collect();
    assert_eq!(again.len(), 99_997);
    assert!(again.iter().all(|slot| !kept.contains(slot) && *slot < 100_352));
}

/// Ids chosen to share the top bits of their hash, by someone who knows the keys: the table keeps working, and the
/// directory does not follow them.
#[test]
fn chosen_collisions_do_not_blow_up_the_index() {
    let mut table = Members::new(KEYS);
    let chosen: Vec<[u8; 12]> = (0..).map(id12).filter(|id| table.hash(id) >> 52 == 0xabc).take(1_500).collect();
    let slots: Vec<u32> = chosen.iter().map(|id| table.insert(id).unwrap()).collect();
    assert!(chosen.iter().zip(&slots).all(|(id, &slot)| table.find(id) == Some(slot)));
    let per_member = table.memory() as f64 / chosen.len() as f64 - 12.0;
    assert!(per_member <= 38.0, "{per_member}");
    // Among honest members their segment is split as deep as the size of the table allows.
    let honest: Vec<[u8; 12]> =
        (0..60_000).map(|number| id12(1 << 40 | number)).filter(|id| table.find(id).is_none()).collect();
    honest.iter().for_each(|id| assert!(table.insert(id).is_some()));
    assert!(chosen.iter().zip(&slots).all(|(id, &slot)| table.find(id) == Some(slot)));
    assert!(honest.iter().all(|id| table.find(id).is_some()));
    let per_member = table.memory() as f64 / table.len() as f64 - 12.0;
    assert!(per_member <= 39.0, "{per_member}");
    slots.iter().for_each(|&slot| table.remove(slot));
    assert!(chosen.iter().all(|id| table.find(id).is_none()));
    assert!(honest.iter().all(|id| table.find(id).is_some()));
}

/// Warming up is for the caches only: found and absent ids, few and many, small tables and large ones.
#[test]
fn warming_up_changes_nothing() {
    let mut table = Members::new(KEYS);
    for size in [0, 3, 500, 30_000] {
        for number in table.len() as u64..size {
            table.insert(&id12(number)).unwrap();
        }
        let memory = table.memory();
        for batch in [0, 1, 64, 1_000] {
            let ids: Vec<[u8; 12]> = (0..batch).map(|number| id12(number * 61)).collect();
            let hashes: Vec<u64> = ids.iter().map(|id| table.hash(id)).collect();
            table.warm(&hashes);
            for (number, (id, &hash)) in ids.iter().zip(&hashes).enumerate() {
                assert_eq!(table.find_hashed(hash, id), table.find(id));
                assert_eq!(table.find(id).is_some(), (number as u64) * 61 < size);
            }
        }
        assert_eq!((table.len() as u64, table.memory()), (size, memory));
    }
}

#[test]
fn bounds() {
    let mut table = Members::new(KEYS);
    assert_eq!(table.insert(b""), None);
    assert_eq!(table.insert(&[1; 257]), None);
    assert_eq!((table.len(), table.memory(), table.find(b""), table.find(&[1; 257])), (0, 0, None, None));
    let slot = table.insert(&[1; 256]).unwrap();
    assert_eq!((table.find(&[1; 256]), table.find(&[1; 255])), (Some(slot), None));

    let record = table.record_mut(slot).unwrap();
    for (given, kept) in [(0, 0), (1_785_000_000_123, 1_785_000_000_123), (u64::MAX, (1 << 48) - 1)] {
        record.set_since(given);
        assert_eq!(record.since(), kept);
    }
    for vacant in [slot + 1, slot + 256, u32::MAX] {
        table.remove(vacant);
        table.set_pack(vacant, b"pack");
        assert!(table.pack(vacant).is_empty() && table.pack_mut(vacant).is_empty());
        assert!(table.record(vacant).is_none() && table.record_mut(vacant).is_none() && table.id(vacant).is_none());
    }
    assert_eq!(table.len(), 1);
}

/// Slots keep their links while members around them come and go.
#[test]
fn carries_the_links_of_a_wheel() {
    let mut table = Members::new(KEYS);
    let mut wheel = Wheel::new(0);
    let slots: Vec<u32> = (0..10_000).map(|number| table.insert(&id12(number)).unwrap()).collect();
    slots.iter().for_each(|&slot| wheel.insert(&mut table, slot, u64::from(slot % 300)));
    for &slot in slots.iter().step_by(3) {
        wheel.remove(&mut table, slot);
        table.remove(slot);
    }
    let mut out = 0;
    while let Some(slot) = wheel.pop(&mut table, 300) {
        let due = u64::from(slot % 300);
        if due > wheel.now() {
            wheel.insert(&mut table, slot, due);
        } else {
            assert_eq!(due, wheel.now());
            out += 1;
        }
    }
    assert_eq!(out, table.len());
    assert!(slots.iter().all(|&slot| !table.link(slot).is_linked()));
}
