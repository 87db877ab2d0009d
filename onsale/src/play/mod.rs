//! Sockets: phones, crowds, and the ears that hear what the room announces.

mod crowd;
mod ears;
mod phone;
mod player;
mod room;

pub use self::ears::Ears;
pub use self::player::{Failure, News, Player, Plot};
pub use self::room::Room;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::Moment;

/// Something that came over a socket, and when.
#[derive(Debug)]
pub struct Heard {
    /// When.
    pub at: Moment,
    /// What.
    pub what: What,
}

/// What came over a socket.
#[derive(Debug)]
pub enum What {
    /// To a phone, in its life of that number.
    Phone(u32, u64, Word),
    /// Viewers of a crowd are present; the time between beats.
    Crowd(Vec<u64>, Moment),
    /// Viewers of a crowd were not taken in.
    Refused(u64),
    /// The crowd's socket to this gateway ended.
    Dead(u16),
    /// The room's count.
    Count(u64),
    /// Somebody was announced as gone.
    Offline(u32),
    /// The line to Redis ended.
    Deaf,
}

/// What a phone was told.
#[derive(Debug)]
pub enum Word {
    /// It is present; the time between beats. It has asked for badge and dots.
    Welcome(Moment),
    /// A badge.
    Badge(String),
    /// A friend, and whether it is online.
    Dot(u32, bool),
    /// It was not taken in.
    Refused,
    /// The connection ended, without its doing; why.
    Cut(String),
}

/// To the player; each thing is stamped as it comes.
#[derive(Clone)]
pub struct Notes {
    start: Instant,
    sender: UnboundedSender<Heard>,
}

impl Notes {
    /// Time is counted from `start`.
    pub fn new(start: Instant, sender: UnboundedSender<Heard>) -> Self {
        Self { start, sender }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.start.elapsed()
    }

    /// Something came.
    pub fn note(&self, what: What) {
        // Nobody listens any more at the end.
        drop(self.sender.send(Heard { at: self.now(), what }));
    }
}
