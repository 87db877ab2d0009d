//! Effects become true here, and only here: replicas and log first, then those who watch the key, then messages, then
//! keyspace notifications.
//!
//! A notification runs other modules' handlers, which may delete the very room. So nothing of a room is held by then.

use std::ffi::CStr;

use presence_engine::announce::channels::Channels;
use presence_engine::announce::To;
use presence_engine::effects::{Effects, Notice};
use presence_engine::settings::Pubsub;

use crate::commands::internal::APPLY;
use crate::node;
use crate::sys::context::{Channel, Class};
use crate::sys::{Ctx, Str};

/// How a step reaches replicas and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// As the payload of what it changed.
    Payload,
    /// As the command that came.
    Verbatim,
}

/// What a step left behind.
pub(crate) struct Outcome {
    pub(crate) effects: Effects,
    /// What replicas and the log must be told, if anything.
    pub(crate) payload: Option<Vec<u8>>,
    /// The key is gone, because nothing was left in it.
    pub(crate) deleted: bool,
}

/// Makes the effects of a step on the room `key`, in the selected database, true. `announce`: keyspace notifications, too.
pub(crate) fn perform(ctx: Ctx<'_>, key: Str<'_>, outcome: Outcome, spread: Spread, announce: bool) {
    let Outcome { effects, payload, deleted } = outcome;
    match spread {
        Spread::Payload => {
            if let Some(payload) = payload {
                ctx.replicate(APPLY.name, key.as_bytes(), &payload);
            }
        }
        Spread::Verbatim => {
            ctx.replicate_verbatim();
        }
    }
    if effects.visible || deleted {
        ctx.signal_modified(key);
    }
    if !effects.messages.is_empty() {
        publish(ctx, key.as_bytes(), &effects);
    }
    if announce {
        notify(ctx, key.as_bytes(), &effects);
    }
    if deleted {
        ctx.notify(Class::Generic, c"del", key.as_bytes());
    }
    node::with(|node| node.give_back(effects));
}

/// On which channels the node publishes.
pub(crate) fn channel(ctx: Ctx<'_>) -> Channel {
    match node::with(|node| node.pubsub()) {
        Pubsub::Auto if ctx.flags().is_cluster() => Channel::Sharded,
        Pubsub::Auto | Pubsub::Classic => Channel::Classic,
        Pubsub::Sharded => Channel::Sharded,
    }
}

fn publish(ctx: Ctx<'_>, key: &[u8], effects: &Effects) {
    let (kind, channels) = (channel(ctx), Channels::new(ctx.db(), key));
    for message in effects.messages.iter() {
        let name = match message.to {
            To::Count => channels.count(),
            To::Feed => channels.feed(),
            To::Member(id) => channels.member(id),
        };
        ctx.publish(kind, &name, message.body);
    }
}

/// Keyspace notifications, on the name that a key of the user's own would have had.
fn notify(ctx: Ctx<'_>, key: &[u8], effects: &Effects) {
    let mut name = Vec::new();
    for event in effects.events() {
        name.clear();
        name.extend_from_slice(key);
        name.push(b':');
        name.extend_from_slice(event.member);
        ctx.notify(Class::Module, event_name(event.notice), &name);
    }
}

const fn event_name(notice: Notice) -> &'static CStr {
    match notice {
        Notice::Online => c"presence.online",
        Notice::Grace => c"presence.grace",
        Notice::Back => c"presence.back",
        Notice::Offline(_) => c"presence.offline",
        Notice::Update => c"presence.update",
    }
}
