//! The live rooms of this node: by id, with a hint where each is, and what is due next. Main thread only.
//!
//! Only `free` means that a room is dead, and it may run on any thread at any later time; RENAME, MOVE, SWAPDB, RESTORE
//! and COPY move living values around. So a room knows its entry, an entry only has a hint of the key, and whoever
//! follows the hint must compare ids. The graveyard is all that other threads touch.

mod left;
mod name;
mod slab;

use std::collections::{BTreeSet, VecDeque};

use presence_engine::hearing::HeardMs;
use presence_engine::room::Room;
use presence_engine::wheel::{Link, Wheel};

pub(crate) use self::left::{bury, By, Dead, Vacated};
use self::left::{take_dead, Row, Swap};
use self::name::Name;
use self::slab::{Slab, BLOCK};

/// A room's place in the registry. The serial tells apart the rooms that a place has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RoomId {
    index: u32,
    serial: u32,
}

/// Where a room was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) db: i32,
    pub(crate) key: Name,
}

/// What a room counts for in INFO. A step takes them before and after: see [`Registry::note`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    members: u32,
    sessions: u32,
    /// In 16 bytes, so that a room of 10 million members fits.
    memory: u32,
}

impl Figures {
    pub(crate) fn of(room: &Room) -> Self {
        let memory = u32::try_from(room.memory() / 16).unwrap_or(u32::MAX);
        Self { members: room.count(), sessions: room.sessions(), memory }
    }
}

/// The same for all rooms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) members: u64,
    pub(crate) sessions: u64,
    memory: u64,
}

impl Totals {
    /// Bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory * 16
    }

    fn exchange(&mut self, before: Figures, after: Figures) {
        let exchange = |total: &mut u64, before: u32, after: u32| {
            *total = (*total + u64::from(after)).saturating_sub(before.into())
        };
        exchange(&mut self.members, before.members, after.members);
        exchange(&mut self.sessions, before.sessions, after.sessions);
        exchange(&mut self.memory, before.memory, after.memory);
    }
}

#[derive(Debug)]
struct Entry {
    serial: u32,
    link: Link,
    /// [`NEVER`] if not on the list.
    due: HeardMs,
    /// The hint, in its parts for the sake of a few bytes.
    db: i32,
    key: Name,
    /// How often in a row the hint led nowhere.
    lost: u8,
    /// Found where it cannot be heard (its slot is not served here).
    frozen: bool,
    /// The node's data as a whole when it was entered: see [`Registry::begin_load`].
    era: u32,
    /// When it has something to say, [`NEVER`] if not: its place in `sayings`.
    saying: HeardMs,
}

// There are as many as rooms.
const _: () = assert!(size_of::<Option<Entry>>() == 64);

impl Entry {
    fn hint(&self) -> Hint {
        Hint { db: self.db, key: self.key.clone() }
    }
}

/// Of what has gone, room for so many is kept.
const KEPT: usize = 64;
/// Blocks given back in a step.
const BLOCKS_AT_ONCE: usize = 8;
/// Names that wait to be told, so that the list of them never grows in one long step.
const CROWDED: usize = 4_096;

const NEVER: HeardMs = HeardMs::MAX;

/// See the module.
pub(crate) struct Registry {
    slab: Slab,
    /// Blocks that nothing is in any more, given back a few at a time.
    rubbish: Vec<Vec<Option<Entry>>>,
    wheel: Wheel,
    live: u64,
    next_serial: u32,
    totals: Totals,
    lost: u64,
    frozen: u64,
    era: u32,
    /// Rooms of this era and before it go without a word.
    silent_era: u32,
    /// So do rooms of this one.
    broken_era: u32,
    /// Data is being read; whether beside that in service.
    load: Option<bool>,
    /// Rooms that have something to say at a moment.
    sayings: BTreeSet<(HeardMs, RoomId)>,
    dead: Vec<Row>,
    vacated: VecDeque<Vacated>,
    swaps: VecDeque<Swap>,
}

