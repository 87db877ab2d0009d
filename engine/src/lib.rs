//! The presence engine: rooms, members and sessions as a pure state machine.
//!
//! No Redis types, no clock reads, no globals. Time comes in as an argument, effects go out as data.
#![forbid(unsafe_code)]

pub mod error;
pub mod settings;
pub mod uniques;
