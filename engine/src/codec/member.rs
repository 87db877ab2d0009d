//! The bytes of one member: packed in the room's table, with its moments, and on the wire, without them.
//!
//! The wire says nothing of last beats or of silence: these are not state. Whoever reads it hears everybody at that
//! moment and grants a fresh timeout.

use super::bytes::{put_long, put_short, put_varint, Reader};
use crate::hearing::{widen, HeardMs};
use crate::member::{Burial, Left, Member, Phase, Session};
use crate::settings::{Number, GRACE, MAX_DATA, MAX_SESSIONS, MAX_SESSION_ID, MAX_STATUS, TIMEOUT};

/// Whether moments are part of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moments {
    /// Kept as the low 32 bits of heard time.
    Kept,
    /// Left out.
    Dropped,
}

const HEAD_SHOWN: u8 = 1;
const HEAD_BURIALS: u8 = 2;
const HEAD_LEFT: u8 = 4;
const HEAD_LEFT_SHOWN: u8 = 8;
const HEAD_ALL: u8 = 15;

const WAITING: u8 = 1;
const SOFT: u8 = 2;
const OWN_TIMEOUT: u8 = 4;
const OWN_GRACE: u8 = 8;
const STATUS: u8 = 16;
const DATA: u8 = 32;
const CHANGED: u8 = 64;
const SESSION_ALL: u8 = 127;

/// Appends sessions, burials and traces of `member`.
pub(crate) fn put(out: &mut Vec<u8>, member: &Member, moments: Moments) {
    let mut head = 0;
    if member.shown.is_some() {
        head |= HEAD_SHOWN;
    }
    if !member.burials.is_empty() {
        head |= HEAD_BURIALS;
    }
    if let Some(left) = member.left {
        head |= HEAD_LEFT | if left.shown { HEAD_LEFT_SHOWN } else { 0 };
    }
    out.push(head);
    out.push(member.sessions.len() as u8);
    for session in &member.sessions {
        put_session(out, session, moments);
    }
    if let Some(shown) = member.shown {
        out.push(shown as u8);
    }
    if !member.burials.is_empty() {
        out.push(member.burials.len() as u8);
        for burial in &member.burials {
            put_short(out, &burial.id);
            put_varint(out, u64::from(burial.span));
            put_moment(out, burial.since, moments);
        }
    }
    if let Some(left) = member.left {
        put_moment(out, left.at, moments);
    }
}

fn put_moment(out: &mut Vec<u8>, moment: HeardMs, moments: Moments) {
    if moments == Moments::Kept {
        out.extend_from_slice(&(moment as u32).to_le_bytes());
    }
}

/// Flags, last beat and id come first and in this order: [`live_last`] relies on it.
fn put_session(out: &mut Vec<u8>, session: &Session, moments: Moments) {
    let mut flags = 0;
    for (set, flag) in [
        (session.waiting && moments == Moments::Kept, WAITING),
        (session.soft.is_some(), SOFT),
        (session.timeout.is_some(), OWN_TIMEOUT),
        (session.grace.is_some(), OWN_GRACE),
        (!session.status.is_empty(), STATUS),
        (!session.data.is_empty(), DATA),
        (session.changed, CHANGED),
    ] {
        if set {
            flags |= flag;
        }
    }
    out.push(flags);
    put_moment(out, session.last, moments);
    put_short(out, &session.id);
    if let Some(soft) = session.soft {
        put_moment(out, soft, moments);
    }
    for own in [session.timeout, session.grace].into_iter().flatten() {
        put_varint(out, u64::from(own));
    }
    if !session.status.is_empty() {
        put_short(out, &session.status);
    }
    if !session.data.is_empty() {
        put_long(out, &session.data);
    }
}

