//! Many viewers on one socket, `/crowd`, for load tests: they take the gateway's own path from there on, without a socket
//! each. Off unless the gateway is started with `--crowd`, and never for untrusted clients: no tokens are asked for.

use serde::{Deserialize, Serialize};

use crate::protocol::Share;

/// From the load generator. Viewers are numbers of its choice, unique on the socket.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CrowdRequest {
    /// As that many sockets with their hellos.
    Enter {
        /// The room that all of them are present in.
        room: String,
        /// Who may see them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<Share>,
        /// Number and user of each.
        viewers: Vec<(u64, String)>,
    },
    /// Each of them beats.
    Beat {
        /// Who.
        viewers: Vec<u64>,
    },
    /// Each of them says goodbye.
    Bye {
        /// Who.
        viewers: Vec<u64>,
    },
    /// Each one's socket is cut without a word.
    Lose {
        /// Who.
        viewers: Vec<u64>,
    },
}

/// To the load generator.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CrowdMessage {
    /// They are present from now on.
    Welcome {
        /// Who.
        viewers: Vec<u64>,
        /// Milliseconds between beats.
        beat: u64,
    },
    /// The room takes nobody now.
    Refused {
        /// Who.
        viewers: Vec<u64>,
    },
}
