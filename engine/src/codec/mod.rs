//! The one versioned form of a room: in RDB, AOF, DUMP and the replication stream alike.
//!
//! A payload is a version byte, the room's epoch and seq, any number of entries, and a checksum over all of it. Applying
//! a payload sets what its entries say, so that doing it twice is doing it once. A whole room is a series of payloads.
//! Everything is validated: a payload that is taken is well-formed, and encodes to the same bytes again.

pub(crate) mod bytes;
pub(crate) mod member;

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use self::bytes::{put_varint, Reader};
use self::member::Moments;
use crate::hearing::HeardMs;
use crate::member::{Change, Member, Reason};
use crate::settings::{
    Number, RoomSettings, Share, COUNT_EVERY, FEED, GRACE, INTERVAL_OVER, MAX_MEMBER_ID, RECENT, TIMEOUT, UNIQUES_DAYS,
};
use crate::uniques::Day;
use crate::uniques::Uniques;

/// Version of the form written here.
pub const VERSION: u8 = 1;

const SETTINGS: u8 = 1;
const PUT: u8 = 2;
const REMOVE: u8 = 3;
const UNIQUE: u8 = 4;
const UNIQUES: u8 = 5;
const FORGET_DAYS: u8 = 6;
const NO_SETTINGS: u8 = 7;
const EXPECT: u8 = 8;

/// A payload that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Written by a newer version of this module.
    Newer(u8),
    /// Truncated, altered, or not well-formed.
    Malformed,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(version) => write!(
                f,
                "ERR the payload has version {version} of the presence form, this module reads up to {VERSION}: update it"
            ),
            Self::Malformed => f.write_str("ERR the payload is damaged"),
        }
    }
}

impl std::error::Error for Damage {}

/// One statement of a payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<'a> {
    /// The room's own settings are these, or it has none.
    Settings(Option<RoomSettings>),
    /// The member is this.
    Put {
        /// What it means for those who watch; numbered unless [`Change::None`].
        change: Change,
        /// Its number.
        seq: u64,
        /// Member id.
        id: &'a [u8],
        /// The member.
        member: Member,
    },
    /// The member is not there.
    Remove {
        /// As in `Put`.
        change: Change,
        /// As in `Put`.
        seq: u64,
        /// Member id.
        id: &'a [u8],
    },
    /// A member, by its hash, was there on a day.
    Unique(Day, u64),
    /// The uniques of all kept days.
    Uniques(Uniques),
    /// Of the days up to this one only this many are kept.
    ForgetDays(Day, u16),
    /// About so many members follow, here or in payloads to come. A hint: nothing depends on it but time.
    Expect(u64),
}

/// A payload taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload<'a> {
    /// Epoch of the room after it.
    pub epoch: u64,
    /// Seq of the room after it.
    pub seq: u64,
    /// Its statements, in order.
    pub entries: Vec<Entry<'a>>,
}

/// Puts a payload together.
#[derive(Clone, Debug, Default)]
pub struct Log {
    body: Vec<u8>,
}

impl Log {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Gives back memory beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.body.shrink_to(bytes);
    }

    /// The room's own settings are these.
    pub fn settings(&mut self, settings: Option<&RoomSettings>) {
        let Some(settings) = settings else { return self.body.push(NO_SETTINGS) };
        self.body.push(SETTINGS);
        let fields = numbers(settings);
        let mask =
            fields.iter().enumerate().fold(0u8, |mask, (bit, (_, value))| mask | u8::from(value.is_some()) << bit);
        self.body.push(mask);
        self.body.push(settings.share.map_or(0, |share| share as u8 + 1));
        for value in fields.iter().filter_map(|(_, value)| *value) {
            put_varint(&mut self.body, u64::from(value));
        }
    }

    /// The member is this.
    pub fn put(&mut self, id: &[u8], member: &Member, change: Change, seq: u64) {
        self.subject(PUT, id, change, seq);
        self.body.push(member.share as u8);
        put_varint(&mut self.body, member.since);
        member::put(&mut self.body, member, Moments::Dropped);
    }

    /// The member is not there.
    pub fn remove(&mut self, id: &[u8], change: Change, seq: u64) {
        self.subject(REMOVE, id, change, seq);
    }

    /// A member was there on a day.
    pub fn unique(&mut self, day: Day, hash: u64) {
        self.body.push(UNIQUE);
        self.body.extend_from_slice(&day.number().to_le_bytes());
        self.body.extend_from_slice(&hash.to_le_bytes());
    }

    /// The uniques of all days.
    pub fn uniques(&mut self, uniques: &Uniques) {
        self.body.push(UNIQUES);
        uniques.encode(&mut self.body);
    }

    /// Of the days up to `today` only `keep` are kept.
    pub fn forget_days(&mut self, today: Day, keep: u16) {
        self.body.push(FORGET_DAYS);
        self.body.extend_from_slice(&today.number().to_le_bytes());
        self.body.extend_from_slice(&keep.to_le_bytes());
    }

    /// About so many members follow.
    pub fn foretell(&mut self, members: usize) {
        self.body.push(EXPECT);
        put_varint(&mut self.body, members as u64);
    }

    /// The finished payload; the log is empty afterwards and keeps its memory.
    pub fn finish(&mut self, epoch: u64, seq: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 32);
        out.push(VERSION);
        out.extend_from_slice(&epoch.to_le_bytes());
        put_varint(&mut out, seq);
        out.append(&mut self.body);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    fn subject(&mut self, kind: u8, id: &[u8], change: Change, seq: u64) {
        self.body.push(kind);
        self.body.push(match change {
            Change::None => 0,
            Change::Online => 1,
            Change::Offline(Reason::Timeout) => 2,
            Change::Offline(Reason::Goodbye) => 3,
            Change::Update => 4,
        });
        if change != Change::None {
            put_varint(&mut self.body, seq);
        }
        // 1 to 256 bytes fit a byte as length - 1.
        self.body.push(id.len().saturating_sub(1) as u8);
        self.body.extend_from_slice(id);
    }
}

