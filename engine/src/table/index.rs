//! Slots by hash: extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979) over small sorted segments.
//!
//! The top bits of a hash choose a segment through the directory; a segment that outgrows its bound is split in two, the
//! others stay as they are. Within a segment the entries are sorted by a tag, the hash's low 16 bits. Tags are evenly
//! spread, so that the place of a tag is interpolated and lies a few entries off, mostly on the same cache line.
//!
//! Why not a hash table per segment: tables of a power of two are half empty after every split, and as all segments of a
//! room split at about the same time, so is the whole index (up to 12 bytes a member, and what the allocator rounds up).
//! A sorted segment is full but for an eighth: 6 to 7 bytes a member at any size. Its insertions move 3 KB at worst.

/// Entries above which a segment is split. A split reads the ids of as many members.
const MOST: usize = 512;
/// Entries up to which two segments are merged; far below [`MOST`], so that the next insertions do not split them again.
const MERGED: usize = 128;
/// Steps from the interpolated place after which a binary search takes over: only chosen hashes lie so far off.
const WALK: usize = 64;
/// Steps from the interpolated place within which most walks end.
const NEAR: usize = 8;
/// Most bits of the directory.
const DEEPEST: u32 = 20;

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    /// High and low half: as a `u32` it would be aligned to four bytes and make the entry eight bytes long.
    slot: [u16; 2],
}

const _: () = assert!(size_of::<Entry>() == 6);

impl Entry {
    fn new(hash: u64, slot: u32) -> Self {
        Self { tag: tag(hash), slot: [(slot >> 16) as u16, slot as u16] }
    }

    fn slot(self) -> u32 {
        let [high, low] = self.slot;
        u32::from(high) << 16 | u32::from(low)
    }
}

const fn tag(hash: u64) -> u16 {
    hash as u16
}

/// The top `bits` bits of a hash.
fn top(hash: u64, bits: u32) -> usize {
    hash.checked_shr(64 - bits).unwrap_or(0) as usize
}

/// Entries whose hashes have the same top `depth` bits.
#[derive(Debug)]
struct Segment {
    /// Ascending by tag.
    entries: Vec<Entry>,
    /// Those top bits.
    prefix: u32,
    depth: u32,
}

impl Segment {
    /// Where `tag` would be if tags were spread evenly.
    fn guess(&self, tag: u16) -> usize {
        (usize::from(tag) * self.entries.len()) >> u16::BITS
    }

    /// The first place whose tag is not below `tag`.
    fn place(&self, tag: u16) -> usize {
        let entries = &*self.entries;
        let below = |place: usize| entries.get(place).is_some_and(|entry| entry.tag < tag);
        let guess = self.guess(tag);
        let mut place = guess;
        if below(place) {
            while place - guess < WALK {
                place += 1;
                if !below(place) {
                    return place;
                }
            }
        } else {
            while guess - place < WALK {
                if place == 0 || below(place - 1) {
                    return place;
                }
                place -= 1;
            }
        }
        entries.partition_point(|entry| entry.tag < tag)
    }

    fn find(&self, tag: u16, mut is: impl FnMut(u32) -> bool) -> Option<(usize, u32)> {
        let from = self.place(tag);
        let same = self.entries.get(from..)?.iter().take_while(|entry| entry.tag == tag);
        same.enumerate().map(|(offset, entry)| (from + offset, entry.slot())).find(|&(_, slot)| is(slot))
    }

    /// Gives back what is not filled, but for an eighth.
    fn trim(&mut self) {
        self.entries.shrink_to((self.entries.len() + self.entries.len() / 8).max(4));
    }

    fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

#[derive(Debug)]
pub(super) struct Index {
    /// Numbers of segments, by the top `depth` bits of the hash.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    depth: u32,
    len: usize,
    /// Bytes of all segments' entries.
    entry_bytes: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        let whole = Segment { entries: Vec::new(), prefix: 0, depth: 0 };
        Self { directory: vec![0], segments: vec![whole], depth: 0, len: 0, entry_bytes: 0 }
    }

