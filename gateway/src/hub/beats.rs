//! What Redis is to be told of each room, and what it answers. At most one [`Ask::Beat`] of a room is under way, so that
//! nothing overtakes what was told before, and a slow Redis gets larger batches instead of more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ask::{Ask, BeatAsk, BeatReply, Joined, Parting};
use super::viewers::{Stand, Viewer};
use super::{Hub, ViewerId};
use crate::protocol::Share;

/// Of each kind, in one ask; the rest follows when it is answered.
const MOST: usize = 4_096;
/// Milliseconds between beats as long as the room's timeout is not known.
const PACE: u64 = 10_000;
/// Between two beats at least, whatever the timeout.
const PACE_LEAST: u64 = 500;

/// A timeout must hold two beats and some network.
fn pace_for(timeout: u64) -> u64 {
    (timeout / 3).max(PACE_LEAST)
}

/// A room that somebody is present in, or that is to be told something.
#[derive(Default)]
pub(super) struct Room {
    viewers: BTreeSet<ViewerId>,
    pub(super) joins: BTreeSet<ViewerId>,
    pub(super) beats: BTreeSet<ViewerId>,
    /// Of those whose connection was cut right after a beat: it proves as much as any.
    last_beats: Vec<(ViewerId, Arc<str>, String)>,
    pub(super) shares: BTreeMap<Arc<str>, Share>,
    byes: Vec<Parting>,
    under_way: bool,
    pace: Option<u64>,
    /// The timeout is to be asked for again.
    pace_is_old: bool,
}

impl Room {
    pub(super) fn come(&mut self, id: ViewerId) {
        self.viewers.insert(id);
        self.joins.insert(id);
    }

    /// Somebody leaves, with a goodbye if Redis is to be told one. Without a word the beat before it still counts.
    pub(super) fn go(&mut self, id: ViewerId, viewer: Viewer, parting: Option<Parting>) {
        self.viewers.remove(&id);
        self.joins.remove(&id);
        let had_beaten = self.beats.remove(&id);
        if had_beaten && parting.is_none() {
            self.last_beats.push((id, viewer.user, viewer.session));
        }
        self.byes.extend(parting);
    }

    fn is_done(&self) -> bool {
        let told = self.last_beats.is_empty() && self.shares.is_empty() && self.byes.is_empty();
        self.viewers.is_empty() && !self.under_way && told
    }
}

fn take_first<T: Ord>(of: &mut BTreeSet<T>) -> Vec<T> {
    std::iter::from_fn(|| of.pop_first()).take(MOST).collect()
}

impl Hub {
    pub(super) fn room(&mut self, name: &Arc<str>) -> &mut Room {
        self.rooms.entry(name.clone()).or_default()
    }

    /// Turns what was collected into asks; and what failed before is asked again.
    pub fn flush(&mut self) {
        if !self.up {
            return;
        }
        self.ask_again();
        let names: Vec<_> = self.rooms.keys().cloned().collect();
        for name in names {
            self.flush_room(&name);
        }
        self.rooms.retain(|_, room| !room.is_done());
    }

    fn flush_room(&mut self, name: &Arc<str>) {
        let Some(room) = self.rooms.get_mut(name) else { return };
        if room.under_way || !self.up {
            return;
        }
        let mut ask = BeatAsk { pace: room.pace.is_none() || room.pace_is_old, ..BeatAsk::default() };
        for id in take_first(&mut room.joins) {
            let Some(viewer) = self.viewers.get_mut(&id) else { continue };
            viewer.stand = Stand::Asked;
            let (user, session) = (viewer.user.clone(), viewer.session.clone());
            let (share, status) = (viewer.share, viewer.status.clone());
            ask.joins.push(Joined { viewer: id, user, session, share, status });
        }
        ask.beats = room.last_beats.drain(..room.last_beats.len().min(MOST)).collect();
        for id in take_first(&mut room.beats) {
            let Some(viewer) = self.viewers.get(&id) else { continue };
            ask.beats.push((id, viewer.user.clone(), viewer.session.clone()));
        }
        ask.shares = std::iter::from_fn(|| room.shares.pop_first()).take(MOST).collect();
        ask.byes = room.byes.drain(..room.byes.len().min(MOST)).collect();
        if !ask.is_empty() {
            room.under_way = true;
            self.asks.push(Ask::Beat(name.clone(), ask));
        }
    }

    /// Something that Redis was told has not been answered.
    pub fn is_telling(&self) -> bool {
        self.rooms.values().any(|room| room.under_way)
    }

