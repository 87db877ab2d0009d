//! The sketch of a day against exact sets, against its estimator, and against broken input.
// The linter knows only test functions as tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher};

use hyperloglogplus::{HyperLogLog, HyperLogLogPlus};
use presence_engine::uniques::{member_hash, Sketch, EXACT};
use proptest::prelude::*;

/// The most that the heap may hold for a room and day.
const MOST_MEMORY: usize = 14 * 1000;
const DENSE_LEN: usize = 1 + 12_288;

fn hash(member: u64) -> u64 {
    member_hash(&member.to_le_bytes())
}

fn sketch(hashes: impl IntoIterator<Item = u64>) -> Sketch {
    let mut sketch = Sketch::new();
    for hash in hashes {
        sketch.add(hash);
    }
    sketch
}

fn bytes(sketch: &Sketch) -> Vec<u8> {
    let mut out = Vec::new();
    sketch.encode(&mut out);
    out
}

/// The registers in a dense encoding, one by one.
fn registers(encoded: &[u8]) -> Vec<u32> {
    assert_eq!((encoded.len(), encoded[0]), (DENSE_LEN, 1), "a dense sketch");
    let bit = |index: usize| u32::from(encoded[1 + index / 8] >> (index % 8) & 1);
    (0..16_384).map(|register| (0..6).map(|i| bit(6 * register + i) << i).sum()).collect()
}

/// `hyperloglogplus` fed with hashes as they are.
type Estimator = HyperLogLogPlus<u64, AsIs>;

#[derive(serde::Serialize)]
struct AsIs;

struct AsIsHasher(u64);

impl BuildHasher for AsIs {
    type Hasher = AsIsHasher;

    fn build_hasher(&self) -> AsIsHasher {
        AsIsHasher(0)
    }
}

impl Hasher for AsIsHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a u64 is hashed as one");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// The registers inside a dense estimator: its serde form is the only door.
fn registers_of(estimator: &Estimator) -> Vec<u32> {
    let form = serde_json::to_value(estimator).unwrap();
    let words = form["registers"]["buf"].as_array().expect("dense");
    let register = |index: usize| (words[index / 5].as_u64().unwrap() as u32) >> (6 * (index % 5)) & 0x3f;
    (0..16_384).map(register).collect()
}

#[test]
fn member_hash_is_frozen() {
    // From an independent implementation of SipHash-1-3, itself checked with the published vector of SipHash-2-4.
    let every_byte: Vec<u8> = (0..=255).collect();
    let vectors: [(&[u8], u64); 8] = [
        (b"", 0x7405_1a4f_b020_e705),
        (b"a", 0x3afe_2a29_89f3_f7e2),
        (b"asha", 0x0cdd_cfa4_55e3_9485),
        (b"user:42", 0xd556_25ed_7e67_be20),
        (&every_byte[..15], 0x4869_96ea_f5b6_b322),
        (&every_byte[..16], 0x26f1_8eae_7e0d_2502),
        (&every_byte, 0xe524_bf86_a516_2d24),
        (&[0xff; 256], 0x62a2_b07a_7642_1bfb),
    ];
    for (id, expected) in vectors {
        assert_eq!(member_hash(id), expected, "{id:?}");
    }
}

#[test]
fn can_be_shared_between_threads() {
    fn assert_shareable<T: Send + Sync>() {}
    assert_shareable::<Sketch>();
    assert_shareable::<presence_engine::uniques::Uniques>();
}

#[test]
fn counts_exactly_up_to_the_limit() {
    let mut sketch = Sketch::new();
    assert!(sketch.is_empty());
    for member in 0..EXACT as u64 {
        assert!(sketch.add(hash(member)));
        assert!(!sketch.add(hash(member / 2)), "a repeat changes nothing");
        assert_eq!(sketch.count(), member + 1);
        assert!(sketch.memory() <= 8 * EXACT);
    }
    assert_eq!(bytes(&sketch).len(), 3 + 8 * EXACT);
    assert!(sketch.add(hash(EXACT as u64)));
    assert_eq!(bytes(&sketch).len(), DENSE_LEN);
    assert!(sketch.count().abs_diff(EXACT as u64 + 1) < 10, "{}", sketch.count());
}

