//! How long the server's event loop was busy at a time: while it is, everybody waits.

use presence_engine::stats::Histogram;

use crate::node;
use crate::sys::context::monotonic_us;

/// A turn that takes longer, in µs, is more than anything of this module may take.
const LONG_US: u64 = 2_000;

/// Turns since the start, the work of other modules and of all commands included.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// How long each was busy, in µs.
    pub(crate) took: Histogram,
    /// Those that took longer than [`LONG_US`].
    pub(crate) long: u64,
    /// When the present one began, µs of the monotonic clock; 0: unknown.
    began_us: u64,
}

/// The event loop wakes up, or goes to sleep.
pub(crate) fn on_turn(awake: bool) {
    let now_us = monotonic_us();
    node::with(|node| node.turns.note(awake, now_us));
}

impl Turns {
    fn note(&mut self, awake: bool, now_us: u64) {
        let began_us = std::mem::replace(&mut self.began_us, if awake { now_us } else { 0 });
        if !awake && began_us != 0 {
            let took = now_us.saturating_sub(began_us);
            self.took.add(took);
            self.long += u64::from(took > LONG_US);
        }
    }
}