    /// The answer to an [`Ask::Beat`]; `None` if there was none: all of it is told again.
    pub fn beaten(&mut self, name: &Arc<str>, ask: BeatAsk, reply: Option<BeatReply>) {
        self.room(name).under_way = false;
        match reply {
            None => self.put_back(name, ask),
            Some(reply) => {
                self.take_reply(name, ask, reply);
                self.flush_if_much(name);
            }
        }
    }

    /// More than one ask held goes on at once.
    fn flush_if_much(&mut self, name: &Arc<str>) {
        let room = self.room(name);
        if room.joins.len().max(room.beats.len()).max(room.byes.len()) >= MOST {
            self.flush_room(name);
        }
    }

    fn put_back(&mut self, name: &Arc<str>, ask: BeatAsk) {
        for joined in &ask.joins {
            if let Some(viewer) = self.viewers.get_mut(&joined.viewer) {
                viewer.stand = Stand::Waiting;
            }
        }
        let there = |id: &ViewerId| self.viewers.contains_key(id);
        let joins: Vec<_> = ask.joins.iter().map(|joined| joined.viewer).filter(there).collect();
        let beats: Vec<_> = ask.beats.iter().map(|(id, ..)| *id).filter(there).collect();
        let room = self.room(name);
        room.joins.extend(joins);
        room.beats.extend(beats);
        for (user, share) in ask.shares {
            room.shares.entry(user).or_insert(share);
        }
        room.byes.splice(..0, ask.byes);
    }

    fn take_reply(&mut self, name: &Arc<str>, ask: BeatAsk, reply: BeatReply) {
        self.take_pace(name, reply.timeout);
        let pace = self.room(name).pace.unwrap_or(PACE);
        for (joined, answer) in ask.joins.iter().zip(reply.joins) {
            let Some(viewer) = self.viewers.get_mut(&joined.viewer) else { continue };
            match answer {
                Ok(-1) => self.join_anew(name, joined.viewer, true),
                Ok(_) => {
                    viewer.stand = Stand::Present;
                    viewer.outlet.welcome(&viewer.session, Some(pace));
                }
                Err(reason) => self.refuse(joined.viewer, &reason),
            }
        }
        for ((id, ..), answer) in ask.beats.iter().zip(reply.beats) {
            match answer {
                Ok(0) => {}
                // It had gone, or Redis had forgotten: what it shows is told again.
                Ok(1) => self.join_anew(name, *id, false),
                Ok(-1) => self.join_anew(name, *id, true),
                Ok(_) => self.refuse(*id, "the room is full, or Redis is out of memory"),
                Err(reason) => self.refuse(*id, &reason),
            }
        }
    }

    fn take_pace(&mut self, name: &Arc<str>, timeout: Option<u64>) {
        let Some(pace) = timeout.map(pace_for) else { return };
        let room = self.room(name);
        room.pace_is_old = false;
        if room.pace.replace(pace).is_some_and(|before| before != pace) {
            let viewers: Vec<_> = room.viewers.iter().copied().collect();
            for viewer in viewers.iter().filter_map(|id| self.viewers.get(id)) {
                if viewer.stand == Stand::Present {
                    viewer.outlet.welcome(&viewer.session, Some(pace));
                }
            }
        }
    }

    /// A viewer joins once more, as a new session if the one it had has said goodbye.
    fn join_anew(&mut self, name: &Arc<str>, id: ViewerId, renamed: bool) {
        let session = renamed.then(|| self.new_session());
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        if let Some(session) = session {
            viewer.session = session;
        } else if viewer.share.is_none() && viewer.status.is_none() {
            return;
        }
        viewer.stand = Stand::Waiting;
        self.metrics.rejoins.inc();
        self.room(name).joins.insert(id);
    }

    fn refuse(&mut self, id: ViewerId, reason: &str) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        viewer.stand = Stand::Refused;
        self.metrics.refusals.inc();
        viewer.outlet.refused(reason);
    }

    /// Now and then: timeouts may have changed, friendships ended, messages been lost.
    pub fn look_around(&mut self) {
        for room in self.rooms.values_mut() {
            room.pace_is_old = true;
        }
        let looks = self.viewers.iter().filter(|(_, viewer)| !viewer.dots.is_empty());
        let looks: Vec<_> = looks.map(|(&id, viewer)| (id, viewer.dots.keys().cloned().collect())).collect();
        self.looks.extend(looks);
    }
}