impl Registry {
    pub(crate) fn new(now: HeardMs) -> Self {
        Self {
            slab: Slab::default(),
            rubbish: Vec::new(),
            wheel: Wheel::new(now),
            live: 0,
            next_serial: 0,
            totals: Totals::default(),
            lost: 0,
            frozen: 0,
            era: 1,
            silent_era: 0,
            broken_era: 0,
            load: None,
            sayings: BTreeSet::new(),
            dead: Vec::new(),
            vacated: VecDeque::new(),
            swaps: VecDeque::new(),
        }
    }

    /// Enters a new room.
    pub(crate) fn enter(&mut self, hint: Hint) -> RoomId {
        self.next_serial = self.next_serial.wrapping_add(1);
        let entry = Entry {
            serial: self.next_serial,
            link: Link::UNLINKED,
            due: NEVER,
            db: hint.db,
            key: hint.key,
            lost: 0,
            frozen: false,
            era: self.era,
            saying: NEVER,
        };
        self.live += 1;
        let serial = entry.serial;
        RoomId { index: self.slab.insert(entry), serial }
    }

    /// Strikes off rooms that were freed, as long as `more` allows.
    pub(crate) fn reap(&mut self, mut more: impl FnMut() -> bool) {
        self.dead.append(&mut take_dead());
        while !self.dead.is_empty() && !self.is_crowded() && more() {
            let Some(Dead { id, figures, parting }) = self.dead.last_mut().and_then(Vec::pop) else {
                self.dead.pop();
                continue;
            };
            if self.entry(id).is_none() {
                continue;
            }
            self.wheel.remove(&mut self.slab, id.index);
            if let Some(entry) = self.slab.take(id.index) {
                if entry.saying != NEVER {
                    self.sayings.remove(&(entry.saying, id));
                }
                let silent = entry.era <= self.silent_era || entry.era == self.broken_era;
                if let Some(parting) = parting.filter(|_| !silent) {
                    self.vacated.push_back(Vacated { hint: entry.hint(), by: By::Dead(parting) });
                }
                self.totals.exchange(figures, Figures::default());
                self.lost -= u64::from(entry.lost > 0);
                self.frozen -= u64::from(entry.frozen);
                self.live -= 1;
            }
        }
        if self.live == 0 {
            // Whatever a step that broke off has left in them.
            self.totals = Totals::default();
            self.rubbish.append(&mut std::mem::take(&mut self.slab).into_blocks());
        }
        let rest = self.rubbish.len().saturating_sub(BLOCKS_AT_ONCE);
        self.rubbish.truncate(rest);
        if rest == 0 {
            self.rubbish = Vec::new();
        }
    }

    /// Rooms that were freed and not struck off yet.
    pub(crate) fn dead(&self) -> usize {
        self.dead.iter().map(Vec::len).sum()
    }

    /// Takes note of a room after a step: when it is due next, and its figures, of which the entry has no copy.
    pub(crate) fn note(&mut self, id: RoomId, before: Figures, room: &Room) {
        let due = room.next_due().unwrap_or(NEVER);
        let Some(entry) = self.entry_mut(id) else { return };
        // Of a frozen room nothing is due; it is looked at again and again until it is served.
        let changed = !entry.frozen && std::mem::replace(&mut entry.due, due) != due;
        self.totals.exchange(before, Figures::of(room));
        if changed {
            self.link(id.index, due);
        }
    }

    /// The next room that is due by `until`, taken off the list: [`Registry::note`] or [`Registry::postpone`] put it back.
    pub(crate) fn pop_due(&mut self, until: HeardMs) -> Option<(RoomId, Hint)> {
        loop {
            let index = self.wheel.pop(&mut self.slab, until)?;
            let Some(entry) = self.slab.get_mut(index) else { continue };
            if entry.due <= until {
                // Off the list: whatever is noted next is a change.
                entry.due = NEVER;
                return Some((RoomId { index, serial: entry.serial }, entry.hint()));
            }
            let due = entry.due;
            self.link(index, due);
        }
    }

    /// When the next room is due; a lower bound.
    pub(crate) fn next_due(&self) -> Option<HeardMs> {
        self.wheel.next_due()
    }

