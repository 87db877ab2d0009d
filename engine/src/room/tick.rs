//! What silence brings about, when it is due.

use super::{phase_in, Env, Room, Tally};
use crate::effects::Effects;
use crate::hearing::{widen, HeardMs};
use crate::member::{Change, Phase, Session};

impl Room {
    /// A lower bound of the next moment at which [`Room::tick`] has anything to do.
    pub fn next_due(&self) -> Option<HeardMs> {
        if self.recheck.is_some() {
            return Some(0);
        }
        self.wheel.next_due()
    }

    /// Processes what is due up to `until`, in due order, as long as `more` allows. Returns whether all of it was done.
    pub fn tick(&mut self, env: &Env<'_>, until: HeardMs, fx: &mut Effects, more: &mut dyn FnMut() -> bool) -> bool {
        if !self.go_on_rechecking(env, more) {
            return false;
        }
        while self.wheel.next_due().is_some_and(|due| due <= until) {
            if !more() {
                return false;
            }
            let Some(slot) = self.wheel.pop(&mut self.table, until) else { break };
            self.look(env, until, slot, fx);
        }
        true
    }

    /// Looks at a member whose moment may have come. Most have beaten since and are only given a new moment.
    fn look(&mut self, env: &Env<'_>, until: HeardMs, slot: u32, fx: &mut Effects) {
        if let Some(due) = self.lone_live_due(env, slot) {
            if due > until {
                return self.wheel.insert(&mut self.table, slot, due);
            }
        }
        let Some(mut member) = self.load(slot, env.now) else {
            // A pack that cannot be read would be a fault of ours; the member must not stay for ever.
            return self.table.remove(slot);
        };
        let before = Tally::of(&member);
        let outcome = member.look(until, &self.rules(env));
        if matches!(outcome.change, Change::Offline(_)) {
            fx.late(outcome.due, env.now);
        }
        self.commit(env, slot, before, &member, outcome, fx);
    }

    /// When a member with nothing but one live unnamed session is due, without unpacking it.
    fn lone_live_due(&self, env: &Env<'_>, slot: u32) -> Option<HeardMs> {
        let record = self.table.record(slot)?;
        let lone = self.table.pack(slot).is_empty() && phase_in(record.flags) == Phase::Online;
        lone.then(|| {
            let session = Session { last: widen(env.now, record.last), ..Session::default() };
            self.rules(env).lost_at(&session)
        })
    }

    /// After a change of timeouts every member gets a new due moment, a few at a time.
    pub(super) fn recheck(&mut self) {
        self.recheck = (!self.table.is_empty()).then_some(0);
    }

    fn go_on_rechecking(&mut self, env: &Env<'_>, more: &mut dyn FnMut() -> bool) -> bool {
        while let Some(from) = self.recheck {
            let Some(slot) = self.table.next_occupied(from) else {
                self.recheck = None;
                break;
            };
            if !more() {
                return false;
            }
            let due = self.load(slot, env.now).and_then(|member| member.next_due(&self.rules(env)));
            if let Some(due) = due {
                self.wheel.insert(&mut self.table, slot, due);
            }
            self.recheck = Some(slot + 1);
        }
        true
    }

    /// The rare visit to every room: after midnight, and after a change of the node's configuration.
    pub fn visit(&mut self, env: &Env<'_>, fx: &mut Effects) {
        if self.generation != env.generation {
            self.generation = env.generation;
            self.recheck();
        }
        self.drop_old_days(env, fx);
    }

    pub(super) fn drop_old_days(&mut self, env: &Env<'_>, fx: &mut Effects) {
        let keep = self.uniques_days(env);
        if self.uniques.retain(env.today, keep) {
            fx.visible = true;
            fx.log.forget_days(env.today, keep);
        }
    }
}
