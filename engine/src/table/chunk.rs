//! Up to 256 members: their records, and their bytes in one arena.
//!
//! A member's bytes lie together, `[id][pack]`. What is replaced or removed stays behind as garbage until it exceeds a
//! quarter of the arena, which is then copied without it. All of a chunk's work is bounded by its size: some microseconds.

use std::hint::black_box;

use crate::wheel::Link;

/// Members of a chunk.
pub(super) const CHUNK: usize = 256;
/// Packs longer than this, in bytes, get an allocation of their own, so that the arena stays short.
const LONGEST_INLINE_PACK: usize = 512;
/// The `pack_len` of a member whose pack has an allocation of its own.
const SPILLED: u16 = u16::MAX;
/// Garbage, in bytes, that is never worth a copy.
const TOLERATED_GARBAGE: usize = 64;

/// The fixed part of a member.
#[derive(Debug, Default)]
pub struct Record {
    /// Low 32 bits of the heard milliseconds of the last beat.
    pub last: u32,
    /// The member's place in the room's wheel.
    pub link: Link,
    since: [u16; 3],
    /// The engine's note about the day.
    pub day: u16,
    /// The engine's flags.
    pub flags: u8,
    /// Length of the id, less one.
    id_len: u8,
    pack_len: u16,
    /// Where in the arena the id begins.
    pub(super) off: u32,
}

const _: () = assert!(size_of::<Record>() == 28);

impl Record {
    /// Unix milliseconds since when the member is here, below 2^48.
    pub fn since(&self) -> u64 {
        let [low, middle, high] = self.since;
        u64::from(low) | u64::from(middle) << 16 | u64::from(high) << 32
    }

    /// Sets [`since`](Self::since); moments from 2^48 ms on (the year 10889) become 2^48 - 1.
    pub fn set_since(&mut self, unix_ms: u64) {
        let ms = unix_ms.min((1 << 48) - 1);
        self.since = [ms as u16, (ms >> 16) as u16, (ms >> 32) as u16];
    }

    pub(super) fn at(off: u32, id_len: u8) -> Self {
        Self { off, id_len, ..Self::default() }
    }

    /// Takes over what is not the table's own: all but the place of the bytes.
    pub(super) fn adopt(&mut self, other: &Self) {
        let &Self { last, link, since, day, flags, .. } = other;
        *self = Self { last, link, since, day, flags, ..*self };
    }

    pub(super) fn id_end(&self) -> usize {
        self.off as usize + usize::from(self.id_len) + 1
    }

    /// End of the member's bytes in the arena.
    fn end(&self) -> usize {
        self.id_end() + if self.pack_len == SPILLED { 0 } else { usize::from(self.pack_len) }
    }

    /// Number of the member's bytes in the arena.
    fn held(&self) -> usize {
        self.end() - self.off as usize
    }
}

#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Ascending by position, without gaps, so that a chunk whose crowd has left is small: see [`Chunk::rank`].
    records: Vec<Record>,
    arena: Vec<u8>,
    /// Long packs, ascending by position.
    spilled: Vec<(u8, Box<[u8]>)>,
    /// Which positions hold a member.
    occupied: [u64; CHUNK / 64],
    /// Bytes of the arena that belong to nobody.
    garbage: u32,
    /// Bytes of all long packs.
    spilled_bytes: usize,
}

