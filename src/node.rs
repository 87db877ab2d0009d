//! The state of this node beside its rooms: the heard clock, the calendar, the configuration in force, the registry,
//! the term, and figures.
//!
//! The server runs commands, timers and events one at a time, though not always on the same thread (other modules may
//! call from threads of theirs). So all of it stands behind one lock that is never contended. It is held for moments
//! in which nothing of the server runs that could call back; [`with`] refuses to be entered twice.

use std::sync::{Mutex, TryLockError};

use presence_engine::effects::Effects;
use presence_engine::hearing::{Deafness, HeardMs, Hearing};
use presence_engine::room::{Env, Room};
use presence_engine::settings::{NodeConfig, Pubsub};
use presence_engine::stats::{Histogram, Stats};
use presence_engine::table::HashKeys;
use presence_engine::uniques::{Calendar, Day};

use crate::config;
use crate::imports::Imports;
use crate::registry::{Figures, Registry, RoomId};
use crate::sys::context::{monotonic_us, random_bytes, unix_ms, Flags};
use crate::turns::Turns;

/// Period of the tick in ms, while anything is due.
pub(crate) const TICK_MS: u64 = 2;
/// Period while nothing is: often enough to notice that the server was deaf.
pub(crate) const SLOW_TICK_MS: u64 = 50;

/// See the module.
pub(crate) struct Node {
    pub(crate) hearing: Hearing,
    pub(crate) registry: Registry,
    pub(crate) stats: Stats,
    /// How late goings by silence were announced, in ms of heard time.
    pub(crate) lateness: Histogram,
    pub(crate) ticks: Ticks,
    pub(crate) turns: Turns,
    /// Where to go on with the visit to every room.
    pub(crate) sweep: Option<u32>,
    /// Where to go on hastening looks at frozen rooms.
    pub(crate) hasten: Option<u32>,
    pub(crate) budget_us: u64,
    pub(crate) imports: Imports,
    pubsub: Pubsub,
    config: NodeConfig,
    config_generation: u64,
    /// Changes with the timeouts in `config`.
    timeouts_generation: u16,
    calendar: Calendar,
    today: Day,
    term: u64,
    keys: &'static HashKeys,
    /// Effects that are not in use, with their memory.
    spare: Vec<Effects>,
}

/// Figures of the tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    /// Ticks in which nothing could be done, because the server was deaf.
    pub(crate) skipped: u64,
    /// Ticks that had to be run by the watchdog.
    pub(crate) by_watchdog: u64,
    /// Ticks that came more than a period late.
    pub(crate) late: u64,
    /// Monotonic moment of the last tick, µs.
    pub(crate) last_us: u64,
    /// Moment for which the next one is planned, and the same by the monotonic clock, µs.
    pub(crate) planned: HeardMs,
    pub(crate) planned_us: u64,
    /// Monotonic moment of the last probe, µs, and what it said.
    pub(crate) probed_us: u64,
    pub(crate) refusing: bool,
    /// In cluster mode: from which place on to look for a room to ask with.
    pub(crate) probed_room: u32,
    /// Rooms left over by the last tick because its budget was spent.
    pub(crate) overdue_since: Option<HeardMs>,
    /// Monotonic moment of the last advice in the log, µs.
    pub(crate) advised_us: Option<u64>,
}

static NODE: Mutex<Option<Node>> = Mutex::new(None);

/// Sets the node up, when the module is loaded.
pub(crate) fn init() {
    let mono = monotonic_us();
    let mut hearing = Hearing::new(mono);
    let now = hearing.now(mono);
    let mut node = Node {
        hearing,
        registry: Registry::new(now),
        stats: Stats::default(),
        lateness: Histogram::default(),
        ticks: Ticks { last_us: mono, planned_us: mono, ..Ticks::default() },
        turns: Turns::default(),
        sweep: None,
        hasten: None,
        budget_us: 1_000,
        imports: Imports::default(),
        pubsub: Pubsub::default(),
        config: NodeConfig::default(),
        config_generation: u64::MAX,
        timeouts_generation: 0,
        calendar: Calendar::default(),
        today: Day::MIN,
        term: random(),
        keys: Box::leak(Box::new(HashKeys(random(), random()))),
        spare: Vec::new(),
    };
    node.refresh();
    *NODE.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(node);
}

