//! The contract once more, naively: a map of members with all their moments, searched from end to end for what is due.

use std::collections::{BTreeMap, BTreeSet};

use presence_engine::member::Attributes;
use presence_engine::settings::Share;

use super::text;

#[derive(Clone, Debug, Default)]
pub struct Session {
    pub last: u64,
    pub waiting_since: Option<u64>,
    pub soft: Option<u64>,
    pub timeout: Option<u64>,
    pub grace: Option<u64>,
    pub status: String,
    pub data: String,
    /// Number of the beat that changed status or data last; 0 if none did.
    pub changed: u64,
    /// The same, or that of its first beat.
    pub placed: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Member {
    pub sessions: BTreeMap<String, Session>,
    /// Session to the end of its burial and the number of its goodbye.
    pub buried: BTreeMap<String, (u64, u64)>,
    pub share: Share,
    pub since: u64,
    pub last: u64,
    pub shown: Option<String>,
    /// Watchers saw it go then.
    pub recent: Option<u64>,
    /// Its choice to hide is kept since then.
    pub kept: Option<u64>,
}

impl Member {
    pub fn present(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub fn state(&self) -> &'static str {
        match self.present() {
            false => "recent",
            true if self.sessions.values().all(|session| session.waiting_since.is_some()) => "grace",
            true => "online",
        }
    }

    pub fn shown(&self) -> (String, String) {
        match self.shown.as_ref().and_then(|id| self.sessions.get(id)) {
            Some(session) => (session.status.clone(), session.data.clone()),
            None => Default::default(),
        }
    }

