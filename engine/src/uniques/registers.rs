//! The registers of a dense sketch, in the one form that is also stored and sent.
//!
//! The algorithm is HyperLogLog as in Heule, Nunkesser, Hall: "HyperLogLog in Practice", 2013, with a 64-bit hash and
//! without the sparse form: the first 14 bits of a hash choose a register, and the register keeps the greatest *rank*
//! seen, one more than the zeros that the other 50 bits begin with.

use super::estimate::estimate;

/// Bits of a hash that choose the register. The standard error is 1.04 / √2¹⁴ = 0.81 %.
pub(super) const PRECISION: u8 = 14;
/// Registers of a sketch.
pub(super) const REGISTERS: usize = 1 << PRECISION;
/// Size of the registers in bytes, in memory as well as encoded.
pub(super) const BYTES: usize = REGISTERS * 6 / 8;

/// Eight registers of six bits in six bytes, little-endian, the first register lowest.
type Group = [u8; 6];
type Groups = [Group; REGISTERS / 8];

/// 16,384 registers of six bits: 12,288 bytes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Registers(Box<Groups>);

impl Registers {
    /// Registers that have seen nothing.
    pub(super) fn new() -> Self {
        Self(Box::new([[0; 6]; REGISTERS / 8]))
    }

    /// Takes the registers from [`BYTES`] bytes at the start of `input`. None if these are too few, if a register holds
    /// a rank that no hash has, or if no register has seen anything.
    pub(super) fn decode(input: &[u8]) -> Option<Self> {
        let mut registers = Self::new();
        registers.0.as_flattened_mut().copy_from_slice(input.get(..BYTES)?);
        let mut seen = false;
        for word in registers.0.iter().map(word) {
            seen |= word != 0;
            if any_above_max_rank(word) {
                return None;
            }
        }
        seen.then_some(registers)
    }

    /// The canonical bytes: equal for equal registers on every machine.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    /// Counts `hash` in. False if its register has seen as much already.
    pub(super) fn add(&mut self, hash: u64) -> bool {
        let index = (hash >> (64 - PRECISION)) as usize;
        // The bit behind the last one of the hash ends the zeros of a rest that is all zero.
        let rest = hash << PRECISION | 1 << (PRECISION - 1);
        let rank = 1 + u64::from(rest.leading_zeros());

        let shift = 6 * (index % 8);
        let Some(group) = self.0.get_mut(index / 8) else { return false };
        let word = word(group);
        if (word >> shift) & REGISTER >= rank {
            return false;
        }
        *group = bytes(word & !(REGISTER << shift) | rank << shift);
        true
    }

    /// Counts in all that `other` has seen. False if that was nothing new.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let mut changed = 0;
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            let old = word(mine);
            let new = max(old, word(theirs));
            changed |= old ^ new;
            *mine = bytes(new);
        }
        changed != 0
    }

    /// The estimate of `hyperloglogplus`, rounded.
    pub(super) fn estimate(&self) -> u64 {
        let seen: u32 = self.0.iter().map(|group| seen(word(group))).sum();
        let estimate = estimate(self.words(), REGISTERS - seen as usize);
        debug_assert!(estimate.is_some(), "the estimator takes sound registers");
        // The cast saturates. Every estimate of sound registers is a number.
        estimate.map_or(0, |estimate| estimate.round() as u64)
    }

    /// The registers as the estimator packs them: five to a word of 32 bits, the first one lowest, so each word is the
    /// next 30 bits of ours.
    fn words(&self) -> Vec<u32> {
        let mut words = Vec::with_capacity(REGISTERS.div_ceil(5));
        let (mut bits, mut len) = (0u128, 0);
        for group in self.0.iter() {
            bits |= u128::from(word(group)) << len;
            len += 48;
            while len >= 30 {
                words.push(bits as u32 & 0x3fff_ffff);
                bits >>= 30;
                len -= 30;
            }
        }
        if len > 0 {
            words.push(bits as u32);
        }
        words
    }
}

// The functions below work on the eight registers of a word at once.

/// The lowest register.
const REGISTER: u64 = 0x3f;
/// The lowest bit of every register.
const LOW: u64 = 0x0410_4104_1041;
/// The highest bit of every register.
const HIGH: u64 = LOW << 5;

fn word(&[a, b, c, d, e, f]: &Group) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

fn bytes(word: u64) -> Group {
    let [a, b, c, d, e, f, ..] = word.to_le_bytes();
    [a, b, c, d, e, f]
}

/// How many of the registers are not zero.
fn seen(word: u64) -> u32 {
    let pairs = word | word >> 1;
    ((pairs | pairs >> 2 | pairs >> 4) & LOW).count_ones()
}

/// Whether any register is above 51, in binary 110011: its two highest bits are set, and one of the next two.
fn any_above_max_rank(word: u64) -> bool {
    (word >> 5) & (word >> 4) & (word >> 3 | word >> 2) & LOW != 0
}

/// The greater of each pair of registers.
fn max(a: u64, b: u64) -> u64 {
    // Compares the low five bits of each register; its high bit is set in the difference where those of `a` are not
    // less. As that bit was lent by the register itself, none borrows from its neighbour.
    let low_not_less = (a | HIGH) - (b & !HIGH);
    let not_less = (a & !b | !(a ^ b) & low_not_less) & HIGH;
    let keep_a = (not_less << 1) - (not_less >> 5);
    a & keep_a | b & !keep_a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest rank: all 50 bits behind the index are zero.
    const MAX_RANK: u64 = 64 - PRECISION as u64 + 1;

    /// A word with these registers, the first one lowest.
    fn pack(registers: [u64; 8]) -> u64 {
        registers.iter().rev().fold(0, |word, register| word << 6 | register)
    }

    #[test]
    fn each_register_is_treated_for_itself() {
        for a in 0..64 {
            for b in 0..64 {
                let (left, right) = (pack([a, b, a, 0, 63, b, 63, a]), pack([b, a, 0, b, a, b, 63, b]));
                let m = a.max(b);
                assert_eq!(max(left, right), pack([m, m, a, b, 63, b, 63, m]), "{a} and {b}");
            }
            for place in 0..8 {
                let mut registers = [MAX_RANK; 8];
                assert_eq!(seen(pack(registers)), 8);
                assert!(!any_above_max_rank(pack(registers)));
                registers[place] = a;
                assert_eq!(seen(pack(registers)), 7 + u32::from(a > 0));
                assert_eq!(any_above_max_rank(pack(registers)), a > MAX_RANK, "{a} at {place}");
            }
        }
        assert_eq!(word(&bytes(pack([1, 2, 3, 4, 5, 6, 7, 8]))), pack([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(bytes(pack([0, 63, 0, 0, 0, 0, 0, 0])), [0b1100_0000, 0b1111, 0, 0, 0, 0]);
    }

    #[test]
    fn rank_ends_at_the_last_bit() {
        let rank = |hash| {
            let mut registers = Registers::new();
            assert!(registers.add(hash));
            assert!(!registers.add(hash), "a repeat changes nothing");
            let [group, ..] = *registers.0;
            word(&group)
        };
        assert_eq!(rank(0x0003_ffff_ffff_ffff), 1);
        assert_eq!(rank(0x0001_0000_0000_0000), 2);
        assert_eq!(rank(1), 50);
        assert_eq!(rank(0), 51, "all zero");
        assert_eq!(rank(3 << 50 | 1), 50 << 18, "the fourth register");
    }
}
