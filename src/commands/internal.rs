//! What servers say to servers: PRESENCE.APPLY carries a room's changes to replicas, into the AOF and between nodes;
//! PRESENCE.PROBE asks whether a beat would be admitted now.

use presence_engine::error::Refusal;

use super::open::{key_at, write, Missing};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use crate::perform::Spread;
use crate::sys::Ctx;

pub(crate) static APPLY: Command = Command {
    name: c"PRESENCE.APPLY",
    flags: c"write admin",
    arity: 3,
    keys: &[Keys::at(1, Access::Update)],
    summary: c"Applies changes that another server decided; not for clients",
    complexity: c"O(N) where N is the number of members in the payload",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"payload")],
    categories: c"admin dangerous",
    entry: entry!(apply),
};

fn apply(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let name = key_at(args, 1, "presence.apply")?;
    let payload = args.get(2).unwrap_or_default();
    // Whatever a primary decided is obeyed; it goes on to this node's own AOF and replicas as it came.
    write(ctx, name, Missing::Create, Spread::Verbatim, |room, env, effects| {
        room.apply(env, payload, effects).map_err(Refusal::from)
    })?;
    ctx.reply().simple(c"OK");
    Ok(())
}

pub(crate) static PROBE: Command = Command {
    name: c"PRESENCE.PROBE",
    flags: c"write fast no-monitor no-slowlog",
    arity: -1,
    keys: &[Keys::at(1, Access::Update)],
    summary: c"Does nothing, and is refused where a beat would be; not for clients",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0).optional()],
    categories: c"",
    entry: entry!(probe),
};

fn probe(ctx: Ctx<'_>, _args: Args<'_>) -> Result<(), Refusal> {
    ctx.reply().simple(c"OK");
    Ok(())
}

/// Has the next entry from the server whose name contains an argument panic.
#[cfg(feature = "inject-panics")]
pub(crate) static PANIC: Command = Command {
    name: c"PRESENCE.PANIC",
    flags: c"write admin",
    arity: 2,
    keys: &[],
    summary: c"For the tests of this module only",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[Arg::string(c"what")],
    categories: c"",
    entry: entry!(ask_for_panic),
};

#[cfg(feature = "inject-panics")]
fn ask_for_panic(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    crate::sys::guard::injected::ask(args.get(1).unwrap_or_default());
    ctx.reply().simple(c"OK");
    Ok(())
}
