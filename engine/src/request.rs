//! Arguments to typed requests: all command parsing. Nothing has an effect before everything has been read.

use crate::announce::parse_epoch;
use crate::codec::member::is_status;
use crate::error::Refusal;
use crate::member::Attributes;
use crate::room::{ChangesRequest, PageRequest};
use crate::settings::{
    Number, SettingsChange, Share, COUNT_EVERY, FEED, GRACE, INTERVAL_OVER, MAX_BATCH, MAX_FRIENDS, MAX_MEMBER_ID,
    MAX_SESSION_ID, RECENT, TIMEOUT, UNIQUES_DAYS,
};
use crate::uniques::Day;

/// Arguments, the command's name first.
pub trait Args {
    /// How many.
    fn count(&self) -> usize;
    /// One of them.
    fn get(&self, index: usize) -> Option<&[u8]>;
}

impl Args for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        <[&[u8]]>::get(self, index).copied()
    }
}

/// Walks over arguments.
struct Cursor<'a, A: Args + ?Sized> {
    args: &'a A,
    next: usize,
    command: &'static str,
    options: &'static str,
}

impl<'a, A: Args + ?Sized> Cursor<'a, A> {
    fn new(args: &'a A, command: &'static str, options: &'static str) -> Self {
        Self { args, next: 1, command, options }
    }

    fn optional(&mut self) -> Option<&'a [u8]> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        Some(arg)
    }

    /// A positional argument.
    fn needed(&mut self) -> Result<&'a [u8], Refusal> {
        self.optional().ok_or(Refusal::Arity { command: self.command })
    }

    /// The value of an option.
    fn value(&mut self) -> Result<&'a [u8], Refusal> {
        self.optional().ok_or(self.syntax())
    }

    fn number(&mut self, range: &Number, name: &'static str) -> Result<u32, Refusal> {
        in_range(self.value()?, range, name)
    }

    fn syntax(&self) -> Refusal {
        Refusal::Option { command: self.command, options: self.options }
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.next < self.args.count() {
            return Err(self.syntax());
        }
        Ok(())
    }

    fn member(&mut self) -> Result<&'a [u8], Refusal> {
        member_id(self.needed()?)
    }
}

/// Sets an option that may be given once.
fn once<T>(slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), Refusal> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::Repeated { name }),
    }
}

fn flag(slot: &mut bool, name: &'static str) -> Result<(), Refusal> {
    if std::mem::replace(slot, true) {
        return Err(Refusal::Repeated { name });
    }
    Ok(())
}

fn is(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}

/// A decimal whole number: an optional minus and digits, nothing else.
fn whole(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn in_range(text: &[u8], range: &Number, name: &'static str) -> Result<u32, Refusal> {
    let out = Refusal::OutOfRange { name, min: range.min, max: range.max };
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let value = match whole(text) {
        Some(value) => value,
        None if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => return Err(out),
        None => return Err(Refusal::NotANumber { name }),
    };
    if !(range.min..=range.max).contains(&value) {
        return Err(out);
    }
    u32::try_from(value).map_err(|_| out)
}

fn member_id(id: &[u8]) -> Result<&[u8], Refusal> {
    if (1..=MAX_MEMBER_ID).contains(&id.len()) {
        Ok(id)
    } else {
        Err(Refusal::MemberId)
    }
}

fn session_id(id: &[u8]) -> Result<&[u8], Refusal> {
    if id.len() <= MAX_SESSION_ID {
        Ok(id)
    } else {
        Err(Refusal::SessionId)
    }
}

fn share(word: &[u8]) -> Result<Share, Refusal> {
    Share::parse(word).ok_or(Refusal::Share)
}

/// PRESENCE.BEAT
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatRequest<'a> {
    /// Member id.
    pub member: &'a [u8],
    /// Session id; empty for the unnamed session.
    pub session: &'a [u8],
    /// What it brings.
    pub attributes: Attributes<'a>,
}

impl<'a> BeatRequest<'a> {
    /// The options, as errors name them.
    pub const OPTIONS: &'static str = "SESSION, SHARE, STATUS, DATA, TIMEOUT and GRACE";

