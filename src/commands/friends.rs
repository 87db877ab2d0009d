//! PRESENCE.FRIENDS and PRESENCE.FRIENDSFROM: the green dot.

use presence_engine::error::Refusal;
use presence_engine::request::{parse_friends, parse_member};
use presence_engine::room::{Env, FriendState, Room};
use presence_engine::settings::{MAX_FRIENDS_FROM, MAX_MEMBER_ID};

use super::open::{key_at, read};
use super::spec::{entry, Access, Arg, Args, Command, Keys};
use crate::sys::key::{Key, Mode};
use crate::sys::Ctx;

pub(crate) static FRIENDS: Command = Command {
    name: c"PRESENCE.FRIENDS",
    flags: c"readonly fast",
    arity: -4,
    keys: &[Keys::at(1, Access::Read)],
    summary: c"Tells what a viewer may see of each of their friends: online, recent or offline",
    complexity: c"O(N) where N is the number of friends",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"viewer"), Arg::string(c"friend").multiple()],
    categories: c"",
    entry: entry!(friends),
};

fn friends(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    let (viewer, first) = parse_friends(&args)?;
    let name = key_at(args, 1, "presence.friends")?;
    let states = read(ctx, name, |room, env| Ok(states_of(room, env, viewer, args.from(first))))?;
    ctx.reply().array(states.len());
    for state in states {
        ctx.reply().bytes(state.as_str().as_bytes());
    }
    Ok(())
}

/// What the viewer may see of each; a room that is missing has nobody in it.
fn states_of<'a>(
    room: Option<&Room>,
    env: &Env<'_>,
    viewer: &'a [u8],
    friends: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
) -> Vec<FriendState> {
    let Some(room) = room else { return vec![FriendState::Offline; friends.len()] };
    let mut states = Vec::with_capacity(friends.len());
    room.friends(env, viewer, friends, |state| states.push(state));
    states
}

pub(crate) static FRIENDSFROM: Command = Command {
    name: c"PRESENCE.FRIENDSFROM",
    // Redis 7.0 redirects by one range of keys, unless it can ask.
    flags: c"readonly getkeys-api",
    arity: 4,
    keys: &[Keys::at(1, Access::Read), Keys::at(3, Access::Read)],
    summary: c"Tells which friends in a SET of accepted friends are online or recent",
    complexity: c"O(N) where N is the number of friends in the set",
    since: c"1.0.0",
    args: &[Arg::key(c"key", 0), Arg::string(c"viewer"), Arg::key(c"setkey", 1)],
    categories: c"",
    entry: entry!(friends_from),
};

fn friends_from(ctx: Ctx<'_>, args: Args<'_>) -> Result<(), Refusal> {
    if ctx.wants_keys() {
        [1, 3].into_iter().for_each(|index| ctx.key_is_at(index));
        return Ok(());
    }
    let viewer = parse_member(&args, "presence.friendsfrom", 1)?;
    let name = key_at(args, 1, "presence.friendsfrom")?;
    let set = Key::open(ctx, key_at(args, 3, "presence.friendsfrom")?, Mode::Read);
    if set.set_len().ok_or(Refusal::WrongType)? > MAX_FRIENDS_FROM {
        return Err(Refusal::Friends { max: MAX_FRIENDS_FROM });
    }
    let mut friends = Vec::new();
    set.for_each_set_member(|friend| {
        if friend.len() <= MAX_MEMBER_ID {
            friends.push(friend.to_vec());
        }
    });
    let states = read(ctx, name, |room, env| Ok(states_of(room, env, viewer, friends.iter().map(Vec::as_slice))))?;
    let seen: Vec<_> = friends.iter().zip(states).filter(|&(_, state)| state != FriendState::Offline).collect();
    ctx.reply().map(seen.len());
    for (friend, state) in seen {
        ctx.reply().bytes(friend);
        ctx.reply().bytes(state.as_str().as_bytes());
    }
    Ok(())
}
