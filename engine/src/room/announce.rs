//! What a room tells those who watch it: members' events and the feed in the step of the change, counts now and then.

use super::{Env, Epoch, Room, UNTOLD};
use crate::announce::{Feed, FeedChange, FeedState, MemberEvent, Record, Sight, Told};
use crate::effects::Effects;
use crate::error::Refusal;
use crate::hearing::HeardMs;
use crate::member::{Change, Member};
use crate::settings::{Share, COUNT_EVERY};

/// Changes of a room, as CHANGES answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The last number that the answer covers; where to go on.
    pub seq: u64,
    /// In order.
    pub events: Vec<FeedChange>,
}

/// Which changes CHANGES is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangesRequest {
    /// The reader's epoch; `None` if it is none at all.
    pub epoch: Option<u64>,
    /// The last number that the reader knows.
    pub seq: u64,
    /// Most events wanted.
    pub count: usize,
    /// The service's view.
    pub all: bool,
}

/// What must be known of a room to say that it is gone.
#[derive(Clone, Copy, Debug)]
pub struct Parting {
    epoch: Epoch,
    feed: Option<u32>,
    count_every: Option<u32>,
}

impl Parting {
    /// Says on the room's channels that nothing holds its name any more.
    pub fn gone(&self, env: &Env<'_>, fx: &mut Effects) {
        let has_feed = self.feed.unwrap_or(env.config.feed) > 0;
        let has_counts = self.count_every.unwrap_or(env.config.count_every) > 0;
        fx.messages.gone(has_counts, has_feed.then(|| self.epoch.name(env.term)));
    }
}

impl Room {
    /// What is to be known when it is removed.
    pub fn parting(&self) -> Parting {
        let own = self.own.as_deref();
        Parting {
            epoch: self.epoch,
            feed: own.and_then(|own| own.feed),
            count_every: own.and_then(|own| own.count_every),
        }
    }

    pub(super) fn feed_limit(&self, env: &Env<'_>) -> u32 {
        self.own.as_deref().and_then(|own| own.feed).unwrap_or(env.config.feed)
    }

    pub(super) fn count_every(&self, env: &Env<'_>) -> u32 {
        self.own.as_deref().and_then(|own| own.count_every).unwrap_or(env.config.count_every)
    }

    pub(super) fn interval_over(&self, env: &Env<'_>) -> u32 {
        self.own.as_deref().and_then(|own| own.interval_over).unwrap_or(env.config.interval_over)
    }

    fn feed_state(&self, env: &Env<'_>) -> FeedState {
        FeedState {
            epoch: self.epoch(env.term),
            seq: self.seq,
            count: self.present,
            interval_over: self.interval_over(env),
            tells: env.tells,
        }
    }

    /// A change of a member got the number `seq`.
    #[expect(clippy::too_many_arguments, reason = "all that a change is")]
    pub(super) fn announce(
        &mut self,
        env: &Env<'_>,
        id: &[u8],
        before: Sight,
        member: &Member,
        change: Change,
        shows_anew: bool,
        seq: u64,
        fx: &mut Effects,
    ) {
        let Some(service) = Told::to_service(change) else { return };
        let after = Sight::of(member);
        let seen_by = |least| Told::to_watchers(least, before, after, change, shows_anew);
        let (status, data) = member.shown();
        let epoch = self.epoch(env.term);
        if let (true, Some(told)) = (env.tells, seen_by(Share::Friends)) {
            fx.messages.member(&MemberEvent { told, id, seq, status, data }, epoch);
        }
        let limit = self.feed_limit(env);
        if limit == 0 {
            return;
        }
        let feed = self.feed.get_or_insert_with(|| Box::new(Feed::after(epoch, seq.saturating_sub(1))));
        if feed.epoch() != epoch {
            feed.restart(epoch, seq.saturating_sub(1));
        }
        let everyone = seen_by(Share::Everyone);
        let record = Record { seq, service, everyone, share: member.share, id, status, data };
        feed.record(&record, self.present, limit, env.tells.then_some(&mut fx.messages));
    }

