//! Commands that say something of a member: BEAT, MBEAT, BYE, SHARE.

use super::{flag, is, member_id, once, session_id, share, Args, Cursor};
use crate::codec::member::is_status;
use crate::error::Refusal;
use crate::member::Attributes;
use crate::settings::{Share, GRACE, MAX_BATCH, TIMEOUT};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest<'a> {
    /// Member and session of each item; the session is empty where none is named.
    pub items: Vec<(&'a [u8], &'a [u8])>,
    /// Reply item by item.
    pub each: bool,
}

impl<'a> BatchRequest<'a> {
    /// Reads and checks all arguments.
    ///
    /// # Errors
    /// What is wrong with them: one malformed item refuses the batch.
    pub fn parse<A: Args + ?Sized>(args: &'a A) -> Result<Self, Refusal> {
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
        let (first, width) = (from.next, 1 + usize::from(sessions));
        let given = args.count() - first;
        if given == 0 || given % width != 0 || given / width > MAX_BATCH {
            return Err(Refusal::Batch);
        }
        let mut items = Vec::with_capacity(given / width);
        for at in (first..args.count()).step_by(width) {
            let member = member_id(args.get(at).unwrap_or_default())?;
            let session = if sessions { session_id(args.get(at + 1).unwrap_or_default())? } else { &[] };
            items.push((member, session));
        }
        Ok(Self { items, each })
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