#[test]
fn memory_is_bounded_and_small_for_small_rooms() {
    let mut sketch = Sketch::new();
    assert_eq!(sketch.memory(), 0);
    for member in 0..20_000 {
        sketch.add(hash(member));
        assert!(sketch.memory() <= MOST_MEMORY, "{} bytes for {member} members", sketch.memory());
        if member < EXACT as u64 {
            // A quarter of slack at most, and two hashes where a quarter is less.
            let needed = 8 * (member as usize + 1);
            assert!(sketch.memory() <= needed + (needed / 4).max(16), "{} for {needed} bytes", sketch.memory());
        }
    }
    assert_eq!(bytes(&sketch).len(), DENSE_LEN);
}

/// The root of the mean of the squared relative errors of `trials` sketches of `members` members each.
fn rmse(members: u64, trials: u64) -> f64 {
    let squares: f64 = (0..trials)
        .map(|trial| {
            let count = sketch((0..members).map(|member| hash(trial << 32 | member))).count();
            ((count as f64 - members as f64) / members as f64).powi(2)
        })
        .sum();
    (squares / trials as f64).sqrt()
}

#[test]
fn error_of_small_days_is_none() {
    for members in [100, 1_000] {
        assert_eq!(rmse(members, 200), 0.0, "{members} members");
    }
}

#[test]
fn error_of_days_of_ten_thousand_is_as_promised() {
    // 12,000 is where the estimator hands over from one formula to the other.
    for members in [2_000, 10_000, 12_000] {
        let rmse = rmse(members, 200);
        assert!(rmse > 0.0 && rmse < 0.0081 * 1.15, "rmse {rmse} at {members} members");
    }
}

#[test]
fn error_of_days_of_a_hundred_thousand_is_as_promised() {
    let rmse = rmse(100_000, 200);
    assert!(rmse > 0.0 && rmse < 0.0081 * 1.15, "rmse {rmse}");
}

#[test]
fn error_of_days_of_a_million_is_as_promised() {
    // Of 20 trials only: their rmse scatters by a sixth, so the bound is wider.
    let rmse = rmse(1_000_000, 20);
    assert!(rmse > 0.0 && rmse < 0.0081 * 1.5, "rmse {rmse}");
}

#[test]
fn is_the_estimator_that_it_wraps() {
    let mut estimator = Estimator::new(14, AsIs).unwrap();
    let mut ours = Sketch::new();
    // The hashes at the edges of rank and index first, then ordinary ones.
    let edges = (0..64).flat_map(|bit| [1 << bit, u64::MAX >> bit, u64::MAX << bit, !(1 << bit)]).chain([0, u64::MAX]);
    for (n, hash) in edges.chain((0..50_000).map(hash)).enumerate() {
        estimator.insert(&hash);
        ours.add(hash);
        // Below some 6,000 the crate is in its sparse form, which is another estimator.
        if n >= 8_000 && n % 1_000 == 0 {
            assert_eq!(ours.count(), estimator.count().round() as u64, "after {n} hashes");
        }
    }
    assert_eq!(ours.count(), estimator.count().round() as u64);
    assert_eq!(registers(&bytes(&ours)), registers_of(&estimator));

    // And merging is merging.
    let others: Vec<u64> = (40_000..90_000).map(hash).collect();
    let mut other = Estimator::new(14, AsIs).unwrap();
    others.iter().for_each(|hash| other.insert(hash));
    estimator.merge(&other).unwrap();
    sketch(others).merge_into(&mut ours);
    assert_eq!(registers(&bytes(&ours)), registers_of(&estimator));
    assert_eq!(ours.count(), estimator.count().round() as u64);
}

