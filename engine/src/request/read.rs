//! Commands that ask.

use super::{flag, is, member_id, once, whole, Args, Cursor};
use crate::announce::parse_epoch;
use crate::error::Refusal;
use crate::room::{ChangesRequest, PageRequest};
use crate::settings::{Number, MAX_FRIENDS, UNIQUES_DAYS};
use crate::uniques::Day;

/// What PRESENCE.COUNT counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountOf {
    /// Members present.
    Members,
    /// The same, rounded, as text.
    Badge,
    /// Their sessions.
    Sessions,
}

/// PRESENCE.COUNT
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_count<A: Args + ?Sized>(args: &A) -> Result<CountOf, Refusal> {
    let mut from = Cursor::new(args, "presence.count", "BADGE or SESSIONS");
    from.needed()?;
    let of = match from.optional() {
        None => CountOf::Members,
        Some(word) if is(word, "BADGE") => CountOf::Badge,
        Some(word) if is(word, "SESSIONS") => CountOf::Sessions,
        Some(_) => return Err(from.syntax()),
    };
    from.end()?;
    Ok(of)
}

/// PRESENCE.FRIENDS: the viewer, and where the friends begin. Every id has been checked.
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_friends<A: Args + ?Sized>(args: &A) -> Result<(&[u8], usize), Refusal> {
    let mut from = Cursor::new(args, "presence.friends", "none");
    from.needed()?;
    let viewer = from.member()?;
    let first = from.next;
    from.member()?;
    if args.count() - first > MAX_FRIENDS {
        return Err(Refusal::Friends { max: MAX_FRIENDS });
    }
    while let Some(friend) = from.optional() {
        member_id(friend)?;
    }
    Ok((viewer, first))
}

/// A command of a key and one member: GET, and the viewer of FRIENDSFROM (`extra` 1 for the set's key).
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_member<'a, A: Args + ?Sized>(
    args: &'a A,
    command: &'static str,
    extra: usize,
) -> Result<&'a [u8], Refusal> {
    if args.count() != 3 + extra {
        return Err(Refusal::Arity { command });
    }
    let mut from = Cursor::new(args, command, "none");
    from.needed()?;
    from.member()
}

/// PRESENCE.UNIQUE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueRequest {
    /// The last day, today if not given.
    pub last: Option<Day>,
    /// How many days end with it.
    pub days: u16,
    /// Where the keys of WITH begin, if any.
    pub with: Option<usize>,
}

impl UniqueRequest {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse<A: Args + ?Sized>(args: &A) -> Result<Self, Refusal> {
        const DAYS: Number = Number { name: "DAYS", default: 1, min: 1, max: UNIQUES_DAYS.max };
        let mut from = Cursor::new(args, "presence.unique", "DAY, DAYS and, as the last one, WITH");
        from.needed()?;
        let (mut last, mut days, mut with) = (None, None, None);
        while let Some(word) = from.optional() {
            if is(word, "DAY") {
                once(&mut last, "DAY", Day::parse(from.value()?).ok_or(Refusal::Day)?)?;
            } else if is(word, "DAYS") {
                let number = from.number(&DAYS, "DAYS")?;
                once(&mut days, "DAYS", number as u16)?;
            } else if is(word, "WITH") {
                with = Some(from.next);
                from.value()?;
                break;
            } else {
                return Err(from.syntax());
            }
        }
        Ok(Self { last, days: days.unwrap_or(1), with })
    }
}

/// How much of a list is wanted, and of whom: COUNT and ALL.
#[derive(Default)]
struct Portion {
    count: Option<u32>,
    all: bool,
}

impl Portion {
    fn take<A: Args + ?Sized>(&mut self, word: &[u8], from: &mut Cursor<'_, A>, range: &Number) -> Result<(), Refusal> {
        if is(word, "COUNT") {
            let value = from.number(range, "COUNT")?;
            once(&mut self.count, "COUNT", value)
        } else if is(word, "ALL") {
            flag(&mut self.all, "ALL")
        } else {
            Err(from.syntax())
        }
    }

    fn count(&self, range: &Number) -> usize {
        self.count.map_or(range.default.unsigned_abs() as usize, |count| count as usize)
    }
}

/// Most members of a page of PRESENCE.MEMBERS, whatever its COUNT, so that nobody waits for it.
const MOST_LISTED: usize = 1_000;

/// PRESENCE.MEMBERS
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_members<A: Args + ?Sized>(args: &A) -> Result<PageRequest, Refusal> {
    const COUNT: Number = Number { name: "COUNT", default: 100, min: 1, max: 10_000 };
    let mut from = Cursor::new(args, "presence.members", "CURSOR, COUNT and ALL");
    from.needed()?;
    let (mut cursor, mut portion) = (None, Portion::default());
    while let Some(word) = from.optional() {
        if is(word, "CURSOR") {
            let value = whole(from.value()?).and_then(|value| u64::try_from(value).ok()).ok_or(Refusal::Cursor)?;
            once(&mut cursor, "CURSOR", value)?;
        } else {
            portion.take(word, &mut from, &COUNT)?;
        }
    }
    let count = portion.count(&COUNT).min(MOST_LISTED);
    Ok(PageRequest { cursor: cursor.unwrap_or(0), count, all: portion.all })
}

/// PRESENCE.CHANGES
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_changes<A: Args + ?Sized>(args: &A) -> Result<ChangesRequest, Refusal> {
    const COUNT: Number = Number { name: "COUNT", default: 1_000, min: 1, max: 10_000 };
    let mut from = Cursor::new(args, "presence.changes", "COUNT and ALL");
    from.needed()?;
    let epoch = parse_epoch(from.needed()?);
    let seq =
        whole(from.needed()?).and_then(|seq| u64::try_from(seq).ok()).ok_or(Refusal::NotANumber { name: "seq" })?;
    let mut portion = Portion::default();
    while let Some(word) = from.optional() {
        portion.take(word, &mut from, &COUNT)?;
    }
    Ok(ChangesRequest { epoch, seq, count: portion.count(&COUNT), all: portion.all })
}

/// PRESENCE.CHANNELS: the member, if one is named.
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_channels<A: Args + ?Sized>(args: &A) -> Result<Option<&[u8]>, Refusal> {
    let mut from = Cursor::new(args, "presence.channels", "none");
    from.needed()?;
    let member = from.optional().map(member_id).transpose()?;
    from.end()?;
    Ok(member)
}
