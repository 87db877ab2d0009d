//! The members of a room, be they few or many.

use super::few::{Few, FEW};
use super::{hash, HashKeys, Record, Table};
use crate::wheel::{Link, Links};

/// Members by id, with stable slots: all that is said of [`Table`] holds for it. Rooms of a few members, which are most
/// rooms, take a fraction of a table's memory.
pub struct Members {
    keys: &'static HashKeys,
    body: Body,
}

enum Body {
    Few(Few),
    Many(Box<Table>),
}

impl Members {
    /// Nobody, without memory on the heap.
    pub fn new(keys: &'static HashKeys) -> Self {
        Self { keys, body: Body::Few(Few::default()) }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Few(few) => few.len(),
            Body::Many(table) => table.len(),
        }
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of an id, for [`find_hashed`](Self::find_hashed).
    pub fn hash(&self, id: &[u8]) -> u64 {
        hash(*self.keys, id)
    }

    /// The slot of a member.
    #[inline]
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        match &self.body {
            Body::Few(few) => few.find(id),
            Body::Many(table) => table.find(id),
        }
    }

    /// See [`Table::find_hashed`].
    #[inline]
    pub fn find_hashed(&self, hash: u64, id: &[u8]) -> Option<u32> {
        match &self.body {
            Body::Few(few) => few.find(id),
            Body::Many(table) => table.find_hashed(hash, id),
        }
    }

    /// See [`Table::warm`].
    pub fn warm(&self, hashes: &[u64]) {
        if let Body::Many(table) = &self.body {
            table.warm(hashes);
        }
    }

    /// See [`Table::insert`].
    pub fn insert(&mut self, id: &[u8]) -> Option<u32> {
        match &mut self.body {
            Body::Few(few) if few.len() < FEW => few.insert(id),
            Body::Few(few) => {
                let mut table = Box::new(Table::new(*self.keys));
                // Full, so that its slots are those that a new table gives out.
                for slot in 0..FEW as u32 {
                    let (Some(id), Some(record)) = (few.id(slot), few.record(slot)) else { continue };
                    let to = table.insert(id)?;
                    table.set_pack(to, few.pack(slot));
                    if let Some(place) = table.record_mut(to) {
                        place.adopt(record);
                    }
                }
                let slot = table.insert(id)?;
                self.body = Body::Many(table);
                Some(slot)
            }
            Body::Many(table) => table.insert(id),
        }
    }

    /// See [`Table::remove`].
    pub fn remove(&mut self, slot: u32) {
        match &mut self.body {
            Body::Few(few) => few.remove(slot),
            Body::Many(table) => {
                table.remove(slot);
                // Well below the bound, so that a room at the bound does not build its table over and over.
                if table.len() <= FEW / 2 {
                    if let Some(few) = fewer(table) {
                        self.body = Body::Few(few);
                    }
                }
            }
        }
    }

    /// The record of the member in `slot`.
    #[inline]
    pub fn record(&self, slot: u32) -> Option<&Record> {
        match &self.body {
            Body::Few(few) => few.record(slot),
            Body::Many(table) => table.record(slot),
        }
    }

    /// The record of the member in `slot`, to be changed.
    #[inline]
    pub fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        match &mut self.body {
            Body::Few(few) => few.record_mut(slot),
            Body::Many(table) => table.record_mut(slot),
        }
    }

    /// The id of the member in `slot`.
    pub fn id(&self, slot: u32) -> Option<&[u8]> {
        match &self.body {
            Body::Few(few) => few.id(slot),
            Body::Many(table) => table.id(slot),
        }
    }

    /// See [`Table::pack`].
    pub fn pack(&self, slot: u32) -> &[u8] {
        match &self.body {
            Body::Few(few) => few.pack(slot),
            Body::Many(table) => table.pack(slot),
        }
    }

    /// The pack of the member in `slot`, to be changed in place.
    #[inline]
    pub fn pack_mut(&mut self, slot: u32) -> &mut [u8] {
        match &mut self.body {
            Body::Few(few) => few.pack_mut(slot),
            Body::Many(table) => table.pack_mut(slot),
        }
    }

    /// Replaces the pack of the member in `slot`; does nothing if the slot is vacant.
    pub fn set_pack(&mut self, slot: u32, pack: &[u8]) {
        match &mut self.body {
            Body::Few(few) => few.set_pack(slot, pack),
            Body::Many(table) => table.set_pack(slot, pack),
        }
    }

    /// See [`Table::next_occupied`].
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        match &self.body {
            Body::Few(few) => few.next_occupied(from),
            Body::Many(table) => table.next_occupied(from),
        }
    }

    /// Bytes on the heap by what was asked for, without what an allocator rounds up. Costs nothing.
    pub fn memory(&self) -> usize {
        match &self.body {
            Body::Few(few) => few.memory(),
            Body::Many(table) => size_of::<Table>() + table.memory(),
        }
    }
}

/// The members of a table that has become small; `None` if they sit in slots that a few do not have.
fn fewer(table: &Table) -> Option<Few> {
    if table.next_occupied(FEW as u32).is_some() {
        return None;
    }
    let mut few = Few::default();
    let mut next = table.next_occupied(0);
    while let Some(slot) = next {
        few.insert_at(slot, table.id(slot)?)?;
        few.set_pack(slot, table.pack(slot));
        few.record_mut(slot)?.adopt(table.record(slot)?);
        next = table.next_occupied(slot + 1);
    }
    Some(few)
}

impl Links for Members {
    fn link(&self, slot: u32) -> Link {
        self.record(slot).map_or(Link::UNLINKED, |record| record.link)
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(record) = self.record_mut(slot) {
            record.link = link;
        }
    }
}