/// Reads what [`put`] wrote into `member`, and validates it. Without moments everybody was heard just before `now`.
pub(crate) fn read(from: &mut Reader<'_>, member: &mut Member, moments: Moments, now: HeardMs) -> Option<()> {
    let head = from.u8()?;
    let count = from.u8()?;
    if head & !HEAD_ALL != 0 || i64::from(count) > MAX_SESSIONS.max {
        return None;
    }
    member.sessions = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let session = read_session(from, moments, now)?;
        if member.sessions.iter().any(|other| other.id == session.id) {
            return None;
        }
        member.sessions.push(session);
    }
    if head & HEAD_SHOWN != 0 {
        let shown = usize::from(from.u8()?);
        member.sessions.get(shown).filter(|session| session.changed)?;
        member.shown = Some(shown);
    }
    if head & HEAD_BURIALS != 0 {
        let count = from.u8()?;
        if count == 0 || i64::from(count) > MAX_SESSIONS.max {
            return None;
        }
        for _ in 0..count {
            let id = from.short().filter(|id| (1..=MAX_SESSION_ID).contains(&id.len()))?;
            let span = u32::try_from(from.varint()?).ok().filter(|&span| i64::from(span) <= TIMEOUT.max + GRACE.max)?;
            if member.burials.iter().any(|other| other.id == id) {
                return None;
            }
            member.burials.push(Burial { id: id.to_vec(), span, since: read_moment(from, moments, now, now)? });
        }
    }
    if head & HEAD_LEFT != 0 {
        member.left = Some(Left { shown: head & HEAD_LEFT_SHOWN != 0, at: read_moment(from, moments, now, now)? });
    } else if head & HEAD_LEFT_SHOWN != 0 {
        return None;
    }
    Some(())
}

fn read_moment(from: &mut Reader<'_>, moments: Moments, now: HeardMs, unknown: HeardMs) -> Option<HeardMs> {
    match moments {
        Moments::Kept => from.u32().map(|low| widen(now, low)),
        Moments::Dropped => Some(unknown),
    }
}

fn read_session(from: &mut Reader<'_>, moments: Moments, now: HeardMs) -> Option<Session> {
    // Just before, so that a fresh timeout granted at this very millisecond is one for this session.
    let unknown = now - 1;
    let flags = from.u8()?;
    if flags & !SESSION_ALL != 0 || (moments == Moments::Dropped && flags & WAITING != 0) {
        return None;
    }
    let last = read_moment(from, moments, now, unknown)?;
    let id = from.short().filter(|id| id.len() <= MAX_SESSION_ID)?.to_vec();
    let soft = if flags & SOFT != 0 { Some(read_moment(from, moments, now, unknown)?) } else { None };
    let mut own = |flag: u8, range: &Number| -> Option<Option<u32>> {
        if flags & flag == 0 {
            return Some(None);
        }
        let value = i64::try_from(from.varint()?).ok().filter(|value| (range.min..=range.max).contains(value))?;
        u32::try_from(value).ok().map(Some)
    };
    let timeout = own(OWN_TIMEOUT, &TIMEOUT)?;
    let grace = own(OWN_GRACE, &GRACE)?;
    let mut status = Vec::new();
    if flags & STATUS != 0 {
        status = from.short().filter(|text| is_status(text) && !text.is_empty())?.to_vec();
    }
    let mut data = Vec::new();
    if flags & DATA != 0 {
        data = from.long().filter(|data| !data.is_empty() && data.len() as i64 <= MAX_DATA.max)?.to_vec();
    }
    let changed = flags & CHANGED != 0;
    if flags & (STATUS | DATA) != 0 && !changed {
        return None;
    }
    let waiting = flags & WAITING != 0 || soft.is_some();
    Some(Session { id, last, waiting, soft, timeout, grace, status, data, changed })
}

/// Whether the bytes may be a STATUS.
pub(crate) fn is_status(text: &[u8]) -> bool {
    text.len() <= MAX_STATUS && std::str::from_utf8(text).is_ok()
}

/// Present as these sessions are: online while any is live.
pub(crate) fn phase_of(sessions: &[Session]) -> Phase {
    match sessions {
        [] => Phase::Away,
        _ if sessions.iter().all(|session| session.waiting) => Phase::Grace,
        _ => Phase::Online,
    }
}

/// The stored last beat of the live session `id` in a pack with moments. The hot path of a beat: nothing is unpacked.
pub(crate) fn live_last<'a>(pack: &'a mut [u8], id: &[u8]) -> Option<&'a mut [u8; 4]> {
    let count = *pack.get(1)?;
    let mut at = 2;
    for _ in 0..count {
        let mut from = Reader::new(pack.get(at..)?);
        let flags = from.u8()?;
        from.u32()?;
        if from.short()? == id {
            if flags & (WAITING | SOFT) != 0 {
                return None;
            }
            return pack.get_mut(at + 1..)?.first_chunk_mut();
        }
        if flags & SOFT != 0 {
            from.u32()?;
        }
        for flag in [OWN_TIMEOUT, OWN_GRACE] {
            if flags & flag != 0 {
                from.varint()?;
            }
        }
        if flags & STATUS != 0 {
            from.short()?;
        }
        if flags & DATA != 0 {
            from.long()?;
        }
        at = pack.len() - from.rest().len();
    }
    None
}
