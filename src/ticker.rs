//! The tick: what silence brings about, in every room that is due, within a budget.
//!
//! One timer for the whole node. The server's timers go by the wall clock, so the server's own periodic work watches
//! over it and starts it anew when it is late.

use std::sync::Mutex;

use presence_engine::hearing::{Deafness, HeardMs, Verdict};

use crate::announcing;
use crate::commands::internal::PROBE;
use crate::commands::open::value_in;
use crate::node::{self, Node, SLOW_TICK_MS, TICK_MS};
use crate::perform::{perform, Outcome, Spread};
use crate::registry::{Figures, Hint, RoomId};
use crate::room_type::{Value, ROOM};
use crate::sys::context::{avoid_replica_traffic, monotonic_us, Flags};
use crate::sys::event::Timer;
use crate::sys::guard::guarded;
use crate::sys::key::{Held, Key, Mode};
use crate::sys::log::{log, Level};
use crate::sys::{Ctx, OwnedStr};

/// The running timer. Its own lock, because the node's is not held while the server works on timers.
static TIMER: Mutex<Option<Timer>> = Mutex::new(None);

/// From this lateness on, in µs, the watchdog runs the tick and starts the timer anew.
const LATE_US: u64 = 50_000;
/// How often the server is asked whether it admits beats, in µs, although nobody is due.
const PROBE_EVERY_US: u64 = 64_000;
/// Most changes of one room in one step, so that no notification waits for long and no payload grows large.
const STEP: usize = 128;
/// At most one line of advice in the log in this time, in µs.
const ADVISE_EVERY_US: u64 = 60 * 60 * 1_000_000;
/// How soon a room that cannot be heard is looked at again, in ms.
pub(crate) const FROZEN_RETRY_MS: u64 = 100;

/// How soon a room in which a fault of this module showed is tried again, in ms.
const ABANDONED_RETRY_MS: u64 = 1_000;

/// Starts the timer.
pub(crate) fn start(ctx: Ctx<'_>) {
    let period = node::with(|node| {
        let now = node.now();
        let period = period(node, now);
        node.ticks.planned = now + period;
        node.ticks.planned_us = monotonic_us() + period * 1000;
        period
    });
    set_timer(Some(Timer::start(ctx, period as i64, on_timer)));
}

/// How long to the next tick, in ms: short while something is due or about to be, slow otherwise. A tick acts on what
/// was due at the one before, so that an offline comes one or two short periods after it was due.
fn period(node: &Node, now: HeardMs) -> u64 {
    let flags = Flags::current();
    let busy = node.registry.live() > 0 && flags.is_primary() && (node.sweep.is_some() || node.hasten.is_some());
    if busy || node.registry.dead() > 0 || node.registry.has_vacated() && flags.tells() {
        return TICK_MS;
    }
    next_work(node, flags).map_or(SLOW_TICK_MS, |due| due.saturating_sub(now).clamp(TICK_MS, SLOW_TICK_MS))
}

/// When this node has anything to do next: silence is judged by primaries only.
fn next_work(node: &Node, flags: Flags) -> Option<HeardMs> {
    let due = node.registry.next_due().filter(|_| flags.is_primary());
    let saying = node.registry.next_saying().filter(|_| flags.tells());
    due.into_iter().chain(saying).min()
}

/// Something may be due before the tick that is planned. For commands only.
pub(crate) fn wake(ctx: Ctx<'_>) {
    let flags = Flags::current();
    let slow = node::with(|node| {
        next_work(node, flags).is_some_and(|due| due < node.ticks.planned)
            && node.ticks.planned_us > monotonic_us() + TICK_MS * 1000
    });
    if slow {
        restart(ctx);
    }
}

fn restart(ctx: Ctx<'_>) {
    if let Some(timer) = set_timer(None) {
        timer.stop(ctx);
    }
    start(ctx);
}

fn set_timer(timer: Option<Timer>) -> Option<Timer> {
    std::mem::replace(&mut *TIMER.lock().unwrap_or_else(std::sync::PoisonError::into_inner), timer)
}

fn on_timer(ctx: Ctx<'_>) {
    node::with(|node| {
        let late_us = monotonic_us().saturating_sub(node.ticks.planned_us);
        node.ticks.late += u64::from(late_us > TICK_MS * 1000);
    });
    // First of all the next one: whatever goes wrong below, the tick goes on.
    start(ctx);
    tick(ctx);
}

/// Called with the server's own periodic work, which goes by the monotonic clock.
pub(crate) fn watch(ctx: Ctx<'_>) {
    let late = node::with(|node| monotonic_us().saturating_sub(node.ticks.planned_us) > LATE_US);
    if !late {
        return;
    }
    restart(ctx);
    node::with(|node| node.ticks.by_watchdog += 1);
    tick(ctx);
}

