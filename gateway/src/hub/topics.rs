//! Who watches what. A channel is subscribed to as long as somebody watches it. The server's word that it stands, which comes
//! anew after an interruption, is the moment to read the state: what changes from then on comes as a message.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use super::ask::{Ask, Listening, Seen, Topic};
use super::outlet::text;
use super::viewers::{Dot, Viewer};
use super::{Hub, ViewerId};
use crate::protocol::{Message, State};

/// A topic that somebody watches.
#[derive(Default)]
pub(super) struct Listened {
    watchers: BTreeSet<ViewerId>,
    channel: Option<Listening>,
    /// The server has said so.
    stands: bool,
    /// Messages heard: whether an answer is older than one of them.
    heard: u64,
    /// The room's badge, as it is told.
    badge: Option<Arc<str>>,
}

impl Listened {
    pub(super) fn forget_channel(&mut self) {
        (self.channel, self.stands) = (None, false);
    }
}

/// A message on a count channel.
#[derive(Deserialize)]
struct CountTold {
    badge: String,
    #[serde(default)]
    gone: bool,
}

/// A message on a member's channel.
#[derive(Deserialize)]
struct MemberTold {
    event: String,
    #[serde(default)]
    status: Option<String>,
}

impl Hub {
    /// Dots come onto a viewer's screen. Watching again asks again: a friendship may be new.
    pub fn watch(&mut self, id: ViewerId, members: Vec<String>) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        if viewer.room.is_none() {
            return viewer.outlet.error("ignored", "watch needs a hello with a room".into(), None);
        }
        for member in members {
            let member: Arc<str> = member.into();
            if !viewer.dots.contains_key(&member) && viewer.dots.len() >= self.limits.max_watches {
                let most = self.limits.max_watches;
                return viewer.outlet.error("ignored", format!("a connection watches at most {most} members"), None);
            }
            viewer.dots.insert(member.clone(), None);
            self.looks.entry(id).or_default().insert(member);
        }
    }

    /// Dots leave a viewer's screen.
    pub fn unwatch(&mut self, id: ViewerId, members: &[String]) {
        for member in members {
            let Some(viewer) = self.viewers.get_mut(&id) else { return };
            let (Some(room), Some((member, _))) = (viewer.room.clone(), viewer.dots.remove_entry(member.as_str()))
            else {
                continue;
            };
            self.forget(id, &Topic::Member(room, member));
        }
    }

    /// A badge comes onto a viewer's screen.
    pub fn watch_room(&mut self, id: ViewerId, room: String) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        let room: Arc<str> = room.into();
        if !viewer.badges.contains(&room) && viewer.badges.len() >= self.limits.max_rooms {
            let most = self.limits.max_rooms;
            return viewer.outlet.error("ignored", format!("a connection watches at most {most} rooms"), None);
        }
        viewer.badges.insert(room.clone());
        let outlet = viewer.outlet.clone();
        if let Some(badge) = self.listen(id, Topic::Count(room.clone())).badge.clone() {
            outlet.badge(&room, badge);
        }
    }

    /// A badge leaves a viewer's screen.
    pub fn unwatch_room(&mut self, id: ViewerId, room: &str) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        if let Some(room) = viewer.badges.take(room) {
            self.forget(id, &Topic::Count(room));
        }
    }

    pub(super) fn stop_watching(&mut self, id: ViewerId, viewer: &Viewer) {
        for room in &viewer.badges {
            self.forget(id, &Topic::Count(room.clone()));
        }
        let Some(room) = &viewer.room else { return };
        for member in viewer.dots.keys() {
            self.forget(id, &Topic::Member(room.clone(), member.clone()));
        }
    }

    /// One more watches a topic; the first has its channel subscribed to.
    fn listen(&mut self, id: ViewerId, topic: Topic) -> &Listened {
        if !self.topics.contains_key(&topic) && self.up {
            self.asks.push(Ask::Name(topic.clone()));
        }
        let listened = self.topics.entry(topic).or_default();
        listened.watchers.insert(id);
        listened
    }

    /// One watches a topic no more; the last has its channel unsubscribed from.
    fn forget(&mut self, id: ViewerId, topic: &Topic) {
        let Some(listened) = self.topics.get_mut(topic) else { return };
        listened.watchers.remove(&id);
        if !listened.watchers.is_empty() {
            return;
        }
        let Some(Listened { channel: Some(listening), .. }) = self.topics.remove(topic) else { return };
        self.channels.remove(&listening.channel);
        self.asks.push(Ask::Unsubscribe(listening));
    }

    pub(super) fn listen_to_all(&mut self) {
        self.asks.extend(self.topics.keys().cloned().map(Ask::Name));
    }

    /// The answer to an [`Ask::Name`]; `None` if there was none.
    pub fn named(&mut self, topic: Topic, listening: Option<Listening>) {
        let Some(listened) = self.topics.get_mut(&topic) else { return };
        let Some(listening) = listening else { return self.later.push(Ask::Name(topic)) };
        if listened.channel.as_ref() == Some(&listening) {
            return;
        }
        listened.channel = Some(listening.clone());
        self.channels.insert(listening.channel.clone(), topic);
        self.asks.push(Ask::Subscribe(listening));
    }

    /// The answer to an [`Ask::Subscribe`] was a failure.
    pub fn unheard(&mut self, listening: Listening) {
        if self.channels.contains_key(&listening.channel) {
            self.later.push(Ask::Subscribe(listening));
        }
    }

    /// The answer to an [`Ask::Unsubscribe`] was a failure, and the line stands.
    pub fn unended(&mut self, listening: Listening) {
        if !self.channels.contains_key(&listening.channel) {
            self.later.push(Ask::Unsubscribe(listening));
        }
    }

    /// The server says that a subscription stands, or stands again.
    pub fn subscribed(&mut self, channel: &[u8]) {
        let Some(topic) = self.channels.get(channel) else { return };
        let Some(listened) = self.topics.get_mut(topic) else { return };
        listened.stands = true;
        match topic {
            Topic::Count(room) => self.asks.push(Ask::Count { room: room.clone(), heard: listened.heard }),
            Topic::Member(_, member) => {
                for &id in &listened.watchers {
                    self.looks.entry(id).or_default().insert(member.clone());
                }
            }
        }
    }

    /// The server has ended a subscription, perhaps because its slot has moved.
    pub fn unsubscribed(&mut self, channel: &[u8]) {
        let Some(listened) = self.channels.get(channel).and_then(|topic| self.topics.get_mut(topic)) else { return };
        listened.stands = false;
        self.later.extend(listened.channel.clone().map(Ask::Subscribe));
    }

    /// Something was published.
    pub fn published(&mut self, channel: &[u8], payload: &[u8]) {
        let Some(topic) = self.channels.get(channel).cloned() else { return };
        let Some(listened) = self.topics.get_mut(&topic) else { return };
        listened.heard += 1;
        match topic {
            Topic::Count(room) => {
                self.metrics.counts.inc();
                let Ok(CountTold { badge, gone }) = serde_json::from_slice(payload) else { return };
                self.tell_badge(&room, badge, gone);
            }
            Topic::Member(room, member) => {
                self.metrics.changes.inc();
                let Ok(MemberTold { event, status }) = serde_json::from_slice(payload) else { return };
                if event == "offline" || self.reciprocal {
                    // What a viewer may see now, recent or offline, is not in the message.
                    for &id in &listened.watchers {
                        self.looks.entry(id).or_default().insert(member.clone());
                    }
                } else {
                    self.tell_online(&room, &member, status);
                }
            }
        }
    }

    fn tell_badge(&mut self, room: &Arc<str>, badge: String, gone: bool) {
        let Some(listened) = self.topics.get_mut(&Topic::Count(room.clone())) else { return };
        let text = text(&Message::Count { room: room.to_string(), badge, gone });
        // Most counts of a large room are rounded to the same badge.
        if listened.badge.as_ref() == Some(&text) {
            return;
        }
        for viewer in listened.watchers.iter().filter_map(|id| self.viewers.get(id)) {
            viewer.outlet.badge(room, text.clone());
        }
        listened.badge = Some(text);
    }

    fn tell_online(&mut self, room: &Arc<str>, member: &Arc<str>, status: Option<String>) {
        let Some(listened) = self.topics.get(&Topic::Member(room.clone(), member.clone())) else { return };
        let dot: Dot = Some((State::Online, status));
        let text = dot_text(room, member, &dot);
        for id in &listened.watchers {
            let Some(viewer) = self.viewers.get_mut(id) else { continue };
            viewer.dots.insert(member.clone(), dot.clone());
            viewer.outlet.push(text.clone());
        }
    }

    /// The answer to an [`Ask::Count`]; `None` if there was none.
    pub fn counted(&mut self, room: &Arc<str>, heard: u64, badge: Option<String>) {
        let Some(listened) = self.topics.get(&Topic::Count(room.clone())) else { return };
        match badge {
            // A message has told something newer.
            Some(_) if listened.heard != heard => {}
            Some(badge) => self.tell_badge(room, badge, false),
            None => self.later.push(Ask::Count { room: room.clone(), heard: listened.heard }),
        }
    }

    /// The looks that are to be taken, one ask for each viewer.
    pub(super) fn take_looks(&mut self) {
        if !self.up {
            return;
        }
        for (viewer, members) in std::mem::take(&mut self.looks) {
            let Some(found) = self.viewers.get(&viewer) else { continue };
            let Some(room) = found.room.clone() else { continue };
            let with_heard = |member: Arc<str>| {
                let topic = Topic::Member(room.clone(), member.clone());
                (member, self.topics.get(&topic).map_or(0, |listened| listened.heard))
            };
            let members: Vec<_> = members.into_iter().filter(|m| found.dots.contains_key(m)).map(with_heard).collect();
            if !members.is_empty() {
                self.asks.push(Ask::Look { viewer, user: found.user.clone(), room, members });
            }
        }
    }

    /// The answer to an [`Ask::Look`].
    pub fn looked(&mut self, id: ViewerId, seen: Vec<Seen>) {
        for (member, heard, look) in seen {
            let Some(viewer) = self.viewers.get(&id) else { return };
            let Some(room) = viewer.room.clone() else { return };
            if !viewer.dots.contains_key(&member) {
                continue;
            }
            let topic = Topic::Member(room.clone(), member.clone());
            match look {
                None => {
                    self.forget(id, &topic);
                    self.tell_dot(id, &room, &member, (State::Offline, None));
                }
                Some(dot) => {
                    let listens = self.topics.get(&topic).is_some_and(|listened| listened.watchers.contains(&id));
                    if self.listen(id, topic).heard == heard {
                        self.tell_dot(id, &room, &member, dot);
                    } else if !listens {
                        // The message that is newer than this look was told to those who listened already.
                        self.looks.entry(id).or_default().insert(member);
                    }
                }
            }
        }
    }

    /// No answer to an [`Ask::Look`]: it is asked again.
    pub fn unseen(&mut self, id: ViewerId, members: Vec<(Arc<str>, u64)>) {
        self.later_looks.entry(id).or_default().extend(members.into_iter().map(|(member, _)| member));
    }

    fn tell_dot(&mut self, id: ViewerId, room: &Arc<str>, member: &Arc<str>, dot: (State, Option<String>)) {
        let Some(viewer) = self.viewers.get_mut(&id) else { return };
        let dot: Dot = Some(dot);
        if viewer.dots.get(member) != Some(&dot) {
            viewer.outlet.push(dot_text(room, member, &dot));
            viewer.dots.insert(member.clone(), dot);
        }
    }

    /// What failed is asked again, as far as it still matters.
    pub(super) fn ask_again(&mut self) {
        let later = std::mem::take(&mut self.later);
        // Somebody may have come to watch meanwhile, or the last have looked away.
        let wanted = |listening: &Listening| self.channels.contains_key(&listening.channel);
        self.asks.extend(later.into_iter().filter(|ask| match ask {
            Ask::Subscribe(listening) => wanted(listening),
            Ask::Unsubscribe(listening) => !wanted(listening),
            _ => true,
        }));
        for (id, members) in std::mem::take(&mut self.later_looks) {
            self.looks.entry(id).or_default().extend(members);
        }
    }
}

fn dot_text(room: &str, member: &str, dot: &Dot) -> Arc<str> {
    let (state, status) = dot.clone().unwrap_or((State::Offline, None));
    text(&Message::Member { room: room.to_owned(), member: member.to_owned(), state, status })
}
