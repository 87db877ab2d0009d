//! A room as payloads: saved whole, and changed by those that another server sends.

use super::{Env, Room, Tally};
use crate::announce::Sight;
use crate::codec::member::{self as form, Moments};
use crate::codec::{self, Damage, Entry, Log};
use crate::effects::{Effects, Notice};
use crate::member::{Change, Member};
use crate::table::HashKeys;

/// Members in one payload of a saved room.
const CHUNK_MEMBERS: usize = 256;
/// Members of whom a saved room says how many they are, and entries of a payload for which memory is asked in advance.
const MANY: usize = 64;
/// Bytes from which on a payload of a saved room is closed.
const CHUNK_BYTES: usize = 64 * 1024;

impl Room {
    /// Hands the whole room to `sink`, as a series of payloads.
    pub fn save(&self, term: Option<u64>, now: u64, sink: &mut dyn FnMut(Vec<u8>)) {
        let epoch = self.epoch(term);
        let mut log = Log::default();
        log.settings(self.own.as_deref());
        if !self.uniques.is_empty() {
            log.uniques(&self.uniques);
        }
        if self.table.len() >= MANY {
            log.foretell(self.table.len());
        }
        sink(log.finish(epoch, self.seq));
        let (mut members, mut member) = (0, Member::default());
        for slot in self.table.slots() {
            if let (Some(id), Some(())) = (self.table.id(slot), self.load_into(&mut member, slot, now)) {
                log.put(id, &member, Change::None, 0);
                members += 1;
            }
            if members == CHUNK_MEMBERS || log.len() >= CHUNK_BYTES {
                members = 0;
                sink(log.finish(epoch, self.seq));
            }
        }
        if !log.is_empty() {
            sink(log.finish(epoch, self.seq));
        }
    }

    /// Does what a payload says. The events it tells of are collected in `fx`, which logs nothing: the payload itself is
    /// what goes on to others.
    ///
    /// # Errors
    /// [`Damage`]; nothing has changed then.
    pub fn apply<'a>(&mut self, env: &Env<'_>, payload: &'a [u8], fx: &mut Effects) -> Result<(), Damage> {
        let payload = codec::decode(payload, env.now)?;
        self.epoch.follow(payload.epoch);
        if payload.entries.len() >= MANY {
            let id = |entry: &Entry<'a>| if let Entry::Put { id, .. } = entry { Some(*id) } else { None };
            self.table.prefetch_all(payload.entries.iter().filter_map(id));
        }
        for entry in payload.entries {
            match entry {
                Entry::Settings(own) => {
                    self.own = own.map(Box::new);
                    self.recheck();
                }
                Entry::Put { change, seq, id, member } => self.apply_member(env, id, Some(&member), change, seq, fx),
                Entry::Remove { change, seq, id } => self.apply_member(env, id, None, change, seq, fx),
                Entry::Unique(day, hash) => {
                    self.uniques.add(day, hash);
                }
                Entry::Uniques(uniques) => self.uniques = uniques,
                Entry::ForgetDays(today, keep) => {
                    self.uniques.retain(today, keep);
                }
                Entry::Expect(members) => self.table.reserve(usize::try_from(members).unwrap_or(usize::MAX)),
            }
        }
        self.seq = payload.seq;
        self.follow_epoch(env, fx);
        fx.visible = true;
        Ok(())
    }

    fn apply_member(
        &mut self,
        env: &Env<'_>,
        id: &[u8],
        member: Option<&Member>,
        change: Change,
        seq: u64,
        fx: &mut Effects,
    ) {
        let found = self.table.find(id);
        let before = found.and_then(|slot| self.load(slot, env.now)).unwrap_or_default();
        let nothing = Member::default();
        let after = member.unwrap_or(&nothing);
        self.count_change(Tally::of(&before), Tally::of(after));
        match (found.or_else(|| member.and_then(|_| self.table.insert(id, &mut self.wheel))), member) {
            (Some(slot), Some(member)) => {
                let due = member.next_due(&self.rules(env));
                self.keep(slot, member, due, fx);
            }
            (Some(slot), None) => self.keep(slot, &nothing, None, fx),
            (None, _) => {}
        }
        let notice = match change {
            Change::None => return,
            Change::Online => Notice::Online,
            Change::Offline(reason) => Notice::Offline(reason),
            Change::Update => Notice::Update,
        };
        fx.tell(notice, id, Some(seq), self.present);
        let shows_anew = before.shown() != after.shown();
        self.announce(env, id, Sight::of(&before), after, change, shows_anew, seq, fx);
    }

    /// A room made of payloads: by loading, RESTORE or COPY. Everybody in it gets a fresh timeout.
    ///
    /// # Errors
    /// [`Damage`] of the first payload that is refused.
    pub fn load_from<'p>(
        keys: &'static HashKeys,
        nonce: u64,
        env: &Env<'_>,
        payloads: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<Self, Damage> {
        let mut room = Self::new(keys, nonce, env);
        let mut fx = Effects::default();
        for payload in payloads {
            room.apply(env, payload, &mut fx)?;
        }
        room.hear_afresh(env);
        Ok(room)
    }

    /// Last beats are unknown: one fresh timeout for everybody.
    pub fn hear_afresh(&mut self, env: &Env<'_>) {
        self.table.settle(&mut self.wheel);
        self.fresh = env.now;
        self.generation = env.generation;
        self.recheck();
    }

    /// Hands what is replicated, and only that, to `each` as unordered sequences of byte strings; for DEBUG DIGEST.
    /// The epoch is left out: a promotion begins one without a write.
    pub fn digest(&self, now: u64, each: &mut dyn FnMut(&[&[u8]])) {
        let mut log = Log::default();
        log.settings(self.own.as_deref());
        each(&[b"settings", &log.finish(0, self.seq)]);
        let mut bytes = Vec::new();
        if !self.uniques.is_empty() {
            self.uniques.encode(&mut bytes);
            each(&[b"uniques", &bytes]);
        }
        let mut member = Member::default();
        for slot in self.table.slots() {
            if let (Some(id), Some(())) = (self.table.id(slot), self.load_into(&mut member, slot, now)) {
                bytes.clear();
                bytes.push(member.share as u8);
                bytes.extend_from_slice(&member.since.to_le_bytes());
                form::put(&mut bytes, &member, Moments::Dropped);
                each(&[b"member", id, &bytes]);
            }
        }
    }
}
