//! The members of a room by id, and the hot path: every beat is one [`Table::find`].
//!
//! * A member has a slot, a number that stays the same as long as the member is here. Slot = chunk * 256 + position.
//! * A chunk holds the records of 256 members, 28 bytes each, and their ids and packs in one arena. Growth adds
//!   chunks; no step moves more than one chunk, one segment of the index, or an array of four to 32 bytes per some
//!   hundred members. So the table never pauses, and its memory follows the number of members up and down.
//! * The index leads from the hash of an id to the slot. Tables of up to eight members do without.
//! * Ids are chosen by clients, so they are hashed with SipHash-1-3 under keys that they do not know.
//!
//! A lookup takes one hash, one read of the directory, one of a segment, and one comparison with the id in the arena.

mod bits;
mod chunk;
mod few;
mod index;
mod members;

use std::fmt;
use std::hint::black_box;

use siphasher::sip::SipHasher13;

use crate::settings::MAX_MEMBER_ID;
use crate::wheel::{Link, Links};
use bits::Bits;
pub use chunk::Record;
use chunk::{Chunk, CHUNK};
use index::Index;
pub use members::Members;

/// Most members without an index.
const UNINDEXED: usize = 8;
/// Most chunks: the wheel takes slots below 2^31.
const MOST_CHUNKS: usize = 1 << 23;

/// Lookups whose waits for memory overlap.
const GROUP: usize = 64;
/// Most members of tables that lie in the processor's caches anyway.
const CACHED: usize = 8 * 1024;

/// The keys of SipHash-1-3: random, one pair per process, unknown to clients.
#[derive(Clone, Copy)]
pub struct HashKeys(pub u64, pub u64);

/// What only tables of more than [`UNINDEXED`] members need.
struct Large {
    index: Index,
    /// Chunks with both members and room.
    partial: Bits,
    /// Chunks that were given up, as all their members had gone.
    vacant: Bits,
}

/// Members by id. See the module's documentation.
pub struct Table {
    keys: HashKeys,
    /// `None` where all members have gone; never at the end.
    chunks: Vec<Option<Box<Chunk>>>,
    large: Option<Box<Large>>,
    len: u32,
    /// Bytes of all chunks.
    chunk_bytes: usize,
}

impl Table {
    /// An empty table, which takes no memory on the heap.
    pub const fn new(keys: HashKeys) -> Self {
        Self { keys, chunks: Vec::new(), large: None, len: 0, chunk_bytes: 0 }
    }

    /// Number of members.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no member.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of an id, for [`find_hashed`](Self::find_hashed).
    pub fn hash(&self, id: &[u8]) -> u64 {
        hash(self.keys, id)
    }