    /// Reads the arguments. `max_data` is the greatest length of DATA.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse<A: Args + ?Sized>(args: &'a A, max_data: u16) -> Result<Self, Refusal> {
        let mut from = Cursor::new(args, "presence.beat", Self::OPTIONS);
        from.needed()?;
        let member = from.member()?;
        let mut session = None;
        let mut attributes = Attributes::default();
        while let Some(word) = from.optional() {
            if is(word, "SESSION") {
                once(&mut session, "SESSION", session_id(from.value()?)?)?;
            } else if is(word, "SHARE") {
                once(&mut attributes.share, "SHARE", share(from.value()?)?)?;
            } else if is(word, "STATUS") {
                let text = from.value()?;
                if !is_status(text) {
                    return Err(Refusal::Status);
                }
                once(&mut attributes.status, "STATUS", text)?;
            } else if is(word, "DATA") {
                let data = from.value()?;
                if data.len() > usize::from(max_data) {
                    return Err(Refusal::Data { max: max_data });
                }
                once(&mut attributes.data, "DATA", data)?;
            } else if is(word, "TIMEOUT") {
                let timeout = from.number(&TIMEOUT, "TIMEOUT")?;
                once(&mut attributes.timeout, "TIMEOUT", timeout)?;
            } else if is(word, "GRACE") {
                let grace = from.number(&GRACE, "GRACE")?;
                once(&mut attributes.grace, "GRACE", grace)?;
            } else {
                return Err(from.syntax());
            }
        }
        Ok(Self { member, session: session.unwrap_or_default(), attributes })
    }

    /// Whether it brings nothing but a proof of life.
    pub fn is_plain(&self) -> bool {
        self.attributes == Attributes::default()
    }
}

/// PRESENCE.MBEAT
pub struct BatchRequest<'a, A: Args + ?Sized> {
    args: &'a A,
    first: usize,
    sessions: bool,
    /// Reply item by item.
    pub each: bool,
}

impl<'a, A: Args + ?Sized> BatchRequest<'a, A> {
    /// Reads and checks all arguments.
    ///
    /// # Errors
    /// What is wrong with them: one malformed item refuses the batch.
    pub fn parse(args: &'a A) -> Result<Self, Refusal> {
        let mut from = Cursor::new(args, "presence.mbeat", "");
        from.needed()?;
        let mut word = from.needed()?;
        let each = is(word, "EACH");
        if each {
            word = from.needed()?;
        }
        let sessions = is(word, "SESSIONS");
        if !sessions && !is(word, "MEMBERS") {
            return Err(Refusal::Batch);
        }
        let batch = Self { args, first: from.next, sessions, each };
        let given = args.count() - from.next;
        if given == 0 || given % batch.width() != 0 || batch.len() > MAX_BATCH {
            return Err(Refusal::Batch);
        }
        for (member, session) in batch.items() {
            member_id(member)?;
            session_id(session)?;
        }
        Ok(batch)
    }

    fn width(&self) -> usize {
        1 + usize::from(self.sessions)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        (self.args.count() - self.first) / self.width()
    }

    /// Never true of a batch that was parsed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Member and session of each item.
    pub fn items(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a, '_, A> {
        (self.first..self.args.count()).step_by(self.width()).map(|at| {
            let member = self.args.get(at).unwrap_or_default();
            let session = if self.sessions { self.args.get(at + 1).unwrap_or_default() } else { &[] };
            (member, session)
        })
    }
}

/// PRESENCE.BYE
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByeRequest<'a> {
    /// Member id.
    pub member: &'a [u8],
    /// The session, or all.
    pub session: Option<&'a [u8]>,
    /// Wait for it.
    pub soft: bool,
}

impl<'a> ByeRequest<'a> {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse<A: Args + ?Sized>(args: &'a A) -> Result<Self, Refusal> {
        let mut from = Cursor::new(args, "presence.bye", "SESSION and SOFT");
        from.needed()?;
        let member = from.member()?;
        let (mut session, mut soft) = (None, false);
        while let Some(word) = from.optional() {
            if is(word, "SESSION") {
                once(&mut session, "SESSION", session_id(from.value()?)?)?;
            } else if is(word, "SOFT") {
                flag(&mut soft, "SOFT")?;
            } else {
                return Err(from.syntax());
            }
        }
        Ok(Self { member, session, soft })
    }
}

