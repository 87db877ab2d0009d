//! What the server tells by itself: role changes, loads, databases that change places, keys that move.

use std::sync::atomic::{AtomicI32, Ordering};

use presence_engine::hearing::Deafness;

use crate::node;
use crate::room_type::ROOM;
use crate::sys::event::{subscribe, subscribe_generic, subscribe_turns, Event, Loading};
use crate::sys::key::{Held, Key, Mode};
use crate::sys::migration::Import;
use crate::sys::{Ctx, Str};
use crate::{ticker, turns};

/// Has the server tell; false if it refused.
pub(crate) fn listen(ctx: Ctx<'_>) -> bool {
    subscribe(ctx, on_event) && subscribe_generic(ctx, on_generic) && subscribe_turns(ctx, turns::on_turn)
}

fn on_event(ctx: Ctx<'_>, event: Event) {
    match event {
        Event::Cron => ticker::watch(ctx),
        Event::Role { primary: true } => node::with(|node| node.promoted()),
        Event::Import(import) => node::with(|node| {
            if matches!(import, Import::Ended { .. }) {
                node.hasten = Some(0);
            }
            node.imports.follow(import);
        }),
        Event::Loading(what) => node::with(|node| match what {
            Loading::Started => {
                // The end of what was on its way may have been told while the primary could not be heard.
                node.imports.forget();
                node.registry.begin_load(false);
            }
            Loading::Ended | Loading::Failed => {
                node.registry.end_load(false, what == Loading::Ended);
                node.grant(Deafness::Loading);
            }
        }),
        Event::AsyncLoading(what) => node::with(|node| match what {
            Loading::Started => {
                node.imports.forget();
                node.registry.begin_load(true);
            }
            Loading::Ended => {
                node.registry.end_load(true, true);
                node.grant(Deafness::Loading);
            }
            Loading::Failed => node.registry.end_load(true, false),
        }),
        Event::SwapDb { first, second } => node::with(|node| node.registry.swap(first, second)),
        Event::Role { primary: false } => node::with(|node| {
            node.registry.thaw();
            node.imports.forget();
        }),
        // What is flushed is freed, and `free` says so.
        Event::Flush { .. } | Event::Shutdown => {}
    }
}

/// RENAME and MOVE are told by their new names only here. Nothing is written.
fn on_generic(ctx: Ctx<'_>, event: &[u8], key: Str<'_>) {
    match event {
        b"rename_to" => follow(ctx, key),
        b"move_from" => MOVING_FROM.store(ctx.db(), Ordering::Relaxed),
        b"move_to" => {
            follow(ctx, key);
            // Valkey 8.1 lends us the client that moves the key, with the other database selected, and leaves it so
            // (valkey-io/valkey pull request 4024). Elsewhere the context is a temporary one, which does not matter.
            ctx.select_db(MOVING_FROM.load(Ordering::Relaxed));
        }
        _ => {}
    }
}

/// The database that the key in move is leaving; `move_from` always comes right before `move_to`.
static MOVING_FROM: AtomicI32 = AtomicI32::new(0);

/// If the key holds a room, that is where it is now.
fn follow(ctx: Ctx<'_>, key: Str<'_>) {
    let opened = Key::open(ctx, key, Mode::Peek);
    if let Held::Ours(value) = opened.held(&ROOM) {
        // SAFETY: the key stays open and nothing else runs until the reference is gone.
        let id = unsafe { value.as_ref() }.id;
        let db = ctx.db();
        node::with(|node| node.registry.moved_to(id, db, key.as_bytes()));
    }
}
