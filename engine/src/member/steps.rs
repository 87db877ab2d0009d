//! What happens to a member: beats, goodbyes, silence, and what each of them changes.

use super::{Attributes, Beaten, Burial, Change, Left, Member, Outcome, Phase, Reason, Rules, Session};
use crate::error::Refusal;
use crate::hearing::HeardMs;
use crate::settings::Share;

impl Member {
    /// Online or in grace.
    pub fn is_present(&self) -> bool {
        self.phase != Phase::Away
    }

    /// Whether others may see it by name.
    pub fn is_visible(&self) -> bool {
        self.share != Share::Nobody
    }

    /// Nothing is left worth keeping.
    pub fn is_nothing(&self) -> bool {
        !self.is_present() && self.burials.is_empty() && self.left.is_none()
    }

    /// Shown status and data.
    pub fn shown(&self) -> (&[u8], &[u8]) {
        self.shown
            .and_then(|index| self.sessions.get(index))
            .map_or((&[], &[]), |session| (session.status.as_slice(), session.data.as_slice()))
    }

    /// Whether `session` has said goodbye and that still counts.
    pub fn is_buried(&self, session: &[u8], now: HeardMs) -> bool {
        self.burials.iter().any(|burial| burial.id == session && burial.until() > now)
    }

    /// How long ago `session` beat last, in ms; of one that goes on, and has not said that it would leave.
    pub fn interval(&self, session: &[u8], now: HeardMs) -> Option<u64> {
        let session = self.sessions.iter().find(|other| other.id == session && other.soft.is_none())?;
        Some(now.saturating_sub(session.last))
    }

    /// When to look again: the next moment at which anything changes by silence alone.
    pub fn next_due(&self, rules: &Rules<'_>) -> Option<HeardMs> {
        let sessions = self.sessions.iter().map(|session| rules.next_moment(session));
        let burials = self.burials.iter().map(Burial::until);
        let left = self.left.iter().map(|left| left.at + u64::from(rules.recent));
        sessions.chain(burials).chain(left).min()
    }

    /// A beat of `id`. A member that is away comes online, which the caller must have admitted.
    ///
    /// # Errors
    /// [`Refusal::TooManySessions`], [`Refusal::OutOfMemory`]; nothing has changed then.
    pub fn beat(
        &mut self,
        id: &[u8],
        attributes: &Attributes<'_>,
        rules: &Rules<'_>,
        unix_ms: u64,
    ) -> Result<Beaten, Refusal> {
        if self.is_buried(id, rules.now) {
            return Ok(Beaten::Refused);
        }
        let present = self.is_present();
        let at = self.sessions.iter().position(|session| session.id == id);
        if present && rules.oom && self.grows(at, attributes) {
            return Err(Refusal::OutOfMemory);
        }
        let place = match at {
            Some(_) => None,
            None => self.place_for_one_more(rules)?,
        };

        let mut outcome = Outcome::default();
        let shown_before = present.then(|| self.shown_owned());
        let mut dropped_shown = false;
        if let Some(longest_lost) = place {
            dropped_shown = self.remove_session(longest_lost);
        }
        // A goodbye that has lapsed but was not yet cleared away must not outlive the session's return.
        self.burials.retain(|burial| burial.id != id);
        let at = match at {
            Some(at) => at,
            None => {
                outcome.replicate = true;
                self.sessions.push(Session { id: id.to_vec(), ..Session::default() });
                self.sessions.len() - 1
            }
        };
        let mut changed = false;
        if let Some(session) = self.sessions.get_mut(at) {
            session.last = rules.now;
            session.waiting = false;
            outcome.replicate |= session.soft.take().is_some();
            outcome.replicate |= set(&mut session.timeout, attributes.timeout);
            outcome.replicate |= set(&mut session.grace, attributes.grace);
            changed |= set_bytes(&mut session.status, attributes.status);
            changed |= set_bytes(&mut session.data, attributes.data);
            session.changed |= changed;
        }
        if changed {
            outcome.replicate = true;
            self.move_last(at);
        }
        if changed || dropped_shown {
            self.choose_shown();
        }
        self.last = rules.now;
        self.come(unix_ms, rules, attributes.share, &mut outcome);
        if let Some(before) = shown_before {
            self.note_shown(&before, &mut outcome);
        }
        Ok(Beaten::Taken(outcome))
    }

