//! Entries by place, in blocks, so that no growth moves them all.

use presence_engine::wheel::{Link, Links};

use super::Entry;

/// See the module.
#[derive(Default)]
pub(super) struct Slab {
    blocks: Vec<Vec<Option<Entry>>>,
    vacant: Vec<u32>,
}

pub(super) const BLOCK: usize = 256;

impl Slab {
    /// Its memory, when nothing is in it any more.
    pub(super) fn into_blocks(self) -> Vec<Vec<Option<Entry>>> {
        self.blocks
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        self.blocks.get(index as usize / BLOCK)?.get(index as usize % BLOCK)?.as_ref()
    }

    /// All places that there are, vacant ones and some more included.
    pub(super) fn places(&self) -> u32 {
        (self.blocks.len() * BLOCK) as u32
    }

    fn place(&mut self, index: u32) -> Option<&mut Option<Entry>> {
        self.blocks.get_mut(index as usize / BLOCK)?.get_mut(index as usize % BLOCK)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.place(index)?.as_mut()
    }

    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        if let Some(index) = self.vacant.pop() {
            if let Some(place) = self.place(index) {
                *place = Some(entry);
            }
            return index;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            let first = self.blocks.is_empty();
            self.blocks.push(Vec::with_capacity(if first { 0 } else { BLOCK }));
        }
        let full = (self.blocks.len() - 1) * BLOCK;
        match self.blocks.last_mut() {
            Some(block) => {
                block.push(Some(entry));
                (full + block.len() - 1) as u32
            }
            None => 0,
        }
    }

    pub(super) fn take(&mut self, index: u32) -> Option<Entry> {
        let entry = self.place(index)?.take()?;
        self.vacant.push(index);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.blocks.iter().flatten().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.blocks.iter_mut().flatten().flatten()
    }

    /// The first entry at or after place `from`.
    pub(super) fn next_from(&self, from: u32) -> Option<(u32, &Entry)> {
        let (block, within) = (from as usize / BLOCK, from as usize % BLOCK);
        self.blocks.iter().enumerate().skip(block).find_map(|(number, entries)| {
            let first = if number == block { within } else { 0 };
            let (offset, entry) =
                entries.get(first..)?.iter().enumerate().find_map(|(offset, entry)| Some((offset, entry.as_ref()?)))?;
            Some(((number * BLOCK + first + offset) as u32, entry))
        })
    }
}

impl Links for Slab {
    fn link(&self, slot: u32) -> Link {
        self.get(slot).map_or(Link::UNLINKED, |entry| entry.link)
    }

    fn set_link(&mut self, slot: u32, link: Link) {
        if let Some(entry) = self.get_mut(slot) {
            entry.link = link;
        }
    }
}