    fn choose(&mut self) {
        let latest = |waiting: bool| {
            let fitting = self.sessions.iter().filter(|(_, s)| s.changed > 0 && s.waiting_since.is_some() == waiting);
            fitting.max_by_key(|(_, s)| s.changed).map(|(id, _)| id.clone())
        };
        self.shown = latest(false).or_else(|| latest(true));
    }
}

/// An announcement: its due moment, member, kind, whether it is numbered.
pub type Event = (u64, String, &'static str);

#[derive(Clone, Debug, Default)]
pub struct Twin {
    pub members: BTreeMap<String, Member>,
    pub timeout: u64,
    pub grace: u64,
    pub recent: u64,
    pub share: Share,
    pub keep: u64,
    pub max_sessions: usize,
    pub max_members: usize,
    pub oom: bool,
    pub now: u64,
    pub unix: u64,
    pub day: u16,
    /// Everybody was heard then.
    pub all_heard: u64,
    pub stalls: Vec<u64>,
    pub uniques: BTreeMap<u16, BTreeSet<String>>,
    /// Deadlines have been redefined: who was lost first can be judged in more than one way.
    pub unsure: bool,
    pub events: Vec<Event>,
    pub counter: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Came,
    Renewed,
    Refused,
    Full,
    Memory,
    Sessions,
}

impl Twin {
    fn silent_from(&self, last: u64) -> u64 {
        let last = last.max(self.all_heard);
        self.stalls.iter().copied().find(|&stall| stall > last).unwrap_or(last)
    }

    fn lost_at(&self, session: &Session) -> u64 {
        self.silent_from(session.last) + session.timeout.unwrap_or(self.timeout)
    }

    fn gone_at(&self, session: &Session) -> u64 {
        let grace = session.grace.unwrap_or(self.grace);
        let silent = self.lost_at(session) + grace;
        session.soft.map_or(silent, |soft| silent.min(self.silent_from(soft) + grace))
    }

    fn next(&self, session: &Session) -> u64 {
        match session.waiting_since {
            Some(_) => self.gone_at(session),
            None => self.lost_at(session),
        }
    }

    pub fn count(&self) -> usize {
        self.members.values().filter(|member| member.present()).count()
    }

    pub fn sessions(&self) -> usize {
        self.members.values().map(|member| member.sessions.len()).sum()
    }

    fn tell(&mut self, at: u64, id: &str, kind: &'static str) {
        self.events.push((at, id.to_owned(), kind));
    }

    /// Everything due up to `until`, moment by moment.
    pub fn advance(&mut self, until: u64) {
        loop {
            let moments = self.members.values().flat_map(|m| m.sessions.values()).map(|s| self.next(s));
            let Some(moment) = moments.min().filter(|&moment| moment <= until) else { break };
            for id in self.members.keys().cloned().collect::<Vec<_>>() {
                self.silence(&id, moment);
            }
        }
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let (recent, share) = (self.recent, self.share);
            let member = self.members.get_mut(&id).unwrap();
            member.buried.retain(|_, &mut (end, _)| end > until);
            if member.kept.is_some_and(|at| at + recent <= until) {
                member.kept = None;
            }
            if member.recent.is_some_and(|at| at + recent <= until) {
                member.recent = None;
                let hidden = member.share == Share::Nobody && !member.present();
                if hidden && share > Share::Nobody && recent > 0 {
                    member.kept = Some(self.now);
                }
            }
            self.forget_nobody(&id);
        }
    }

    fn forget_nobody(&mut self, id: &str) {
        let gone = |m: &Member| !m.present() && m.buried.is_empty() && m.recent.is_none() && m.kept.is_none();
        if self.members.get(id).is_some_and(gone) {
            self.members.remove(id);
        }
    }

    fn silence(&mut self, id: &str, moment: u64) {
        let mut member = self.members[id].clone();
        let (state, shown) = (member.state(), member.shown());
        for session in member.sessions.values_mut() {
            let lost_at = self.lost_at(session);
            if session.waiting_since.is_none() && lost_at <= moment {
                session.waiting_since = Some(lost_at);
            }
        }
        let gone: Vec<String> = member
            .sessions
            .iter()
            .filter(|(_, session)| session.waiting_since.is_some() && self.gone_at(session) <= moment)
            .map(|(id, _)| id.clone())
            .collect();
        for session in gone {
            member.sessions.remove(&session);
            if member.shown.as_ref() == Some(&session) {
                member.choose();
            }
        }
        if state != "recent" {
            self.left(id, member, state, shown, "timeout", moment);
        }
    }

    /// After sessions of a member that was present may have ended.
    fn left(&mut self, id: &str, mut member: Member, was: &str, shown: (String, String), why: &'static str, at: u64) {
        if member.present() {
            if was == "online" && member.state() == "grace" {
                self.tell(at, id, "grace");
            }
            if member.shown() != shown {
                self.tell(at, id, "update");
            }
        } else {
            member.shown = None;
            let now = (self.recent > 0).then_some(self.now);
            if member.share != Share::Nobody {
                member.recent = now;
            } else if member.recent.is_none() && self.share > Share::Nobody {
                member.kept = now;
            }
            self.tell(at, id, why);
        }
        self.members.insert(id.to_owned(), member);
        self.forget_nobody(id);
    }

    pub fn is_buried(&self, id: &str, session: &str) -> bool {
        let burial = self.members.get(id).and_then(|member| member.buried.get(session));
        burial.is_some_and(|&(end, _)| end > self.now)
    }

    /// `dropped` tells which of several sessions lost at the same time was chosen to make place.
    pub fn beat(&mut self, id: &str, session: &str, with: &Attributes<'_>, dropped: &dyn Fn(&str) -> bool) -> Reply {
        if self.is_buried(id, session) {
            return Reply::Refused;
        }
        let fresh = Member { share: self.share, ..Member::default() };
        let mut member = self.members.get(id).cloned().unwrap_or(fresh);
        let was_present = member.present();
        if !was_present && self.oom {
            return Reply::Memory;
        }
        if !was_present && self.max_members > 0 && self.count() >= self.max_members {
            return Reply::Full;
        }
        let (status, data) = (with.status.map(text), with.data.map(text));
        if was_present && self.oom {
            let longer = |new: &Option<String>, of: fn(&Session) -> &String| {
                new.as_ref().is_some_and(|new| match member.sessions.get(session) {
                    Some(session) => new.len() > of(session).len(),
                    None => !new.is_empty() && member.sessions.values().all(|other| of(other) != new),
                })
            };
            if longer(&status, |s| &s.status) || longer(&data, |s| &s.data) {
                return Reply::Memory;
            }
        }
        let (state, shown) = (member.state(), member.shown());
        if !member.sessions.contains_key(session) && member.sessions.len() >= self.max_sessions {
            let waiting: Vec<_> = member.sessions.iter().filter_map(|(id, s)| Some((s.waiting_since?, id))).collect();
            let Some(first) = waiting.iter().map(|&(since, _)| since).min() else { return Reply::Sessions };
            let may_go = |&&(since, id): &&(u64, &String)| (self.unsure || since == first) && dropped(id);
            let goes = waiting.iter().find(may_go).expect("the one lost longest ago makes place").1.clone();
            member.sessions.remove(&goes);
            if member.shown.as_ref() == Some(&goes) {
                member.choose();
            }
        }
        member.buried.remove(session);
        self.counter += 1;
        let begun = Session { placed: self.counter, ..Session::default() };
        let entry = member.sessions.entry(session.to_owned()).or_insert(begun);
        entry.last = self.now;
        entry.waiting_since = None;
        entry.soft = None;
        entry.timeout = with.timeout.map(u64::from).or(entry.timeout);
        entry.grace = with.grace.map(u64::from).or(entry.grace);
        let (status, data) = (status.unwrap_or(entry.status.clone()), data.unwrap_or(entry.data.clone()));
        if (&status, &data) != (&entry.status, &entry.data) {
            (entry.status, entry.data, entry.changed) = (status, data, self.counter);
            entry.placed = self.counter;
            member.choose();
        }
        member.last = self.now;
        let share = with.share.unwrap_or(member.share);
        if was_present {
            if state == "grace" {
                self.tell(self.now, id, "back");
            }
            if self.change_share(&mut member, share) || member.shown() != shown {
                self.tell(self.now, id, "update");
            }
        } else {
            member.since = self.unix;
            member.share = share;
            member.kept = None;
            if share != Share::Nobody {
                member.recent = None;
            }
            self.tell(self.now, id, "online");
        }
        if self.keep > 0 {
            self.uniques.entry(self.day).or_default().insert(id.to_owned());
        }
        self.members.insert(id.to_owned(), member);
        if was_present {
            Reply::Renewed
        } else {
            Reply::Came
        }
    }

    /// Of a present member. Hiding is a goodbye at that moment for all who watch.
    fn change_share(&self, member: &mut Member, share: Share) -> bool {
        let before = std::mem::replace(&mut member.share, share);
        match (before == Share::Nobody, share == Share::Nobody) {
            (true, false) => member.recent = None,
            (false, true) => member.recent = (self.recent > 0).then_some(self.now),
            _ => {}
        }
        before != share
    }

    pub fn share(&mut self, id: &str, share: Share) -> i32 {
        let Some(mut member) = self.members.get(id).cloned() else { return 0 };
        let remembered = member.recent.is_some() || member.kept.is_some();
        if member.share == share || !(member.present() || remembered) {
            return 0;
        }
        if member.present() {
            self.change_share(&mut member, share);
            self.tell(self.now, id, "update");
        } else {
            member.share = share;
        }
        self.members.insert(id.to_owned(), member);
        1
    }

    pub fn bye(&mut self, id: &str, session: Option<&str>, soft: bool) -> i32 {
        let Some(mut member) = self.members.get(id).filter(|member| member.present()).cloned() else { return 0 };
        let (state, shown) = (member.state(), member.shown());
        let mut concerned: Vec<String> =
            member.sessions.keys().filter(|id| session.is_none_or(|s| s == **id)).cloned().collect();
        concerned.sort_by_key(|id| member.sessions[id].placed);
        if soft {
            for session in &concerned {
                let session = member.sessions.get_mut(session).unwrap();
                session.soft = session.soft.or(Some(self.now));
                session.waiting_since = session.waiting_since.or(Some(self.now));
            }
        } else {
            let room = (self.timeout, self.grace);
            let mut bury = Vec::new();
            for id in &concerned {
                let session = member.sessions.remove(id).unwrap();
                bury.push((id.clone(), session.timeout.unwrap_or(room.0) + session.grace.unwrap_or(room.1)));
            }
            if let (true, Some(session)) = (concerned.is_empty(), session) {
                if !self.is_buried(id, session) {
                    bury.push((session.to_owned(), room.0 + room.1));
                }
            }
            for (session, span) in bury.into_iter().filter(|(id, _)| !id.is_empty()) {
                self.counter += 1;
                while !member.buried.contains_key(&session) && member.buried.len() >= self.max_sessions {
                    let oldest = member.buried.iter().min_by_key(|(_, &(_, number))| number).unwrap().0.clone();
                    member.buried.remove(&oldest);
                }
                member.buried.insert(session, (self.now + span, self.counter));
            }
            if member.shown.as_ref().is_some_and(|shown| !member.sessions.contains_key(shown)) {
                member.choose();
            }
        }
        let gone = !member.present();
        self.left(id, member, state, shown, "goodbye", self.now);
        gone.into()
    }

    /// Timeouts are other ones from now on.
    pub fn retime(&mut self, timeout: u64, grace: u64) {
        if (timeout, grace) != (self.timeout, self.grace) {
            (self.timeout, self.grace) = (timeout, grace);
            self.hear_all();
        }
    }

    pub fn hear_all(&mut self) {
        (self.all_heard, self.unsure) = (self.now, true);
    }

    pub fn retain_days(&mut self) {
        let (day, keep) = (u64::from(self.day), self.keep);
        self.uniques.retain(|&of, _| u64::from(of) + keep > day);
    }
}