fn tick(ctx: Ctx<'_>) {
    let flags = ctx.flags();
    if flags.is_child() {
        return;
    }
    let started = monotonic_us();
    let paused = avoid_replica_traffic();
    let work = node::with(|node| {
        node.ticks.last_us = started;
        let until_us = started + node.budget_us / 2;
        node.registry.reap(|| monotonic_us() < until_us);
        node.refresh();
        // Only the primary decides, and only when it has all of its data.
        let work = flags.is_primary() && !flags.is_loading() && !flags.is_async_loading() && node.registry.live() > 0;
        if !work {
            // What was overdue is gone, or another's to judge.
            node.ticks.overdue_since = None;
        }
        work
    });
    let deaf = if paused {
        Some(Deafness::Paused)
    } else {
        (work && is_refusing(ctx, flags, started)).then_some(Deafness::Refusing)
    };
    let verdict = node::with(|node| node.hearing.tick(started, deaf));
    match verdict {
        Verdict::Wait => node::with(|node| node.ticks.skipped += 1),
        Verdict::Act { now, until } => {
            if !flags.is_loading() {
                announcing::tick(ctx, flags, now, &mut Budget::new(started, 2));
            }
            if work {
                let mut budget = Budget::new(started, 1);
                process(ctx, flags, now, until, &mut budget);
                hasten(now, &mut budget);
                sweep(ctx, flags, &mut budget);
            }
        }
    }
}

/// Whether the server refuses beats (MISCONF, NOREPLICAS, CLUSTERDOWN). Asked before anybody is judged, and now and then.
fn is_refusing(ctx: Ctx<'_>, flags: Flags, now_us: u64) -> bool {
    let ask = node::with(|node| {
        let heard = node.now();
        node.ticks.refusing
            || node.registry.next_due().is_some_and(|due| due <= heard)
            || now_us.saturating_sub(node.ticks.probed_us) >= PROBE_EVERY_US
    });
    if !ask {
        return false;
    }
    let refusing =
        if flags.is_cluster() { is_cluster_refusing(ctx) } else { ctx.probe(PROBE.name, None, |_| ()).is_err() };
    node::with(|node| {
        node.ticks.probed_us = now_us;
        node.ticks.refusing = refusing;
    });
    refusing
}

/// Whether a node of a cluster refuses beats altogether. That the cluster is down is told only to who names a key; that
/// the key is another's is no refusal, and is asked for again when its room is due.
fn is_cluster_refusing(ctx: Ctx<'_>) -> bool {
    let found = node::with(|node| {
        let from = node.ticks.probed_room;
        node.registry.next_from(from).or_else(|| node.registry.next_from(0))
    });
    let Some((_, hint, after)) = found else { return false };
    let elsewhere = |error: &[u8]| error.windows(NOT_LOCAL.len()).any(|words| words == NOT_LOCAL);
    match ctx.probe(PROBE.name, Some(&hint.key), elsewhere) {
        Ok(()) => false,
        Err(true) => {
            node::with(|node| node.ticks.probed_room = after);
            false
        }
        Err(false) => true,
    }
}

/// In the error of every server for a key that this node does not serve while the cluster is well.
const NOT_LOCAL: &[u8] = b"non local key";

/// Time that a tick may spend. The clock is read every few items.
pub(crate) struct Budget {
    until_us: u64,
    items: u32,
    spent: bool,
}

impl Budget {
    /// One part in `parts` of a tick's budget, from the tick's start on.
    fn new(started_us: u64, parts: u64) -> Self {
        Self { until_us: started_us + node::with(|node| node.budget_us) / parts, items: 0, spent: false }
    }

    fn more(&mut self) -> bool {
        self.items += 1;
        if !self.spent && self.items % 16 == 0 {
            self.spent = monotonic_us() >= self.until_us;
        }
        !self.spent
    }

    /// As [`Budget::more`], for work of which each item may be long.
    pub(crate) fn more_now(&mut self) -> bool {
        self.spent = self.spent || monotonic_us() >= self.until_us;
        !self.spent
    }
}

/// Rooms in which something is due up to `until`.
fn process(ctx: Ctx<'_>, flags: Flags, now: HeardMs, until: HeardMs, budget: &mut Budget) {
    while budget.more_now() {
        let Some((id, hint)) = node::with(|node| node.registry.pop_due(until)) else { break };
        let key = OwnedStr::new(&hint.key);
        let done = guarded("what silence brought about in a room", false, || {
            // A room with more to do than one step holds comes up again at once, behind others that are due as long.
            if is_served(ctx, flags, id, &hint, &key, now) {
                step(ctx, flags, id, &hint, &key, Step::Due(until), budget);
            }
            true
        });
        if !done {
            // Off the list and not put back: it must not stay as it is for ever, nor keep the others waiting.
            node::with(|node| node.registry.postpone(id, now + ABANDONED_RETRY_MS));
        }
    }
    node::with(|node| {
        node.ticks.overdue_since = node.registry.next_due().filter(|&due| due <= until).map(|due| match due {
            // Rooms whose timeouts were changed are due "since ever".
            0 => until,
            due => due,
        });
    });
}

/// Slots are served here now: the rooms that wait for theirs are looked at again before their time.
fn hasten(now: HeardMs, budget: &mut Budget) {
    while budget.more_now() {
        let more = node::with(|node| {
            node.hasten = node.hasten.and_then(|from| node.registry.hasten(from, now));
            node.hasten.is_some()
        });
        if !more {
            break;
        }
    }
}

