//! A recording as it is told: what happened, what friends were shown, and what it cost.

use presence_engine::effects::Notice;
use presence_engine::error::Refusal;
use serde::{Deserialize, Serialize};

use super::{phone, play, Invalid, Recording, Settings};

/// A time, in ms since the beginning; without its last millisecond.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its first moment.
    pub from: u64,
    /// The first moment after it.
    pub to: u64,
}

/// A message on the phone's channel, which each of the audience receives.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Broadcast {
    /// Ms since the beginning.
    pub at: u64,
    /// The phone's owner is online from now on; or offline.
    pub online: bool,
    /// Why offline: `timeout` or `goodbye`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A departure that was none, or the return from it.
    pub mistaken: bool,
    /// As it was published.
    pub message: String,
}

/// Beats of the phone.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Beats {
    /// Those that arrived.
    pub heard: u32,
    /// Those that it sent without a signal.
    pub lost: u32,
}

/// What the settings cost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Figures {
    /// Times that friends were told that the phone's owner had left, who had not.
    pub false_departures: u64,
    /// Times that the phone was lost, and back before anybody was told.
    pub flickers_hidden: u64,
    /// Ms from the real departure to the moment at which friends were told; none if they were not.
    pub delay: Option<u64>,
    /// Messages on the phone's channel.
    pub broadcasts: u64,
    /// Those of them that told of false departures and took them back.
    pub mistaken_broadcasts: u64,
    /// Messages sent for each broadcast: one to each of the audience.
    pub messages_per_change: u64,
    /// Messages sent in the half hour.
    pub messages: u64,
    /// Beats a second of all users.
    pub beats_per_second: f64,
    /// Messages sent a second, if each user had such a half hour.
    pub messages_per_second: f64,
}

/// What happened, what was shown and what it cost. Times are in ms since the beginning.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Story {
    /// What it was played with.
    pub settings: Settings,
    /// Silence after which a session is lost, in ms.
    pub timeout: u64,
    /// How long the story is.
    pub length: u64,
    /// When the phone came: its first beat.
    pub came: u64,
    /// When it left for good.
    pub left: u64,
    /// It was there and had a signal.
    pub signal: Vec<Span>,
    /// It was there and had none.
    pub drops: Vec<Span>,
    /// Friends were shown a green dot.
    pub shown: Vec<Span>,
    /// The phone was lost and waited for, which friends do not see.
    pub waiting: Vec<Span>,
    /// Friends were shown no dot, though the phone had not left.
    pub mistakes: Vec<Span>,
    /// In order.
    pub broadcasts: Vec<Broadcast>,
    /// Of the phone.
    pub beats: Beats,
    /// What it cost.
    pub figures: Figures,
}

/// Why there is no story.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of its range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The engine refused a beat, which would be a fault of ours.
    #[error("the engine refused a beat: {0}")]
    Engine(Refusal),
    /// The engine published what no phone could read, which would be a fault of ours.
    #[error("a message that cannot be read: {0}")]
    Message(#[from] serde_json::Error),
}

/// Plays a story with these settings.
///
/// # Errors
/// [`Error::Invalid`], and faults of ours.
pub fn story(settings: &Settings) -> Result<Story, Error> {
    settings.check()?;
    let recording = play(settings).map_err(Error::Engine)?;
    let sent = u32::try_from(phone::beats(settings.heartbeat).count()).unwrap_or(u32::MAX);
    let came = phone::beats(settings.heartbeat).next().unwrap_or(phone::LEAVES);
    let broadcasts = broadcasts(&recording)?;
    let (shown, mistakes) = shown(&broadcasts);
    Ok(Story {
        settings: *settings,
        timeout: settings.timeout().into(),
        length: phone::LENGTH,
        came,
        left: phone::LEAVES,
        signal: signal(came),
        drops: phone::DROPS.to_vec(),
        shown,
        waiting: waiting(&recording),
        mistakes,
        beats: Beats { heard: recording.heard, lost: sent.saturating_sub(recording.heard) },
        figures: figures(settings, &recording, &broadcasts),
        broadcasts,
    })
}

/// Of a member's message, what a friend's phone reads.
#[derive(Deserialize)]
struct Told {
    event: String,
    #[serde(default)]
    reason: Option<String>,
}

fn broadcasts(recording: &Recording) -> Result<Vec<Broadcast>, serde_json::Error> {
    let mut false_departure = false;
    let broadcast = |message: &play::Message| {
        let told: Told = serde_json::from_slice(&message.body)?;
        let online = told.event == "online";
        // Whoever has not left is said to have left; or is taken back from that.
        let before = std::mem::replace(&mut false_departure, !online && message.at < phone::LEAVES);
        Ok(Broadcast {
            at: message.at,
            online,
            reason: told.reason,
            mistaken: false_departure || (online && before),
            message: String::from_utf8_lossy(&message.body).into_owned(),
        })
    };
    recording.messages.iter().map(broadcast).collect()
}

fn figures(settings: &Settings, recording: &Recording, broadcasts: &[Broadcast]) -> Figures {
    let number = |wanted: fn(&&Broadcast) -> bool| broadcasts.iter().filter(wanted).count() as u64;
    let departure = broadcasts.iter().find(|broadcast| !broadcast.online && !broadcast.mistaken);
    let messages = broadcasts.len() as u64 * settings.audience.size();
    let users = settings.users as f64;
    Figures {
        false_departures: number(|broadcast| broadcast.mistaken && !broadcast.online),
        flickers_hidden: recording.flickers,
        delay: departure.map(|departure| departure.at.saturating_sub(phone::LEAVES)),
        broadcasts: broadcasts.len() as u64,
        mistaken_broadcasts: number(|broadcast| broadcast.mistaken),
        messages_per_change: settings.audience.size(),
        messages,
        beats_per_second: users * 1000.0 / f64::from(settings.heartbeat),
        messages_per_second: users * messages as f64 * 1000.0 / phone::LENGTH as f64,
    }
}

/// The times between the drops, while the phone is there.
fn signal(came: u64) -> Vec<Span> {
    let starts = std::iter::once(came).chain(phone::DROPS.iter().map(|drop| drop.to));
    let ends = phone::DROPS.iter().map(|drop| drop.from).chain([phone::LEAVES]);
    starts.zip(ends).map(|(from, to)| Span { from, to }).collect()
}

/// When friends were shown a dot, and when none by mistake.
fn shown(broadcasts: &[Broadcast]) -> (Vec<Span>, Vec<Span>) {
    let (mut shown, mut mistakes) = (Vec::new(), Vec::new());
    let ends = broadcasts.iter().skip(1).map(|next| next.at).chain([phone::LENGTH]);
    for (broadcast, to) in broadcasts.iter().zip(ends) {
        let span = Span { from: broadcast.at, to };
        if broadcast.online {
            shown.push(span);
        } else if broadcast.mistaken {
            mistakes.push(span);
        }
    }
    (shown, mistakes)
}

fn waiting(recording: &Recording) -> Vec<Span> {
    let ends = recording.events.iter().skip(1).map(|next| next.at);
    let spans = recording.events.iter().zip(ends).filter(|(event, _)| event.notice == Notice::Grace);
    spans.map(|(event, to)| Span { from: event.at, to }).collect()
}
