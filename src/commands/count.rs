//! PRESENCE.COUNT, PRESENCE.MCOUNT and PRESENCE.UNIQUE: numbers, which name nobody.

use presence_engine::badge::badge;
use presence_engine::error::Refusal;
use presence_engine::request::{parse_count, CountOf, UniqueRequest};
use presence_engine::room::Room;

use super::open::{key_at, look, read_all};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use crate::sys::Ctx;

pub(crate) static COUNT: Command = Command {
    name: c"PRESENCE.COUNT",
    flags: c"readonly fast",
    arity: -2,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Tells how many members are present, exactly or as a badge, or how many sessions they have",
    complexity: c"O(1)",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::one_of(c"what", &[Arg::word(c"badge", c"BADGE"), Arg::word(c"sessions", c"SESSIONS")]).optional(),
    ],
    categories: c"",
    entry: entry!(count),
};

fn count(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let of = parse_count(&args)?;
    let name = key_at(args, 1, "presence.count")?;
    let number =
        look(ctx, name, |room| room.map_or(0, if of == CountOf::Sessions { Room::sessions } else { Room::count }))?;
    match of {
        CountOf::Badge => ctx.reply().bytes(badge(number.into()).as_bytes()),
        CountOf::Members | CountOf::Sessions => ctx.reply().int(number.into()),
    }
    Ok(())
}

pub(crate) static MCOUNT: Command = Command {
    name: c"PRESENCE.MCOUNT",
    flags: c"readonly fast",
    arity: -2,
    keys: &[Keys::from(1, Access::Read)],
    summary: c"Tells how many members are present in each of many rooms",
    complexity: c"O(N) where N is the number of rooms",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0).multiple()],
    categories: c"",
    entry: entry!(mcount),
};

fn mcount(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let names = (1..args.len()).filter_map(|index| args.string(index));
    let counts: Vec<_> =
        read_all(ctx, names, |rooms, _| Ok(rooms.iter().map(|room| room.map_or(0, Room::count)).collect()))?;
    ctx.reply().array(counts.len());
    for count in counts {
        ctx.reply().int(count.into());
    }
    Ok(())
}

pub(crate) static UNIQUE: Command = Command {
    name: c"PRESENCE.UNIQUE",
    // Redis 7.0 redirects by one range of keys, unless it can ask.
    flags: c"readonly getkeys-api",
    arity: -2,
    keys: &[Keys::at(1, Access::Read), Keys::after(c"WITH", 2, Access::Read)],
    summary: c"Estimates how many distinct members were there on a day, or on the days that end with it",
    complexity: c"O(N*D) where N is the number of rooms and D the number of days",
    since: c"1.0.0",
    args: &[
        Arg::key(c"key", 0),
        Arg::string(c"yyyymmdd").token(c"DAY").optional(),
        Arg::integer(c"days").token(c"DAYS").optional(),
        Arg::key(c"other-key", 1).token(c"WITH").optional().multiple(),
    ],
    categories: c"",
    entry: entry!(unique),
};

fn unique(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    if ctx.wants_keys() {
        let with = args.from(2).position(|word| word.eq_ignore_ascii_case(b"WITH")).map_or(args.len(), |at| at + 3);
        [1].into_iter().chain(with..args.len()).for_each(|index| ctx.key_is_at(index));
        return Ok(());
    }
    let request = UniqueRequest::parse(&args)?;
    let with = request.with.unwrap_or(args.len());
    let names = [1].into_iter().chain(with..args.len()).filter_map(|index| args.string(index));
    let number = read_all(ctx, names, |rooms, env| Room::unique(rooms, env, request.last, request.days))?;
    ctx.reply().int(i64::try_from(number).unwrap_or(i64::MAX));
    Ok(())
}