    /// Phase and visibility after a beat.
    fn come(&mut self, unix_ms: u64, rules: &Rules<'_>, share: Option<Share>, outcome: &mut Outcome) {
        match self.phase {
            Phase::Away => {
                outcome.change = Change::Online;
                outcome.replicate = true;
                self.since = unix_ms;
                if let Some(share) = share {
                    self.share = share;
                }
                if self.is_visible() || self.left.is_some_and(|left| !left.shown) {
                    self.left = None;
                }
            }
            phase => {
                outcome.back = phase == Phase::Grace;
                if let Some(share) = share {
                    self.set_share_of_present(share, rules, outcome);
                }
            }
        }
        self.phase = Phase::Online;
    }

    /// A goodbye of one session, or of all (`None`). `SOFT` lets it be waited for.
    pub fn bye(&mut self, id: Option<&[u8]>, soft: bool, rules: &Rules<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if !self.is_present() {
            return outcome;
        }
        let before = self.shown_owned();
        if soft {
            for session in self.sessions.iter_mut().filter(|session| id.is_none_or(|id| session.id == id)) {
                if session.soft.is_none() {
                    session.soft = Some(rules.now);
                    session.waiting = true;
                    outcome.replicate = true;
                }
            }
        } else {
            let (ended, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sessions)
                .into_iter()
                .enumerate()
                .partition(|(_, session)| id.is_none_or(|id| session.id == id));
            let shown_index = self.shown.take();
            self.sessions = Vec::with_capacity(others.len());
            for (index, session) in others {
                if Some(index) == shown_index {
                    self.shown = Some(self.sessions.len());
                }
                self.sessions.push(session);
            }
            if shown_index.is_some() && self.shown.is_none() {
                self.choose_shown();
            }
            for (_, session) in ended.iter().filter(|(_, session)| !session.id.is_empty()) {
                self.bury(rules.burial(&session.id, Some(session)), rules);
            }
            outcome.replicate = !ended.is_empty();
            if let (true, Some(id)) = (ended.is_empty(), id.filter(|id| !id.is_empty())) {
                // The goodbye of a session whose first beat is still on its way.
                if !self.is_buried(id, rules.now) {
                    self.bury(rules.burial(id, None), rules);
                    outcome.replicate = true;
                }
            }
        }
        self.settle(Reason::Goodbye, rules, &before, &mut outcome);
        outcome
    }

    /// Everything that silence has brought about up to `until`.
    pub fn look(&mut self, until: HeardMs, rules: &Rules<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let before = self.shown_owned();
        // Who is lost first, then who is gone: what is shown then is chosen among those still live.
        for session in &mut self.sessions {
            session.waiting |= rules.lost_at(session) <= until;
        }
        let mut index = 0;
        while let Some(session) = self.sessions.get(index) {
            let gone_at = rules.gone_at(session);
            if session.waiting && gone_at <= until {
                outcome.due = outcome.due.max(gone_at);
                outcome.replicate = true;
                if self.remove_session(index) {
                    self.choose_shown();
                }
            } else {
                index += 1;
            }
        }
        let kept = self.burials.len();
        self.burials.retain(|burial| burial.until() > until);
        if let Some(left) = self.left.filter(|left| left.at + u64::from(rules.recent) <= until) {
            self.left = None;
            outcome.replicate = true;
            if left.shown && !self.is_present() && !self.is_visible() && rules.share > Share::Nobody {
                // It hid, and went later: for the others the trace has faded, its choice to hide is kept on.
                self.leave_traces(rules, false);
            }
        }
        outcome.replicate |= kept != self.burials.len();
        self.settle(Reason::Timeout, rules, &before, &mut outcome);
        outcome
    }

    /// Changes who may see the member. Returns whether anything changed.
    pub fn set_share(&mut self, share: Share, rules: &Rules<'_>) -> Option<Outcome> {
        let known = self.is_present() || self.left.is_some();
        if !known || self.share == share {
            return None;
        }
        let mut outcome = Outcome { replicate: true, ..Outcome::default() };
        if self.is_present() {
            self.set_share_of_present(share, rules, &mut outcome);
        } else {
            // Silent; hiding leaves its `recent` to lapse.
            self.share = share;
        }
        Some(outcome)
    }

    fn set_share_of_present(&mut self, share: Share, rules: &Rules<'_>, outcome: &mut Outcome) {
        if self.share == share {
            return;
        }
        let was_visible = self.is_visible();
        self.share = share;
        outcome.replicate = true;
        outcome.change = Change::Update;
        if was_visible && !self.is_visible() {
            // For every watcher a goodbye at this moment.
            self.leave_traces(rules, true);
        } else if !was_visible {
            self.left = None;
        }
    }