/// Works on the node. `f` must not call into the server where that may call back.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Node) -> R) -> R {
    let mut guard = match NODE.try_lock() {
        Ok(guard) => guard,
        // A panic was caught while the lock was held; what it guards are figures and lists that heal.
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => reentered(),
    };
    match guard.as_mut() {
        Some(node) => f(node),
        None => reentered(),
    }
}

#[cold]
#[expect(clippy::panic, reason = "a fault of this module; it is caught at the entry and reported")]
fn reentered() -> ! {
    panic!("the node was used before it was set up, or while it was in use");
}

fn random() -> u64 {
    // 0 stands for "none" in places.
    u64::from_le_bytes(random_bytes()) | 1
}

impl Node {
    /// Heard now.
    #[inline]
    pub(crate) fn now(&mut self) -> HeardMs {
        self.hearing.now(monotonic_us())
    }

    /// The calendar day, as of the last tick or step: what the hot path of a beat goes by.
    #[inline]
    pub(crate) fn today(&self) -> Day {
        self.today
    }

    /// Follows the configuration and the calendar. Returns the wall clock, Unix ms.
    pub(crate) fn refresh(&mut self) -> u64 {
        let generation = config::generation();
        if generation != self.config_generation {
            self.config_generation = generation;
            let config = config::current();
            let before = std::mem::replace(&mut self.config, config.node);
            self.budget_us = config.tick_budget_us.into();
            self.pubsub = config.pubsub;
            if *self.calendar.name() != *config.day_zone {
                self.calendar.set_zone(&config.day_zone);
            }
            let timeouts = |config: &NodeConfig| (config.timeout, config.grace, config.recent);
            if timeouts(&before) != timeouts(&self.config) && self.registry.live() > 0 {
                // No change of a number makes anyone leave.
                self.grant(Deafness::Settings);
                self.timeouts_generation = self.timeouts_generation.wrapping_add(1);
            }
            self.sweep = Some(0);
        }
        let wall = unix_ms();
        let today = self.calendar.today(wall);
        if today != self.today {
            self.today = today;
            self.sweep = Some(0);
        }
        u64::try_from(wall).unwrap_or(0)
    }

    /// Which channels announcements go to.
    pub(crate) fn pubsub(&mut self) -> Pubsub {
        self.refresh();
        self.pubsub
    }

    /// What a step needs to know, read once for it.
    pub(crate) fn env(&mut self, flags: Flags) -> Env<'_> {
        let now = self.now();
        let unix_ms = self.refresh();
        Env {
            now,
            unix_ms,
            today: self.today,
            fresh: self.hearing.fresh(),
            config: &self.config,
            generation: self.timeouts_generation,
            term: flags.is_primary().then_some(self.term),
            oom: flags.is_oom() && !flags.must_obey(),
            tells: flags.tells(),
        }
    }

    /// An empty room.
    pub(crate) fn new_room(&mut self, flags: Flags) -> Room {
        Room::new(self.keys, random(), &self.env(flags))
    }

    /// This node became a primary: a new term, and everybody is heard afresh.
    pub(crate) fn promoted(&mut self) {
        self.term = random();
        self.grant(Deafness::Promotion);
        // Every room has a new epoch, of which its readers are told when it is visited.
        self.sweep = Some(0);
    }

    /// Everybody is heard afresh.
    pub(crate) fn grant(&mut self, cause: Deafness) {
        self.hearing.grant(cause, monotonic_us());
    }

    /// Takes note of a room after a step.
    pub(crate) fn note(&mut self, id: RoomId, before: Figures, room: &Room, effects: &Effects) {
        self.registry.note(id, before, room);
        if let Some(due) = effects.say_at {
            self.registry.say_at(id, due);
        }
    }

    /// Effects to fill; to be given back.
    pub(crate) fn take_effects(&mut self) -> Effects {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes effects back when they have been performed, and their figures.
    pub(crate) fn give_back(&mut self, mut effects: Effects) {
        [effects.stats.count_messages, effects.stats.member_messages, effects.stats.feed_messages] =
            effects.messages.tally();
        self.stats.absorb(&effects.stats);
        for &ms in &effects.lateness {
            self.lateness.add(ms);
        }
        effects.clear();
        if self.spare.len() < 4 {
            self.spare.push(effects);
        }
    }
}
