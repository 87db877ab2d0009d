//! PRESENCE.CHANGES and PRESENCE.CHANNELS: for those who watch a room.

use presence_engine::announce::channels::Channels;
use presence_engine::announce::{epoch_text, Told};
use presence_engine::error::Refusal;
use presence_engine::request::{parse_changes, parse_channels};
use presence_engine::room::Room;

use super::open::{key_at, read};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use super::{field_bytes, field_int};
use crate::perform::channel;
use crate::sys::context::Channel;
use crate::sys::Ctx;

pub(crate) static CHANGES: Command = Command {
    name: c"PRESENCE.CHANGES",
    flags: c"readonly",
    arity: -4,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Tells what changed after an event that the reader knows, as the feed did",
    complexity: c"O(N) where N is the number of changes looked at, 10 times COUNT at most",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::string(c"epoch"),
        Arg::integer(c"seq"),
        Arg::integer(c"count").token(c"COUNT").optional(),
        Arg::word(c"all", c"ALL").optional(),
    ],
    categories: c"",
    entry: entry!(changes),
};

fn changes(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let request = parse_changes(&args)?;
    let name = key_at(args, 1, "presence.changes")?;
    let (changes, epoch) = read(ctx, name, |room, env| {
        Ok((Room::changes(room, env, request)?, room.map_or(0, |room| room.epoch(env.term))))
    })?;
    let reply = ctx.reply();
    reply.map(3);
    field_bytes(reply, "epoch", epoch_text(epoch).as_bytes());
    field_int(reply, "seq", changes.seq);
    reply.bytes(b"events");
    reply.array(changes.events.len());
    for event in changes.events {
        let reason = match event.told {
            Told::Offline(reason) => Some(reason.as_str()),
            Told::Online | Told::Update => None,
        };
        reply.map(if reason.is_some() { 4 } else { 5 } + usize::from(request.all));
        field_bytes(reply, "event", event.told.as_str().as_bytes());
        field_bytes(reply, "member", &event.id);
        field_int(reply, "seq", event.seq);
        match reason {
            Some(reason) => field_bytes(reply, "reason", reason.as_bytes()),
            None => {
                field_bytes(reply, "status", &event.status);
                field_bytes(reply, "data", &event.data);
            }
        }
        if request.all {
            field_bytes(reply, "share", event.share.as_str().as_bytes());
        }
    }
    Ok(())
}

pub(crate) static CHANNELS: Command = Command {
    name: c"PRESENCE.CHANNELS",
    flags: c"readonly fast",
    arity: -2,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Names the channels on which a room is announced, and the command that subscribes to them",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"member").optional()],
    categories: c"",
    entry: entry!(channels),
};

fn channels(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let member = parse_channels(&args)?;
    let name = key_at(args, 1, "presence.channels")?;
    let channels = Channels::new(ctx.db(), name.as_bytes());
    let verb: &[u8] = match channel(ctx) {
        Channel::Classic => b"SUBSCRIBE",
        Channel::Sharded => b"SSUBSCRIBE",
    };
    let reply = ctx.reply();
    reply.map(3 + usize::from(member.is_some()));
    field_bytes(reply, "verb", verb);
    field_bytes(reply, "count", &channels.count());
    field_bytes(reply, "feed", &channels.feed());
    if let Some(member) = member {
        field_bytes(reply, "member", &channels.member(member));
    }
    Ok(())
}
