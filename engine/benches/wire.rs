//! What do saving and loading of a large room cost?

#![allow(clippy::unwrap_used, reason = "a bench that fails may panic")]

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use presence_engine::effects::Effects;
use presence_engine::hearing::FreshPoints;
use presence_engine::member::Attributes;
use presence_engine::room::{Env, Room};
use presence_engine::settings::NodeConfig;
use presence_engine::table::HashKeys;
use presence_engine::uniques::Day;

const MEMBERS: u32 = 1_000_000;
const START: u64 = 1 << 33;

fn wire(criterion: &mut Criterion) {
    let (config, fresh) = (NodeConfig::default(), FreshPoints::default());
    let env = Env {
        now: START,
        unix_ms: 1_800_000_000_000,
        today: Day::from_number(20_000),
        fresh: &fresh,
        config: &config,
        generation: 0,
        term: Some(1),
        oom: false,
        tells: true,
    };
    let mut room = Room::new(&HashKeys(1, 2), 3, &env);
    let mut fx = Effects::default();
    for n in 0..MEMBERS {
        room.beat(&env, format!("m:{n:012}").as_bytes(), b"", &Attributes::default(), &mut fx).unwrap();
        room.finish(&env, &mut fx);
        fx.clear();
    }
    let mut payloads = Vec::new();
    room.save(env.term, START, &mut |payload| payloads.push(payload));
    drop(room);

    let mut group = criterion.benchmark_group("wire");
    group.throughput(Throughput::Elements(MEMBERS.into())).sample_size(10);
    let load = || {
        // Other keys than those it was saved with, as after a restart.
        Room::load_from(&HashKeys(5, 6), 7, &env, payloads.iter().map(Vec::as_slice)).unwrap()
    };
    group.bench_function("load", |bencher| bencher.iter_batched(|| (), |()| load(), BatchSize::PerIteration));
    let room = load();
    group.bench_function("save", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            room.save(env.term, START, &mut |payload| bytes += payload.len());
            bytes
        });
    });
    group.finish();
}

criterion_group!(benches, wire);
criterion_main!(benches);
