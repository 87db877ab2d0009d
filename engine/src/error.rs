//! Refusals: what a command answers instead of an effect.

use std::fmt;

/// Why a command was refused. `Display` is the exact reply, error code included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A number outside its range.
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// Least value allowed.
        min: i64,
        /// Greatest value allowed.
        max: i64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { name, min, max } => write!(f, "ERR {name} must be between {min} and {max}"),
        }
    }
}

impl std::error::Error for Refusal {}
