//! What waits for one phone. The hub puts in and never waits; the phone's own task takes out as quickly as its line allows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The end of a connection: the close frame's status and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// RFC 6455, section 7.4.1.
    pub status: u16,
    /// For people.
    pub reason: &'static str,
}

/// It said bye.
pub const DONE: Close = Close { status: 1000, reason: "goodbye" };
/// A message was too long.
pub const LONG: Close = Close { status: 1009, reason: "a message is too long" };
/// It broke a rule.
pub const RULE: Close = Close { status: 1008, reason: "see the error before" };
/// The gateway goes down.
pub const RESTART: Close = Close { status: 1012, reason: "this gateway goes down; connect again" };
/// Try again later.
pub const SLOW: Close = Close { status: 1013, reason: "too slow; connect again later" };
/// Try again later.
pub const CROWDED: Close = Close { status: 1013, reason: "this gateway is full; connect again later" };

/// The next thing to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A text frame.
    Text(Arc<str>),
    /// The close frame: nothing comes after it.
    Close(Close),
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Arc<str>>,
    /// The newest badge of each room: a slow phone skips those between.
    badges: Vec<(Arc<str>, Arc<str>)>,
    close: Option<Close>,
}

/// Messages for one phone: a bounded queue, and beside it one place for each room's badge.
pub struct Outbox {
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// Rings when the phone is given up.
    alarm: Notify,
    limit: usize,
}

impl Outbox {
    /// For at most `limit` messages beside the badges.
    pub fn new(limit: usize) -> Self {
        Self { waiting: Mutex::default(), bell: Notify::new(), alarm: Notify::new(), limit }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that holds it can leave it half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in. If too many wait the phone is given up. Returns whether the message will be sent.
    pub fn push(&self, text: Arc<str>) -> bool {
        let mut waiting = self.waiting();
        if waiting.close.is_some() {
            return false;
        }
        let fits = waiting.queue.len() < self.limit;
        if fits {
            waiting.queue.push_back(text);
        } else {
            *waiting = Waiting { close: Some(SLOW), ..Waiting::default() };
        }
        drop(waiting);
        self.bell.notify_one();
        if !fits {
            self.alarm.notify_one();
        }
        fits
    }

    /// Waits until the phone is given up, for the one who is about to send it something.
    pub async fn given_up(&self) {
        self.alarm.notified().await;
    }

    /// Puts the newest badge of a room in, in the place of the one before.
    pub fn badge(&self, room: &Arc<str>, text: Arc<str>) {
        let mut waiting = self.waiting();
        if waiting.close.is_some() {
            return;
        }
        match waiting.badges.iter_mut().find(|(of, _)| of == room) {
            Some((_, old)) => *old = text,
            None => waiting.badges.push((room.clone(), text)),
        }
        drop(waiting);
        self.bell.notify_one();
    }

    /// Ends the connection when what waits has been sent.
    pub fn close(&self, close: Close) {
        self.waiting().close.get_or_insert(close);
        self.bell.notify_one();
    }

    fn take(&self) -> Option<Out> {
        let mut waiting = self.waiting();
        if let Some(text) = waiting.queue.pop_front() {
            return Some(Out::Text(text));
        }
        if !waiting.badges.is_empty() {
            return Some(Out::Text(waiting.badges.remove(0).1));
        }
        waiting.close.map(Out::Close)
    }

    /// Waits for the next thing to send. After a [`Out::Close`] it is always the same.
    pub async fn next(&self) -> Out {
        loop {
            let rung = self.bell.notified();
            if let Some(out) = self.take() {
                return out;
            }
            rung.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Out {
        Out::Text(text.into())
    }

    #[tokio::test]
    async fn messages_come_in_their_order_and_badges_are_the_newest() {
        let (outbox, room) = (Outbox::new(8), Arc::from("gig"));
        outbox.badge(&room, "old".into());
        outbox.push("a".into());
        outbox.badge(&room, "new".into());
        outbox.badge(&Arc::from("other"), "o".into());
        outbox.push("b".into());
        outbox.close(DONE);
        for expected in [text("a"), text("b"), text("new"), text("o"), Out::Close(DONE), Out::Close(DONE)] {
            assert_eq!(outbox.next().await, expected);
        }
    }

    #[tokio::test]
    async fn too_many_messages_end_a_slow_phone_and_badges_do_not() {
        let (outbox, room) = (Outbox::new(2), Arc::from("gig"));
        for badge in 0..100 {
            outbox.badge(&room, badge.to_string().into());
        }
        assert!(outbox.push("a".into()) && outbox.push("b".into()));
        assert!(!outbox.push("c".into()));
        assert!(!outbox.push("d".into()));
        assert_eq!(outbox.next().await, Out::Close(SLOW));
    }

    #[tokio::test]
    async fn what_is_put_in_wakes_the_one_who_waits() {
        let outbox = Arc::new(Outbox::new(2));
        let waits = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.next().await }
        });
        tokio::task::yield_now().await;
        outbox.push("a".into());
        assert_eq!(waits.await.unwrap(), text("a"));
    }
}
