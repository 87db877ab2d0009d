//! `INFO presence`.

use std::ffi::CString;

use presence_engine::hearing::Deafness;

use crate::node::{self, TICK_MS};
use crate::sys::guard::panics;
use crate::sys::info::{register as register_handler, Info};
use crate::sys::Ctx;

/// Most rooms struck off by INFO.
const REAPED: usize = 1_000;

/// Has the server ask for it.
pub(crate) fn register(ctx: Ctx<'_>) -> bool {
    register_handler(ctx, write)
}

fn write(info: &mut Info<'_>) {
    if !info.section(c"") {
        return;
    }
    let mut fields: Vec<(String, u64)> = Vec::new();
    node::with(|node| {
        // What is freed by now counts as gone; but a million of them are not struck off while somebody waits for this.
        let mut left = REAPED;
        node.registry.reap(|| {
            left -= 1;
            left > 0
        });
        let now = node.now();
        let totals = node.registry.totals();
        let (stats, ticks) = (node.stats, node.ticks);
        let mut field = |name: &str, value: u64| fields.push((name.to_owned(), value));
        field("rooms", node.registry.live().saturating_sub(node.registry.dead() as u64));
        field("rooms_lost", node.registry.lost());
        field("rooms_frozen", node.registry.frozen());
        field("members", totals.members);
        field("sessions", totals.sessions);
        field("memory", totals.memory());
        field("beats", stats.beats);
        field("beats_refused", stats.refused);
        field("comings", stats.comings);
        field("goings_timeout", stats.timeouts);
        field("goings_goodbye", stats.goodbyes);
        field("suppressed_flickers", stats.flickers);
        field("announcements", stats.comings + stats.timeouts + stats.goodbyes + stats.updates);
        field("messages_count", stats.count_messages);
        field("messages_member", stats.member_messages);
        field("messages_feed", stats.feed_messages);
        field("lateness_p50_ms", node.lateness.percentile(500));
        field("lateness_p99_ms", node.lateness.percentile(990));
        field("lateness_max_ms", node.lateness.max());
        let turns = &node.turns;
        field("loop_turns", turns.took.total());
        field("loop_p99_us", turns.took.percentile(990));
        field("loop_p999_us", turns.took.percentile(999));
        field("loop_max_us", turns.took.max());
        field("loop_long_turns", turns.long);
        field("backlog_rooms", node.registry.overdue(ticks.overdue_since));
        field("backlog_age_ms", ticks.overdue_since.map_or(0, |since| now.saturating_sub(since)));
        field("messages_planned", node.registry.sayings() as u64);
        field("messages_age_ms", node.registry.next_saying().map_or(0, |due| now.saturating_sub(due)));
        field("tick_ms", TICK_MS);
        field("late_ticks", ticks.late);
        field("skipped_ticks", ticks.skipped);
        field("watchdog_ticks", ticks.by_watchdog);
        field("deaf", node.hearing.is_deaf().into());
        for cause in Deafness::ALL {
            let deaf = node.hearing.deaf_time(cause);
            field(&format!("deaf_ms_{}", cause.as_str()), deaf.deaf_us / 1000);
            field(&format!("amnesties_{}", cause.as_str()), deaf.amnesties);
        }
        field("panics", panics());
    });
    for (name, value) in fields {
        if let Ok(name) = CString::new(name) {
            info.number(&name, value);
        }
    }
}
