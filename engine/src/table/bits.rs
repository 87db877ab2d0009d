//! A set of small numbers that knows where its first one may be.

#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    /// No word before this one has a bit.
    low: usize,
}

impl Bits {
    /// Puts `number` in or takes it out.
    pub(super) fn set(&mut self, number: usize, value: bool) {
        let (word, bit) = (number / 64, 1 << (number % 64));
        if value {
            if word >= self.words.len() {
                if word >= self.words.capacity() {
                    self.words.reserve_exact(word + 1 + word / 8 - self.words.len());
                }
                self.words.resize(word + 1, 0);
            }
            self.low = self.low.min(word);
        }
        if let Some(bits) = self.words.get_mut(word) {
            *bits = if value { *bits | bit } else { *bits & !bit };
        }
    }

    /// The lowest number of the set.
    pub(super) fn first(&mut self) -> Option<usize> {
        while let Some(bits) = self.words.get(self.low) {
            if *bits != 0 {
                return Some(self.low * 64 + bits.trailing_zeros() as usize);
            }
            self.low += 1;
        }
        None
    }

    /// The lowest number from `from` on that is not in the set.
    pub(super) fn first_unset(&self, from: usize) -> usize {
        let mut word = from / 64;
        let mut skip = (1 << (from % 64)) - 1;
        while let Some(bits) = self.words.get(word) {
            let ones = (bits | skip).trailing_ones();
            if ones < 64 {
                return word * 64 + ones as usize;
            }
            word += 1;
            skip = 0;
        }
        from.max(word * 64)
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