    /// The slot of a member.
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        // Small tables are searched without a hash.
        self.find_hashed(if self.large.is_some() { self.hash(id) } else { 0 }, id)
    }

    /// The slot of a member whose id has this hash: for batches, which hash all ids first.
    pub fn find_hashed(&self, hash: u64, id: &[u8]) -> Option<u32> {
        if let Some(large) = &self.large {
            return large
                .index
                .find(hash, |slot| chunk_of(&self.chunks, slot).is_some_and(|chunk| chunk.is(slot as u8, id)));
        }
        let chunk = self.chunks.first()?.as_ref()?;
        let mut next = chunk.next_occupied(0);
        while let Some(position) = next {
            if chunk.is(position, id) {
                return Some(position.into());
            }
            next = chunk.next_occupied(position.checked_add(1)?);
        }
        None
    }

    /// Fetches what lookups of these hashes will read into the processor's caches. This changes nothing but their time.
    ///
    /// In a large table a lookup waits for memory six times, each time for an address that the last wait brought. Here
    /// every step is taken for a group of lookups before the next step, so that the group waits together: several times
    /// quicker for a batch. Batches of a few hundred at a time keep what was fetched in the cache until it is used.
    pub fn warm(&self, hashes: &[u64]) {
        let Some(large) = self.large.as_ref().filter(|_| self.len() >= CACHED) else { return };
        for group in hashes.chunks(GROUP) {
            black_box(large.index.touch(group));
            let mut slots = [0; GROUP];
            let found = group.iter().filter_map(|&hash| large.index.find(hash, |_| true));
            let count = slots.iter_mut().zip(found).map(|(place, slot)| *place = slot).count();
            touch(&self.chunks, slots.get(..count).unwrap_or_default());
        }
    }

    /// Adds a member, who must not be in the table, and returns its slot.
    ///
    /// `None`, without any change, if the id does not have 1 to 256 bytes, or at 2^31 members.
    pub fn insert(&mut self, id: &[u8]) -> Option<u32> {
        debug_assert!(self.find(id).is_none(), "the member is in the table already");
        if id.is_empty() || id.len() > MAX_MEMBER_ID {
            return None;
        }
        if self.len() == UNINDEXED && self.large.is_none() {
            self.enlarge();
        }
        let number = match &mut self.large {
            Some(large) => large.partial.first().or_else(|| large.vacant.first()).unwrap_or(self.chunks.len()),
            None => 0,
        };
        if number >= MOST_CHUNKS {
            return None;
        }
        if number == self.chunks.len() {
            if number == 0 {
                self.chunks.reserve_exact(1);
            }
            self.chunks.push(None);
        }
        let chunk = self.chunks.get_mut(number)?;
        let before = chunk.as_ref().map_or(0, |chunk| chunk.memory());
        let chunk = chunk.get_or_insert_default();
        let position = chunk.insert(id)?;
        let full = chunk.count() == CHUNK;
        self.chunk_bytes = self.chunk_bytes + chunk.memory() - before;
        self.len += 1;

        let slot = (number * CHUNK) as u32 | u32::from(position);
        if let Some(large) = &mut self.large {
            large.vacant.set(number, false);
            large.partial.set(number, !full);
            let (keys, chunks) = (self.keys, &self.chunks);
            large.index.insert(hash(keys, id), slot, |slots| hashes_of(keys, chunks, slots));
        }
        Some(slot)
    }

    /// Removes the member in `slot`, who must no longer be in a wheel; does nothing if the slot is vacant.
    pub fn remove(&mut self, slot: u32) {
        let number = slot as usize / CHUNK;
        let Some(place) = self.chunks.get_mut(number) else { return };
        let Some(chunk) = place else { return };
        let Some(id) = chunk.id(slot as u8) else { return };
        if let Some(large) = &mut self.large {
            large.index.remove(hash(self.keys, id), slot);
        }
        let before = chunk.memory();
        chunk.remove(slot as u8);
        let vacant = chunk.count() == 0;
        let after = if vacant { 0 } else { chunk.memory() };
        if vacant {
            *place = None;
        }
        self.chunk_bytes = self.chunk_bytes + after - before;
        self.len -= 1;
        if self.is_empty() {
            (self.chunks, self.large) = (Vec::new(), None);
            return;
        }
        if let Some(large) = &mut self.large {
            large.partial.set(number, !vacant);
            large.vacant.set(number, vacant);
            while let Some(None) = self.chunks.last() {
                self.chunks.pop();
                large.vacant.set(self.chunks.len(), false);
            }
        }
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        // Well below the bound, so that a room at the bound does not build its index over and over.
        if self.len() <= UNINDEXED / 2 && self.chunks.len() == 1 {
            self.large = None;
        }
    }

    /// The record of the member in `slot`.
    pub fn record(&self, slot: u32) -> Option<&Record> {
        chunk_of(&self.chunks, slot)?.record(slot as u8)
    }

    /// The record of the member in `slot`, to be changed.
    pub fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        self.chunks.get_mut(slot as usize / CHUNK)?.as_mut()?.record_mut(slot as u8)
    }

    /// The id of the member in `slot`.
    pub fn id(&self, slot: u32) -> Option<&[u8]> {
        chunk_of(&self.chunks, slot)?.id(slot as u8)
    }

    /// The pack of the member in `slot`: bytes that only the caller understands. Empty for new members and vacant slots.
    pub fn pack(&self, slot: u32) -> &[u8] {
        chunk_of(&self.chunks, slot).map_or(&[], |chunk| chunk.pack(slot as u8))
    }

    /// The pack of the member in `slot`, to be changed in place.
    pub fn pack_mut(&mut self, slot: u32) -> &mut [u8] {
        match self.chunks.get_mut(slot as usize / CHUNK) {
            Some(Some(chunk)) => chunk.pack_mut(slot as u8),
            _ => &mut [],
        }
    }

    /// Replaces the pack of the member in `slot`; does nothing if the slot is vacant.
    pub fn set_pack(&mut self, slot: u32, pack: &[u8]) {
        if let Some(Some(chunk)) = self.chunks.get_mut(slot as usize / CHUNK) {
            let before = chunk.memory();
            chunk.set_pack(slot as u8, pack);
            self.chunk_bytes = self.chunk_bytes + chunk.memory() - before;
        }
    }

    /// The first slot from `from` on that has a member. Members who stay are met once each on the way up; the cost is
    /// that of 64 chunks, or 16,384 vacant slots, a step.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        let mut number = from as usize / CHUNK;
        let mut position = from as u8;
        loop {
            match self.chunks.get(number)? {
                Some(chunk) => {
                    if let Some(position) = chunk.next_occupied(position) {
                        return Some((number * CHUNK) as u32 | u32::from(position));
                    }
                    number += 1;
                }
                // There are vacant chunks only in large tables.
                None => number = self.large.as_ref()?.vacant.first_unset(number),
            }
            position = 0;
        }
    }

    /// Bytes on the heap by what was asked for, without what an allocator rounds up. Costs nothing.
    pub fn memory(&self) -> usize {
        let large = self.large.as_ref().map_or(0, |large| {
            size_of::<Large>() + large.index.memory() + large.partial.memory() + large.vacant.memory()
        });
        self.chunks.capacity() * size_of::<Option<Box<Chunk>>>() + self.chunk_bytes + large
    }

    /// Builds the index of what is so far a small table: one chunk at most, with room.
    fn enlarge(&mut self) {
        let mut index = Index::new();
        let mut next = self.next_occupied(0);
        while let Some(slot) = next {
            let hash = hash(self.keys, id_of(&self.chunks, slot));
            index.insert(hash, slot, |slots| hashes_of(self.keys, &self.chunks, slots));
            next = self.next_occupied(slot + 1);
        }
        let mut partial = Bits::default();
        partial.set(0, !self.chunks.is_empty());
        self.large = Some(Box::new(Large { index, partial, vacant: Bits::default() }));
    }
}

