//! The live rooms of this node: by id, with a hint where each is, and what is due next. Main thread only.
//!
//! Only `free` means that a room is dead, and it may run on any thread at any later time; RENAME, MOVE, SWAPDB, RESTORE
//! and COPY move living values around. So a room knows its entry, an entry only has a hint of the key, and whoever
//! follows the hint must compare ids. The graveyard is all that other threads touch.

use std::sync::{Mutex, PoisonError};

use presence_engine::hearing::HeardMs;
use presence_engine::room::Room;
use presence_engine::wheel::{Link, Links, Wheel};

/// A room's place in the registry. The serial tells apart the rooms that a place has held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoomId {
    index: u32,
    serial: u32,
}

/// Where a room was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) db: i32,
    pub(crate) key: Box<[u8]>,
}

/// What a room counts for in INFO.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) members: u64,
    pub(crate) sessions: u64,
    pub(crate) memory: u64,
}

impl Figures {
    fn of(room: &Room) -> Self {
        Self { members: room.count().into(), sessions: room.sessions().into(), memory: room.memory() as u64 }
    }

    fn exchange(&mut self, before: Self, after: Self) {
        let exchange = |total: &mut u64, before: u64, after: u64| *total = (*total + after).saturating_sub(before);
        exchange(&mut self.members, before.members, after.members);
        exchange(&mut self.sessions, before.sessions, after.sessions);
        exchange(&mut self.memory, before.memory, after.memory);
    }
}

#[derive(Debug)]
struct Entry {
    serial: u32,
    link: Link,
    due: Option<HeardMs>,
    hint: Hint,
    figures: Figures,
    /// How often in a row the hint led nowhere.
    lost: u8,
    /// Found where it cannot be heard (its slot is not served here).
    frozen: bool,
}

#[derive(Default)]
struct Slab {
    entries: Vec<Option<Entry>>,
    vacant: Vec<u32>,
}

impl Links for Slab {
    fn link(&self, slot: u32) -> Link {
        self.entries.get(slot as usize).and_then(Option::as_ref).map_or(Link::UNLINKED, |entry| entry.link)
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(Some(entry)) = self.entries.get_mut(slot as usize) {
            entry.link = link;
        }
    }
}

/// Rooms that were freed, to be struck off by the next tick.
static GRAVEYARD: Mutex<Vec<RoomId>> = Mutex::new(Vec::new());

/// Says that a room is dead. From any thread.
pub(crate) fn bury(id: RoomId) {
    GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner).push(id);
}

/// See the module.
pub(crate) struct Registry {
    slab: Slab,
    wheel: Wheel,
    live: u64,
    next_serial: u32,
    totals: Figures,
    lost: u64,
    frozen: u64,
}

impl Registry {
    pub(crate) fn new(now: HeardMs) -> Self {
        Self {
            slab: Slab::default(),
            wheel: Wheel::new(now),
            live: 0,
            next_serial: 0,
            totals: Figures::default(),
            lost: 0,
            frozen: 0,
        }
    }

    /// Enters a new room.
    pub(crate) fn enter(&mut self, hint: Hint) -> RoomId {
        self.next_serial = self.next_serial.wrapping_add(1);
        let entry = Entry {
            serial: self.next_serial,
            link: Link::UNLINKED,
            due: None,
            hint,
            figures: Figures::default(),
            lost: 0,
            frozen: false,
        };
        self.live += 1;
        let index = match self.slab.vacant.pop() {
            Some(index) => index,
            None => {
                self.slab.entries.push(None);
                (self.slab.entries.len() - 1) as u32
            }
        };
        let serial = entry.serial;
        if let Some(place) = self.slab.entries.get_mut(index as usize) {
            *place = Some(entry);
        }
        RoomId { index, serial }
    }

