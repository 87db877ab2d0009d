//! The way of every command to its room: key, type, one reading of the clock, one step, its effects.

use std::ptr::NonNull;

use presence_engine::effects::Effects;
use presence_engine::error::Refusal;
use presence_engine::room::{Env, Room};

use super::spec::Args;
use crate::node;
use crate::perform::{perform, Outcome, Spread};
use crate::registry::{Figures, Hint};
use crate::room_type::{Value, ROOM};
use crate::sys::key::{Held, Key, Mode};
use crate::sys::{Ctx, Str};
use crate::ticker::{self, FROZEN_RETRY_MS};

/// An argument that the server's arity check has promised.
pub(crate) fn key_at<'a>(args: Args<'a>, index: usize, command: &'static str) -> Result<Str<'a>, Refusal> {
    args.string(index).ok_or(Refusal::Arity { command })
}

/// The value in a key, for a moment.
///
/// # Safety
/// Nothing that could free or change the value may run while the reference lives.
pub(crate) unsafe fn value_in<'a>(value: NonNull<Value>) -> &'a mut Value {
    let mut value = value;
    // SAFETY: the caller's promise; the server runs one command at a time, so nobody else has a reference.
    unsafe { value.as_mut() }
}

/// What a write does where there is no room yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Makes one, if the configuration lets beats do so.
    AutoCreate,
    /// Makes one.
    Create,
    /// Answers that there is none.
    Refuse,
}

/// Runs `step` on a room that exists or is made for it, and makes its effects true. `None`: there is no room, and the
/// step does not make one. An error of the step must mean that nothing has changed.
///
/// # Errors
/// Those of the step; WRONGTYPE.
pub(crate) fn write<R>(
    ctx: Ctx<'_>,
    name: Str<'_>,
    missing: Missing,
    spread: Spread,
    step: impl FnOnce(&mut Room, &Env<'_>, &mut Effects) -> Result<R, Refusal>,
) -> Result<Option<R>, Refusal> {
    let flags = ctx.flags();
    let import = flags.is_import();
    let told_elsewhere = import || flags.is_replica() && node::with(|node| node.imports.cover(name));
    let announce = !flags.is_loading() && !told_elsewhere;
    let mut key = Key::open(ctx, name, Mode::Write);
    let (result, outcome) = match key.held(&ROOM) {
        Held::Other => return Err(Refusal::WrongType),
        Held::Ours(value) => {
            // SAFETY: the key stays open and nothing but the step runs until the reference is gone.
            let value = unsafe { value_in(value) };
            let (result, mut outcome, disposable) = node::with(|node| {
                let mut effects = node.take_effects();
                let env = node.env(flags);
                let now = env.now;
                let before = Figures::of(&value.room);
                let result = step(&mut value.room, &env, &mut effects);
                let payload = value.room.finish(&env, &mut effects);
                let disposable = value.room.is_disposable();
                node.registry.seen_at(value.id, ctx.db(), name.as_bytes());
                if import {
                    node.registry.arrive(value.id, now + FROZEN_RETRY_MS);
                }
                node.note(value.id, before, &value.room, &effects);
                (result, Outcome { effects, payload, deleted: false }, disposable)
            });
            outcome.deleted = disposable && key.delete();
            (result, outcome)
        }
        Held::Nothing => {
            let refused = match missing {
                Missing::Create => false,
                Missing::AutoCreate => !flags.must_obey() && node::with(|node| !node.env(flags).config.auto_create),
                Missing::Refuse => true,
            };
            if refused {
                return Ok(None);
            }
            let (room, result, outcome) = node::with(|node| {
                let mut effects = node.take_effects();
                let mut room = node.new_room(flags);
                let env = node.env(flags);
                let result = step(&mut room, &env, &mut effects);
                let payload = room.finish(&env, &mut effects);
                (room, result, Outcome { effects, payload, deleted: false })
            });
            if !room.is_disposable() {
                let hint = Hint { db: ctx.db(), key: name.as_bytes().into() };
                let value = Value::new(room, hint, &outcome.effects);
                if import {
                    node::with(|node| {
                        let now = node.now();
                        node.registry.arrive(value.id, now + FROZEN_RETRY_MS);
                    });
                }
                if key.set(&ROOM, value).is_err() {
                    return Err(Refusal::WrongType);
                }
            }
            (result, outcome)
        }
    };
    drop(key);
    if result.is_err() {
        node::with(|node| node.give_back(outcome.effects));
    } else {
        perform(ctx, name, outcome, spread, announce);
    }
    ticker::wake(ctx);
    result.map(Some)
}

/// Reads what a room knows whatever the time and the configuration; `None` stands for a missing key, which every read
/// takes for an empty room.
///
/// # Errors
/// WRONGTYPE.
pub(crate) fn look<R>(ctx: Ctx<'_>, name: Str<'_>, look: impl FnOnce(Option<&Room>) -> R) -> Result<R, Refusal> {
    let key = Key::open(ctx, name, Mode::Read);
    match key.held(&ROOM) {
        Held::Other => Err(Refusal::WrongType),
        Held::Nothing => Ok(look(None)),
        // SAFETY: the key stays open and nothing but `look` runs until the reference is gone.
        Held::Ours(value) => Ok(look(Some(&unsafe { value_in(value) }.room))),
    }
}

/// Reads a room at this moment.
///
/// # Errors
/// Those of `read`; WRONGTYPE.
pub(crate) fn read<R>(
    ctx: Ctx<'_>,
    name: Str<'_>,
    read: impl FnOnce(Option<&Room>, &Env<'_>) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    let flags = ctx.flags();
    look(ctx, name, |room| node::with(|node| read(room, &node.env(flags))))?
}

/// Reads several rooms at one moment.
///
/// # Errors
/// Those of `read`; WRONGTYPE.
pub(crate) fn read_all<'a, R>(
    ctx: Ctx<'_>,
    names: impl Iterator<Item = Str<'a>>,
    read: impl FnOnce(&[Option<&Room>], &Env<'_>) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    let flags = ctx.flags();
    // Opening a key may delete another whose time is up, but never one that is open and held here: each is opened
    // before any value is looked at.
    let keys: Vec<_> = names.map(|name| Key::open(ctx, name, Mode::Read)).collect();
    let mut rooms = Vec::with_capacity(keys.len());
    for key in &keys {
        rooms.push(match key.held(&ROOM) {
            Held::Other => return Err(Refusal::WrongType),
            Held::Nothing => None,
            // SAFETY: all keys stay open and nothing but `read` runs until the references are gone; none is changed.
            Held::Ours(value) => Some(&unsafe { value.as_ref() }.room),
        });
    }
    node::with(|node| read(&rooms, &node.env(flags)))
}
