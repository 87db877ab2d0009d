//! A room's own settings.

use super::{Env, Room};
use crate::effects::Effects;
use crate::settings::{RoomSettings, SettingsChange};

impl Room {
    /// The room's own settings, if it has any.
    pub fn own_settings(&self) -> Option<&RoomSettings> {
        self.own.as_deref()
    }

    /// Makes this a room that was created: its key stays though nobody is present.
    pub fn create(&mut self, env: &Env<'_>, change: &SettingsChange, fx: &mut Effects) {
        self.own = Some(Box::default());
        self.change_settings(env, change, fx);
    }

    /// Changes own settings; a room that has given back the last one has none.
    pub fn alter(&mut self, env: &Env<'_>, change: &SettingsChange, fx: &mut Effects) {
        self.change_settings(env, change, fx);
        if self.own.as_deref() == Some(&RoomSettings::default()) {
            self.own = None;
            fx.log.settings(None);
        }
    }

    fn change_settings(&mut self, env: &Env<'_>, change: &SettingsChange, fx: &mut Effects) {
        let numbers = |room: &Self| {
            let rules = room.rules(env);
            ((rules.timeout, rules.grace), rules.recent)
        };
        let before = numbers(self);
        let own = self.own.get_or_insert_default();
        change.apply(own);
        fx.log.settings(Some(own));
        fx.visible = true;
        let after = numbers(self);
        if after.0 != before.0 {
            // No change of a number makes anyone leave: everybody gets a fresh timeout.
            self.fresh = env.now;
        }
        if after != before {
            self.recheck();
        }
        self.drop_old_days(env, fx);
        self.say_in_time(env, fx);
    }

    /// The room could not be heard until now (its slot was not served here): a fresh timeout for everybody in it, also
    /// for those who have had one before.
    pub fn unheard(&mut self, env: &Env<'_>) {
        self.fresh = env.now;
    }
}