    /// Strikes off the rooms that were freed.
    pub(crate) fn reap(&mut self) {
        let dead = std::mem::take(&mut *GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner));
        for id in dead {
            if self.entry(id).is_none() {
                continue;
            }
            self.wheel.remove(&mut self.slab, id.index);
            let entry = self.slab.entries.get_mut(id.index as usize).and_then(Option::take);
            if let Some(entry) = entry {
                self.totals.exchange(entry.figures, Figures::default());
                self.lost -= u64::from(entry.lost > 0);
                self.frozen -= u64::from(entry.frozen);
                self.slab.vacant.push(id.index);
                self.live -= 1;
            }
        }
        if self.live == 0 {
            self.slab = Slab::default();
        }
    }

    /// Takes note of a room after a step: when it is due next, and its figures.
    pub(crate) fn note(&mut self, id: RoomId, room: &Room) {
        let figures = Figures::of(room);
        let due = room.next_due();
        let Some(entry) = self.entry_mut(id) else { return };
        let before = std::mem::replace(&mut entry.figures, figures);
        let changed = std::mem::replace(&mut entry.due, due) != due;
        self.totals.exchange(before, figures);
        if changed {
            self.link(id.index, due);
        }
    }

    /// The next room that is due by `until`, taken off the list: [`Registry::note`] or [`Registry::postpone`] put it back.
    pub(crate) fn pop_due(&mut self, until: HeardMs) -> Option<(RoomId, Hint)> {
        loop {
            let index = self.wheel.pop(&mut self.slab, until)?;
            let Some(Some(entry)) = self.slab.entries.get_mut(index as usize) else { continue };
            match entry.due {
                Some(due) if due > until => self.wheel.insert(&mut self.slab, index, due),
                Some(_) => {
                    // Off the list: whatever is noted next is a change.
                    entry.due = None;
                    return Some((RoomId { index, serial: entry.serial }, entry.hint.clone()));
                }
                None => {}
            }
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

    /// Looks at the room again at `due`.
    pub(crate) fn postpone(&mut self, id: RoomId, due: HeardMs) {
        if let Some(entry) = self.entry_mut(id) {
            entry.due = Some(due);
            self.link(id.index, Some(due));
        }
    }

    /// The room was seen there.
    pub(crate) fn seen_at(&mut self, id: RoomId, db: i32, key: &[u8]) {
        if let Some(entry) = self.entry_mut(id) {
            if entry.hint.db != db || *entry.hint.key != *key {
                entry.hint = Hint { db, key: key.into() };
            }
        }
    }

    /// Two databases changed places.
    pub(crate) fn swap(&mut self, first: i32, second: i32) {
        for entry in self.slab.entries.iter_mut().flatten() {
            if entry.hint.db == first {
                entry.hint.db = second;
            } else if entry.hint.db == second {
                entry.hint.db = first;
            }
        }
    }

    /// The first room at or after place `from`, and the place after it.
    pub(crate) fn next_from(&self, from: u32) -> Option<(RoomId, Hint, u32)> {
        let rest = self.slab.entries.get(from as usize..)?;
        let (offset, entry) =
            rest.iter().enumerate().find_map(|(offset, entry)| Some((offset as u32, entry.as_ref()?)))?;
        let index = from + offset;
        Some((RoomId { index, serial: entry.serial }, entry.hint.clone(), index + 1))
    }

    /// Rooms overdue since `since`: at least one if there is such a moment.
    pub(crate) fn overdue(&self, since: Option<HeardMs>) -> u64 {
        let Some(since) = since else { return 0 };
        let due = self.slab.entries.iter().flatten().filter(|entry| entry.due.is_some_and(|due| due <= since)).count();
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
    pub(crate) fn totals(&self) -> Figures {
        self.totals
    }

    fn link(&mut self, index: u32, due: Option<HeardMs>) {
        match due {
            Some(due) => self.wheel.insert(&mut self.slab, index, due),
            None => self.wheel.remove(&mut self.slab, index),
        }
    }

    fn entry(&self, id: RoomId) -> Option<&Entry> {
        self.slab.entries.get(id.index as usize)?.as_ref().filter(|entry| entry.serial == id.serial)
    }

    fn entry_mut(&mut self, id: RoomId) -> Option<&mut Entry> {
        self.slab.entries.get_mut(id.index as usize)?.as_mut().filter(|entry| entry.serial == id.serial)
    }
}
