//! Where messages for a viewer go: to its phone, or to the load generator that plays it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::crowd::CrowdMessage;
use crate::outbox::{Close, Outbox, RESTART};
use crate::protocol::Message;

/// One viewer's.
#[derive(Clone)]
pub enum Outlet {
    /// A phone's own socket.
    Phone(Arc<Outbox>),
    /// One of many on a socket, by its number there.
    Crowd(Arc<Crowd>, u64),
}

/// A message as text. Ours have nothing that JSON cannot hold.
pub(super) fn text(message: &Message) -> Arc<str> {
    serde_json::to_string(message).unwrap_or_default().into()
}

impl Outlet {
    /// The user is present.
    pub fn welcome(&self, session: &str, beat: Option<u64>) {
        match self {
            Self::Phone(outbox) => drop(outbox.push(text(&Message::Welcome { session: session.to_owned(), beat }))),
            Self::Crowd(crowd, number) => crowd.welcome(*number, beat.unwrap_or_default()),
        }
    }

    /// The room takes nobody now.
    pub fn refused(&self, reason: &str) {
        match self {
            Self::Phone(outbox) => drop(outbox.push(text(&Message::Refused { reason: reason.to_owned() }))),
            Self::Crowd(crowd, number) => crowd.refused(*number),
        }
    }

    /// A message that is made once for many.
    pub fn push(&self, text: Arc<str>) {
        if let Self::Phone(outbox) = self {
            outbox.push(text);
        }
    }

    /// A room's newest badge.
    pub fn badge(&self, room: &Arc<str>, text: Arc<str>) {
        if let Self::Phone(outbox) = self {
            outbox.badge(room, text);
        }
    }

    /// An error, which ends the connection with `close` if that is given.
    pub fn error(&self, code: &str, message: String, close: Option<Close>) {
        self.push(text(&Message::Error { code: code.to_owned(), message }));
        if let Some(close) = close {
            self.close(close);
        }
    }

    /// Ends the connection. A load generator's ends with its last viewer only, when the gateway goes down.
    pub fn close(&self, close: Close) {
        match self {
            Self::Phone(outbox) => outbox.close(close),
            Self::Crowd(crowd, _) if close == RESTART => crowd.close(),
            Self::Crowd(..) => {}
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// By the milliseconds between beats.
    welcomes: BTreeMap<u64, Vec<u64>>,
    refused: Vec<u64>,
    closed: bool,
}

/// What waits for a load generator's socket.
#[derive(Default)]
pub struct Crowd {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

impl Crowd {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn welcome(&self, number: u64, beat: u64) {
        self.waiting().welcomes.entry(beat).or_default().push(number);
        self.bell.notify_one();
    }

    fn refused(&self, number: u64) {
        self.waiting().refused.push(number);
        self.bell.notify_one();
    }

    fn close(&self) {
        self.waiting().closed = true;
        self.bell.notify_one();
    }

    /// What waits, and whether the socket ends after it.
    fn take(&self) -> (Vec<CrowdMessage>, bool) {
        let mut waiting = self.waiting();
        let welcomes = std::mem::take(&mut waiting.welcomes);
        let mut messages: Vec<_> =
            welcomes.into_iter().map(|(beat, viewers)| CrowdMessage::Welcome { viewers, beat }).collect();
        if !waiting.refused.is_empty() {
            messages.push(CrowdMessage::Refused { viewers: std::mem::take(&mut waiting.refused) });
        }
        (messages, waiting.closed)
    }

    /// Waits for messages; `None` ends the socket.
    pub async fn next(&self) -> Option<Vec<CrowdMessage>> {
        loop {
            let rung = self.bell.notified();
            match self.take() {
                (messages, false) if messages.is_empty() => rung.await,
                (messages, true) if messages.is_empty() => return None,
                (messages, _) => return Some(messages),
            }
        }
    }
}