/// Without the members, and without the keys: they must not get into a log.
impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Table").field("len", &self.len).field("memory", &self.memory()).finish_non_exhaustive()
    }
}

impl Links for Table {
    fn link(&self, slot: u32) -> Link {
        self.record(slot).map_or(Link::UNLINKED, |record| record.link)
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(record) = self.record_mut(slot) {
            record.link = link;
        }
    }
}

fn hash(keys: HashKeys, id: &[u8]) -> u64 {
    SipHasher13::new_with_keys(keys.0, keys.1).hash(id)
}

/// The hashes of the ids in these slots.
fn hashes_of(keys: HashKeys, chunks: &[Option<Box<Chunk>>], slots: &[u32]) -> Vec<u64> {
    for group in slots.chunks(GROUP) {
        touch(chunks, group);
    }
    slots.iter().map(|&slot| hash(keys, id_of(chunks, slot))).collect()
}

/// Reads what a lookup that leads to these slots will read, one step at a time for all of them: see [`Table::warm`].
fn touch(chunks: &[Option<Box<Chunk>>], slots: &[u32]) {
    let members = || slots.iter().filter_map(|&slot| Some((chunk_of(chunks, slot)?, slot as u8)));
    // `black_box` keeps the compiler from leaving out loads whose results nobody needs.
    black_box(members().fold(0, |sum, (chunk, _)| sum ^ chunk.touch()));
    black_box(
        members().filter_map(|(chunk, position)| chunk.record(position)).fold(0, |sum, record| sum ^ record.last),
    );
    black_box(
        members()
            .filter_map(|(chunk, position)| chunk.id(position))
            .fold(0, |sum, id| sum ^ id.first().unwrap_or(&0) ^ id.last().unwrap_or(&0)),
    );
}

fn chunk_of(chunks: &[Option<Box<Chunk>>], slot: u32) -> Option<&Chunk> {
    chunks.get(slot as usize / CHUNK)?.as_deref()
}

fn id_of(chunks: &[Option<Box<Chunk>>], slot: u32) -> &[u8] {
    chunk_of(chunks, slot).and_then(|chunk| chunk.id(slot as u8)).unwrap_or_default()
}