/// After midnight, and after a change of the configuration, every room is visited once.
fn sweep(ctx: Ctx<'_>, flags: Flags, budget: &mut Budget) {
    while budget.more_now() {
        let next = node::with(|node| {
            let next = node.sweep.and_then(|from| node.registry.next_from(from));
            node.sweep = next.as_ref().map(|&(_, _, after)| after);
            next
        });
        let Some((id, hint, _)) = next else { break };
        let key = OwnedStr::new(&hint.key);
        step(ctx, flags, id, &hint, &key, Step::Visit, budget);
    }
}

/// Whether beats of this room can be heard here: in cluster mode, whether its slot is served. If not, everybody in it
/// gets a fresh timeout from the moment at which they can.
fn is_served(ctx: Ctx<'_>, flags: Flags, id: RoomId, hint: &Hint, key: &OwnedStr, now: HeardMs) -> bool {
    if !flags.is_cluster() {
        return true;
    }
    let served = ctx.select_db(hint.db) && ctx.probe(PROBE.name, Some(&hint.key), |_| ()).is_ok();
    let before = node::with(|node| node.registry.freeze(id, !served));
    if !served {
        // Many rooms may wait for their slots at once: looking at them must leave time for the others.
        node::with(|node| node.registry.postpone(id, now + FROZEN_RETRY_MS + node.registry.frozen() / 32));
    }
    // It is heard as ever, or still not: only what changes matters.
    if served != before {
        return served;
    }
    let opened = Key::open(ctx, key.as_str(), Mode::Peek);
    if let Held::Ours(value) = opened.held(&ROOM) {
        // SAFETY: the key stays open and nothing else runs until the reference is gone.
        let value = unsafe { value_in(value) };
        if value.id == id {
            node::with(|node| {
                let mut effects = node.take_effects();
                let env = node.env(flags);
                let before = Figures::of(&value.room);
                value.room.unheard(&env);
                if served {
                    // Whoever watches it here has heard nothing of it yet.
                    value.room.introduce(&env, &mut effects);
                }
                node.note(id, before, &value.room, &effects);
                node.give_back(effects);
            });
        }
    }
    served
}

#[derive(Clone, Copy)]
enum Step {
    Due(HeardMs),
    Visit,
}

/// One step on one room, if it is where the hint says.
fn step(ctx: Ctx<'_>, flags: Flags, id: RoomId, hint: &Hint, key: &OwnedStr, what: Step, budget: &mut Budget) {
    let lost = || {
        node::with(|node| {
            let now = node.now();
            node.registry.lose(id, now)
        })
    };
    if !ctx.select_db(hint.db) {
        return lost();
    }
    let mut opened = Key::open(ctx, key.as_str(), Mode::Peek);
    let Held::Ours(value) = opened.held(&ROOM) else { return lost() };
    // SAFETY: the key stays open and nothing else runs until the reference is gone.
    let value = unsafe { value_in(value) };
    if value.id != id {
        return lost();
    }
    let (mut outcome, disposable) = node::with(|node| {
        node.registry.find(id);
        let mut effects = node.take_effects();
        let env = node.env(flags);
        let before = Figures::of(&value.room);
        match what {
            Step::Due(until) => {
                let mut items = 0;
                value.room.tick(&env, until, &mut effects, &mut || {
                    items += 1;
                    items <= STEP && budget.more()
                });
            }
            Step::Visit => value.room.visit(&env, &mut effects),
        }
        let payload = value.room.finish(&env, &mut effects);
        node.note(id, before, &value.room, &effects);
        advise(node, flags, value, &hint.key);
        (Outcome { effects, payload, deleted: false }, value.room.is_disposable())
    });
    drop(opened);
    if disposable {
        // Read first, write only to change: an idle room must not look used.
        opened = Key::open(ctx, key.as_str(), Mode::Write);
        outcome.deleted = matches!(opened.held(&ROOM), Held::Ours(_)) && opened.delete();
        drop(opened);
    }
    perform(ctx, key.as_str(), outcome, Spread::Payload, true);
}

/// The classic mistake goes to the log, once an hour.
fn advise(node: &mut Node, flags: Flags, value: &Value, key: &[u8]) {
    let now_us = node.ticks.last_us;
    if node.ticks.advised_us.is_some_and(|last| now_us.saturating_sub(last) < ADVISE_EVERY_US) {
        return;
    }
    if let Some((interval, timeout)) = value.room.advice(&node.env(flags)) {
        node.ticks.advised_us = Some(now_us);
        log(
            Level::Notice,
            format_args!(
                "advice for room {}: clients beat every {interval} ms, so one lost beat exceeds the timeout; \
                 set TIMEOUT to {timeout} or more (PRESENCE.INFO tells more; at most one such line an hour)",
                String::from_utf8_lossy(key.get(..key.len().min(64)).unwrap_or_default())
            ),
        );
    }
}
