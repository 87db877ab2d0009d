//! Due moments of slots: a hierarchical timer wheel (Varghese and Lauck, 1987, scheme 7) in milliseconds of heard time.
//!
//! Level L has 256 buckets of 256^L ms each: 1 ms, 256 ms, 65.5 s, 4.66 h, … Eight levels span every `u64`, so that no
//! moment is clamped. An entry lies on the level of the highest byte in which its due moment differs from the wheel's
//! moment `now`, in the bucket numbered by that byte of its due moment. From this follows, at all times:
//!
//! * All buckets of a level lie in one bucket of the next coarser level: the one that holds `now`. So a bucket's number
//!   and `now` tell its absolute start, and no level ever wraps around: number 0 of a level comes into use only after
//!   `now` has entered the next coarser bucket, when the level's last ones are long empty.
//! * No bucket starts before `now`. A coarse one starts after it, save the one that `now` has just reached and that is
//!   being emptied; nothing is ever added to that one, as what is due within it belongs on a finer level.
//!
//! A wheel holds at most a few hundred occupied buckets at a time, and only these are stored, in the order in which
//! they start, the earliest last. So the next due moment is at hand without a search, idle time costs nothing however
//! long, and the wheel of a small room takes a few dozen bytes rather than a kilobyte per level.
//!
//! The wheel stores no deadlines. An entry of a coarse bucket is handed out when its bucket starts, before it is due;
//! the caller knows its real moment and inserts it again, now on a finer level. That is the whole cascade: one entry at
//! a time, so that no step is long. A deadline that has moved on meanwhile is handled the same way, which is why a beat
//! need not touch the wheel.

use std::cmp::Reverse;

/// No slot: the end of a list.
pub const NIL: u32 = u32::MAX;

/// Set in `prev` of the first entry of a bucket; the rest of `prev` is then the bucket's number.
const FIRST: u32 = 1 << 31;
/// Bits of a moment that one level tells apart.
const LEVEL_BITS: u32 = 8;

/// An entry's place in its bucket's doubly linked list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub(crate) next: u32,
    pub(crate) prev: u32,
}

impl Link {
    /// The link of an entry that is in no wheel.
    pub const UNLINKED: Self = Self { next: NIL, prev: NIL };

    /// Whether the entry is in a wheel.
    pub const fn is_linked(self) -> bool {
        self.prev != NIL
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::UNLINKED
    }
}

/// Where the links of a wheel's entries are kept: beside the entries, by slot.
pub trait Links {
    /// The link last set for `slot`; [`Link::UNLINKED`] for a new slot and for one that does not exist.
    fn link(&self, slot: u32) -> Link;
    /// Sets the link of `slot`; ignored if there is no such slot.
    fn set_link(&mut self, slot: u32, link: Link);
    /// The link of `slot` will be asked for soon, and those of others before it.
    fn prefetch(&self, _slot: u32) {}
}

/// An occupied bucket, in 16 bytes instead of 24.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Bucket {
    /// Its first moment.
    start: u64,
    /// Its first entry; never [`NIL`].
    head: u32,
    level: u8,
}

impl Bucket {
    /// What the buckets are sorted by, descending. Of two that start together the coarse one comes out first.
    const fn key(&self) -> (u64, Reverse<u8>) {
        (self.start, Reverse(self.level))
    }
}

/// Slots by due moment. Each wheel has its own [`Links`], which must be the same in every call.
#[derive(Debug)]
pub struct Wheel {
    now: u64,
    /// Descending by key: the earliest bucket is the last.
    buckets: Vec<Bucket>,
}