/// Takes a payload apart. Members in it are heard just before `now`.
///
/// # Errors
/// [`Damage`]; a payload is taken whole or not at all.
pub fn decode(payload: &[u8], now: HeardMs) -> Result<Payload<'_>, Damage> {
    let (&version, _) = payload.split_first().ok_or(Damage::Malformed)?;
    if version > VERSION {
        return Err(Damage::Newer(version));
    }
    read(payload, now).ok_or(Damage::Malformed)
}

fn read(payload: &[u8], now: HeardMs) -> Option<Payload<'_>> {
    let (covered, sum) = payload.split_last_chunk()?;
    if checksum(covered) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut from = Reader::new(covered);
    if from.u8()? != VERSION {
        return None;
    }
    let epoch = from.u64()?;
    let seq = read_seq(&mut from)?;
    let mut entries = Vec::new();
    while !from.is_empty() {
        entries.push(read_entry(&mut from, now)?);
    }
    Some(Payload { epoch, seq, entries })
}

fn read_entry<'a>(from: &mut Reader<'a>, now: HeardMs) -> Option<Entry<'a>> {
    Some(match from.u8()? {
        SETTINGS => Entry::Settings(Some(read_settings(from)?)),
        NO_SETTINGS => Entry::Settings(None),
        PUT => {
            let (change, seq, id) = read_subject(from)?;
            let share = read_share(from.u8()?)?;
            let since = from.varint().filter(|&since| since < 1 << 48)?;
            let mut member = Member { share, since, last: now - 1, ..Member::default() };
            member::read(from, &mut member, Moments::Dropped, now)?;
            member.phase = member::phase_of(&member.sessions);
            if member.is_nothing() {
                return None;
            }
            Entry::Put { change, seq, id, member }
        }
        REMOVE => {
            let (change, seq, id) = read_subject(from)?;
            Entry::Remove { change, seq, id }
        }
        UNIQUE => Entry::Unique(Day::from_number(from.u16()?), from.u64()?),
        UNIQUES => {
            let (uniques, used) = Uniques::decode(from.rest())?;
            from.take(used)?;
            Entry::Uniques(uniques)
        }
        FORGET_DAYS => Entry::ForgetDays(Day::from_number(from.u16()?), from.u16()?),
        EXPECT => Entry::Expect(from.varint()?),
        _ => return None,
    })
}

fn read_subject<'a>(from: &mut Reader<'a>) -> Option<(Change, u64, &'a [u8])> {
    let change = match from.u8()? {
        0 => Change::None,
        1 => Change::Online,
        2 => Change::Offline(Reason::Timeout),
        3 => Change::Offline(Reason::Goodbye),
        4 => Change::Update,
        _ => return None,
    };
    let seq = if change == Change::None { 0 } else { read_seq(from)? };
    let len = usize::from(from.u8()?) + 1;
    debug_assert!(len <= MAX_MEMBER_ID);
    Some((change, seq, from.take(len)?))
}

/// Far below the end, so that going on from it never overflows, also as the signed number of a reply.
fn read_seq(from: &mut Reader<'_>) -> Option<u64> {
    from.varint().filter(|&seq| seq < 1 << 62)
}

fn read_share(code: u8) -> Option<Share> {
    Share::ALL.into_iter().find(|&share| share as u8 == code)
}

/// The numbers among the settings, in the order of the wire, with their ranges.
fn numbers(settings: &RoomSettings) -> [(&'static Number, Option<u32>); 7] {
    [
        (&TIMEOUT, settings.timeout),
        (&GRACE, settings.grace),
        (&RECENT, settings.recent),
        (&UNIQUES_DAYS, settings.uniques_days.map(u32::from)),
        (&FEED, settings.feed),
        (&COUNT_EVERY, settings.count_every),
        (&INTERVAL_OVER, settings.interval_over),
    ]
}

fn read_settings(from: &mut Reader<'_>) -> Option<RoomSettings> {
    let mask = from.u8()?;
    let share = match from.u8()? {
        0 => None,
        code => Some(read_share(code - 1)?),
    };
    let mut values = [None; 7];
    for (bit, (value, (range, _))) in values.iter_mut().zip(numbers(&RoomSettings::default())).enumerate() {
        if mask & 1 << bit != 0 {
            let number = i64::try_from(from.varint()?).ok()?;
            *value = Some(u32::try_from(range.check(number).ok()?).ok()?);
        }
    }
    if mask & 1 << values.len() != 0 {
        return None;
    }
    let [timeout, grace, recent, uniques_days, feed, count_every, interval_over] = values;
    let uniques_days = match uniques_days {
        Some(days) => Some(u16::try_from(days).ok()?),
        None => None,
    };
    Some(RoomSettings { timeout, grace, recent, uniques_days, share, feed, count_every, interval_over })
}

/// Against accidents, not against forgery: whoever may RESTORE may also compute it.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x7072_6573_656e_6365, 0x666f_726d_2076_3031);
    hasher.write(bytes);
    hasher.finish()
}
