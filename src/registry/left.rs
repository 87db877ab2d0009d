//! Rooms that are dead, and names that rooms have left. The list of the dead is all that other threads touch.

use std::sync::{Mutex, PoisonError};

use presence_engine::room::Parting;

use super::{Figures, Hint, RoomId};

/// Rooms that were freed, to be struck off by a tick; with what is to be known to say that they are gone. In rows, so
/// that nobody waits at the lock while another thread makes place for a million.
static GRAVEYARD: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// A few of the dead, the last one first to be taken.
pub(super) type Row = Vec<Dead>;

/// Most of them in a row.
const ROW: usize = 512;

/// A room that was freed.
pub(crate) struct Dead {
    pub(crate) id: RoomId,
    pub(crate) figures: Figures,
    /// Without one nobody is told: its last member went before.
    pub(crate) parting: Option<Parting>,
}

/// Says that a room is dead. From any thread.
pub(crate) fn bury(dead: Dead) {
    let mut rows = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
    match rows.last_mut().filter(|row| row.len() < ROW) {
        Some(row) => row.push(dead),
        None => rows.push(vec![dead]),
    }
}

/// The dead that nobody has taken yet.
pub(super) fn take_dead() -> Vec<Row> {
    std::mem::take(&mut *GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A name that a room has left.
pub(crate) struct Vacated {
    pub(crate) hint: Hint,
    pub(crate) by: By,
}

/// Who left it.
pub(crate) enum By {
    /// A room that is dead.
    Dead(Parting),
    /// A room that lives on under another name.
    Moved(RoomId),
}

/// Two databases changed places: every room in them has left its name. They are too many to name them all at once.
#[derive(Clone, Copy)]
pub(super) struct Swap {
    pub(super) first: i32,
    pub(super) second: i32,
    /// From which place on rooms are still to be looked at.
    pub(super) from: u32,
}

impl Swap {
    /// The database that is not `db`, if `db` is one of the two.
    pub(super) fn other(&self, db: i32) -> Option<i32> {
        match db {
            db if db == self.first => Some(self.second),
            db if db == self.second => Some(self.first),
            _ => None,
        }
    }
}
