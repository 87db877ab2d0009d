//! PRESENCE.BEAT and PRESENCE.MBEAT: proof of life.

use presence_engine::effects::Effects;
use presence_engine::error::Refusal;
use presence_engine::member::Attributes;
use presence_engine::request::{BatchRequest, BeatRequest};
use presence_engine::room::{Beat, Env, Room};

use super::open::{key_at, value_in, write, Missing};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use super::SHARE_WORDS;
use crate::node;
use crate::perform::Spread;
use crate::room_type::ROOM;
use crate::sys::key::{Held, Key, Mode};
use crate::sys::{Ctx, Str};

pub(crate) static BEAT: Command = Command {
    name: c"PRESENCE.BEAT",
    flags: c"write fast",
    arity: -3,
    keys: &[Keys::at(1, Access::ReadUpdate)],
    summary: c"Proves that a session of a member is alive, and brings the member online if it was not",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::string(c"member"),
        Arg::string(c"session").token(c"SESSION").optional(),
        Arg::one_of(c"share", SHARE_WORDS).token(c"SHARE").optional(),
        Arg::string(c"status").token(c"STATUS").optional(),
        Arg::string(c"data").token(c"DATA").optional(),
        Arg::integer(c"timeout-ms").token(c"TIMEOUT").optional(),
        Arg::integer(c"grace-ms").token(c"GRACE").optional(),
    ],
    categories: c"",
    entry: entry!(beat),
};

fn beat(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let request = BeatRequest::parse(&args, u16::MAX)?;
    let name = key_at(args, 1, "presence.beat")?;
    if request.is_plain() && renew(ctx, name, request.member, request.session)? {
        ctx.reply().int(0);
        return Ok(());
    }
    let done = write(ctx, name, Missing::AutoCreate, Spread::Payload, |room, env, effects| {
        take(room, env, request.member, request.session, &request.attributes, effects)
    })?;
    ctx.reply().int(code(done.ok_or(Refusal::NoRoom)?));
    Ok(())
}

const fn code(beat: Beat) -> i64 {
    match beat {
        Beat::Online => 1,
        Beat::Renewed => 0,
        Beat::Refused => -1,
    }
}

/// The hot path: a beat that changes nothing but the moment. No flags, no effects, no allocation.
fn renew(ctx: Ctx<'_>, name: Str<'_>, member: &[u8], session: &[u8]) -> Result<bool, Refusal> {
    let key = Key::open(ctx, name, Mode::Write);
    match key.held(&ROOM) {
        Held::Nothing => Ok(false),
        Held::Other => Err(Refusal::WrongType),
        Held::Ours(value) => {
            // SAFETY: the key stays open and nothing else runs until the reference is gone.
            let value = unsafe { value_in(value) };
            Ok(node::with(|node| {
                let (now, today) = (node.now(), node.today());
                let renewed = value.room.renew(member, session, now, today);
                node.stats.beats += u64::from(renewed);
                renewed
            }))
        }
    }
}

fn take(
    room: &mut Room,
    env: &Env<'_>,
    member: &[u8],
    session: &[u8],
    attributes: &Attributes<'_>,
    effects: &mut Effects,
) -> Result<Beat, Refusal> {
    let max = env.config.max_data;
    if attributes.data.is_some_and(|data| data.len() > usize::from(max)) {
        return Err(Refusal::Data { max });
    }
    let beat = room.beat(env, member, session, attributes, effects)?;
    effects.stats.beats += u64::from(beat != Beat::Refused);
    Ok(beat)
}

pub(crate) static MBEAT: Command = Command {
    name: c"PRESENCE.MBEAT",
    flags: c"write fast",
    arity: -4,
    keys: &[Keys::at(1, Access::ReadUpdate)],
    summary: c"Proves that many sessions of a room are alive, at one moment",
    complexity: c"O(N) where N is the number of items",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::word(c"each", c"EACH").optional(),
        Arg::one_of(
            c"items",
            &[
                Arg::string(c"member").token(c"MEMBERS").multiple(),
                Arg::block(c"member-session", &[Arg::string(c"member"), Arg::string(c"session")])
                    .token(c"SESSIONS")
                    .multiple(),
            ],
        ),
    ],
    categories: c"",
    entry: entry!(mbeat),
};

/// Items whose members are looked up together.
const GROUP: usize = 256;

/// Reply of an item for which there was no room.
const NO_PLACE: i64 = -2;

fn mbeat(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let batch = BatchRequest::parse(&args)?;
    let name = key_at(args, 1, "presence.mbeat")?;
    let mut each = Vec::with_capacity(if batch.each { batch.items.len() } else { 0 });
    let online = write(ctx, name, Missing::AutoCreate, Spread::Payload, |room, env, effects| {
        let mut online = 0;
        let mut found = Vec::with_capacity(batch.items.len().min(GROUP));
        for items in batch.items.chunks(GROUP) {
            found.clear();
            room.find_all(items.iter().map(|&(member, _)| member), &mut found);
            let records = room.records();
            for (&found, &(member, session)) in found.iter().zip(items) {
                let renewed = match found {
                    Some(found) if room.records() == records => room.renew_found(found, session, env.now, env.today),
                    // Somebody of this batch has come: the others may lie elsewhere now.
                    Some(_) => room.renew(member, session, env.now, env.today),
                    None => false,
                };
                let reply = if renewed {
                    effects.stats.beats += 1;
                    0
                } else {
                    take(room, env, member, session, &Attributes::default(), effects).map_or(NO_PLACE, code)
                };
                online += i64::from(reply == 1);
                if batch.each {
                    each.push(reply);
                }
            }
        }
        Ok(online)
    })?
    .ok_or(Refusal::NoRoom)?;
    if !batch.each {
        ctx.reply().int(online);
        return Ok(());
    }
    ctx.reply().array(each.len());
    for reply in each {
        ctx.reply().int(reply);
    }
    Ok(())
}
