//! Blocks by hash: linear hashing (Litwin, 1980).
//!
//! There are n blocks. With the smallest power of two that is not below n, the low bits of a hash give a number; if there
//! is no such block yet, one bit less gives the one from which it will be split off. So blocks are split one after the
//! other, whichever is full, no directory is needed, and no step is longer than one block.
//!
//! Blocks lie in segments, so that an array that grows is never copied as a whole.

use super::block::Block;

/// Blocks of a segment, as a power of two: 64 KB of them.
const SEGMENT_BITS: u32 = 12;
const SEGMENT: usize = 1 << SEGMENT_BITS;
/// Most blocks: a slot is a block's number and a byte, and the wheel takes slots below 2^31.
pub(super) const MOST_BLOCKS: usize = 1 << 23;

/// Always at least one block.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The only block, while there is one.
    first: Block,
    /// All of them, when there are several; then `first` is empty.
    many: Option<Box<Many>>,
}

#[derive(Debug, Default)]
struct Many {
    segments: Vec<Vec<Block>>,
    /// Bytes that the blocks have on the heap.
    bytes: usize,
    /// Members in the blocks.
    members: usize,
}

impl Many {
    #[inline]
    fn count(&self) -> usize {
        let before = self.segments.len().saturating_sub(1) << SEGMENT_BITS;
        before + self.segments.last().map_or(0, Vec::len)
    }

    fn push(&mut self, block: Block) {
        self.bytes += block.memory();
        self.members += block.count();
        if self.segments.last().is_none_or(|last| last.len() == SEGMENT) {
            if self.segments.len() == self.segments.capacity() {
                self.segments.reserve_exact((self.segments.len() / 8).max(1));
            }
            self.segments.push(Vec::new());
        }
        if let Some(last) = self.segments.last_mut() {
            if last.len() == last.capacity() {
                last.reserve_exact((last.len() / 4).clamp(1, SEGMENT - last.len()));
            }
            last.push(block);
        }
    }

    fn pop(&mut self) -> Option<Block> {
        let last = self.segments.last_mut()?;
        let block = last.pop()?;
        self.bytes -= block.memory();
        self.members -= block.count();
        if last.is_empty() {
            self.segments.pop();
        } else if last.len() < last.capacity() / 2 {
            last.shrink_to(last.len() + last.len() / 4);
        }
        Some(block)
    }
}

impl Blocks {
    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.many.as_ref().map_or(1, |many| many.count())
    }

    /// Members in all of them. Not kept beside the only block, which knows it: most rooms have no other.
    #[inline]
    pub(super) fn members(&self) -> usize {
        self.many.as_ref().map_or_else(|| self.first.count(), |many| many.members)
    }

    /// The number of the block of a hash, among `count` blocks.
    #[inline]
    pub(super) fn number(hash: u64, count: usize) -> usize {
        let mask = count.next_power_of_two() - 1;
        let number = hash as usize & mask;
        if number < count {
            number
        } else {
            number & (mask >> 1)
        }
    }

    /// How many low bits of the hash lead to block `number`, among `count` blocks.
    pub(super) fn bits(number: usize, count: usize) -> u32 {
        let whole = count.ilog2();
        let half = 1 << whole;
        // Split already, or split off.
        whole + u32::from(number < count - half || number >= half)
    }

    /// The block from which `number`, which is not 0, is split off, and the bit that tells their hashes apart.
    pub(super) fn origin(number: usize) -> (usize, u64) {
        let bit = 1 << number.ilog2();
        (number - bit, bit as u64)
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Block> {
        match &self.many {
            None => (number == 0).then_some(&self.first),
            Some(many) => many.segments.get(number >> SEGMENT_BITS)?.get(number % SEGMENT),
        }
    }

    /// For changes that leave its memory and its members as they are: see [`Blocks::change`].
    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Block> {
        match &mut self.many {
            None => (number == 0).then_some(&mut self.first),
            Some(many) => many.segments.get_mut(number >> SEGMENT_BITS)?.get_mut(number % SEGMENT),
        }
    }

    /// Changes a block in a way that may change its memory and its members. `None` if there is no such block.
    pub(super) fn change<R>(&mut self, number: usize, change: impl FnOnce(&mut Block) -> R) -> Option<R> {
        let block = self.get_mut(number)?;
        let before = (block.memory(), block.count());
        let result = change(block);
        let after = (block.memory(), block.count());
        if let Some(many) = &mut self.many {
            many.bytes = many.bytes + after.0 - before.0;
            many.members = many.members + after.1 - before.1;
        }
        Some(result)
    }

    /// Adds a block with the next number.
    pub(super) fn push(&mut self, block: Block) {
        if self.many.is_none() {
            let mut many = Box::<Many>::default();
            many.push(std::mem::take(&mut self.first));
            self.many = Some(many);
        }
        if let Some(many) = &mut self.many {
            many.push(block);
        }
    }

    /// Takes the block with the highest number out, unless it is the only one.
    pub(super) fn pop(&mut self) -> Option<Block> {
        let many = self.many.as_mut()?;
        let block = many.pop();
        if many.count() == 1 {
            self.first = many.pop()?;
            self.many = None;
        }
        block
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.many.as_ref().map_or(self.first.memory(), |many| {
            let blocks: usize = many.segments.iter().map(Vec::capacity).sum();
            size_of::<Many>()
                + many.bytes
                + many.segments.capacity() * size_of::<Vec<Block>>()
                + blocks * size_of::<Block>()
        })
    }
}
