//! What does a member's coming and going cost: in a room that grows from nothing, and in one that keeps its size?
#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros, and a benchmark may panic")]

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion, Throughput};
use presence_engine::table::{HashKeys, Table};
use presence_engine::wheel::Wheel;

/// Twelve bytes, all different, in an order that neither the hash nor the slots follow.
fn id12(number: u64) -> [u8; 12] {
    let mut id = *b"user00000000";
    id[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id
}

fn filled(size: u64) -> Table {
    let (mut table, mut wheel) = (Table::new(&HashKeys(1, 2)), Wheel::new(0));
    (0..size).for_each(|number| assert!(table.insert(&id12(number), &mut wheel).is_some()));
    table
}

fn come_and_go(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("come_and_go");
    group.sample_size(10);
    for size in [1_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(size));
        group.bench_function(BenchmarkId::new("grow", size), |bencher| {
            bencher.iter_batched(|| (), |()| filled(size), BatchSize::PerIteration);
        });
        group.throughput(Throughput::Elements(1));
        let (mut table, mut wheel, mut oldest) = (filled(size), Wheel::new(0), 0);
        group.bench_function(BenchmarkId::new("replace", size), |bencher| {
            bencher.iter(|| {
                table.remove(table.find(&id12(black_box(oldest))).unwrap(), &mut wheel);
                table.insert(&id12(oldest + size), &mut wheel).unwrap();
                oldest += 1;
            });
        });
    }
}

criterion_group!(benches, come_and_go);
criterion_main!(benches);
