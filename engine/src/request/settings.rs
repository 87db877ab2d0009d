//! Settings of a room.

use super::{in_range, is, once, share, Args, Cursor};
use crate::error::Refusal;
use crate::settings::{Number, SettingsChange, COUNT_EVERY, FEED, GRACE, INTERVAL_OVER, RECENT, TIMEOUT, UNIQUES_DAYS};

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
