//! What is announced by itself and not in the step of a change: counts now and then, and names that rooms have left.

use presence_engine::effects::Effects;
use presence_engine::hearing::HeardMs;

use crate::commands::internal::PROBE;
use crate::commands::open::value_in;
use crate::node::{self, Node};
use crate::perform::{perform, Outcome, Spread};
use crate::registry::{By, Figures, Hint, RoomId, Vacated};
use crate::room_type::{Value, ROOM};
use crate::sys::context::Flags;
use crate::sys::guard::guarded;
use crate::sys::key::{Held, Key, Mode};
use crate::sys::{Ctx, OwnedStr};
use crate::ticker::Budget;

/// How soon a room that could not say what it had to say is asked again, in ms.
const UNSAID_RETRY_MS: u64 = 500;

/// What rooms have to say at this moment, and the names that they have left.
pub(crate) fn tick(ctx: Ctx<'_>, flags: Flags, now: HeardMs, budget: &mut Budget) {
    while budget.more_now() {
        let Some((id, hint)) = node::with(|node| node.registry.pop_saying(now)) else { break };
        let said = guarded("what a room had to say", false, || say(ctx, flags, id, &hint));
        if !said {
            // It still has to be said: while this waits, the room plans nothing else.
            node::with(|node| node.registry.say_at(id, now + UNSAID_RETRY_MS));
        }
    }
    while budget.more_now() {
        let Some(vacated) = node::with(|node| node.registry.pop_vacated()) else { break };
        guarded("a name that was left", (), || leave_name(ctx, flags, &vacated));
    }
}

/// False if the room is not where the hint says, or not served here.
fn say(ctx: Ctx<'_>, flags: Flags, id: RoomId, hint: &Hint) -> bool {
    if node::with(|node| node.registry.is_frozen(id)) {
        return false;
    }
    with_room(ctx, id, hint, |node, value, effects| value.room.say(&node.env(flags), effects))
}

/// Calls `f` with a room that is where the hint says, and makes its messages true. False if it is not there.
fn with_room(ctx: Ctx<'_>, id: RoomId, hint: &Hint, f: impl FnOnce(&mut Node, &mut Value, &mut Effects)) -> bool {
    let key = OwnedStr::new(&hint.key);
    if !ctx.select_db(hint.db) {
        return false;
    }
    let opened = Key::open(ctx, key.as_str(), Mode::Peek);
    let Held::Ours(value) = opened.held(&ROOM) else { return false };
    // SAFETY: the key stays open and nothing else runs until the reference is gone.
    let value = unsafe { value_in(value) };
    if value.id != id {
        return false;
    }
    let effects = node::with(|node| {
        let mut effects = node.take_effects();
        let before = Figures::of(&value.room);
        f(node, value, &mut effects);
        node.note(id, before, &value.room, &effects);
        effects
    });
    drop(opened);
    perform(ctx, key.as_str(), Outcome { effects, payload: None, deleted: false }, Spread::Payload, false);
    true
}

/// A room is not at this name any more: whoever watches it must know, unless another room is there now.
fn leave_name(ctx: Ctx<'_>, flags: Flags, vacated: &Vacated) {
    let parting = match vacated.by {
        By::Dead(parting) => Some(parting),
        By::Moved(id) => {
            let mut parting = None;
            let hint = node::with(|node| node.registry.hint(id));
            if let Some(hint) = hint {
                with_room(ctx, id, &hint, |node, value, effects| {
                    parting = Some(value.room.parting());
                    value.room.introduce(&node.env(flags), effects);
                });
            }
            parting
        }
    };
    let Some(parting) = parting.filter(|_| flags.tells()) else { return };
    let key = OwnedStr::new(&vacated.hint.key);
    if !ctx.select_db(vacated.hint.db) || matches!(Key::open(ctx, key.as_str(), Mode::Peek).held(&ROOM), Held::Ours(_))
    {
        return;
    }
    if flags.is_cluster() && ctx.probe(PROBE.name, Some(&vacated.hint.key), |_| ()).is_err() {
        // The slot went elsewhere, and its rooms with it.
        return;
    }
    let effects = node::with(|node| {
        let mut effects = node.take_effects();
        parting.gone(&node.env(flags), &mut effects);
        effects
    });
    perform(ctx, key.as_str(), Outcome { effects, payload: None, deleted: false }, Spread::Payload, false);
}
