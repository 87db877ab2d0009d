//! The feed of one room: what it has told so far, the history behind it, and the mode in which it names nobody.

use super::history::{History, Record};
use super::messages::{Event, Messages, Range};
use super::sight::Told;
use crate::settings::Share;

/// A change as CHANGES tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number.
    pub seq: u64,
    /// What happened, in the view that was asked for.
    pub told: Told,
    /// To whom.
    pub id: Vec<u8>,
    /// Who may see the member.
    pub share: Share,
    /// Shown status after it.
    pub status: Vec<u8>,
    /// Shown data after it.
    pub data: Vec<u8>,
}

/// What the feed needs to know of its room when a step ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// In force on this node.
    pub(crate) epoch: u64,
    /// Number of the last change.
    pub(crate) seq: u64,
    /// Members present.
    pub(crate) count: u32,
    /// Members above which nobody is named.
    pub(crate) interval_over: u32,
    /// Messages are made; otherwise only the history is kept.
    pub(crate) tells: bool,
}

impl State {
    fn since(&self, told: u64) -> Range {
        Range { epoch: self.epoch, from: told + 1, seq: self.seq, count: self.count }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Feed {
    history: History,
    epoch: u64,
    /// The last change that a message has covered.
    told: u64,
    /// More members are present than are named.
    interval: bool,
    came: u64,
    went: u64,
    /// Readers must start over, and have not been told.
    resync: bool,
}

impl Feed {
    /// That begins after change `seq`.
    pub(crate) fn after(epoch: u64, seq: u64) -> Self {
        Self { history: History::after(seq), epoch, told: seq, interval: false, came: 0, went: 0, resync: false }
    }

    /// Begins anew, in another epoch or after what it cannot tell of. In the mode it is in: that follows the count.
    pub(crate) fn restart(&mut self, epoch: u64, seq: u64) {
        *self = Self { interval: self.interval, ..Self::after(epoch, seq) };
    }

    /// Has the next [`Feed::say`] tell readers to start over.
    pub(crate) fn ask_to_resync(&mut self) {
        self.resync = true;
    }

    /// The epoch whose changes it tells.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Takes a numbered change in; `count` members are present after it, and `limit` changes are kept.
    pub(crate) fn record(&mut self, record: &Record<'_>, count: u32, limit: u32, messages: Option<&mut Messages>) {
        match record.service {
            Told::Online => self.came += 1,
            Told::Offline(_) => self.went += 1,
            Told::Update => {}
        }
        if self.interval {
            return;
        }
        self.history.push(record, limit);
        if let (Some(messages), Some(told)) = (messages, record.everyone) {
            let Record { seq, id, status, data, .. } = *record;
            messages.feed_event(&Event { told, id, seq, status, data }, count);
        }
    }

    /// Ends a step. Returns whether [`Feed::say`] will have something to tell.
    pub(crate) fn finish(&mut self, state: &State, messages: &mut Messages) -> bool {
        let (count, over) = (u64::from(state.count), u64::from(state.interval_over));
        let before = self.interval;
        // Hysteresis: back only when a tenth below.
        self.interval = if before { count * 10 >= over * 9 } else { count > over };
        if self.interval || before {
            messages.drop_events();
        }
        if self.interval != before {
            // What was kept has a gap now, or will have.
            self.history = History::after(state.seq);
        }
        if !state.tells {
            self.covered(state.seq);
            self.resync = false;
            return false;
        }
        match (before, self.interval) {
            (false, true) => self.tell_interval(state, messages),
            (true, false) => self.tell_resync(state, messages),
            (true, true) => return self.told < state.seq || self.resync,
            (false, false) if self.told < state.seq => {
                messages.feed(state.since(self.told));
                self.covered(state.seq);
            }
            (false, false) => {}
        }
        self.resync
    }

    /// What is told at intervals.
    pub(crate) fn say(&mut self, state: &State, messages: &mut Messages) {
        if !state.tells {
            return;
        }
        if self.interval && (self.told < state.seq || self.resync) {
            self.tell_interval(state, messages);
        } else if self.resync {
            self.tell_resync(state, messages);
        }
    }

    fn tell_interval(&mut self, state: &State, messages: &mut Messages) {
        messages.feed_interval(state.since(self.told), self.came, self.went);
        self.covered(state.seq);
        self.resync = false;
    }

    fn tell_resync(&mut self, state: &State, messages: &mut Messages) {
        messages.feed_resync(state.since(self.told));
        self.covered(state.seq);
        self.resync = false;
    }

    fn covered(&mut self, seq: u64) {
        (self.told, self.came, self.went) = (seq, 0, 0);
    }

    /// Changes after `seq`, at most `count` of them, in the service's view (`all`) or in that of those who see members
    /// that share with everyone; and the last number that the answer covers. `None`: the history does not reach back.
    pub(crate) fn changes(
        &self,
        epoch: u64,
        seq: u64,
        limit: u32,
        count: usize,
        all: bool,
    ) -> Option<(u64, Vec<Change>)> {
        if epoch != self.epoch || self.interval {
            return None;
        }
        let (mut covered, mut changes) = (seq, Vec::new());
        // Looks at more than it tells, but not without end where most members are hidden.
        for record in self.history.since(seq, limit)?.take(count.saturating_mul(10)) {
            let told = if all { Some(record.service) } else { record.everyone };
            if let Some(told) = told {
                if changes.len() == count {
                    break;
                }
                let Record { seq, share, .. } = record;
                let [id, status, data] = [record.id, record.status, record.data].map(<[u8]>::to_vec);
                changes.push(Change { seq, told, id, share, status, data });
            }
            covered = record.seq;
        }
        Some((covered, changes))
    }

    /// About how many allocations it holds.
    pub(crate) fn allocations(&self) -> usize {
        2 + self.history.chunks()
    }

    /// Bytes in use, itself included.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + self.history.memory()
    }
}
