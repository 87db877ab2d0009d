//! What is published: the names of a room's channels, who may hear of what, and the messages, as JSON.
//!
//! The service's own view, with everybody in it, are the keyspace notifications and CHANGES with ALL; nothing here names
//! anybody to who may not see them.

pub mod channels;
mod feed;
mod history;
mod json;
mod messages;
mod sight;

pub(crate) use self::feed::State as FeedState;
pub use self::feed::{Change as FeedChange, Feed};
pub use self::history::Record;
pub(crate) use self::messages::Event as MemberEvent;
pub use self::messages::{Message, Messages, To, MAX_MESSAGE};
pub use self::sight::{Sight, Told};

/// An epoch as clients see it. Zeros: there is no room.
pub fn epoch_text(epoch: u64) -> String {
    format!("{epoch:016x}")
}

/// Reads what [`epoch_text`] wrote.
pub fn parse_epoch(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 16)?;
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u64::from_str_radix(text, 16).ok())?
}
