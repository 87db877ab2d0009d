//! What does a deadline cost from its setting to its being handed out, by the number of them?
#![allow(missing_docs, clippy::indexing_slicing, reason = "criterion's macros, and a benchmark may panic")]

use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion, Throughput};
use presence_engine::wheel::{Link, Links, Wheel};

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

/// Deadlines spread over 45 s, as of members who time out; the wheel is looked at every 5 ms.
fn set_and_go(size: u32) -> usize {
    let due = |slot: u32| u64::from(slot.wrapping_mul(2_654_435_761) % 45_000);
    let mut wheel = Wheel::new(0);
    let mut entries = Entries(vec![Link::UNLINKED; size as usize]);
    (0..size).for_each(|slot| wheel.insert(&mut entries, slot, due(slot)));
    let mut gone = 0;
    for until in (0..=45_000).step_by(5) {
        while let Some(slot) = wheel.pop(&mut entries, until) {
            if due(slot) > wheel.now() {
                wheel.insert(&mut entries, slot, due(slot));
            } else {
                gone += 1;
            }
        }
    }
    gone
}

fn deadlines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("deadline");
    group.sample_size(10);
    for size in [1_000, 100_000, 1_000_000] {
        group.throughput(Throughput::Elements(size.into()));
        group.bench_function(BenchmarkId::new("set_and_go", size), |bencher| {
            bencher.iter_batched(|| (), |()| assert_eq!(set_and_go(size), size as usize), BatchSize::PerIteration);
        });
    }
}

criterion_group!(benches, deadlines);
criterion_main!(benches);
