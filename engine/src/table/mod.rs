//! The members of a room by id, and the hot path: every beat is one lookup.
//!
//! A large room does not fit into the processor's caches, nor its pages into the table of those that the processor can
//! address at once. So what counts is how many places in memory a lookup reads, and how many of them it can name only
//! when it has read the one before.
//!
//! * Members lie in blocks by the hash of their id, some 32 in each: a lookup reads the block's address, its tags, and the
//!   member. The last two lie within a page, and all that a beat reads or writes of a member lies together.
//! * The room grows and shrinks by one block at a time ([`blocks`]). No step moves more than a few dozen members or an
//!   array of 64 KB, so that the table never pauses, and its memory follows the number of members up and down.
//! * A member's slot is its block and its position there. It stays the same until the block is split or merged, that is
//!   until another member is added or removed; then the wheel is told.
//! * A batch takes each step of its lookups for all of them before the next step ([`Table::find_all`]), so that they wait
//!   for memory together.
//! * Ids are chosen by clients, so they are hashed with SipHash-1-3 under keys that they do not know.

mod block;
mod blocks;
mod prefetch;
mod record;

use std::collections::BTreeMap;
use std::fmt;

use siphasher::sip::SipHasher13;

use crate::settings::MAX_MEMBER_ID;
use crate::wheel::{Link, Links, Wheel};
use block::Block;
use blocks::{Blocks, MOST_BLOCKS};
use prefetch::prefetch;
pub use record::Record;

/// Members for each block, on average, from which on there is another block.
const FILL: usize = 32;
/// Average below which there is one less; well below, so that a room at a bound does not split and merge all the time.
const SPARSE: usize = 20;
/// Bits of a slot that are the position in its block.
const POSITION_BITS: u32 = 8;
/// Most members for whom blocks are made in advance, 2 MB of them: whoever says that they will come may be mistaken.
const MOST_EXPECTED: usize = 1 << 22;
/// Lookups whose waits for memory overlap.
const GROUP: usize = 64;
/// Bits of a hash that a [`Place`] keeps: what any client can hold in a number of its own.
const PLACE_BITS: u32 = 53;
/// The first bits of a place in short; with the end, 32 of them.
const SHORT_BITS: u32 = 31;

/// The keys of SipHash-1-3: random, one pair per process, unknown to clients.
#[derive(Clone, Copy)]
pub struct HashKeys(pub u64, pub u64);

/// A place in the order in which members are listed. It does not depend on who else is here: whoever stays, stays at the
/// same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

impl Place {
    /// The first one.
    pub const START: Self = Self(0);
    /// Behind all of them.
    pub const END: Self = Self(1 << PLACE_BITS);

    /// Below 2^53, in the same order.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The place with this [`number`](Self::number), or the end.
    pub fn from_number(number: u64) -> Self {
        Self(number).min(Self::END)
    }

    /// As 32 bits, of which the first places of runs, and the end, need no more: a run goes by 23 bits at most.
    pub fn short(self) -> u32 {
        (self.0 >> (PLACE_BITS - SHORT_BITS)) as u32
    }

    /// The place with this [`short`](Self::short) form.
    pub fn from_short(short: u32) -> Self {
        Self(u64::from(short) << (PLACE_BITS - SHORT_BITS))
    }

    /// Blocks go by the low bits of hashes, so the order goes by those first.
    fn of(hash: u64) -> Self {
        Self(hash.reverse_bits() >> (u64::BITS - PLACE_BITS))
    }

    fn hash(self) -> u64 {
        (self.0 << (u64::BITS - PLACE_BITS)).reverse_bits()
    }
}

/// Members who lie together in the order, and where those begin who follow.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    block: usize,
    /// Where to go on.
    pub next: Place,
}

/// Packs that are too long for blocks.
#[derive(Default)]
struct LongPacks {
    by_slot: BTreeMap<u32, Box<[u8]>>,
    bytes: usize,
}

/// Members by id. See the module's documentation.
pub struct Table {
    keys: &'static HashKeys,
    blocks: Blocks,
    long: Option<Box<LongPacks>>,
}

