//! Hashes kept one by one, ascending and without repeats. One or two, which is a day of most rooms, need no heap.

use std::ops::Deref;

use super::EXACT;

#[derive(Clone)]
pub(super) enum Exact {
    One([u64; 1]),
    Two([u64; 2]),
    Any(Vec<u64>),
}

const _: () = assert!(size_of::<Exact>() == size_of::<Vec<u64>>());

impl Exact {
    pub(super) const fn new() -> Self {
        Self::Any(Vec::new())
    }

    /// Adds a hash at its place. Room is made by a quarter instead of twice: most rooms stay small, and a room of a
    /// thousand should not pay for two thousand.
    pub(super) fn insert(&mut self, place: usize, hash: u64) {
        let mut hashes = match std::mem::replace(self, Self::new()) {
            Self::Any(hashes) => hashes,
            few => few.to_vec(),
        };
        let len = hashes.len();
        if len == hashes.capacity() {
            hashes.reserve_exact((len / 4).max(2).min(EXACT - len));
        }
        hashes.insert(place, hash);
        *self = Self::from(hashes);
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Any(hashes) => hashes.capacity() * size_of::<u64>(),
            _ => 0,
        }
    }
}

/// Of hashes that are in order already.
impl From<Vec<u64>> for Exact {
    fn from(hashes: Vec<u64>) -> Self {
        match *hashes {
            [one] => Self::One([one]),
            [one, two] => Self::Two([one, two]),
            _ => Self::Any(hashes),
        }
    }
}

impl Deref for Exact {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::One(hashes) => hashes,
            Self::Two(hashes) => hashes,
            Self::Any(hashes) => hashes,
        }
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Exact {}