    /// The hint led nowhere: to be tried again, less and less often.
    pub(crate) fn lose(&mut self, id: RoomId, now: HeardMs) {
        let Some(entry) = self.entry_mut(id) else { return };
        let first = entry.lost == 0;
        entry.lost = (entry.lost + 1).min(6);
        let wait = 50 << entry.lost;
        self.lost += u64::from(first);
        self.postpone(id, now + wait);
    }

    /// The hint was right.
    pub(crate) fn find(&mut self, id: RoomId) {
        let Some(entry) = self.entry_mut(id) else { return };
        if std::mem::take(&mut entry.lost) > 0 {
            self.lost -= 1;
        }
    }

    /// The room is or is not served here. Returns whether it was frozen before.
    pub(crate) fn freeze(&mut self, id: RoomId, frozen: bool) -> bool {
        let Some(entry) = self.entry_mut(id) else { return false };
        let before = std::mem::replace(&mut entry.frozen, frozen);
        self.frozen = self.frozen + u64::from(frozen) - u64::from(before);
        before
    }

    /// The room came to a node that may not serve its slot yet: frozen until a look at it, first at `due`, shows otherwise.
    pub(crate) fn arrive(&mut self, id: RoomId, due: HeardMs) {
        if !self.freeze(id, true) {
            self.postpone(id, due);
        }
    }

    /// Of the places from `from` on, a few: frozen rooms there are looked at again at `due`. Returns where to go on.
    pub(crate) fn hasten(&mut self, from: u32, due: HeardMs) -> Option<u32> {
        if self.frozen == 0 {
            return None;
        }
        let until = from + BLOCK as u32;
        for index in from..until {
            if let Some(entry) = self.slab.get_mut(index).filter(|entry| entry.frozen && entry.due > due) {
                entry.due = due;
                self.link(index, due);
            }
        }
        (until < self.slab.places()).then_some(until)
    }

