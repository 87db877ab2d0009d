//! The hub's asks, performed on a line.

use std::sync::Arc;

use redis::{cmd, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Value};

use super::Line;
use crate::hub::{BeatAsk, BeatReply, Listening, Refusal, Seen, Topic, Verb};
use crate::protocol::State;

/// Items of one MBEAT: as many as no server stops for.
const BATCH: usize = 256;

/// The server cannot serve the command now, but will: told again. Everything else is a refusal.
const NOT_NOW: [&str; 11] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
];

fn strange(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}

/// A number, or the server's refusal.
///
/// # Errors
/// The server cannot serve it now, or the answer is no number.
fn number(answer: Option<Value>) -> RedisResult<Result<i64, Refusal>> {
    match answer {
        Some(Value::Int(number)) => Ok(Ok(number)),
        Some(Value::ServerError(error)) if NOT_NOW.contains(&error.code()) => Err(error.into()),
        Some(Value::ServerError(error)) => Ok(Err(error.details().unwrap_or(error.code()).to_owned())),
        _ => Err(strange("a number was expected")),
    }
}

fn join(room: &str, joined: &crate::hub::Joined) -> Cmd {
    let mut beat = cmd("PRESENCE.BEAT");
    beat.arg(room).arg(&*joined.user).arg("SESSION").arg(&joined.session);
    if let Some(share) = joined.share {
        beat.arg("SHARE").arg(share.as_str());
    }
    if let Some(status) = &joined.status {
        beat.arg("STATUS").arg(status);
    }
    beat
}

/// Tells a room its news.
///
/// # Errors
/// All of it is to be told again: the line failed, or the server cannot serve it now.
pub async fn beat(line: &Line, room: &str, ask: &BeatAsk) -> RedisResult<BeatReply> {
    let mut commands = Pipeline::new();
    let mut count = ask.joins.len() + ask.shares.len() + ask.byes.len();
    for joined in &ask.joins {
        commands.add_command(join(room, joined));
    }
    for items in ask.beats.chunks(BATCH) {
        let batch = commands.cmd("PRESENCE.MBEAT").arg(room).arg("EACH").arg("SESSIONS");
        for (_, user, session) in items {
            batch.arg(&**user).arg(session);
        }
        count += 1;
    }
    for (user, share) in &ask.shares {
        commands.cmd("PRESENCE.SHARE").arg(room).arg(&**user).arg(share.as_str());
    }
    for bye in &ask.byes {
        let parting = commands.cmd("PRESENCE.BYE").arg(room).arg(&*bye.user).arg("SESSION").arg(&bye.session);
        if bye.soft {
            parting.arg("SOFT");
        }
    }
    if ask.pace {
        commands.cmd("PRESENCE.INFO").arg(room);
        count += 1;
    }
    let mut answers = line.commands(&commands, count).await?.into_iter();
    let joins = ask.joins.iter().map(|_| number(answers.next())).collect::<RedisResult<_>>()?;
    let mut beats = Vec::with_capacity(ask.beats.len());
    for items in ask.beats.chunks(BATCH) {
        match answers.next() {
            Some(Value::Array(each)) if each.len() == items.len() => {
                for answer in each {
                    beats.push(number(Some(answer))?);
                }
            }
            other => {
                let refusal = number(other)?;
                beats.extend(items.iter().map(|_| refusal.clone()));
            }
        }
    }
    for _ in 0..ask.shares.len() + ask.byes.len() {
        // What the server does not take here it will not take later.
        if let Err(refused) = number(answers.next())? {
            tracing::warn!(room, refused, "Redis refused a SHARE or a BYE");
        }
    }
    let timeout = answers.next().as_ref().and_then(|info| field(info, "timeout")).and_then(|value| match value {
        Value::Int(timeout) => u64::try_from(*timeout).ok(),
        _ => None,
    });
    Ok(BeatReply { joins, beats, timeout })
}

fn is(value: &Value, name: &str) -> bool {
    match value {
        Value::BulkString(bytes) => bytes == name.as_bytes(),
        Value::SimpleString(text) => text == name,
        _ => false,
    }
}

/// A field of a map.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map_iter()?.find(|(key, _)| is(key, name)).map(|(_, value)| value)
}

fn text(value: Option<&Value>) -> Option<String> {
    String::from_redis_value(value?.clone()).ok()
}

