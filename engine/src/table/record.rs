//! The fixed part of a member, as it lies in a block.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wheel::Link;

/// The `pack_len` of a member whose pack has an allocation of its own.
const LONG: u16 = u16::MAX;

/// The fixed part of a member: 24 bytes, without an alignment, so that it lies right before the id.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Record {
    last: U32,
    flags: u8,
    id_len: u8,
    pack_len: U16,
    day: U16,
    since: [U16; 3],
    next: U32,
    prev: U32,
}

const _: () = assert!(size_of::<Record>() == 24);

impl Record {
    /// Of a new member with an id of 1 to 256 bytes and no pack.
    pub(super) fn new(id: &[u8]) -> Option<Self> {
        let id_len = u8::try_from(id.len().checked_sub(1)?).ok()?;
        let mut record = Self {
            last: U32::ZERO,
            flags: 0,
            id_len,
            pack_len: U16::ZERO,
            day: U16::ZERO,
            since: [U16::ZERO; 3],
            next: U32::ZERO,
            prev: U32::ZERO,
        };
        record.set_link(Link::UNLINKED);
        Some(record)
    }

    /// Low 32 bits of the heard milliseconds of the last beat.
    #[inline]
    pub fn last(&self) -> u32 {
        self.last.get()
    }

    /// Sets [`last`](Self::last).
    #[inline]
    pub fn set_last(&mut self, low: u32) {
        self.last.set(low);
    }

    /// The engine's flags.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Sets [`flags`](Self::flags).
    pub fn set_flags(&mut self, flags: u8) {
        self.flags = flags;
    }

    /// The engine's note about the day.
    #[inline]
    pub fn day(&self) -> u16 {
        self.day.get()
    }

    /// Sets [`day`](Self::day).
    pub fn set_day(&mut self, day: u16) {
        self.day.set(day);
    }

    /// Unix milliseconds since when the member is here, below 2^48.
    pub fn since(&self) -> u64 {
        let [low, middle, high] = self.since.map(|part| u64::from(part.get()));
        low | middle << 16 | high << 32
    }

    /// Sets [`since`](Self::since); moments from 2^48 ms on (the year 10889) become 2^48 - 1.
    pub fn set_since(&mut self, unix_ms: u64) {
        let ms = unix_ms.min((1 << 48) - 1);
        self.since = [ms as u16, (ms >> 16) as u16, (ms >> 32) as u16].map(U16::new);
    }

    /// The member's place in the room's wheel.
    pub fn link(&self) -> Link {
        Link { next: self.next.get(), prev: self.prev.get() }
    }

    /// Sets [`link`](Self::link).
    pub fn set_link(&mut self, link: Link) {
        self.next.set(link.next);
        self.prev.set(link.prev);
    }

    #[inline]
    pub(super) fn id_len(&self) -> usize {
        usize::from(self.id_len) + 1
    }

    /// Length of the pack that follows the id.
    #[inline]
    pub(super) fn pack_len(&self) -> usize {
        if self.is_long() {
            0
        } else {
            self.pack_len.get().into()
        }
    }

    /// The pack has an allocation of its own.
    pub(super) fn is_long(&self) -> bool {
        self.pack_len.get() == LONG
    }

    /// `None` stands for a pack with an allocation of its own.
    pub(super) fn set_pack_len(&mut self, len: Option<u16>) {
        self.pack_len.set(len.unwrap_or(LONG));
    }

    /// Bytes of the member in a block.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + self.id_len() + self.pack_len()
    }
}
