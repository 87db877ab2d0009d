//! Daily uniques: how many distinct members a room had on a calendar day.

mod day;
mod estimate;
mod exact;
mod registers;
mod sketch;

pub use day::{Calendar, Day};
pub use sketch::{member_hash, Sketch, EXACT};

/// Most days that a room keeps: 400 by its settings, and one that a day change has not dropped yet.
pub const MAX_DAYS: usize = 401;

/// The sketches of one room, by day.
///
/// Days are kept in ascending order, and none of them is empty. A room usually has one or two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uniques {
    days: Box<[(Day, Sketch)]>,
}

impl Uniques {
    /// No days, and no heap memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a member's hash in on `day`. True if that changed anything.
    ///
    /// Beyond [`MAX_DAYS`] the oldest day makes place; a day older than all of these is not begun.
    pub fn add(&mut self, day: Day, hash: u64) -> bool {
        let mut place = match self.place(day) {
            Ok(place) => return self.days.get_mut(place).is_some_and(|(_, sketch)| sketch.add(hash)),
            Err(place) => place,
        };
        if self.days.len() >= MAX_DAYS {
            if place == 0 {
                return false;
            }
            self.change(|days| drop(days.remove(0)));
            place -= 1;
        }
        let mut sketch = Sketch::new();
        sketch.add(hash);
        self.change(|days| {
            days.reserve_exact(1);
            days.insert(place, (day, sketch));
        });
        true
    }

    /// Keeps `keep` days, of which `today` is the last (2: today and yesterday; 0: none), and those that are still to
    /// come. True if any was dropped.
    pub fn retain(&mut self, today: Day, keep: u16) -> bool {
        let stale = match keep.checked_sub(1) {
            Some(before) => self.days.partition_point(|(day, _)| *day < today.minus(before)),
            None => self.days.len(),
        };
        if stale == 0 {
            return false;
        }
        self.change(|days| drop(days.drain(..stale)));
        true
    }

    /// The sketch of `day`; None if nobody was counted then.
    pub fn day(&self, day: Day) -> Option<&Sketch> {
        let place = self.place(day).ok()?;
        self.days.get(place).map(|(_, sketch)| sketch)
    }

    /// The days on which somebody was counted, ascending.
    pub fn days(&self) -> impl ExactSizeIterator<Item = (Day, &Sketch)> {
        self.days.iter().map(|(day, sketch)| (*day, sketch))
    }

    /// The number of distinct members of all `rooms` in the `days` days of which `last` is the last.
    pub fn count_union<'a>(rooms: impl IntoIterator<Item = &'a Self>, last: Day, days: u16) -> u64 {
        let Some(before) = days.checked_sub(1) else { return 0 };
        let first = last.minus(before);
        let sketches: Vec<&Sketch> = rooms
            .into_iter()
            .flat_map(|room| room.days())
            .filter(|(day, _)| (first..=last).contains(day))
            .map(|(_, sketch)| sketch)
            .collect();
        Sketch::union(&sketches)
    }

    /// Whether no day is kept.
    pub fn is_empty(&self) -> bool {
        self.days.is_empty()
    }

    /// Heap memory in bytes, without what the allocator adds.
    pub fn memory(&self) -> usize {
        let sketches: usize = self.days.iter().map(|(_, sketch)| sketch.memory()).sum();
        size_of_val(&*self.days) + sketches
    }

    /// Appends the canonical form: the number of days as 16 bits; then of each day, in ascending order, its number as
    /// 16 bits and its [sketch](Sketch::encode). Everything is little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.days.len() as u16).to_le_bytes());
        for (day, sketch) in self.days() {
            out.extend_from_slice(&day.number().to_le_bytes());
            sketch.encode(out);
        }
    }

    /// Reads uniques from the start of `input` and says how many bytes they took. None unless these are exactly the
    /// bytes that [`encode`](Self::encode) writes for some uniques.
    pub fn decode(input: &[u8]) -> Option<(Self, usize)> {
        let (&count, mut rest) = input.split_first_chunk()?;
        let count = usize::from(u16::from_le_bytes(count));
        if count > MAX_DAYS {
            return None;
        }
        let mut days: Vec<(Day, Sketch)> = Vec::new();
        days.reserve_exact(count);
        for _ in 0..count {
            let (&number, after) = rest.split_first_chunk()?;
            let day = Day::from_number(u16::from_le_bytes(number));
            let (sketch, taken) = Sketch::decode(after)?;
            if sketch.is_empty() || days.last().is_some_and(|(last, _)| *last >= day) {
                return None;
            }
            days.push((day, sketch));
            rest = after.get(taken..)?;
        }
        Some((Self { days: days.into_boxed_slice() }, input.len() - rest.len()))
    }

    /// Changes which days there are. Once a day, and a room with one is the rule, so nothing is kept in advance.
    fn change(&mut self, change: impl FnOnce(&mut Vec<(Day, Sketch)>)) {
        let mut days = std::mem::take(&mut self.days).into_vec();
        change(&mut days);
        self.days = days.into_boxed_slice();
    }

    fn place(&self, day: Day) -> Result<usize, usize> {
        self.days.binary_search_by_key(&day, |(day, _)| *day)
    }
}
