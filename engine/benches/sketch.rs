//! What a member, a count and a union of the daily uniques cost.

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BatchSize, Criterion};
use presence_engine::uniques::{member_hash, Sketch};

fn sketch(members: std::ops::Range<u64>) -> Sketch {
    let mut sketch = Sketch::new();
    for member in members {
        sketch.add(member_hash(&member.to_le_bytes()));
    }
    sketch
}

fn sketches(c: &mut Criterion) {
    c.bench_function("member_hash/16 bytes", |b| b.iter(|| member_hash(black_box(b"user:0123456789a"))));

    let hashes: Vec<u64> = (0..200_000u64).map(|member| member_hash(&member.to_le_bytes())).collect();
    c.bench_function("add/1,000 to an empty sketch", |b| {
        b.iter_batched_ref(
            Sketch::new,
            |sketch| hashes.iter().take(1_000).filter(|&&hash| sketch.add(hash)).count(),
            BatchSize::SmallInput,
        )
    });
    let dense = sketch(0..100_000);
    c.bench_function("add/100,000 of 200,000 to a dense sketch", |b| {
        b.iter_batched_ref(
            || dense.clone(),
            |sketch| hashes.iter().skip(100_000).filter(|&&hash| sketch.add(hash)).count(),
            BatchSize::LargeInput,
        )
    });

    let mut encoded = Vec::new();
    dense.encode(&mut encoded);
    c.bench_function("decode/dense", |b| b.iter(|| Sketch::decode(black_box(&encoded)).is_some()));
    // A decoded sketch has not been estimated yet.
    c.bench_function("count/dense, changed", |b| {
        b.iter_batched_ref(
            || Sketch::decode(&encoded),
            |sketch| sketch.as_ref().map(|(s, _)| s.count()),
            BatchSize::SmallInput,
        )
    });
    dense.count();
    c.bench_function("count/dense, unchanged", |b| b.iter(|| black_box(&dense).count()));

    let other = sketch(50_000..150_000);
    c.bench_function("merge/dense into dense", |b| {
        b.iter_batched_ref(|| dense.clone(), |union| other.merge_into(union), BatchSize::SmallInput)
    });
    let days: Vec<Sketch> = (0..30).map(|day| sketch(day * 1_000..day * 1_000 + 30_000)).collect();
    let days: Vec<&Sketch> = days.iter().collect();
    c.bench_function("union/30 dense days", |b| b.iter(|| Sketch::union(black_box(&days))));
}

criterion_group!(benches, sketches);
criterion_main!(benches);