impl Chunk {
    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    /// Bytes on the heap, itself included.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.records.capacity() * size_of::<Record>()
            + self.arena.capacity()
            + self.spilled.capacity() * size_of::<(u8, Box<[u8]>)>()
            + self.spilled_bytes
    }

    pub(super) fn record(&self, position: u8) -> Option<&Record> {
        self.records.get(self.rank(position)?)
    }

    pub(super) fn record_mut(&mut self, position: u8) -> Option<&mut Record> {
        let rank = self.rank(position)?;
        self.records.get_mut(rank)
    }

    pub(super) fn id(&self, position: u8) -> Option<&[u8]> {
        let record = self.record(position)?;
        self.arena.get(record.off as usize..record.id_end())
    }

    /// Reads a little of everything that a lookup reads of the chunk itself.
    pub(super) fn touch(&self) -> usize {
        let [first, .., last] = self.occupied;
        self.records.len() ^ self.arena.len() ^ self.garbage as usize ^ (first ^ last) as usize
    }

    /// Whether the member at `position` has this id. Most others differ in length already, and cost no look at the arena.
    #[inline]
    pub(super) fn is(&self, position: u8, id: &[u8]) -> bool {
        if self.records.len() == CHUNK {
            // Members' bytes are about equally long and mostly in order, so the id lies about here. Read at once, it
            // comes from memory together with the record, which tells where it really is, and not after it.
            let about = usize::from(position) * self.arena.len() / CHUNK;
            black_box(self.arena.get(about).copied());
        }
        self.record(position).is_some_and(|record| {
            usize::from(record.id_len) + 1 == id.len()
                && self.arena.get(record.off as usize..record.id_end()) == Some(id)
        })
    }

    pub(super) fn pack(&self, position: u8) -> &[u8] {
        let pack = self.record(position).and_then(|record| {
            if record.pack_len != SPILLED {
                return self.arena.get(record.id_end()..record.end());
            }
            let place = self.spill_place(position).ok()?;
            self.spilled.get(place).map(|(_, pack)| &**pack)
        });
        pack.unwrap_or_default()
    }

    pub(super) fn pack_mut(&mut self, position: u8) -> &mut [u8] {
        let Some((from, to, pack_len)) = self.record(position).map(|r| (r.id_end(), r.end(), r.pack_len)) else {
            return &mut [];
        };
        let pack = if pack_len != SPILLED {
            self.arena.get_mut(from..to)
        } else if let Ok(place) = self.spill_place(position) {
            self.spilled.get_mut(place).map(|(_, pack)| &mut **pack)
        } else {
            None
        };
        pack.unwrap_or_default()
    }

    /// Replaces the pack of the member at `position`, if there is one.
    pub(super) fn set_pack(&mut self, position: u8, pack: &[u8]) {
        let Some((id_start, id_end, end, pack_len)) =
            self.record(position).map(|r| (r.off as usize, r.id_end(), r.end(), r.pack_len))
        else {
            return;
        };
        if pack_len == SPILLED {
            self.drop_spilled(position);
        }
        if pack.len() > LONGEST_INLINE_PACK {
            self.garbage += (end - id_end) as u32;
            self.spill(position, pack);
            self.update(position, |record| record.pack_len = SPILLED);
        } else if let Some(space) =
            self.arena.get_mut(id_end..id_end + pack.len()).filter(|_| pack.len() <= end - id_end)
        {
            space.copy_from_slice(pack);
            self.garbage += (end - id_end - pack.len()) as u32;
            self.update(position, |record| record.pack_len = pack.len() as u16);
        } else {
            // Too long for its place: the member moves to the end of the arena.
            self.garbage += (end - id_end) as u32;
            self.update(position, |record| record.pack_len = 0);
            let id_len = id_end - id_start;
            self.reserve(id_len + pack.len());
            let (from, off) = (self.record(position).map_or(0, |r| r.off as usize), self.arena.len());
            self.arena.extend_from_within(from..from + id_len);
            self.arena.extend_from_slice(pack);
            self.garbage += id_len as u32;
            self.update(position, |record| (record.off, record.pack_len) = (off as u32, pack.len() as u16));
        }
        self.tidy();
    }

    /// Adds a member with an id of 1 to 256 bytes at the first vacant position; `None` if the chunk is full.
    pub(super) fn insert(&mut self, id: &[u8]) -> Option<u8> {
        let id_len = u8::try_from(id.len().checked_sub(1)?).ok()?;
        let word = self.occupied.iter().position(|&word| word != u64::MAX)?;
        let position = word * 64 + self.occupied.get(word)?.trailing_ones() as usize;
        self.reserve(id.len());

        let record = Record::at(self.arena.len() as u32, id_len);
        self.arena.extend_from_slice(id);
        if self.records.len() == self.records.capacity() {
            let more = (self.records.len() / 8).max(2).min(CHUNK - self.records.len());
            self.records.reserve_exact(more);
        }
        let position = position as u8;
        self.flip(position);
        let rank = self.rank(position)?;
        self.records.insert(rank, record);
        Some(position)
    }

    /// Removes the member at `position`, if there is one.
    pub(super) fn remove(&mut self, position: u8) {
        let Some(rank) = self.rank(position) else { return };
        let record = self.records.remove(rank);
        if record.pack_len == SPILLED {
            self.drop_spilled(position);
        }
        self.flip(position);
        self.garbage += record.held() as u32;
        let len = self.records.len();
        if len < self.records.capacity() / 2 {
            self.records.shrink_to((len + len / 8).max(2));
        }
        self.tidy();
    }

    /// First occupied position from `from` on.
    pub(super) fn next_occupied(&self, from: u8) -> Option<u8> {
        let first = usize::from(from) / 64;
        self.occupied.iter().enumerate().skip(first).find_map(|(word, &bits)| {
            let bits = if word == first { bits & u64::MAX << (from % 64) } else { bits };
            (bits != 0).then(|| (word * 64) as u8 + bits.trailing_zeros() as u8)
        })
    }

    /// Where in `records` the member at `position` is: the number of members at lower positions.
    fn rank(&self, position: u8) -> Option<usize> {
        if self.records.len() == CHUNK {
            return Some(position.into());
        }
        let (word, bit) = (usize::from(position) / 64, 1 << (position % 64));
        let bits = self.occupied.get(word).filter(|&bits| bits & bit != 0)?;
        let before: u32 = self.occupied.iter().take(word).map(|bits| bits.count_ones()).sum();
        Some((before + (bits & (bit - 1)).count_ones()) as usize)
    }

    /// Makes `position` occupied, or vacant again.
    fn flip(&mut self, position: u8) {
        if let Some(bits) = self.occupied.get_mut(usize::from(position) / 64) {
            *bits ^= 1 << (position % 64);
        }
    }

    fn update(&mut self, position: u8, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.record_mut(position) {
            change(record);
        }
    }

    fn spill_place(&self, position: u8) -> Result<usize, usize> {
        self.spilled.binary_search_by_key(&position, |&(at, _)| at)
    }

    fn spill(&mut self, position: u8, pack: &[u8]) {
        if let Err(place) = self.spill_place(position) {
            self.spilled.insert(place, (position, pack.into()));
            self.spilled_bytes += pack.len();
        }
    }

    fn drop_spilled(&mut self, position: u8) {
        if let Ok(place) = self.spill_place(position) {
            let (_, pack) = self.spilled.remove(place);
            self.spilled_bytes -= pack.len();
            if self.spilled.len() < self.spilled.capacity() / 4 {
                self.spilled.shrink_to(self.spilled.len() * 2);
            }
        }
    }

    /// Makes room for `more` bytes at the end of the arena, an eighth ahead.
    fn reserve(&mut self, more: usize) {
        if self.arena.capacity() - self.arena.len() >= more {
            return;
        }
        if self.garbage == 0 {
            self.arena.reserve_exact(more + (self.arena.len() + more) / 8);
        } else {
            self.compact(more);
        }
    }

    /// Copies the arena if too much of it is garbage.
    fn tidy(&mut self) {
        let garbage = self.garbage as usize;
        if garbage > TOLERATED_GARBAGE && garbage > self.arena.len() / 4 {
            self.compact(0);
        }
    }

    /// Copies the arena without its garbage, with room for `more` bytes and an eighth ahead.
    fn compact(&mut self, more: usize) {
        let needed = self.arena.len() - self.garbage as usize + more;
        let mut arena = Vec::with_capacity(needed + needed / 8);
        for record in &mut self.records {
            if let Some(bytes) = self.arena.get(record.off as usize..record.end()) {
                record.off = arena.len() as u32;
                arena.extend_from_slice(bytes);
            }
        }
        self.arena = arena;
        self.garbage = 0;
    }
}
