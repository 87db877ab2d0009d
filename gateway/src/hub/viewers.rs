//! Who is connected: coming, beating, going.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ask::Parting;
use super::{Hub, Outlet};
use crate::outbox::{CROWDED, DONE, RULE};
use crate::protocol::{Share, State};

/// A connection, by the number that the server gave it.
pub type ViewerId = u64;

/// Somebody who has said hello, and is who they say.
pub struct Newcomer {
    /// Who.
    pub user: Arc<str>,
    /// Where they are to be present.
    pub room: Option<Arc<str>>,
    /// Who may see them.
    pub share: Option<Share>,
    /// What they show.
    pub status: Option<String>,
    /// Where messages for them go.
    pub outlet: Outlet,
}

/// How far Redis knows of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// It is to be told.
    Waiting,
    /// It has been told, and has not answered.
    Asked,
    /// The session is there.
    Present,
    /// The room takes nobody now.
    Refused,
}

/// A dot on a viewer's screen: what was told of it last.
pub(super) type Dot = Option<(State, Option<String>)>;

pub(super) struct Viewer {
    pub(super) user: Arc<str>,
    pub(super) room: Option<Arc<str>>,
    pub(super) session: String,
    pub(super) share: Option<Share>,
    pub(super) status: Option<String>,
    pub(super) outlet: Outlet,
    pub(super) stand: Stand,
    pub(super) dots: BTreeMap<Arc<str>, Dot>,
    pub(super) badges: BTreeSet<Arc<str>>,
}

impl Hub {
    /// A name that no session has had.
    pub(super) fn new_session(&mut self) -> String {
        self.sessions += 1;
        format!("{}-{:x}", self.life, self.sessions)
    }

    /// A connection begins. It may be refused, which its outlet then tells.
    pub fn enter(&mut self, id: ViewerId, newcomer: Newcomer) {
        let Newcomer { user, room, share, status, outlet } = newcomer;
        if self.viewers.len() >= self.limits.max_connections {
            return outlet.close(CROWDED);
        }
        let of_user = self.of_user.entry(user.clone()).or_default();
        if *of_user >= self.limits.max_per_user {
            let most = self.limits.max_per_user;
            return outlet.error("too_many_connections", format!("a user has at most {most} connections"), Some(RULE));
        }
        *of_user += 1;
        self.metrics.hellos.inc();
        let session = self.new_session();
        match &room {
            Some(room) => self.room(room).come(id),
            None => outlet.welcome(&session, None),
        }
        let (stand, dots, badges) = (Stand::Waiting, BTreeMap::new(), BTreeSet::new());
        self.viewers.insert(id, Viewer { user, room, session, share, status, outlet, stand, dots, badges });
    }

    /// Proof of life.
    pub fn beat(&mut self, id: ViewerId) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        let Some(room) = viewer.room.as_ref().and_then(|room| self.rooms.get_mut(room)) else { return };
        self.metrics.beats.inc();
        match viewer.stand {
            Stand::Present => room.beats.extend([id]),
            Stand::Refused => {
                viewer.stand = Stand::Waiting;
                room.joins.insert(id);
            }
            // The join that is under way proves the same.
            Stand::Waiting | Stand::Asked => {}
        }
    }

    /// Changes who may see the user.
    pub fn share(&mut self, id: ViewerId, share: Share) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        let Some(room) = viewer.room.as_ref().and_then(|room| self.rooms.get_mut(room)) else { return };
        viewer.share = Some(share);
        // A join that waits takes it along.
        if viewer.stand != Stand::Waiting {
            room.shares.insert(viewer.user.clone(), share);
        }
        if self.reciprocal {
            self.looks.entry(id).or_default().extend(viewer.dots.keys().cloned());
        }
    }

    /// Goodbye: the connection is closed too.
    pub fn bye(&mut self, id: ViewerId, soft: bool) {
        if let Some(viewer) = self.viewers.get(&id) {
            viewer.outlet.close(DONE);
        }
        self.leave(id, Some(soft));
    }

    /// The connection ended without a word: silence will tell, unless the user is back before.
    pub fn lost(&mut self, id: ViewerId) {
        self.leave(id, None);
    }

    fn leave(&mut self, id: ViewerId, bye: Option<bool>) {
        let Some(viewer) = self.viewers.remove(&id) else { return };
        if let Some(of_user) = self.of_user.get_mut(&viewer.user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.of_user.remove(&viewer.user);
            }
        }
        self.looks.remove(&id);
        self.stop_watching(id, &viewer);
        let Some(room) = viewer.room.as_ref().and_then(|room| self.rooms.get_mut(room)) else { return };
        // One that Redis has never heard of has nothing to say goodbye to.
        let known = matches!(viewer.stand, Stand::Asked | Stand::Present);
        let (user, session) = (viewer.user.clone(), viewer.session.clone());
        let parting = bye.filter(|_| known).map(|soft| Parting { user, session, soft });
        room.go(id, viewer, parting);
    }
}