impl Table {
    /// An empty table, which takes no memory on the heap.
    pub fn new(keys: &'static HashKeys) -> Self {
        Self { keys, blocks: Blocks::default(), long: None }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.blocks.members()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of a member.
    #[inline]
    pub fn find(&self, id: &[u8]) -> Option<u32> {
        let hash = self.hash(id);
        // Tags and offsets together; of a batch they are on their way already.
        self.blocks.get(self.number(hash))?.prefetch();
        self.find_hashed(hash, id)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, id: &[u8]) -> Option<u32> {
        let number = self.number(hash);
        let block = self.blocks.get(number)?;
        let position = block.find(tag(hash), id)?;
        Some(slot(number, position))
    }

    /// The slots of many members, in their order. Several times as quick as one by one in a large room, for the waits for
    /// memory overlap.
    pub fn find_all<'a>(&self, ids: impl IntoIterator<Item = &'a [u8]>, mut each: impl FnMut(Option<u32>)) {
        self.in_groups(ids, |group| group.iter().for_each(|&(hash, id)| each(self.find_hashed(hash, id))));
    }

    /// Asks for what lookups of these members, and additions of those who are not here, will read.
    pub fn prefetch_all<'a>(&self, ids: impl IntoIterator<Item = &'a [u8]>) {
        self.in_groups(ids, |_| ());
    }

    fn in_groups<'a>(&self, ids: impl IntoIterator<Item = &'a [u8]>, mut each: impl FnMut(&[(u64, &'a [u8])])) {
        let mut ids = ids.into_iter().fuse();
        loop {
            let mut group = [(0, &[][..]); GROUP];
            let count = group.iter_mut().zip(ids.by_ref()).map(|(place, id)| *place = (self.hash(id), id)).count();
            let group = group.get(..count).unwrap_or_default();
            self.prefetch(group);
            each(group);
            if count < GROUP {
                return;
            }
        }
    }

    /// Asks for what lookups of these hashes will read, one step at a time for all of them.
    fn prefetch(&self, group: &[(u64, &[u8])]) {
        let blocks = || group.iter().filter_map(|&(hash, _)| Some((hash, self.blocks.get(self.number(hash))?)));
        blocks().for_each(|(_, block)| prefetch(std::slice::from_ref(block), 0));
        blocks().for_each(|(_, block)| block.prefetch());
        blocks().for_each(|(hash, block)| block.prefetch_tagged(tag(hash)));
    }

    /// Makes blocks for so many members, who are about to come, if there are none yet: none is then split on their way.
    pub fn reserve(&mut self, members: usize) {
        while self.is_empty() && self.blocks.count() * FILL < members.min(MOST_EXPECTED) {
            self.blocks.push(Block::default());
        }
    }

    /// Gives back what was reserved for members who have not come.
    pub fn settle(&mut self, wheel: &mut Wheel) {
        while self.blocks.count() > 1 && self.len() < (self.blocks.count() - 1) * SPARSE {
            if self.merge(wheel).is_none() {
                break;
            }
        }
    }

    /// Adds a member, who must not be in the table, and returns its slot. Others may get new ones: `wheel`, in which the
    /// table's members are, is told.
    ///
    /// `None`, without any change, if the id does not have 1 to 256 bytes, or in a room of some 2^28 members.
    pub fn insert(&mut self, id: &[u8], wheel: &mut Wheel) -> Option<u32> {
        debug_assert!(self.find(id).is_none(), "the member is in the table already");
        let record = Record::new(id).filter(|_| id.len() <= MAX_MEMBER_ID)?;
        if self.len() >= self.blocks.count() * FILL && self.blocks.count() < MOST_BLOCKS {
            self.split(wheel);
        }
        let hash = self.hash(id);
        let number = self.number(hash);
        let large = self.blocks.count() > 1;
        let insert = |block: &mut Block| {
            if large {
                block.prepare(SPARSE, record.held());
            }
            block.insert(tag(hash), &record, id, &[])
        };
        let position = self.blocks.change(number, insert)??;
        Some(slot(number, position))
    }

    /// Removes the member in `slot`, who must no longer be in the wheel; does nothing if the slot is vacant. Others may get
    /// new slots: `wheel` is told.
    pub fn remove(&mut self, slot: u32, wheel: &mut Wheel) {
        if self.record(slot).is_none() {
            return;
        }
        self.drop_long(slot);
        let (number, position) = parts(slot);
        self.blocks.change(number, |block| block.remove(position));
        if self.blocks.count() > 1 && self.len() < (self.blocks.count() - 1) * SPARSE {
            self.merge(wheel);
        }
    }

    /// The record of the member in `slot`.
    #[inline]
    pub fn record(&self, slot: u32) -> Option<&Record> {
        let (number, position) = parts(slot);
        self.blocks.get(number)?.record(position)
    }

    /// The record of the member in `slot`, to be changed.
    #[inline]
    pub fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        let (number, position) = parts(slot);
        self.blocks.get_mut(number)?.record_mut(position)
    }

    /// Record and pack of the member in `slot`, to be changed in place.
    #[inline]
    pub fn member_mut(&mut self, slot: u32) -> Option<(&mut Record, &mut [u8])> {
        let (number, position) = parts(slot);
        let (record, pack) = self.blocks.get_mut(number)?.member_mut(position)?;
        if record.is_long() {
            let pack = self.long.as_mut()?.by_slot.get_mut(&slot)?;
            return Some((record, pack));
        }
        Some((record, pack))
    }

    /// The id of the member in `slot`.
    pub fn id(&self, slot: u32) -> Option<&[u8]> {
        let (number, position) = parts(slot);
        self.blocks.get(number)?.id(position)
    }

    /// The pack of the member in `slot`: bytes that only the caller understands. Empty for new members and vacant slots.
    pub fn pack(&self, slot: u32) -> &[u8] {
        let (number, position) = parts(slot);
        match self.blocks.get(number).and_then(|block| block.member(position)) {
            Some((record, _)) if record.is_long() => {
                self.long.as_ref().and_then(|long| long.by_slot.get(&slot)).map_or(&[], |pack| pack)
            }
            Some((_, pack)) => pack,
            None => &[],
        }
    }

    /// Replaces the pack of the member in `slot`; does nothing if the slot is vacant.
    pub fn set_pack(&mut self, slot: u32, pack: &[u8]) {
        if self.record(slot).is_none() {
            return;
        }
        self.drop_long(slot);
        let (number, position) = parts(slot);
        let old = self.pack(slot).len();
        if self.blocks.get(number).is_some_and(|block| block.takes(pack.len(), old)) {
            self.blocks.change(number, |block| block.set_pack(position, Some(pack)));
        } else {
            let long = self.long.get_or_insert_default();
            long.bytes += pack.len();
            long.by_slot.insert(slot, pack.into());
            self.blocks.change(number, |block| block.set_pack(position, None));
        }
    }

    /// The slots of all members, in an order that holds while nobody is added or removed.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.blocks.count()).flat_map(|block| {
            if let Some(next) = self.blocks.get(block + 1) {
                next.prefetch_whole();
            }
            self.slots_of(Run { block, next: Place::END })
        })
    }

    /// Those at `from`, and maybe some before and some after. Members who stay are met by a walk from run to run, whoever
    /// comes and goes meanwhile.
    pub fn run(&self, from: Place) -> Run {
        let count = self.blocks.count();
        let block = Blocks::number(from.hash(), count);
        let bits = Blocks::bits(block, count);
        // All places of a run have the same first `bits` bits.
        let rest = PLACE_BITS.saturating_sub(bits);
        Run { block, next: Place(((from.0 >> rest) + 1) << rest) }
    }

    /// The slots of a run's members, while nobody is added or removed.
    pub fn slots_of(&self, run: Run) -> impl Iterator<Item = u32> + '_ {
        let block = self.blocks.get(run.block);
        let mut from = 0;
        std::iter::from_fn(move || {
            let position = block?.next_occupied(from)?;
            from = usize::from(position) + 1;
            Some(slot(run.block, position))
        })
    }

    /// Where the member in `slot` is in the order.
    pub fn place(&self, slot: u32) -> Option<Place> {
        Some(Place::of(self.hash(self.id(slot)?)))
    }

    /// Bytes on the heap by what was asked for, without what an allocator rounds up.
    pub fn memory(&self) -> usize {
        // A node of the tree holds up to eleven, and is at least half full.
        let each = 2 * size_of::<(u32, Box<[u8]>)>();
        let long = self.long.as_ref().map_or(0, |long| size_of::<LongPacks>() + long.bytes + long.by_slot.len() * each);
        self.blocks.memory() + long
    }

    fn hash(&self, id: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1).hash(id)
    }

    /// The number of the block of a hash.
    #[inline]
    fn number(&self, hash: u64) -> usize {
        Blocks::number(hash, self.blocks.count())
    }

    fn drop_long(&mut self, slot: u32) {
        if let Some(long) = &mut self.long {
            long.bytes -= long.by_slot.remove(&slot).map_or(0, |pack| pack.len());
            if long.by_slot.is_empty() {
                self.long = None;
            }
        }
    }

    /// Splits the block whose turn it is.
    fn split(&mut self, wheel: &mut Wheel) {
        let new = self.blocks.count();
        let (old, bit) = Blocks::origin(new);
        self.blocks.push(Block::default());
        let goes = |table: &Self, slot| table.id(slot).is_some_and(|id| table.hash(id) & bit != 0);
        self.move_members(old, new, goes, wheel);
    }

    /// Gives the members of the last block back to the one from which it was split off.
    fn merge(&mut self, wheel: &mut Wheel) -> Option<()> {
        let last = self.blocks.count() - 1;
        let (origin, _) = Blocks::origin(last);
        self.move_members(last, origin, |_, _| true, wheel);
        self.blocks.get(last).filter(|block| block.count() == 0)?;
        self.blocks.pop().map(|_| ())
    }

    /// Moves those members of block `from` who go to block `to`, and tells the wheel.
    fn move_members(&mut self, from: usize, to: usize, goes: impl Fn(&Self, u32) -> bool, wheel: &mut Wheel) {
        let going = self.slots_of(Run { block: from, next: Place::END }).filter(|&slot| goes(self, slot));
        let going: Vec<u32> = going.collect();
        let Some(mut source) = self.blocks.change(from, std::mem::take) else { return };
        let mut moves = Vec::with_capacity(going.len());
        let bytes = going.iter().filter_map(|&slot| source.record(parts(slot).1)).map(Record::held).max();
        self.blocks.change(to, |target| {
            target.prepare(going.len(), bytes.unwrap_or_default());
            for &old in &going {
                let (_, position) = parts(old);
                if let Some(new) = source.tag(position).and_then(|tag| target.adopt(tag, &source, position)) {
                    moves.push((old, slot(to, new)));
                }
            }
        });
        source.remove_all(moves.iter().map(|&(old, _)| parts(old).1));
        self.blocks.change(from, |place| *place = source);
        if let Some(long) = &mut self.long {
            for (old, new) in &moves {
                if let Some(pack) = long.by_slot.remove(old) {
                    long.by_slot.insert(*new, pack);
                }
            }
        }
        wheel.moved(self, &moves);
    }
}

/// Without the members, and without the keys: they must not get into a log.
impl fmt::Debug for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Table")
            .field("len", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl Links for Table {
    fn link(&self, slot: u32) -> Link {
        self.record(slot).map_or(Link::UNLINKED, Record::link)
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(record) = self.record_mut(slot) {
            record.set_link(link);
        }
    }

    fn prefetch(&self, slot: u32) {
        if let Some(block) = self.blocks.get(parts(slot).0) {
            block.prefetch();
        }
    }
}

/// The byte of a hash that tells members of a block apart: none of the bits that lead to the block.
const fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

const fn slot(number: usize, position: u8) -> u32 {
    (number << POSITION_BITS) as u32 | position as u32
}

const fn parts(slot: u32) -> (usize, u8) {
    (slot as usize >> POSITION_BITS, slot as u8)
}
