//! What silence brings about, when it is due.

use super::{phase_in, Env, Room, Tally};
use crate::effects::Effects;
use crate::hearing::{widen, HeardMs};
use crate::member::{Change, Phase, Session};
use crate::table::Place;
use crate::uniques::Day;

/// Runs of a few dozen members that get new due moments in a step before it turns to those who are due.
const RECHECKS_FIRST: usize = 2;

impl Room {
    /// A lower bound of the next moment at which [`Room::tick`] has anything to do.
    pub fn next_due(&self) -> Option<HeardMs> {
        if self.is_rechecking() {
            return Some(0);
        }
        self.wheel.next_due()
    }

    /// Processes what is due up to `until`, in due order, as long as `more` allows. Returns whether all of it was done.
    pub fn tick(&mut self, env: &Env<'_>, until: HeardMs, fx: &mut Effects, more: &mut dyn FnMut() -> bool) -> bool {
        // New due moments first, so that all is in order; but in a large room nobody's going waits for all of them.
        if !self.go_on_rechecking(env, RECHECKS_FIRST, more) {
            return false;
        }
        loop {
            while self.wheel.next_due().is_some_and(|due| due <= until) {
                if !more() {
                    return false;
                }
                let Some(slot) = self.wheel.pop(&mut self.table, until) else { break };
                // Not up to `until`: what comes later must not overtake what is due for others before.
                self.look(env, self.wheel.now().min(until), slot, fx);
            }
            if !self.is_rechecking() {
                return true;
            }
            if !self.go_on_rechecking(env, usize::MAX, more) {
                return false;
            }
        }
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
            return self.table.remove(slot, &mut self.wheel);
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
        let lone = self.table.pack(slot).is_empty() && phase_in(record.flags()) == Phase::Online;
        lone.then(|| {
            let session = Session { last: widen(env.now, record.last()), ..Session::default() };
            self.rules(env).lost_at(&session)
        })
    }

    /// After a change of settings every member gets a new due moment, a few at a time, and is counted anew on its next
    /// beat: it may have beaten today while no uniques were kept.
    pub(super) fn recheck(&mut self) {
        self.recheck = if self.table.is_empty() { Place::END } else { Place::START }.short();
    }

    #[inline]
    pub(super) fn is_rechecking(&self) -> bool {
        self.recheck != Place::END.short()
    }

    /// Up to `most` runs of members. Returns whether `more` allowed them all.
    fn go_on_rechecking(&mut self, env: &Env<'_>, most: usize, more: &mut dyn FnMut() -> bool) -> bool {
        for _ in 0..most {
            if !self.is_rechecking() {
                break;
            }
            if !more() {
                return false;
            }
            let run = self.table.run(Place::from_short(self.recheck));
            let slots: Vec<u32> = self.table.slots_of(run).collect();
            for slot in slots {
                if let Some(record) = self.table.record_mut(slot) {
                    record.set_day(Day::MIN.number());
                }
                let due = self.load(slot, env.now).and_then(|member| member.next_due(&self.rules(env)));
                if let Some(due) = due {
                    self.wheel.insert(&mut self.table, slot, due);
                }
            }
            self.recheck = run.next.short();
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
        self.say_in_time(env, fx);
        if !self.epoch.is_of(env.term) {
            // Since this node became the primary, or loaded the room, nothing has changed in it.
            self.introduce(env, fx);
        }
    }

    pub(super) fn drop_old_days(&mut self, env: &Env<'_>, fx: &mut Effects) {
        let keep = self.uniques_days(env);
        if std::mem::replace(&mut self.uncounted, keep == 0) && keep > 0 {
            self.recheck();
        }
        if self.uniques.retain(env.today, keep) {
            fx.visible = true;
            fx.log.forget_days(env.today, keep);
        }
    }
}
