//! The commands: each file holds a family, and beside each implementation its one declaration.

pub(crate) mod beat;
pub(crate) mod count;
pub(crate) mod friends;
pub(crate) mod internal;
pub(crate) mod leave;
pub(crate) mod list;
pub(crate) mod open;
pub(crate) mod room;
pub(crate) mod spec;
pub(crate) mod watch;

use presence_engine::request;

use self::spec::{Arg, Args, Command};
use crate::sys::reply::Reply;

/// All of them.
pub(crate) static ALL: &[&Command] = &[
    &beat::BEAT,
    &beat::MBEAT,
    &leave::BYE,
    &leave::SHARE,
    &count::COUNT,
    &count::MCOUNT,
    &count::UNIQUE,
    &friends::FRIENDS,
    &friends::FRIENDSFROM,
    &list::GET,
    &list::MEMBERS,
    &watch::CHANGES,
    &watch::CHANNELS,
    &room::CREATE,
    &room::ALTER,
    &room::INFO,
    &internal::APPLY,
    &internal::PROBE,
    #[cfg(feature = "inject-panics")]
    &internal::PANIC,
];

const SHARE_WORDS: &[Arg] =
    &[Arg::word(c"nobody", c"nobody"), Arg::word(c"friends", c"friends"), Arg::word(c"everyone", c"everyone")];

const SHARE_OR_DEFAULT: &[Arg] =
    &[Arg::word(c"nobody", c"nobody"), Arg::word(c"friends", c"friends"), Arg::word(c"everyone", c"everyone"), DEFAULT];

/// Gives a setting of a room back to the node's configuration.
const DEFAULT: Arg = Arg::word(c"default", c"DEFAULT");

impl request::Args for Args<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, index: usize) -> Option<&[u8]> {
        Args::get(*self, index)
    }
}

/// A field of a map whose value is text.
fn field_bytes(reply: Reply<'_>, name: &str, value: &[u8]) {
    reply.bytes(name.as_bytes());
    reply.bytes(value);
}

/// A field of a map whose value is a number.
fn field_int(reply: Reply<'_>, name: &str, value: u64) {
    reply.bytes(name.as_bytes());
    reply.int(i64::try_from(value).unwrap_or(i64::MAX));
}
