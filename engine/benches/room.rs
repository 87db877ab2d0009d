//! What does a beat cost? A renewal, plain and with a session, beside the bare minimum that any implementation pays: a
//! lookup in a hash map and a store. Then a join, and a going by silence.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that fails may panic")]

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{criterion_group, criterion_main, BatchSize, BenchmarkId, Criterion, Throughput};
use presence_engine::effects::Effects;
use presence_engine::hearing::FreshPoints;
use presence_engine::member::Attributes;
use presence_engine::room::{Env, Room};
use presence_engine::settings::NodeConfig;
use presence_engine::table::HashKeys;
use presence_engine::uniques::Day;

const START: u64 = 1 << 33;

struct World {
    config: NodeConfig,
    fresh: FreshPoints,
}

impl World {
    fn new() -> Self {
        Self { config: NodeConfig::default(), fresh: FreshPoints::default() }
    }

    fn env(&self, now: u64) -> Env<'_> {
        Env {
            now,
            unix_ms: 1_800_000_000_000,
            today: Day::from_number(20_000),
            fresh: &self.fresh,
            config: &self.config,
            generation: 0,
            term: Some(1),
            oom: false,
            tells: true,
        }
    }

    fn room(&self, members: u32, session: &[u8]) -> Room {
        let env = self.env(START);
        let mut room = Room::new(&HashKeys(1, 2), 3, &env);
        let mut fx = Effects::default();
        for n in 0..members {
            room.beat(&env, &id(n), session, &Attributes::default(), &mut fx).unwrap();
            room.finish(&env, &mut fx);
            fx.clear();
        }
        room
    }
}

fn id(n: u32) -> [u8; 12] {
    let mut id = *b"m:0000000000";
    id[2..].copy_from_slice(format!("{n:010}").as_bytes());
    id
}

fn shuffled(n: u32, members: u32) -> u32 {
    (u64::from(n) * 2_654_435_761 % u64::from(members)) as u32
}

fn renew(c: &mut Criterion) {
    let world = World::new();
    let mut group = c.benchmark_group("renew");
    group.throughput(Throughput::Elements(1));
    for members in [1_000, 200_000] {
        let mut bare: HashMap<[u8; 12], u32> = (0..members).map(|n| (id(n), 0)).collect();
        // A walk over all members that no cache can follow.
        let ids: Vec<_> = (0..members).map(|n| id(shuffled(n, members))).collect();
        let mut walk = ids.iter().cycle();
        let mut n = 0;
        group.bench_function(BenchmarkId::new("bare map", members), |b| {
            b.iter(|| {
                n += 1;
                *bare.get_mut(black_box(walk.next().unwrap())).unwrap() = n;
            });
        });
        for (name, session) in [("unnamed", &b""[..]), ("session", b"session-0001")] {
            let mut room = world.room(members, session);
            group.bench_function(BenchmarkId::new(name, members), |b| {
                b.iter(|| {
                    let member = walk.next().unwrap();
                    assert!(room.renew(black_box(member), session, START + 1, Day::from_number(20_000)));
                });
            });
        }
    }
    group.finish();
}

fn come_and_go(c: &mut Criterion) {
    let world = World::new();
    let mut group = c.benchmark_group("10,000 members");
    group.throughput(Throughput::Elements(10_000));
    group.sample_size(20);
    group.bench_function("come", |b| b.iter(|| world.room(10_000, b"session-0001")));
    group.bench_function("go by silence", |b| {
        b.iter_batched(
            || (world.room(10_000, b"session-0001"), Effects::default()),
            |(mut room, mut fx)| {
                let later = START + 60_000;
                room.tick(&world.env(later), later, &mut fx, &mut || true);
                room.finish(&world.env(later), &mut fx);
                assert_eq!(room.count(), 0);
                room
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, renew, come_and_go);
criterion_main!(benches);
