//! The on-sale: a day's audience in two minutes, played against gateways, and what it saw held against the truth.
//! docs/onsale.md says how to read its table.
//!
//! What happens ([`scenario`]), what is true ([`truth`]) and how it is judged ([`judge`]) are pure: time is an argument,
//! counted from the start. Only [`play`] has sockets.

pub mod audience;
pub mod judge;
pub mod play;
pub mod scenario;
pub mod spread;
pub mod truth;

/// Time since the start.
pub type Moment = std::time::Duration;