    /// This node judges nobody any more.
    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.frozen) > 0 {
            self.slab.iter_mut().for_each(|entry| entry.frozen = false);
        }
    }

    /// Looks at the room again at `due`.
    pub(crate) fn postpone(&mut self, id: RoomId, due: HeardMs) {
        if let Some(entry) = self.entry_mut(id) {
            entry.due = due;
            self.link(id.index, due);
        }
    }

    /// All data of the node is about to be replaced (a restart, a full sync): the rooms of before go without a word,
    /// however late they are freed. `aside`: they stay in service until it is complete.
    pub(crate) fn begin_load(&mut self, aside: bool) {
        // A load aside is told as a load, too.
        if self.load != Some(true) {
            self.era += 1;
            self.load = Some(aside);
            if !aside {
                self.silent_era = self.era - 1;
            }
        }
    }

    /// The load is over. What of it was freed meanwhile, and all of it if it failed, goes without a word as well.
    pub(crate) fn end_load(&mut self, aside: bool, complete: bool) {
        // And its end twice, of which only one is that of what was begun.
        if self.load != Some(aside) {
            return;
        }
        loop {
            self.reap(|| true);
            self.vacated.clear();
            if self.dead.is_empty() {
                break;
            }
        }
        self.swaps.clear();
        match (aside, complete) {
            (true, true) => self.silent_era = self.era - 1,
            (false, true) => {}
            (_, false) => {
                self.broken_era = self.era;
                self.era += 1;
            }
        }
        self.load = None;
    }

    /// The room has something to say at `due`.
    pub(crate) fn say_at(&mut self, id: RoomId, due: HeardMs) {
        let Some(entry) = self.entry_mut(id) else { return };
        let before = std::mem::replace(&mut entry.saying, due);
        if before != NEVER {
            self.sayings.remove(&(before, id));
        }
        self.sayings.insert((due, id));
    }

    /// When a room has something to say next.
    pub(crate) fn next_saying(&self) -> Option<HeardMs> {
        self.sayings.first().map(|&(due, _)| due)
    }

    /// The next room that has something to say by `now`.
    pub(crate) fn pop_saying(&mut self, now: HeardMs) -> Option<(RoomId, Hint)> {
        self.next_saying().filter(|&due| due <= now)?;
        let (_, id) = self.sayings.pop_first()?;
        let entry = self.entry_mut(id)?;
        entry.saying = NEVER;
        Some((id, entry.hint()))
    }

    /// Whether the room is not served here.
    pub(crate) fn is_frozen(&self, id: RoomId) -> bool {
        self.entry(id).is_some_and(|entry| entry.frozen)
    }

    /// Rooms that have something to say.
    pub(crate) fn sayings(&self) -> usize {
        self.sayings.len()
    }

    /// A name that a room has left, oldest first. Another room may hold it by now.
    pub(crate) fn pop_vacated(&mut self) -> Option<Vacated> {
        if let Some(vacated) = self.vacated.pop_front() {
            if self.vacated.is_empty() {
                self.vacated.shrink_to(KEPT);
            }
            return Some(vacated);
        }
        while let Some(mut swap) = self.swaps.pop_front() {
            if let Some((index, entry)) = self.slab.next_from(swap.from) {
                swap.from = index + 1;
                self.swaps.push_front(swap);
                // Of a room that came since, this is a name that nothing holds and nobody watches.
                if let Some(db) = swap.other(entry.db) {
                    let by = By::Moved(RoomId { index, serial: entry.serial });
                    return Some(Vacated { hint: Hint { db, key: entry.key.clone() }, by });
                }
            }
        }
        None
    }

    /// Whether so many names were left that they should be told before more are found out.
    fn is_crowded(&self) -> bool {
        self.vacated.len() >= CROWDED
    }

    /// Whether rooms have left names of which nobody was told yet.
    pub(crate) fn has_vacated(&self) -> bool {
        !self.vacated.is_empty() || !self.swaps.is_empty()
    }

    /// Where a living room is.
    pub(crate) fn hint(&self, id: RoomId) -> Option<Hint> {
        self.entry(id).map(Entry::hint)
    }

    /// The room was seen at a name of its own will: it was renamed, or moved.
    pub(crate) fn moved_to(&mut self, id: RoomId, db: i32, key: &[u8]) {
        let before = self.hint(id).filter(|hint| hint.db != db || *hint.key != *key);
        if let Some(hint) = before {
            self.vacated.push_back(Vacated { hint, by: By::Moved(id) });
        }
        self.seen_at(id, db, key);
    }

    /// The room was seen there.
    pub(crate) fn seen_at(&mut self, id: RoomId, db: i32, key: &[u8]) {
        if let Some(entry) = self.entry_mut(id) {
            if entry.db != db || *entry.key != *key {
                (entry.db, entry.key) = (db, key.into());
            }
        }
    }

    /// Two databases changed places.
    pub(crate) fn swap(&mut self, first: i32, second: i32) {
        let swap = Swap { first, second, from: 0 };
        for entry in self.slab.iter_mut() {
            if let Some(other) = swap.other(entry.db) {
                entry.db = other;
            }
        }
        self.swaps.push_back(swap);
    }

    /// The first room at or after place `from`, and the place after it.
    pub(crate) fn next_from(&self, from: u32) -> Option<(RoomId, Hint, u32)> {
        let (index, entry) = self.slab.next_from(from)?;
        Some((RoomId { index, serial: entry.serial }, entry.hint(), index + 1))
    }

    /// Rooms overdue since `since`: at least one if there is such a moment.
    pub(crate) fn overdue(&self, since: Option<HeardMs>) -> u64 {
        let Some(since) = since else { return 0 };
        let due = self.slab.iter().filter(|entry| entry.due <= since).count();
        due.max(1) as u64
    }

    /// Rooms entered and not struck off.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Rooms whose hint leads nowhere.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Rooms not served here.
    pub(crate) fn frozen(&self) -> u64 {
        self.frozen
    }

    /// Sums over all rooms.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    fn link(&mut self, index: u32, due: HeardMs) {
        if due == NEVER {
            self.wheel.remove(&mut self.slab, index);
        } else {
            self.wheel.insert(&mut self.slab, index, due);
        }
    }

    fn entry(&self, id: RoomId) -> Option<&Entry> {
        self.slab.get(id.index).filter(|entry| entry.serial == id.serial)
    }

    fn entry_mut(&mut self, id: RoomId) -> Option<&mut Entry> {
        self.slab.get_mut(id.index).filter(|entry| entry.serial == id.serial)
    }
}
