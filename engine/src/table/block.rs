//! The members whose hashes lead to one place, all in one allocation: who is looked up is found within a page of memory.
//!
//! ```text
//! [header][a tag for each position][an offset for each position][entries: record, id, pack; and garbage between them]
//! ```
//!
//! A tag is a byte of the hash, so that most other members are told apart without a look at them, and all tags lie in
//! one or two cache lines. A member keeps its position as long as it is in the block. What is replaced or removed stays
//! behind as garbage until room is needed; then, or when much has become free, the block is written anew.

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::prefetch::prefetch;
use super::record::Record;

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;
/// Most positions of a block.
const POSITIONS: usize = 255;
/// Bytes that offsets reach.
const MOST_BYTES: usize = u16::MAX as usize;
/// Bytes above which packs get allocations of their own, so that there is always room for ids.
const CROWDED: usize = 40 * 1024;
/// Packs longer than this, in bytes, get an allocation of their own.
const LONGEST_PACK: usize = 256;
/// The offset of a vacant position: no entry lies where the header is.
const VACANT: u16 = 0;

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    /// Where the next entry goes.
    used: U16,
    /// Bytes before `used` that belong to nobody.
    garbage: U16,
    count: u8,
    positions: u8,
}

/// See the module. Without members it takes no memory on the heap.
#[derive(Debug, Default)]
pub(super) struct Block(Box<[u8]>);

impl Block {
    /// With so many positions and room for so many bytes of entries.
    fn new(positions: usize, bytes: usize) -> Self {
        let start = size_of::<Header>() + positions * 3;
        let mut block = Self(vec![0; rounded(start + bytes)].into());
        let header = Header { used: (start as u16).into(), positions: positions as u8, ..Header::default() };
        block.set_header(header);
        block
    }

    #[inline]
    fn header(&self) -> Header {
        Header::read_from_prefix(&self.0).map_or_else(|_| Header::default(), |(header, _)| header)
    }

    fn set_header(&mut self, header: Header) {
        // An empty block has no header, and nothing to say in it.
        let _ = header.write_to_prefix(&mut self.0);
    }

    #[inline]
    fn tags(&self, positions: usize) -> &[u8] {
        self.0.get(size_of::<Header>()..size_of::<Header>() + positions).unwrap_or_default()
    }

    #[inline]
    fn offset_place(positions: usize, position: usize) -> usize {
        size_of::<Header>() + positions + 2 * position
    }

    /// Where the entry of the member at `position` begins.
    #[inline]
    fn offset(&self, position: usize) -> Option<usize> {
        let positions = usize::from(self.header().positions);
        if position >= positions {
            return None;
        }
        let bytes = self.0.get(Self::offset_place(positions, position)..)?.first_chunk()?;
        let offset = u16::from_le_bytes(*bytes);
        (offset != VACANT).then_some(offset.into())
    }

    fn set_offset(&mut self, position: usize, offset: u16) {
        let place = Self::offset_place(self.header().positions.into(), position);
        if let Some(bytes) = self.0.get_mut(place..).and_then(|bytes| bytes.first_chunk_mut()) {
            *bytes = offset.to_le_bytes();
        }
    }

    /// Number of members.
    pub(super) fn count(&self) -> usize {
        self.header().count.into()
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.0.len()
    }

    /// The record of the member at `position`, and what follows it: id, pack, and other members' bytes.
    #[inline]
    fn entry(&self, position: u8) -> Option<(&Record, &[u8])> {
        let offset = self.offset(position.into())?;
        Record::ref_from_prefix(self.0.get(offset..)?).ok()
    }

    #[inline]
    fn entry_mut(&mut self, position: u8) -> Option<(&mut Record, &mut [u8])> {
        let offset = self.offset(position.into())?;
        Record::mut_from_prefix(self.0.get_mut(offset..)?).ok()
    }

    pub(super) fn record(&self, position: u8) -> Option<&Record> {
        self.entry(position).map(|(record, _)| record)
    }

    pub(super) fn record_mut(&mut self, position: u8) -> Option<&mut Record> {
        self.entry_mut(position).map(|(record, _)| record)
    }

    pub(super) fn id(&self, position: u8) -> Option<&[u8]> {
        let (record, bytes) = self.entry(position)?;
        bytes.get(..record.id_len())
    }

    /// Record and pack of the member at `position`; the pack is empty if it lies elsewhere.
    #[inline]
    pub(super) fn member(&self, position: u8) -> Option<(&Record, &[u8])> {
        let (record, bytes) = self.entry(position)?;
        let from = record.id_len();
        Some((record, bytes.get(from..from + record.pack_len())?))
    }