    /// Phase after sessions were lost or ended.
    fn settle(&mut self, reason: Reason, rules: &Rules<'_>, shown_before: &(Vec<u8>, Vec<u8>), outcome: &mut Outcome) {
        if !self.is_present() {
            return;
        }
        if self.sessions.is_empty() {
            self.phase = Phase::Away;
            self.shown = None;
            outcome.change = Change::Offline(reason);
            if self.is_visible() {
                self.leave_traces(rules, true);
            } else if self.left.is_none() && rules.share > Share::Nobody {
                // So that the choice to hide is not lost at once.
                self.leave_traces(rules, false);
            }
        } else {
            if self.phase == Phase::Online && self.sessions.iter().all(|session| session.waiting) {
                self.phase = Phase::Grace;
                outcome.grace = true;
            }
            self.note_shown(shown_before, outcome);
        }
    }

    fn leave_traces(&mut self, rules: &Rules<'_>, shown: bool) {
        self.left = (rules.recent > 0).then_some(Left { at: rules.now, shown });
    }

    fn bury(&mut self, burial: Burial, rules: &Rules<'_>) {
        self.burials.retain(|other| other.id != burial.id);
        while self.burials.len() >= rules.max_sessions {
            self.burials.remove(0);
        }
        self.burials.push(burial);
    }

    /// Which session must make place for one more: none below the limit, else the one lost longest ago.
    fn place_for_one_more(&self, rules: &Rules<'_>) -> Result<Option<usize>, Refusal> {
        if self.sessions.len() < rules.max_sessions {
            return Ok(None);
        }
        self.sessions
            .iter()
            .enumerate()
            .filter(|(_, session)| session.waiting)
            .min_by_key(|(_, session)| rules.was_lost_at(session))
            .map(|(index, _)| Some(index))
            .ok_or(Refusal::TooManySessions { max: rules.max_sessions })
    }

    /// Whether status or data would take more memory than the member uses for them already.
    fn grows(&self, at: Option<usize>, attributes: &Attributes<'_>) -> bool {
        let own = at.and_then(|at| self.sessions.get(at));
        let longer = |new: Option<&[u8]>, field: fn(&Session) -> &[u8]| {
            new.is_some_and(|new| match own {
                Some(session) => new.len() > field(session).len(),
                None => !new.is_empty() && !self.sessions.iter().any(|session| field(session) == new),
            })
        };
        longer(attributes.status, |session| &session.status) || longer(attributes.data, |session| &session.data)
    }

    /// Removes a session; says whether it was the shown one.
    fn remove_session(&mut self, index: usize) -> bool {
        if index >= self.sessions.len() {
            return false;
        }
        self.sessions.remove(index);
        match self.shown {
            Some(shown) if shown == index => {
                self.shown = None;
                true
            }
            Some(shown) if shown > index => {
                self.shown = Some(shown - 1);
                false
            }
            _ => false,
        }
    }

    /// Moves the session that just changed behind all others.
    fn move_last(&mut self, at: usize) {
        if at < self.sessions.len() {
            let session = self.sessions.remove(at);
            self.sessions.push(session);
        }
    }

    /// The live, else the waiting session that changed last.
    fn choose_shown(&mut self) {
        let latest =
            |waiting: bool| self.sessions.iter().rposition(|session| session.changed && session.waiting == waiting);
        self.shown = latest(false).or_else(|| latest(true));
    }

    /// An update, if another status or data is shown than before.
    fn note_shown(&self, before: &(Vec<u8>, Vec<u8>), outcome: &mut Outcome) {
        if *before != self.shown_owned() {
            outcome.shows_anew = true;
            if outcome.change == Change::None {
                outcome.change = Change::Update;
            }
        }
    }

    fn shown_owned(&self) -> (Vec<u8>, Vec<u8>) {
        let (status, data) = self.shown();
        (status.to_vec(), data.to_vec())
    }
}

fn set(field: &mut Option<u32>, value: Option<u32>) -> bool {
    let changed = value.is_some() && *field != value;
    if changed {
        *field = value;
    }
    changed
}

fn set_bytes(field: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    match value {
        Some(value) if field != value => {
            *field = value.to_vec();
            true
        }
        _ => false,
    }
}
