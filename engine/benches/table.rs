//! What does it cost to find a member, by the size of the room?
#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros, and a benchmark may panic")]

use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};
use presence_engine::table::{HashKeys, Table};
use presence_engine::wheel::Wheel;

/// Twelve bytes, all different, in an order that neither the hash nor the slots follow.
fn id12(number: u64) -> [u8; 12] {
    let mut id = *b"user00000000";
    id[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id
}

fn find(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("find");
    for size in [2, 1_000, 200_000, 1_000_000, 10_000_000] {
        let mut table = Table::new(&HashKeys(1, 2));
        (0..size).for_each(|number| assert!(table.insert(&id12(number), &mut Wheel::new(0)).is_some()));
        let mut number = 1_u64;
        // Members in random order: a large room pays for the cache misses that it has in service.
        group.bench_function(BenchmarkId::new("present", size), |bencher| {
            bencher.iter(|| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                table.find(&id12(black_box((number >> 32) % size))).unwrap()
            });
        });
        // The same in batches, as gateways send them; the time is that of a whole batch.
        group.throughput(Throughput::Elements(32));
        group.bench_function(BenchmarkId::new("batch_of_32", size), |bencher| {
            bencher.iter(|| {
                let ids = [(); 32].map(|()| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    id12(black_box((number >> 32) % size))
                });
                let mut found = 0;
                table.find_all(ids.iter().map(|id| &id[..]), |slot| found += usize::from(slot.is_some()));
                found
            });
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("absent", size), |bencher| {
            bencher.iter(|| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                table.find(&id12(black_box(size + (number >> 32))))
            });
        });
    }
}

criterion_group!(benches, find);
criterion_main!(benches);