    /// As [`Block::member`], to be changed.
    #[inline]
    pub(super) fn member_mut(&mut self, position: u8) -> Option<(&mut Record, &mut [u8])> {
        let (record, bytes) = self.entry_mut(position)?;
        let from = record.id_len();
        let pack = bytes.get_mut(from..from + record.pack_len())?;
        Some((record, pack))
    }

    /// Whether the member at `position` has this id.
    #[inline]
    pub(super) fn is(&self, position: u8, id: &[u8]) -> bool {
        self.entry(position).is_some_and(|(record, bytes)| record.id_len() == id.len() && bytes.starts_with(id))
    }

    /// The position of the member with this id, whose tag this is.
    #[inline]
    pub(super) fn find(&self, tag: u8, id: &[u8]) -> Option<u8> {
        self.tagged(tag).find(|&position| self.is(position, id))
    }

    /// Positions with this tag: mostly the one of the member that is sought. Some may be vacant.
    #[inline]
    pub(super) fn tagged(&self, tag: u8) -> impl Iterator<Item = u8> + '_ {
        let tags = self.tags(self.header().positions.into());
        memchr::memchr_iter(tag, tags).map(|position| position as u8)
    }

    /// The first occupied position from `from` on.
    pub(super) fn next_occupied(&self, from: usize) -> Option<u8> {
        let positions = usize::from(self.header().positions);
        (from..positions).find(|&position| self.offset(position).is_some()).map(|position| position as u8)
    }

    /// Asks for what a lookup reads first: header, tags, offsets.
    #[inline]
    pub(super) fn prefetch(&self) {
        for line in 0..3 {
            prefetch(&self.0, line * LINE);
        }
    }

    /// Asks for all of it: it is read next.
    pub(super) fn prefetch_whole(&self) {
        for at in (0..self.0.len()).step_by(LINE) {
            prefetch(&self.0, at);
        }
    }

    /// Asks for the first member that has this tag, mostly the one who is sought.
    #[inline]
    pub(super) fn prefetch_tagged(&self, tag: u8) {
        if let Some(offset) = self.tagged(tag).next().and_then(|position| self.offset(position.into())) {
            prefetch(&self.0, offset);
            // Its id may begin on the next line.
            prefetch(&self.0, offset + size_of::<Record>() + LINE / 4);
        }
    }

    /// Makes room for so many members of so many bytes, if nobody is here yet: it need not grow step by step then.
    pub(super) fn prepare(&mut self, members: usize, bytes: usize) {
        if self.0.is_empty() && members > 0 {
            *self = Self::new(members.next_multiple_of(8).min(POSITIONS), (members * bytes).min(CROWDED));
        }
    }

    /// Adds a member at the first vacant position. `None`, without any change, if the block is full.
    pub(super) fn insert(&mut self, tag: u8, record: &Record, id: &[u8], pack: &[u8]) -> Option<u8> {
        let header = self.header();
        let positions = usize::from(header.positions);
        let position = if self.count() < positions {
            (0..positions).find(|&position| self.offset(position).is_none())?
        } else {
            positions
        };
        if position >= POSITIONS {
            return None;
        }
        let len = size_of::<Record>() + id.len() + pack.len();
        let more_positions = position == positions;
        let wanted = if more_positions { roomier(positions) } else { positions };
        self.make_room(wanted, len)?;
        self.append(position, tag, &[record.as_bytes(), id, pack]);
        let header = self.header();
        self.set_header(Header { count: header.count + 1, ..header });
        Some(position as u8)
    }

    /// Adds a member of another block, with its pack unless that lies elsewhere.
    pub(super) fn adopt(&mut self, tag: u8, from: &Self, position: u8) -> Option<u8> {
        let (record, pack) = from.member(position)?;
        self.insert(tag, record, from.id(position)?, pack)
    }

    pub(super) fn tag(&self, position: u8) -> Option<u8> {
        self.tags(self.header().positions.into()).get(usize::from(position)).copied()
    }

    /// Removes the member at `position`, if there is one.
    pub(super) fn remove(&mut self, position: u8) {
        self.remove_all([position]);
    }

    /// Removes the members at these positions.
    pub(super) fn remove_all(&mut self, positions: impl IntoIterator<Item = u8>) {
        let (mut gone, mut bytes) = (0, 0);
        for position in positions {
            if let Some(held) = self.record(position).map(Record::held) {
                self.set_offset(position.into(), VACANT);
                (gone, bytes) = (gone + 1, bytes + held);
            }
        }
        let header = self.header();
        self.set_header(Header { count: header.count - gone, ..header });
        self.drop_bytes(bytes);
        self.tidy();
    }

    /// Whether a pack of this length can lie in the block beside its member, who has one of `old` bytes now.
    pub(super) fn takes(&self, pack: usize, old: usize) -> bool {
        pack <= LONGEST_PACK && (pack <= old || self.live() + pack < CROWDED)
    }

    /// Replaces the pack of the member at `position`, if there is one; `None` stands for one that lies elsewhere.
    pub(super) fn set_pack(&mut self, position: u8, pack: Option<&[u8]>) {
        let Some((record, old)) = self.member_mut(position) else { return };
        let bytes = pack.unwrap_or_default();
        let len = pack.map(|pack| pack.len() as u16);
        if let Some(place) = old.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            let freed = old.len() - bytes.len();
            record.set_pack_len(len);
            self.drop_bytes(freed);
        } else {
            // Too long for its place: the member moves to the end.
            record.set_pack_len(Some(0));
            let freed = old.len();
            self.drop_bytes(freed);
            self.move_to_end(position, bytes);
        }
        self.tidy();
    }

    fn move_to_end(&mut self, position: u8, pack: &[u8]) {
        let len = self.record(position).map_or(0, Record::held) + pack.len();
        if self.make_room(self.header().positions.into(), len).is_none() {
            return;
        }
        let (Some(tag), Some(mut record)) = (self.tag(position), self.record(position).copied()) else { return };
        let id = self.id(position).unwrap_or_default().to_vec();
        self.drop_bytes(record.held());
        record.set_pack_len(Some(pack.len() as u16));
        self.append(position.into(), tag, &[record.as_bytes(), &id, pack]);
    }

    /// Writes an entry where there is room for it.
    fn append(&mut self, position: usize, tag: u8, parts: &[&[u8]]) {
        let header = self.header();
        let mut at = usize::from(header.used.get());
        self.set_offset(position, header.used.get());
        if let Some(place) = self.0.get_mut(size_of::<Header>() + position) {
            *place = tag;
        }
        for part in parts {
            if let Some(place) = self.0.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        }
        self.set_header(Header { used: (at as u16).into(), ..header });
    }

    fn drop_bytes(&mut self, bytes: usize) {
        let header = self.header();
        self.set_header(Header { garbage: (header.garbage.get() + bytes as u16).into(), ..header });
    }

    /// Bytes in use.
    fn live(&self) -> usize {
        usize::from(self.header().used.get()) - usize::from(self.header().garbage.get())
    }

    /// Makes room for so many positions and `more` bytes of entries.
    fn make_room(&mut self, positions: usize, more: usize) -> Option<()> {
        let header = self.header();
        let has = usize::from(header.positions);
        if positions > has || self.0.len() < usize::from(header.used.get()) + more {
            let bytes = self.live().saturating_sub(size_of::<Header>() + 3 * has) + more;
            if size_of::<Header>() + positions * 3 + bytes > MOST_BYTES {
                return None;
            }
            self.rewrite(positions, bytes);
        }
        (usize::from(self.header().used.get()) + more <= MOST_BYTES).then_some(())
    }

    /// Gives back what has become free, if it is much.
    fn tidy(&mut self) {
        if self.count() == 0 {
            *self = Self::default();
        } else if self.live() * 4 < self.0.len() * 3 && rounded(self.live()) < self.0.len() {
            let header = self.header();
            let bytes = self.live() - size_of::<Header>() - 3 * usize::from(header.positions);
            let last = (0..usize::from(header.positions)).rfind(|&position| self.offset(position).is_some());
            self.rewrite(last.map_or(0, roomier).min(header.positions.into()), bytes);
        }
    }

    /// Writes the block anew, without garbage, with so many positions and room for so many bytes of entries.
    fn rewrite(&mut self, positions: usize, bytes: usize) {
        let mut new = Self::new(positions, bytes);
        let mut next = self.next_occupied(0);
        while let Some(position) = next {
            let tag = self.tag(position).unwrap_or_default();
            if let Some((record, rest)) = self.entry(position) {
                let after = rest.get(..record.held() - size_of::<Record>()).unwrap_or_default();
                new.append(position.into(), tag, &[record.as_bytes(), after]);
            }
            next = self.next_occupied(usize::from(position) + 1);
        }
        let header = new.header();
        new.set_header(Header { count: self.header().count, ..header });
        *self = new;
    }
}

/// More positions than `positions`: two more while there are few, else up to the next multiple of eight.
fn roomier(positions: usize) -> usize {
    let step = if positions < 8 { 2 } else { 8 };
    ((positions / step + 1) * step).min(POSITIONS)
}

/// The size that an allocator such as jemalloc takes for a request of `bytes`, four sizes to each doubling: what it would
/// round up is room for the next members.
fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16))
}
