//! Beats: the hot path of a renewal, and everything else that a beat can do.

use super::{Env, Room, Tally, ONLINE, PHASE_BITS};
use crate::codec::member::live_last;
use crate::effects::Effects;
use crate::error::Refusal;
use crate::hearing::HeardMs;
use crate::member::{Attributes, Beaten, Change, Member};
use crate::uniques::member_hash;
use crate::uniques::Day;

/// What a beat did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The member came online.
    Online,
    /// A member that was present goes on being so.
    Renewed,
    /// The session has said goodbye: the client must take a new id.
    Refused,
}

/// Where a member was found. It holds until somebody comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found(u32);

impl Room {
    /// The hot path: a plain beat of a live session of a member online, already counted today. It changes no state, so
    /// it is one store and no effect. Returns whether this was such a beat; if not, nothing has happened.
    #[inline]
    pub fn renew(&mut self, id: &[u8], session: &[u8], now: HeardMs, today: Day) -> bool {
        self.table.find(id).is_some_and(|slot| self.renew_at(slot, session, now, today))
    }

    /// Who of many is in the room, in their order; for [`Room::renew_found`]. Much quicker for a batch than one by one.
    pub fn find_all<'a>(&self, ids: impl IntoIterator<Item = &'a [u8]>, found: &mut Vec<Option<Found>>) {
        self.table.find_all(ids, |slot| found.push(slot.map(Found)));
    }

    /// As [`Room::renew`], of a member that [`Room::find_all`] has found; nobody has come or gone since.
    #[inline]
    pub fn renew_found(&mut self, found: Found, session: &[u8], now: HeardMs, today: Day) -> bool {
        self.renew_at(found.0, session, now, today)
    }

    #[inline]
    fn renew_at(&mut self, slot: u32, session: &[u8], now: HeardMs, today: Day) -> bool {
        let rechecking = self.is_rechecking();
        let Some((record, pack)) = self.table.member_mut(slot) else { return false };
        if record.flags() & PHASE_BITS != ONLINE || record.day() != today.number() || rechecking {
            return false;
        }
        let low = now as u32;
        let mut before = record.last();
        if pack.is_empty() {
            if !session.is_empty() {
                return false;
            }
        } else {
            let Some(last) = live_last(pack, session) else { return false };
            before = u32::from_le_bytes(std::mem::replace(last, low.to_le_bytes()));
        }
        record.set_last(low);
        self.advice.observe(low.wrapping_sub(before));
        true
    }

    /// A beat of any kind.
    ///
    /// # Errors
    /// [`Refusal`] for reasons of state (memory, limits); nothing has changed then.
    pub fn beat(
        &mut self,
        env: &Env<'_>,
        id: &[u8],
        session: &[u8],
        attributes: &Attributes<'_>,
        fx: &mut Effects,
    ) -> Result<Beat, Refusal> {
        let found = self.table.find(id);
        let member = found.and_then(|slot| self.load(slot, env.now));
        let mut member = member.unwrap_or_else(|| Member { share: self.rules(env).share, ..Member::default() });
        if member.is_buried(session, env.now) {
            fx.stats.refused += 1;
            return Ok(Beat::Refused);
        }
        if !member.is_present() {
            self.admit(env)?;
        }
        let interval = member.interval(session, env.now);
        let before = Tally::of(&member);
        let outcome = match member.beat(session, attributes, &self.rules(env), env.unix_ms)? {
            Beaten::Refused => return Ok(Beat::Refused),
            Beaten::Taken(outcome) => outcome,
        };
        let slot = match found {
            Some(slot) => slot,
            None => self.table.insert(id, &mut self.wheel).ok_or(Refusal::RoomFull { max: u32::MAX })?,
        };
        self.commit(env, slot, before, &member, outcome, fx);
        self.count_day(env, slot, id, fx);
        if let Some(interval) = interval {
            self.advice.observe(u32::try_from(interval).unwrap_or(u32::MAX));
        }
        Ok(if outcome.change == Change::Online { Beat::Online } else { Beat::Renewed })
    }

    /// Whether one more member may come.
    fn admit(&self, env: &Env<'_>) -> Result<(), Refusal> {
        if env.oom {
            return Err(Refusal::OutOfMemory);
        }
        match env.config.max_members {
            0 => Ok(()),
            max if self.present < max => Ok(()),
            max => Err(Refusal::RoomFull { max }),
        }
    }

    /// Counts the member among today's uniques, once a day.
    fn count_day(&mut self, env: &Env<'_>, slot: u32, id: &[u8], fx: &mut Effects) {
        let (keep, rechecking) = (self.uniques_days(env), self.is_rechecking());
        let Some(record) = self.table.record_mut(slot) else { return };
        if record.day() == env.today.number() && !rechecking {
            return;
        }
        record.set_day(env.today.number());
        self.uncounted = keep == 0;
        if keep == 0 {
            return;
        }
        let hash = member_hash(id);
        if self.uniques.add(env.today, hash) {
            fx.log.unique(env.today, hash);
        }
    }
}