/// PRESENCE.SHARE: member and new visibility.
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_share<A: Args + ?Sized>(args: &A) -> Result<(&[u8], Share), Refusal> {
    let mut from = Cursor::new(args, "presence.share", "none");
    from.needed()?;
    let member = from.member()?;
    let share = share(from.needed()?)?;
    from.end()?;
    Ok((member, share))
}

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

/// PRESENCE.MEMBERS
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_members<A: Args + ?Sized>(args: &A) -> Result<PageRequest, Refusal> {
    const COUNT: Number = Number { name: "COUNT", default: 100, min: 1, max: 10_000 };
    let mut from = Cursor::new(args, "presence.members", "CURSOR, COUNT and ALL");
    from.needed()?;
    let (mut cursor, mut count, mut all) = (None, None, false);
    while let Some(word) = from.optional() {
        if is(word, "CURSOR") {
            let value = whole(from.value()?).and_then(|value| u64::try_from(value).ok()).ok_or(Refusal::Cursor)?;
            once(&mut cursor, "CURSOR", value)?;
        } else if is(word, "COUNT") {
            let value = from.number(&COUNT, "COUNT")?;
            once(&mut count, "COUNT", value as usize)?;
        } else if is(word, "ALL") {
            flag(&mut all, "ALL")?;
        } else {
            return Err(from.syntax());
        }
    }
    Ok(PageRequest { cursor: cursor.unwrap_or(0), count: count.unwrap_or(COUNT.default as usize), all })
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
    let (mut count, mut all) = (None, false);
    while let Some(word) = from.optional() {
        if is(word, "COUNT") {
            let value = from.number(&COUNT, "COUNT")?;
            once(&mut count, "COUNT", value as usize)?;
        } else if is(word, "ALL") {
            flag(&mut all, "ALL")?;
        } else {
            return Err(from.syntax());
        }
    }
    Ok(ChangesRequest { epoch, seq, count: count.unwrap_or(COUNT.default as usize), all })
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

/// PRESENCE.CREATE and PRESENCE.ALTER. ALTER needs a setting (`needs_one`).
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse_settings<A: Args + ?Sized>(
    args: &A,
    command: &'static str,
    needs_one: bool,
) -> Result<SettingsChange, Refusal> {
    let options = "TIMEOUT, GRACE, RECENT, UNIQUES, SHARE, FEED, COUNTEVERY and INTERVALOVER";
    let mut from = Cursor::new(args, command, options);
    from.needed()?;
    if needs_one && from.next == args.count() {
        return Err(Refusal::Arity { command });
    }
    let mut change = SettingsChange::default();
    while let Some(word) = from.optional() {
        if is(word, "SHARE") {
            let value = from.value()?;
            let share = if is(value, "DEFAULT") { None } else { Some(share(value)?) };
            once(&mut change.share, "SHARE", share)?;
        } else if is(word, "UNIQUES") {
            let days = number_or_default(&mut from, &UNIQUES_DAYS, "UNIQUES")?;
            once(&mut change.uniques_days, "UNIQUES", days.map(|days| days as u16))?;
        } else {
            let (slot, range, name) = if is(word, "TIMEOUT") {
                (&mut change.timeout, &TIMEOUT, "TIMEOUT")
            } else if is(word, "GRACE") {
                (&mut change.grace, &GRACE, "GRACE")
            } else if is(word, "RECENT") {
                (&mut change.recent, &RECENT, "RECENT")
            } else if is(word, "FEED") {
                (&mut change.feed, &FEED, "FEED")
            } else if is(word, "COUNTEVERY") {
                (&mut change.count_every, &COUNT_EVERY, "COUNTEVERY")
            } else if is(word, "INTERVALOVER") {
                (&mut change.interval_over, &INTERVAL_OVER, "INTERVALOVER")
            } else {
                return Err(from.syntax());
            };
            let value = number_or_default(&mut from, range, name)?;
            once(slot, name, value)?;
        }
    }
    Ok(change)
}

fn number_or_default<A: Args + ?Sized>(
    from: &mut Cursor<'_, A>,
    range: &Number,
    name: &'static str,
) -> Result<Option<u32>, Refusal> {
    let value = from.value()?;
    if is(value, "DEFAULT") {
        return Ok(None);
    }
    in_range(value, range, name).map(Some)
}
