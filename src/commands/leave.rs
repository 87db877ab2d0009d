//! PRESENCE.BYE and PRESENCE.SHARE: goodbyes and visibility.

use presence_engine::error::Refusal;
use presence_engine::request::{parse_share, ByeRequest};

use super::open::{key_at, write, Missing};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use super::SHARE_WORDS;
use crate::perform::Spread;
use crate::sys::Ctx;

pub(crate) static BYE: Command = Command {
    name: c"PRESENCE.BYE",
    flags: c"write fast",
    arity: -3,
    keys: &[Keys::at(1, Access::ReadUpdate)],
    summary: c"Says goodbye for one session of a member, or for all of them",
    complexity: c"O(S) where S is the number of sessions of the member",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::string(c"member"),
        Arg::string(c"session").token(c"SESSION").optional(),
        Arg::word(c"soft", c"SOFT").optional(),
    ],
    categories: c"",
    entry: entry!(bye),
};

fn bye(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let request = ByeRequest::parse(&args)?;
    let name = key_at(args, 1, "presence.bye")?;
    let offline = write(ctx, name, Missing::Refuse, Spread::Payload, |room, env, effects| {
        Ok(room.bye(env, request.member, request.session, request.soft, effects))
    })?;
    ctx.reply().int(offline.unwrap_or(false).into());
    Ok(())
}

pub(crate) static SHARE: Command = Command {
    name: c"PRESENCE.SHARE",
    flags: c"write fast",
    arity: 4,
    keys: &[Keys::at(1, Access::ReadUpdate)],
    summary: c"Changes who may see a member by name",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"member"), Arg::one_of(c"share", SHARE_WORDS)],
    categories: c"",
    entry: entry!(share),
};

fn share(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let (member, share) = parse_share(&args)?;
    let name = key_at(args, 1, "presence.share")?;
    let changed = write(ctx, name, Missing::Refuse, Spread::Payload, |room, env, effects| {
        Ok(room.share(env, member, share, effects))
    })?;
    ctx.reply().int(changed.unwrap_or(false).into());
    Ok(())
}
