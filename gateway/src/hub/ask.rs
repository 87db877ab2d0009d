//! What the hub wants of Redis, and how it is answered.

use std::sync::Arc;

use super::ViewerId;
use crate::protocol::{Share, State};

/// What is announced on a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// How many are in the room.
    Count(Arc<str>),
    /// What a member of the room does.
    Member(Arc<str>, Arc<str>),
}

/// How a channel is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// SUBSCRIBE
    Classic,
    /// SSUBSCRIBE
    Sharded,
}

/// A channel, as PRESENCE.CHANNELS names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Its name.
    pub channel: Vec<u8>,
    /// How to subscribe.
    pub verb: Verb,
}

/// A goodbye.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Who.
    pub user: Arc<str>,
    /// Which connection.
    pub session: String,
    /// It may be back in a moment.
    pub soft: bool,
}

/// Somebody who is to be present, with all that others may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The connection.
    pub viewer: ViewerId,
    /// Who.
    pub user: Arc<str>,
    /// Name of the session.
    pub session: String,
    /// Who may see them.
    pub share: Option<Share>,
    /// What they show.
    pub status: Option<String>,
}

/// What one room is told at once, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatAsk {
    /// BEAT, with what is shown.
    pub joins: Vec<Joined>,
    /// MBEAT: viewer, user and session.
    pub beats: Vec<(ViewerId, Arc<str>, String)>,
    /// SHARE.
    pub shares: Vec<(Arc<str>, Share)>,
    /// BYE.
    pub byes: Vec<Parting>,
    /// Ask for the room's timeout too.
    pub pace: bool,
}

impl BeatAsk {
    /// Nothing is to be told.
    pub fn is_empty(&self) -> bool {
        self.joins.is_empty() && self.beats.is_empty() && self.shares.is_empty() && self.byes.is_empty()
    }
}

/// Why a room takes somebody not: Redis's own words.
pub type Refusal = String;

/// The answer to a [`BeatAsk`], item by item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatReply {
    /// 1, 0 or -1, as PRESENCE.BEAT has it.
    pub joins: Vec<Result<i64, Refusal>>,
    /// 1, 0, -1 or -2, as PRESENCE.MBEAT has it.
    pub beats: Vec<Result<i64, Refusal>>,
    /// The room's timeout, in ms.
    pub timeout: Option<u64>,
}

/// Something to ask of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Answer with [`super::Hub::beaten`].
    Beat(Arc<str>, BeatAsk),
    /// The topic's channel; answer with [`super::Hub::named`].
    Name(Topic),
    /// Subscribe; the server's word for it goes to [`super::Hub::subscribed`].
    Subscribe(Listening),
    /// Unsubscribe.
    Unsubscribe(Listening),
    /// The badge of a room; answer with [`super::Hub::counted`].
    Count {
        /// Which room.
        room: Arc<str>,
        /// To be given back with the answer.
        heard: u64,
    },
    /// What `user` may see of `members`, as far as they are friends; answer with [`super::Hub::looked`].
    Look {
        /// Who wants to see them.
        viewer: ViewerId,
        /// Their user.
        user: Arc<str>,
        /// Where.
        room: Arc<str>,
        /// Of whom, with a number to be given back with the answer.
        members: Vec<(Arc<str>, u64)>,
    },
}

/// One member, the number that came with the ask, and what the viewer may see: state and status. `None` is no friend.
pub type Seen = (Arc<str>, u64, Option<(State, Option<String>)>);