    /// Ends a step: feed and count.
    pub(super) fn finish_announcements(&mut self, env: &Env<'_>, fx: &mut Effects) {
        if self.feed.is_some() {
            if self.feed_limit(env) == 0 {
                self.feed = None;
                fx.messages.drop_events();
            } else {
                let state = self.feed_state(env);
                if self.feed.as_mut().is_some_and(|feed| feed.finish(&state, &mut fx.messages)) {
                    self.say_later(env, fx);
                }
            }
        }
        if self.told == self.present {
            return;
        }
        if !env.tells {
            // Nobody hears this node: whatever is told later is told from here on.
            self.told = self.present;
        } else if self.count_every(env) > 0 {
            if self.present == 0 || self.told == 0 {
                self.tell_count(fx);
            } else {
                self.say_later(env, fx);
            }
        }
    }

    fn tell_count(&mut self, fx: &mut Effects) {
        fx.messages.count(self.present);
        self.told = self.present;
    }

    /// Plans the next [`Room::say`], unless one is planned already: at this room's own moment of each interval.
    fn say_later(&mut self, env: &Env<'_>, fx: &mut Effects) {
        let every = match self.count_every(env) {
            // The feed of a room without counts.
            0 => COUNT_EVERY.default.unsigned_abs(),
            every => every.into(),
        };
        if self.say_due == 0 || self.say_due > env.now + every {
            let phase = self.epoch.nonce() % every;
            let since = (env.now % every + every - phase) % every;
            self.say_due = env.now + every - since;
            fx.say_at = Some(self.say_due);
        }
    }

    /// After a change of the interval: what is planned must not wait for the former one.
    pub(super) fn say_in_time(&mut self, env: &Env<'_>, fx: &mut Effects) {
        if self.say_due != 0 {
            self.say_later(env, fx);
        }
    }

    /// Tells what is told at intervals, if it is due.
    pub fn say(&mut self, env: &Env<'_>, fx: &mut Effects) {
        if self.say_due == 0 || self.say_due > env.now {
            return;
        }
        self.say_due = 0;
        if !env.tells {
            return self.finish_announcements(env, fx);
        }
        let state = self.feed_state(env);
        if let Some(feed) = &mut self.feed {
            feed.say(&state, &mut fx.messages);
        }
        if self.told != self.present && self.count_every(env) > 0 {
            self.tell_count(fx);
        }
    }

    /// The room came to its place by itself, not by changes: whoever watches the place is told the count, and readers of
    /// the feed that they must start over.
    pub fn introduce(&mut self, env: &Env<'_>, fx: &mut Effects) {
        self.epoch.enter(env.term);
        if !env.tells {
            // Nobody watches it here yet.
            self.told = self.present;
            return;
        }
        self.start_feed_over(env);
        self.told = UNTOLD;
        self.say_later(env, fx);
    }

    /// Readers of the feed are told to start over, with the next [`Room::say`].
    fn start_feed_over(&mut self, env: &Env<'_>) {
        let (epoch, limit) = (self.epoch(env.term), self.feed_limit(env));
        if limit > 0 {
            let feed = self.feed.get_or_insert_with(|| Box::new(Feed::after(epoch, self.seq)));
            if feed.epoch() != epoch {
                feed.restart(epoch, self.seq);
            }
            feed.ask_to_resync();
        }
    }

    /// A payload was applied. It may have brought another epoch, of a new primary, without any change that would tell so.
    pub(super) fn follow_epoch(&mut self, env: &Env<'_>, fx: &mut Effects) {
        let epoch = self.epoch(env.term);
        if env.tells && self.feed.as_ref().is_some_and(|feed| feed.epoch() != epoch) {
            self.start_feed_over(env);
            self.say_later(env, fx);
        }
    }

    /// The changes after a number; `None` stands for a room that is missing.
    ///
    /// # Errors
    /// [`Refusal::Resync`] if the history does not hold them all.
    pub fn changes(room: Option<&Self>, env: &Env<'_>, request: ChangesRequest) -> Result<Changes, Refusal> {
        let (epoch, seq) = room.map_or((0, 0), |room| (room.epoch(env.term), room.seq));
        if request.epoch != Some(epoch) || request.seq > seq {
            return Err(Refusal::Resync);
        }
        if request.seq == seq {
            return Ok(Changes { seq, events: Vec::new() });
        }
        let feed = room.and_then(|room| Some((room.feed.as_deref()?, room.feed_limit(env))));
        feed.and_then(|(feed, limit)| feed.changes(epoch, request.seq, limit, request.count, request.all))
            .map(|(seq, events)| Changes { seq, events })
            .ok_or(Refusal::Resync)
    }

    /// When [`Room::say`] is due, for tests of the plan.
    pub fn say_due(&self) -> Option<HeardMs> {
        (self.say_due != 0).then_some(self.say_due)
    }
}
