//! PRESENCE.CREATE, PRESENCE.ALTER and PRESENCE.INFO: a room's own settings.

use presence_engine::announce::epoch_text;
use presence_engine::error::Refusal;
use presence_engine::request::parse_settings;

use super::open::{key_at, read, write, Missing};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use super::{field_bytes, field_int, DEFAULT, SHARE_OR_DEFAULT};
use crate::node;
use crate::perform::Spread;
use crate::room_type::ROOM;
use crate::sys::key::Held;
use crate::sys::key::{Key, Mode};
use crate::sys::Ctx;

/// Key and settings as COMMAND DOCS shows them.
const ARGS: &[Arg] = &[
    Arg::key(c"key", 0),
    Arg::one_of(c"timeout", &[Arg::integer(c"timeout-ms"), DEFAULT]).token(c"TIMEOUT").optional(),
    Arg::one_of(c"grace", &[Arg::integer(c"grace-ms"), DEFAULT]).token(c"GRACE").optional(),
    Arg::one_of(c"recent", &[Arg::integer(c"recent-ms"), DEFAULT]).token(c"RECENT").optional(),
    Arg::one_of(c"uniques", &[Arg::integer(c"days"), DEFAULT]).token(c"UNIQUES").optional(),
    Arg::one_of(c"share", SHARE_OR_DEFAULT).token(c"SHARE").optional(),
    Arg::one_of(c"feed", &[Arg::integer(c"events"), DEFAULT]).token(c"FEED").optional(),
    Arg::one_of(c"count-every", &[Arg::integer(c"count-every-ms"), DEFAULT]).token(c"COUNTEVERY").optional(),
    Arg::one_of(c"interval-over", &[Arg::integer(c"members"), DEFAULT]).token(c"INTERVALOVER").optional(),
];

pub(crate) static CREATE: Command = Command {
    name: c"PRESENCE.CREATE",
    flags: c"write fast deny-oom",
    arity: -2,
    keys: &[Keys::at(1, Access::Insert)],
    summary: c"Makes a room with settings of its own, which stays when nobody is present",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: ARGS,
    categories: c"",
    entry: entry!(create),
};

fn create(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let change = parse_settings(&args, "presence.create", false)?;
    let name = key_at(args, 1, "presence.create")?;
    match Key::open(ctx, name, Mode::Read).held(&ROOM) {
        Held::Nothing => {}
        Held::Ours(_) => return Err(Refusal::RoomExists),
        Held::Other => return Err(Refusal::WrongType),
    }
    write(ctx, name, Missing::Create, Spread::Payload, |room, env, effects| {
        room.create(env, &change, effects);
        Ok(())
    })?;
    ctx.reply().simple(c"OK");
    Ok(())
}

pub(crate) static ALTER: Command = Command {
    name: c"PRESENCE.ALTER",
    flags: c"write",
    arity: -4,
    keys: &[Keys::at(1, Access::Update)],
    summary: c"Changes settings of a room; DEFAULT gives one back to the node's configuration",
    complexity: c"O(1); after a change of times all members are looked at again, within the tick's budget",
    since: c"1.0.0",
    args: ARGS,
    categories: c"",
    entry: entry!(alter),
};

fn alter(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let change = parse_settings(&args, "presence.alter", true)?;
    let name = key_at(args, 1, "presence.alter")?;
    let done = write(ctx, name, Missing::Refuse, Spread::Payload, |room, env, effects| {
        room.alter(env, &change, effects);
        Ok(())
    })?;
    done.ok_or(Refusal::NoRoom)?;
    ctx.reply().simple(c"OK");
    Ok(())
}

pub(crate) static INFO: Command = Command {
    name: c"PRESENCE.INFO",
    flags: c"readonly fast",
    arity: 2,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Tells the settings in force in a room, its figures, and advice",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0)],
    categories: c"",
    entry: entry!(info),
};

fn info(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let name = key_at(args, 1, "presence.info")?;
    let flags = ctx.flags();
    let empty = node::with(|node| node.new_room(flags));
    let (exists, info, memory) = read(ctx, name, |room, env| {
        let info = room.unwrap_or(&empty).info(env);
        Ok((room.is_some(), info, room.map_or(0, presence_engine::room::Room::memory)))
    })?;
    let settings = info.settings;
    let reply = ctx.reply();
    reply.map(20);
    for (name, value) in [
        ("timeout", settings.timeout),
        ("grace", settings.grace),
        ("recent", settings.recent),
        ("uniques", settings.uniques_days.map(u32::from)),
        ("feed", settings.feed),
        ("countevery", settings.count_every),
        ("intervalover", settings.interval_over),
    ] {
        field_int(reply, name, value.unwrap_or_default().into());
    }
    field_bytes(reply, "share", settings.share.unwrap_or_default().as_str().as_bytes());
    field_int(reply, "own-settings", info.own.into());
    field_int(reply, "members", info.members.into());
    field_int(reply, "sessions", info.sessions.into());
    field_int(reply, "records", info.records as u64);
    field_int(reply, "unique-days", info.unique_days as u64);
    field_int(reply, "memory", memory as u64);
    field_bytes(reply, "epoch", epoch_text(if exists { info.epoch } else { 0 }).as_bytes());
    field_int(reply, "seq", info.seq);
    field_int(reply, "beat-interval", info.beat_interval.unwrap_or(0).into());
    field_int(reply, "advised-timeout", info.advised_timeout.unwrap_or(0).into());
    let advice = match (info.beat_interval, info.advised_timeout) {
        (Some(interval), Some(timeout)) => format!(
            "clients beat every {interval} ms, so one lost beat exceeds the timeout: set TIMEOUT to {timeout} or more, \
             or let them beat more often"
        ),
        _ => String::new(),
    };
    field_bytes(reply, "advice", advice.as_bytes());
    field_int(reply, "exists", exists.into());
    Ok(())
}