    /// The slot with this hash that `is` accepts.
    pub(super) fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        let number = *self.directory.get(top(hash, self.depth))?;
        self.segments.get(number as usize)?.find(tag(hash), is).map(|(_, slot)| slot)
    }

    /// Reads about what [`find`](Self::find) will read first for these hashes.
    pub(super) fn touch(&self, hashes: &[u64]) -> usize {
        let read = |&hash: &u64| {
            let segment = self.segments.get(self.number(hash)?)?;
            let guess = segment.guess(tag(hash));
            let tag = |place: usize| segment.entries.get(place).map_or(0, |entry| usize::from(entry.tag));
            Some(tag(guess.saturating_sub(NEAR)) ^ tag(guess + NEAR))
        };
        hashes.iter().filter_map(read).fold(0, |sum, tag| sum ^ tag)
    }

    /// Adds `slot`, which must not be there; `hashes_of` tells the hashes of other slots.
    pub(super) fn insert(&mut self, hash: u64, slot: u32, hashes_of: impl Fn(&[u32]) -> Vec<u64>) {
        while self.split_if_full(hash, &hashes_of).is_some() {}
        let Some(segment) = self.number(hash).and_then(|number| self.segments.get_mut(number)) else { return };
        let before = segment.memory();
        if segment.entries.len() == segment.entries.capacity() {
            segment.entries.reserve_exact((segment.entries.len() / 8).max(4));
        }
        segment.entries.insert(segment.place(tag(hash)), Entry::new(hash, slot));
        self.entry_bytes += segment.memory() - before;
        self.len += 1;
    }

    /// Takes `slot` out.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let Some(segment) = self.number(hash).and_then(|number| self.segments.get_mut(number)) else { return };
        let Some((place, _)) = segment.find(tag(hash), |other| other == slot) else { return };
        let before = segment.memory();
        segment.entries.remove(place);
        if segment.entries.len() < segment.entries.capacity() / 2 {
            segment.trim();
        }
        self.entry_bytes -= before - segment.memory();
        self.len -= 1;
        while self.merge_if_sparse(hash).is_some() {}
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.entry_bytes
    }

    /// The number of the segment of a hash.
    fn number(&self, hash: u64) -> Option<usize> {
        self.directory.get(top(hash, self.depth)).map(|&number| number as usize)
    }

    /// How deep a segment may be split. Hashes chosen to share their top bits fill one segment, which then grows beyond
    /// its bound: better than a directory that doubles for them time and again.
    fn deepest(&self) -> u32 {
        ((self.len / 64).checked_ilog2().unwrap_or(0) + 2).min(DEEPEST)
    }

    fn split_if_full(&mut self, hash: u64, hashes_of: impl Fn(&[u32]) -> Vec<u64>) -> Option<()> {
        let number = self.number(hash)?;
        let (deepest, right_number) = (self.deepest(), self.segments.len());
        let segment = self.segments.get_mut(number)?;
        if segment.entries.len() < MOST || segment.depth >= deepest {
            return None;
        }
        let before = segment.memory();
        segment.depth += 1;
        segment.prefix <<= 1;
        let mut right = Segment { entries: Vec::new(), prefix: segment.prefix | 1, depth: segment.depth };
        let depth = segment.depth;
        let slots: Vec<u32> = segment.entries.iter().map(|entry| entry.slot()).collect();
        let mut hashes = hashes_of(&slots).into_iter();
        segment.entries.retain(|&entry| {
            let goes = hashes.next().is_some_and(|hash| top(hash, depth) & 1 == 1);
            if goes {
                right.entries.push(entry);
            }
            !goes
        });
        segment.trim();
        right.trim();
        self.entry_bytes = self.entry_bytes + segment.memory() + right.memory() - before;
        if depth > self.depth {
            self.directory = self.directory.iter().flat_map(|&number| [number; 2]).collect();
            self.depth = depth;
        }
        self.segments.push(right);
        self.point_to(right_number);
        Some(())
    }

    /// Merges the segment of `hash` with the one it was once split from, if both are as deep and hold little.
    fn merge_if_sparse(&mut self, hash: u64) -> Option<()> {
        let number = self.number(hash)?;
        let segment = self.segments.get(number)?;
        if segment.depth == 0 || segment.entries.len() > MERGED {
            return None;
        }
        let depth = segment.depth;
        let buddy = *self.directory.get(((segment.prefix ^ 1) as usize) << (self.depth - depth))? as usize;
        let other = self.segments.get(buddy)?;
        if other.depth != depth || segment.entries.len() + other.entries.len() > MERGED {
            return None;
        }
        let mut entries = Vec::with_capacity(segment.entries.len() + other.entries.len());
        entries.extend_from_slice(&segment.entries);
        entries.extend_from_slice(&other.entries);
        entries.sort_by_key(|entry| entry.tag);
        let whole = Segment { entries, prefix: segment.prefix >> 1, depth: depth - 1 };
        self.entry_bytes = self.entry_bytes + whole.memory() - segment.memory() - other.memory();
        *self.segments.get_mut(number)? = whole;
        self.point_to(number);
        // The last segment takes the number that has become free.
        self.segments.swap_remove(buddy);
        self.point_to(buddy);
        if self.segments.len() < self.segments.capacity() / 4 {
            self.segments.shrink_to(self.segments.len() * 2);
        }
        self.halve_if_sparse();
        Some(())
    }

    /// Makes the directory agree with the prefix and depth of segment `number`.
    fn point_to(&mut self, number: usize) {
        let Some(segment) = self.segments.get(number) else { return };
        let width = self.depth - segment.depth;
        let from = (segment.prefix as usize) << width;
        if let Some(places) = self.directory.get_mut(from..from + (1 << width)) {
            places.fill(number as u32);
        }
    }

    /// Halves the directory while it is far larger than its segments, and none of them is so deep. With few segments
    /// left the look at each is cheap, and it is due only after as many merges.
    fn halve_if_sparse(&mut self) {
        while self.depth > 0 && self.segments.len() <= self.directory.len() / 4 {
            if self.segments.iter().any(|segment| segment.depth == self.depth) {
                return;
            }
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
    }
}
