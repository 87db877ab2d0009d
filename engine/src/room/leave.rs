//! Goodbyes and visibility.

use super::{Env, Room, Tally};
use crate::effects::Effects;
use crate::member::Change;
use crate::settings::Share;

impl Room {
    /// A goodbye of one session of a member, or of all. Returns whether the member went offline by it.
    pub fn bye(&mut self, env: &Env<'_>, id: &[u8], session: Option<&[u8]>, soft: bool, fx: &mut Effects) -> bool {
        let Some(slot) = self.table.find(id) else { return false };
        let Some(mut member) = self.load(slot, env.now) else { return false };
        let before = Tally::of(&member);
        let outcome = member.bye(session, soft, &self.rules(env));
        if outcome == Default::default() {
            return false;
        }
        self.commit(env, slot, before, &member, outcome, fx);
        matches!(outcome.change, Change::Offline(_))
    }

    /// Changes who may see a member. Returns whether anything changed.
    pub fn share(&mut self, env: &Env<'_>, id: &[u8], share: Share, fx: &mut Effects) -> bool {
        let Some(slot) = self.table.find(id) else { return false };
        let Some(mut member) = self.load(slot, env.now) else { return false };
        let before = Tally::of(&member);
        let Some(outcome) = member.set_share(share, &self.rules(env)) else { return false };
        self.commit(env, slot, before, &member, outcome, fx);
        true
    }
}