/// The channel of a topic, and how to subscribe to it.
///
/// # Errors
/// Those of the line and of the server.
pub async fn name(line: &Line, topic: &Topic) -> RedisResult<Listening> {
    let mut channels = cmd("PRESENCE.CHANNELS");
    let kind = match topic {
        Topic::Count(room) => {
            channels.arg(&**room);
            "count"
        }
        Topic::Member(room, member) => {
            channels.arg(&**room).arg(&**member);
            "member"
        }
    };
    let answer = line.command(&channels).await?;
    let verb = match text(field(&answer, "verb")).as_deref() {
        Some("SSUBSCRIBE") => Verb::Sharded,
        Some("SUBSCRIBE") => Verb::Classic,
        _ => return Err(strange("PRESENCE.CHANNELS names no verb")),
    };
    let Some(Value::BulkString(channel)) = field(&answer, kind) else {
        return Err(strange("PRESENCE.CHANNELS does not name the channel"));
    };
    Ok(Listening { channel: channel.clone(), verb })
}

/// Subscribes, or unsubscribes.
///
/// # Errors
/// Those of the line and of the server.
pub async fn subscribe(line: &Line, listening: &Listening, on: bool) -> RedisResult<()> {
    let word = match (listening.verb, on) {
        (Verb::Classic, true) => "SUBSCRIBE",
        (Verb::Classic, false) => "UNSUBSCRIBE",
        (Verb::Sharded, true) => "SSUBSCRIBE",
        (Verb::Sharded, false) => "SUNSUBSCRIBE",
    };
    line.command(cmd(word).arg(&listening.channel)).await.map(drop)
}

/// The badge of a room.
///
/// # Errors
/// Those of the line and of the server.
pub async fn count(line: &Line, room: &str) -> RedisResult<String> {
    let answer = line.command(cmd("PRESENCE.COUNT").arg(room).arg("BADGE")).await?;
    text(Some(&answer)).ok_or_else(|| strange("PRESENCE.COUNT answers no badge"))
}

fn friends_of(user: &str) -> String {
    format!("friends:{user}")
}

/// What `user` may see of `members`: of those that are accepted friends, and of themselves.
///
/// # Errors
/// Those of the line and of the server.
pub async fn look(line: &Line, user: &str, room: &str, members: &[(Arc<str>, u64)]) -> RedisResult<Vec<Seen>> {
    let mut accepted = cmd("SMISMEMBER");
    accepted.arg(friends_of(user));
    for (member, _) in members {
        accepted.arg(&**member);
    }
    let accepted = Vec::<bool>::from_redis_value(line.command(&accepted).await?)?;
    let may_see = |(member, accepted): (&(Arc<str>, u64), bool)| accepted || *member.0 == *user;
    let friends: Vec<bool> = members.iter().zip(accepted).map(may_see).collect();
    let mut dots = if friends.contains(&true) {
        let seen = members.iter().zip(&friends).filter(|(_, &friend)| friend);
        dots(line, user, room, seen.map(|((member, _), _)| &**member)).await?.into_iter()
    } else {
        Vec::new().into_iter()
    };
    let members = members.iter().zip(friends);
    let seen =
        members.map(|((member, heard), friend)| (member.clone(), *heard, if friend { dots.next() } else { None }));
    Ok(seen.collect())
}

/// State and status of friends. In one transaction: who hides in between must not be seen with a status.
async fn dots<'a>(
    line: &Line,
    user: &str,
    room: &str,
    friends: impl Iterator<Item = &'a str>,
) -> RedisResult<Vec<(State, Option<String>)>> {
    let mut commands = Pipeline::new();
    commands.atomic();
    let mut states = cmd("PRESENCE.FRIENDS");
    states.arg(room).arg(user);
    let mut gets = Vec::new();
    for friend in friends {
        states.arg(friend);
        let mut get = cmd("PRESENCE.GET");
        get.arg(room).arg(friend);
        gets.push(get);
    }
    commands.add_command(states);
    for get in gets {
        commands.add_command(get);
    }
    let mut answers = line.transaction(&commands).await?.into_iter();
    let states = Vec::<String>::from_redis_value(answers.next().unwrap_or(Value::Nil).extract_error()?)?;
    let dot = |(state, get): (String, Value)| match state.as_str() {
        "online" => (State::Online, text(field(&get, "status")).filter(|status| !status.is_empty())),
        "recent" => (State::Recent, None),
        _ => (State::Offline, None),
    };
    Ok(states.into_iter().zip(answers).map(dot).collect())
}

/// Makes two users accepted friends of each other: for the demo. A service has a way of its own.
///
/// # Errors
/// Those of the line and of the server.
pub async fn befriend(line: &Line, user: &str, friend: &str) -> RedisResult<()> {
    line.command(cmd("SADD").arg(friends_of(user)).arg(friend)).await?;
    line.command(cmd("SADD").arg(friends_of(friend)).arg(user)).await.map(drop)
}
