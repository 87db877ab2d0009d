//! Up to eight members: what most rooms ever have. Two allocations of exactly the size, and no index.
//!
//! Every change of who is here or of a pack copies what is there, which is little. Slots are the positions 0 to 7, and
//! stay with their members; a ninth member moves all of them into a [`Table`](super::Table), in the same slots.

use super::chunk::Record;

/// Most members.
pub(super) const FEW: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Few {
    /// Ascending by position. Of the fields that only a table knows, `off` and `id_len` are in use.
    records: Box<[Record]>,
    /// `[id][pack]` of each, in the same order, without gaps.
    bytes: Box<[u8]>,
    /// Which positions hold a member.
    occupied: u8,
}

impl Few {
    /// Number of members.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.records) + self.bytes.len()
    }

    pub(super) fn find(&self, id: &[u8]) -> Option<u32> {
        let mut occupied = self.occupied;
        for record in &self.records {
            if self.bytes.get(record.off as usize..record.id_end()) == Some(id) {
                return Some(occupied.trailing_zeros());
            }
            occupied &= occupied.wrapping_sub(1);
        }
        None
    }

    /// First occupied slot from `from` on.
    pub(super) fn next_occupied(&self, from: u32) -> Option<u32> {
        let left = self.occupied & u8::MAX.checked_shl(from)?;
        (left != 0).then(|| left.trailing_zeros())
    }

    pub(super) fn record(&self, slot: u32) -> Option<&Record> {
        self.records.get(self.rank(slot)?)
    }

    pub(super) fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        let rank = self.rank(slot)?;
        self.records.get_mut(rank)
    }

    pub(super) fn id(&self, slot: u32) -> Option<&[u8]> {
        let record = self.record(slot)?;
        self.bytes.get(record.off as usize..record.id_end())
    }

    pub(super) fn pack(&self, slot: u32) -> &[u8] {
        let range = self.pack_range(slot);
        self.bytes.get(range).unwrap_or_default()
    }

    pub(super) fn pack_mut(&mut self, slot: u32) -> &mut [u8] {
        let range = self.pack_range(slot);
        self.bytes.get_mut(range).unwrap_or_default()
    }

    /// Replaces the pack of the member in `slot`, if there is one.
    pub(super) fn set_pack(&mut self, slot: u32, pack: &[u8]) {
        if let Some(rank) = self.rank(slot) {
            self.splice(rank + 1, self.pack_range(slot), pack);
        }
    }

    /// Adds a member with an id of 1 to 256 bytes in the first vacant slot; `None` if there is none.
    pub(super) fn insert(&mut self, id: &[u8]) -> Option<u32> {
        let slot = self.occupied.trailing_ones();
        self.insert_at(slot, id)?;
        Some(slot)
    }

    /// Adds a member in this slot, which must be vacant.
    pub(super) fn insert_at(&mut self, slot: u32, id: &[u8]) -> Option<()> {
        let id_len = u8::try_from(id.len().checked_sub(1)?).ok()?;
        let bit = 1u8.checked_shl(slot)?;
        let rank = (self.occupied & (bit - 1)).count_ones() as usize;
        let off = self.records.get(rank).map_or(self.bytes.len(), |next| next.off as usize);
        self.splice(rank, off..off, id);
        self.occupied |= bit;
        let mut records = std::mem::take(&mut self.records).into_vec();
        records.reserve_exact(1);
        records.insert(rank, Record::at(off as u32, id_len));
        self.records = records.into_boxed_slice();
        Some(())
    }

    /// Removes the member in `slot`, if there is one.
    pub(super) fn remove(&mut self, slot: u32) {
        let (Some(rank), Some(from)) = (self.rank(slot), self.record(slot).map(|record| record.off as usize)) else {
            return;
        };
        self.splice(rank + 1, from..self.pack_range(slot).end, &[]);
        self.occupied &= !(1 << slot);
        let mut records = std::mem::take(&mut self.records).into_vec();
        records.remove(rank);
        self.records = records.into_boxed_slice();
    }

    /// Where in `records` the member in `slot` is.
    fn rank(&self, slot: u32) -> Option<usize> {
        let bit = 1u8.checked_shl(slot).filter(|bit| self.occupied & bit != 0)?;
        Some((self.occupied & (bit - 1)).count_ones() as usize)
    }

    /// From the end of the member's id to the next member.
    fn pack_range(&self, slot: u32) -> std::ops::Range<usize> {
        let Some(rank) = self.rank(slot) else { return 0..0 };
        let start = self.records.get(rank).map_or(0, Record::id_end);
        start..self.records.get(rank + 1).map_or(self.bytes.len(), |next| next.off as usize)
    }

    /// Puts `with` in the place of these bytes. Those behind belong to the records from `rank` on.
    fn splice(&mut self, rank: usize, range: std::ops::Range<usize>, with: &[u8]) {
        if range.len() == with.len() {
            if let Some(place) = self.bytes.get_mut(range) {
                place.copy_from_slice(with);
            }
            return;
        }
        let before = self.bytes.get(..range.start).unwrap_or_default();
        let after = self.bytes.get(range.end..).unwrap_or_default();
        self.bytes = [before, with, after].concat().into_boxed_slice();
        for record in self.records.get_mut(rank..).unwrap_or_default() {
            record.off = (record.off as usize + with.len() - range.len()) as u32;
        }
    }
}