#[test]
fn count_follows_every_change_and_is_no_change() {
    let mut changing = sketch((0..5_000).map(hash));
    for member in 5_000..6_000 {
        let before = bytes(&changing);
        let count = changing.count();
        assert_eq!(bytes(&changing), before);
        assert_eq!(changing.count(), count);

        changing.add(hash(member));
        let (fresh, _) = Sketch::decode(&bytes(&changing)).unwrap();
        assert_eq!(changing.count(), fresh.count(), "with member {member}");
        assert_eq!(changing, fresh);
    }
    sketch((50_000..60_000).map(hash)).merge_into(&mut changing);
    let (fresh, _) = Sketch::decode(&bytes(&changing)).unwrap();
    assert_eq!(changing.count(), fresh.count());
}

#[test]
fn order_of_adding_does_not_show() {
    for members in [10, EXACT as u64, EXACT as u64 + 1, 30_000] {
        let forwards = sketch((0..members).map(hash));
        let backwards = sketch((0..members).rev().map(hash));
        let mut sorted: Vec<u64> = (0..members).map(hash).collect();
        sorted.sort_unstable();
        let (odd, even) = (sorted.iter().skip(1).step_by(2), sorted.iter().step_by(2));
        let interleaved = sketch(odd.chain(even).copied());
        let mut merged = sketch((0..members / 3).map(hash));
        sketch((members / 4..members).map(hash)).merge_into(&mut merged);
        for other in [&backwards, &interleaved, &merged] {
            assert_eq!(bytes(other), bytes(&forwards), "{members} members");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merge_is_union(
        a in prop_oneof![0..40u64, 1_000..1_050u64, 2_000..4_000u64],
        b in prop_oneof![0..40u64, 1_000..1_050u64, 2_000..4_000u64],
        shared in 0..=100u64,
    ) {
        // `b` begins where `shared` percent of `a` still lie ahead.
        let from_b = a - a * shared / 100;
        let (of_a, of_b) = (sketch((0..a).map(hash)), sketch((from_b..from_b + b).map(hash)));
        let of_both = sketch((0..a).chain(from_b..from_b + b).map(hash));
        let (mut ab, mut ba) = (of_a.clone(), of_b.clone());
        let changed = of_b.merge_into(&mut ab);
        of_a.merge_into(&mut ba);
        prop_assert_eq!(bytes(&ab), bytes(&of_both));
        prop_assert_eq!(bytes(&ba), bytes(&of_both));
        prop_assert_eq!(changed, ab != of_a);
        prop_assert_eq!(ab.count(), of_both.count());
        prop_assert_eq!(Sketch::union(&[&of_a, &of_b, &of_a]), of_both.count());
        prop_assert!(!of_b.merge_into(&mut ab), "a repeat changes nothing");
        prop_assert!(ab.memory() <= MOST_MEMORY);
    }

    #[test]
    fn exact_sketches_are_sets(hashes in prop::collection::vec(0..500u64, 0..1_000)) {
        let set: HashSet<u64> = hashes.iter().copied().collect();
        prop_assert_eq!(sketch(hashes).count(), set.len() as u64);
    }

    #[test]
    fn whatever_is_decoded_is_encoded_alike(form in 0..3u8, rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let input: Vec<u8> = [form].into_iter().chain(rest).collect();
        if let Some((sketch, taken)) = Sketch::decode(&input) {
            prop_assert_eq!(&bytes(&sketch)[..], &input[..taken]);
        }
    }
}

#[test]
fn union_of_none_is_nobody() {
    assert_eq!(Sketch::union(&[]), 0);
    assert_eq!(Sketch::union(&[&Sketch::new(), &Sketch::new()]), 0);
}

#[test]
fn decodes_what_it_encodes() {
    for members in [0, 1, 2, 1_000, EXACT as u64, EXACT as u64 + 1, 5_000, 100_000] {
        let original = sketch((0..members).map(hash));
        let mut input = bytes(&original);
        let len = input.len();
        input.extend_from_slice(b"what follows is somebody else's");
        let (decoded, taken) = Sketch::decode(&input).unwrap();
        assert_eq!(taken, len);
        assert_eq!(decoded, original);
        assert_eq!(decoded.count(), original.count());
        assert_eq!(bytes(&decoded), &input[..len]);
        assert!(decoded.memory() <= original.memory(), "a decoded sketch has no slack");
    }
}

#[test]
fn refuses_every_truncation() {
    for members in [0, 1, 200, 5_000] {
        let whole = bytes(&sketch((0..members).map(hash)));
        for len in 0..whole.len() {
            assert!(Sketch::decode(&whole[..len]).is_none(), "{len} of {} bytes", whole.len());
        }
    }
}

#[test]
fn a_changed_byte_is_refused_or_another_canonical_sketch() {
    for (members, flips) in [(1, &[1u8, 2, 0x10, 0x80, 0xff][..]), (300, &[1, 0x80, 0xff]), (3_000, &[0x40, 0xff])] {
        let mut input = bytes(&sketch((0..members).map(hash)));
        let (mut refused, mut taken_over) = (0, 0);
        for place in 0..input.len() {
            for flip in flips {
                input[place] ^= flip;
                match Sketch::decode(&input) {
                    None => refused += 1,
                    Some((other, taken)) => {
                        taken_over += 1;
                        assert_eq!(bytes(&other), &input[..taken], "byte {place} of {members} members");
                    }
                }
                input[place] ^= flip;
            }
        }
        assert!(refused > 0 && taken_over > 0, "{refused} refused, {taken_over} taken over");
    }
}

#[test]
fn refuses_what_no_sketch_encodes() {
    let exact = |count: u16, hashes: &[u64]| {
        let mut input = vec![0];
        input.extend_from_slice(&count.to_le_bytes());
        input.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
        input
    };
    assert!(Sketch::decode(&exact(2, &[3, 4])).is_some());
    assert!(Sketch::decode(&exact(2, &[4, 3])).is_none(), "not ascending");
    assert!(Sketch::decode(&exact(2, &[3, 3])).is_none(), "a repeat");
    let many: Vec<u64> = (0..=EXACT as u64).collect();
    assert!(Sketch::decode(&exact(EXACT as u16, &many)).is_some());
    assert!(Sketch::decode(&exact(EXACT as u16 + 1, &many)).is_none(), "too many to be exact");
    assert!(Sketch::decode(&exact(u16::MAX, &[])).is_none());

    let mut dense = vec![0; DENSE_LEN];
    dense[0] = 1;
    assert!(Sketch::decode(&dense).is_none(), "a dense sketch of nobody");
    for register in 0..8 {
        for rank in 1..64u64 {
            let mut input = dense.clone();
            input[1..9].copy_from_slice(&(rank << (6 * register)).to_le_bytes());
            assert_eq!(Sketch::decode(&input).is_some(), rank <= 51, "rank {rank} in register {register}");
        }
    }
    for form in 2..=255 {
        dense[0] = form;
        assert!(Sketch::decode(&dense).is_none(), "form {form}");
    }
}

#[test]
fn any_registers_can_be_counted_and_added_to() {
    // Four registers of the greatest rank, 51 = 0b110011, fill three bytes.
    let full: Vec<u8> = [1].into_iter().chain([0b1111_0011, 0b0011_1100, 0b1100_1111].repeat(4_096)).collect();
    let mut lonely = vec![0; DENSE_LEN];
    (lonely[0], lonely[1]) = (1, 51);
    for input in [full, lonely] {
        let (mut sketch, taken) = Sketch::decode(&input).unwrap();
        assert_eq!(taken, DENSE_LEN);
        let count = sketch.count();
        assert!((1..=i64::MAX as u64).contains(&count), "{count}");
        for member in 0..2_000 {
            sketch.add(hash(member));
        }
        assert!(sketch.count() >= count);
    }
}
