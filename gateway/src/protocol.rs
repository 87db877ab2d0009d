//! What phones and the gateway say to each other: docs/gateway.md.

use serde::{Deserialize, Serialize};

/// From the phone.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Comes first, once.
    Hello {
        /// Who this is: a signed token.
        token: String,
        /// The room to be present in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// Who may see the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<Share>,
        /// Shown to those who may see the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    /// Proof of life.
    Beat,
    /// Changes who may see the user.
    Share {
        /// Who.
        share: Share,
    },
    /// Goodbye.
    Bye {
        /// The page reloads: the user may be back in a moment.
        #[serde(default)]
        soft: bool,
    },
    /// Dots that are on the screen now.
    Watch {
        /// Whose.
        members: Vec<String>,
    },
    /// Dots that are not on the screen any more.
    Unwatch {
        /// Whose.
        members: Vec<String>,
    },
    /// The badge of a room.
    WatchRoom {
        /// Which.
        room: String,
    },
    /// The badge is not on the screen any more.
    UnwatchRoom {
        /// Which.
        room: String,
    },
}

/// Who may see a user by name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Nobody.
    Nobody,
    /// Accepted friends.
    Friends,
    /// Whoever may list the room.
    Everyone,
}

impl Share {
    /// The word of PRESENCE.BEAT.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Friends => "friends",
            Self::Everyone => "everyone",
        }
    }
}

/// To the phone.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The user is present from now on, or (again) how often to beat.
    Welcome {
        /// Name of the session, for those who look for it in Redis.
        session: String,
        /// Milliseconds between beats, if there is a room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beat: Option<u64>,
    },
    /// How many are there.
    Count {
        /// Where.
        room: String,
        /// Rounded down.
        badge: String,
        /// The room was removed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gone: bool,
    },
    /// A dot.
    Member {
        /// Where.
        room: String,
        /// Who.
        member: String,
        /// What the viewer may see.
        state: State,
        /// What the member shows, while online.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
    },
    /// The room takes nobody now.
    Refused {
        /// Why.
        reason: String,
    },
    /// What was wrong.
    Error {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
}

/// What a viewer may see of a member.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Present.
    Online,
    /// Was, a short while ago.
    Recent,
    /// Hidden, absent or no friend.
    Offline,
}
