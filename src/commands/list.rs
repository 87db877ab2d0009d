//! PRESENCE.GET and PRESENCE.MEMBERS: the service's views by name.

use presence_engine::announce::epoch_text;
use presence_engine::error::Refusal;
use presence_engine::request::{parse_member, parse_members};
use presence_engine::room::Page;

use super::open::{key_at, read};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use super::{field_bytes, field_int};
use crate::sys::Ctx;

pub(crate) static GET: Command = Command {
    name: c"PRESENCE.GET",
    flags: c"readonly fast",
    arity: 3,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Tells all that is known of a member and its sessions",
    complexity: c"O(S) where S is the number of sessions of the member",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"member")],
    categories: c"",
    entry: entry!(get),
};

fn get(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let member = parse_member(&args, "presence.get", 0)?;
    let name = key_at(args, 1, "presence.get")?;
    let view = read(ctx, name, |room, env| Ok(room.and_then(|room| room.member(env, member))))?;
    let reply = ctx.reply();
    let Some(view) = view else {
        reply.null();
        return Ok(());
    };
    reply.map(7);
    field_bytes(reply, "state", view.state.as_bytes());
    field_bytes(reply, "share", view.share.as_str().as_bytes());
    field_int(reply, "since", view.since);
    field_int(reply, "idle", view.idle);
    field_bytes(reply, "status", &view.status);
    field_bytes(reply, "data", &view.data);
    reply.bytes(b"sessions");
    reply.array(view.sessions.len());
    for session in view.sessions {
        reply.map(7);
        field_bytes(reply, "session", &session.id);
        field_bytes(reply, "state", if session.waiting { b"waiting" } else { b"live" });
        field_bytes(reply, "status", &session.status);
        field_bytes(reply, "data", &session.data);
        field_int(reply, "idle", session.idle);
        field_int(reply, "timeout", session.timeout.into());
        field_int(reply, "grace", session.grace.into());
    }
    Ok(())
}

pub(crate) static MEMBERS: Command = Command {
    name: c"PRESENCE.MEMBERS",
    flags: c"readonly",
    arity: -2,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Lists those present who share with everyone, page by page",
    complexity:
        c"O(N) where N is the number of members of a page; a page looks at 1,000 members or 10 times COUNT at most",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::string(c"cursor").token(c"CURSOR").optional(),
        Arg::integer(c"count").token(c"COUNT").optional(),
        Arg::word(c"all", c"ALL").optional(),
    ],
    categories: c"",
    entry: entry!(members),
};

fn members(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let request = parse_members(&args)?;
    let name = key_at(args, 1, "presence.members")?;
    let (page, epoch, seq) = read(ctx, name, |room, env| {
        Ok(match room {
            Some(room) => (room.page(env, request), room.epoch(env.term), room.seq()),
            None => (Page::default(), 0, 0),
        })
    })?;
    let reply = ctx.reply();
    reply.array(4);
    reply.bytes(page.cursor.to_string().as_bytes());
    reply.bytes(epoch_text(epoch).as_bytes());
    reply.int(i64::try_from(seq).unwrap_or(i64::MAX));
    reply.array(page.members.len());
    for member in page.members {
        reply.map(if request.all { 5 } else { 3 });
        field_bytes(reply, "member", &member.id);
        field_bytes(reply, "status", &member.status);
        field_bytes(reply, "data", &member.data);
        if request.all {
            field_bytes(reply, "state", member.state.as_bytes());
            field_bytes(reply, "share", member.share.as_str().as_bytes());
        }
    }
    Ok(())
}