impl Wheel {
    /// An empty wheel that stands at the moment `now`.
    pub const fn new(now: u64) -> Self {
        Self { now, buckets: Vec::new() }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The moment up to which everything has been handed out.
    ///
    /// After [`pop`](Self::pop) this is the start of the bucket that the entry came from: an entry whose real moment is
    /// at most this is due, and one with a later moment is to be inserted again. Comparing with this rather than with
    /// `until` gives strict due order, to the millisecond, however far `until` is ahead.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// Adds `slot`, due at the moment `due` (now, if that has passed), or moves it if it is in the wheel already.
    ///
    /// Ignored for slots of 2^31 or more, and for slots whose link cannot be set.
    pub fn insert(&mut self, links: &mut impl Links, slot: u32, due: u64) {
        if slot >= FIRST {
            return;
        }
        self.remove(links, slot);
        let due = due.max(self.now);
        let level = ((due ^ self.now) | 1).ilog2() / LEVEL_BITS;
        let start = due >> (level * LEVEL_BITS) << (level * LEVEL_BITS);
        let place = self.place(start, level as u8);
        let first = FIRST | number(start, level);
        let present =
            self.buckets.get_mut(place).filter(|bucket| bucket.start == start && u32::from(bucket.level) == level);
        let next = present.as_ref().map_or(NIL, |bucket| bucket.head);

        links.set_link(slot, Link { next, prev: first });
        if links.link(slot).prev != first {
            return; // The links know no such slot: it must not become the head of a bucket.
        }
        if let Some(bucket) = present {
            bucket.head = slot;
            let second = links.link(next);
            links.set_link(next, Link { prev: slot, ..second });
        } else {
            if self.buckets.len() == self.buckets.capacity() {
                self.buckets.reserve_exact((self.buckets.len() / 2).max(1));
            }
            self.buckets.insert(place, Bucket { start, head: slot, level: level as u8 });
        }
    }

    /// Takes `slot` out; does nothing if it is not in the wheel.
    pub fn remove(&mut self, links: &mut impl Links, slot: u32) {
        let Link { next, prev } = links.link(slot);
        if prev == NIL {
            return;
        }
        if next != NIL {
            let following = links.link(next);
            links.set_link(next, Link { prev, ..following });
        }
        if prev & FIRST == 0 {
            let preceding = links.link(prev);
            links.set_link(prev, Link { next, ..preceding });
        } else {
            let (start, level) = self.locate(prev & !FIRST);
            self.behead(self.place(start, level), next);
        }
        links.set_link(slot, Link::UNLINKED);
    }

    /// Entries have other slots now: `moves` tells old and new ones, ascending by the old, none of which is a new one too.
    /// Their links went with them.
    pub fn moved(&mut self, links: &mut impl Links, moves: &[(u32, u32)]) {
        let now_at = |slot: u32| {
            let found = moves.binary_search_by_key(&slot, |&(old, _)| old);
            found.ok().and_then(|at| moves.get(at)).map_or(slot, |&(_, new)| new)
        };
        // Neighbours lie anywhere: their links come from memory together.
        for &(_, new) in moves {
            let Link { next, prev } = links.link(new);
            [next, prev].into_iter().filter(|&slot| slot & FIRST == 0).for_each(|slot| links.prefetch(slot));
        }
        for &(old, new) in moves {
            let link = links.link(new);
            if !link.is_linked() {
                continue;
            }
            let (first, next) = (link.prev & FIRST != 0, now_at(link.next));
            let prev = if first { link.prev } else { now_at(link.prev) };
            links.set_link(new, Link { next, prev });
            if next != NIL {
                let following = links.link(next);
                links.set_link(next, Link { prev: new, ..following });
            }
            if first {
                let (start, level) = self.locate(prev & !FIRST);
                let place = self.place(start, level);
                if let Some(bucket) = self.buckets.get_mut(place).filter(|bucket| bucket.head == old) {
                    bucket.head = new;
                }
            } else {
                let preceding = links.link(prev);
                links.set_link(prev, Link { next: new, ..preceding });
            }
        }
    }

    /// Takes out and returns an entry of the earliest bucket, if that starts at or before the moment `until`.
    ///
    /// `until` must not decrease from call to call. The entry need not be due yet: see [`now`](Self::now). Inserted again
    /// at its real moment, it comes out at most once per level until it is due, so a loop of `pop` always ends.
    pub fn pop(&mut self, links: &mut impl Links, until: u64) -> Option<u32> {
        let Some(bucket) = self.buckets.last().copied().filter(|bucket| bucket.start <= until) else {
            // Nothing starts until then, so all buckets still lie ahead in the same coarser buckets as before.
            self.now = self.now.max(until);
            return None;
        };
        self.now = self.now.max(bucket.start);
        let Link { next, prev } = links.link(bucket.head);
        if next != NIL {
            let following = links.link(next);
            links.set_link(next, Link { prev, ..following });
        }
        self.behead(self.buckets.len() - 1, next);
        links.set_link(bucket.head, Link::UNLINKED);
        Some(bucket.head)
    }

    /// The start of the earliest occupied bucket: nothing is due before it.
    pub fn next_due(&self) -> Option<u64> {
        self.buckets.last().map(|bucket| bucket.start)
    }

    /// Bytes on the heap. The links are not the wheel's.
    pub fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    /// Where the bucket of `level` that starts at `start` is, or belongs.
    fn place(&self, start: u64, level: u8) -> usize {
        let key = (start, Reverse(level));
        self.buckets.partition_point(|bucket| bucket.key() > key)
    }

    /// Start and level of an occupied bucket by its number.
    const fn locate(&self, number: u32) -> (u64, u8) {
        let (level, byte) = (number >> LEVEL_BITS, number as u64 & 0xff);
        let width = level * LEVEL_BITS;
        // The bits above this level are those of `now`; the coarsest level has none above.
        let above = match self.now.checked_shr(width + LEVEL_BITS) {
            Some(bits) => bits << (width + LEVEL_BITS),
            None => 0,
        };
        (above | byte << width, level as u8)
    }

    /// Makes `next` the first entry of the bucket at `place`; without one, the bucket goes.
    fn behead(&mut self, place: usize, next: u32) {
        if next != NIL {
            if let Some(bucket) = self.buckets.get_mut(place) {
                bucket.head = next;
            }
        } else if place < self.buckets.len() {
            self.buckets.remove(place);
            let capacity = self.buckets.capacity();
            if capacity > 8 && self.buckets.len() < capacity / 4 {
                self.buckets.shrink_to(capacity / 2);
            }
        }
    }
}

/// A bucket's number: its level and its byte of the moment.
const fn number(start: u64, level: u32) -> u32 {
    level << LEVEL_BITS | (start >> (level * LEVEL_BITS)) as u32 & 0xff
}
