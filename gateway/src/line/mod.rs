//! The line to Redis: made, the hub's asks performed on it, INFO read from it.

mod connect;
mod info;
mod perform;

pub use self::connect::{is_lost, Addresses, Heard, Line};
pub use self::info::info;
pub use self::perform::{beat, befriend, count, look, name, subscribe};
