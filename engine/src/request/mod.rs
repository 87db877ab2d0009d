//! Arguments to typed requests: all command parsing. Nothing has an effect before everything has been read.

mod beat;
mod read;
mod settings;

pub use self::beat::{parse_share, BatchRequest, BeatRequest, ByeRequest};
pub use self::read::{
    parse_changes, parse_channels, parse_count, parse_friends, parse_member, parse_members, CountOf, UniqueRequest,
};
pub use self::settings::parse_settings;
use crate::error::Refusal;
use crate::settings::{Number, Share, MAX_MEMBER_ID, MAX_SESSION_ID};

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
