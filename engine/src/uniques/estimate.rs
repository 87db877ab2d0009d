//! The bridge to `hyperloglogplus`: an estimator of the crate, built from registers of ours.
//!
//! The crate offers no way to hand registers to it, but its type is `Deserialize`. This hands it the one value that
//! describes a dense estimator, without any data format between. The crate itself would take any value here, so only
//! registers that are known to be sound may come this way.

use std::hash::{BuildHasher, Hasher};

use hyperloglogplus::{HyperLogLog, HyperLogLogPlus};
use serde::de::value::{Error, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::registers::{PRECISION, REGISTERS};

/// Second and third of the figures that the crate keeps beside its register count: the registers that it pretends to
/// have in its sparse form, and the size at which it leaves that form. Neither matters to a dense estimator.
const SPARSE_REGISTERS: usize = 1 << 24;
const SPARSE_LIMIT: usize = 4 * REGISTERS / 5;

/// Estimates the number of distinct hashes behind [`REGISTERS`] registers, each at most 51: five to a word, six bits
/// each, the first one lowest. `zeros` of them are zero.
///
/// None if the crate refuses them, which a crate of another layout would do; its version is pinned.
pub(super) fn estimate(words: Vec<u32>, zeros: usize) -> Option<f64> {
    // The fields stand in the order of the crate's declaration.
    let counts = [Value::Number(REGISTERS), Value::Number(SPARSE_REGISTERS), Value::Number(SPARSE_LIMIT)];
    let sparse = [Value::Number(0), Value::Number(0), Value::Words(&[])];
    let dense = [Value::Words(&words), Value::Number(REGISTERS), Value::Number(zeros)];
    let estimator = [
        Value::Unit,
        Value::Number(usize::from(PRECISION)),
        Value::Fields(&counts),
        Value::Words(&[]),
        Value::Fields(&sparse),
        Value::Fields(&dense),
        Value::Unit,
    ];
    let mut estimator = HyperLogLogPlus::<u64, Identity>::deserialize(Value::Fields(&estimator)).ok()?;
    Some(estimator.count())
}

/// The crate wants a hasher. What is counted here are hashes already.
#[derive(serde::Deserialize)]
struct Identity;

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A value in serde's data model: just what an estimator is made of.
#[derive(Clone, Copy)]
enum Value<'a> {
    Unit,
    Number(usize),
    Words(&'a [u32]),
    Fields(&'a [Value<'a>]),
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Unit => visitor.visit_unit(),
            Self::Number(number) => visitor.visit_u64(number as u64),
            Self::Words(words) => SeqDeserializer::new(words.iter().copied()).deserialize_any(visitor),
            Self::Fields(fields) => SeqDeserializer::new(fields.iter().copied()).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
