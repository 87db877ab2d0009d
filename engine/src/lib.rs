//! The presence engine: rooms, members and sessions as a pure state machine.
//!
//! No Redis types, no clock reads, no globals. Time comes in as an argument, effects go out as data. A command takes the
//! way [`request`] (arguments to a typed request), [`room`] (one step), [`effects`] (what to perform,
//! with the messages of [`announce`] in it).
#![deny(unsafe_code)]

pub mod announce;
pub mod badge;
pub mod codec;
pub mod effects;
pub mod error;
pub mod hearing;
pub mod member;
pub mod request;
pub mod room;
pub mod settings;
pub mod stats;
pub mod table;
pub mod uniques;
pub mod wheel;
