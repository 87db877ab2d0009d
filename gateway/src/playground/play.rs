//! The engine in virtual time, driven as the module drives it: each beat when it arrives, each silence when it is due.

use presence_engine::announce::To;
use presence_engine::effects::{Effects, Notice};
use presence_engine::error::Refusal;
use presence_engine::hearing::{FreshPoints, HeardMs, Hearing};
use presence_engine::member::Attributes;
use presence_engine::room::{Env, Room};
use presence_engine::settings::{NodeConfig, Share};
use presence_engine::table::HashKeys;
use presence_engine::uniques::Day;

use super::{phone, Settings};

/// Nobody sends hostile ids here, so the keys need no secret, and every story is played alike.
const KEYS: &HashKeys = &HashKeys(1, 2);
const NONCE: u64 = 1;
const TERM: u64 = 1;
/// The evening of a day; the story does not reach midnight.
const UNIX_MS: u64 = 1_557_169_200_000;
const DAY: Day = Day::from_number(18_022);
const MEMBER: &[u8] = b"asha";
const SESSION: &[u8] = b"phone";

/// What the engine told of the phone to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Ms since the beginning.
    pub at: u64,
    /// What.
    pub notice: Notice,
}

/// What the engine published to those who watch the phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Ms since the beginning.
    pub at: u64,
    /// JSON.
    pub body: Vec<u8>,
}

/// Everything that the engine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In order.
    pub events: Vec<Event>,
    /// In order.
    pub messages: Vec<Message>,
    /// Members present from this moment on, in ms since the beginning: each time that the engine's count changed.
    pub counts: Vec<(u64, u32)>,
    /// Beats that arrived.
    pub heard: u32,
    /// Returns from grace, by the engine's figures: flickers that nobody saw.
    pub flickers: u64,
}

/// What the module would know of the world.
struct World {
    /// Where heard time begins.
    start: HeardMs,
    config: NodeConfig,
    fresh: FreshPoints,
}

impl World {
    fn env(&self, at: u64) -> Env<'_> {
        Env {
            now: self.start + at,
            unix_ms: UNIX_MS + at,
            today: DAY,
            fresh: &self.fresh,
            config: &self.config,
            generation: 0,
            term: Some(TERM),
            oom: false,
            tells: true,
        }
    }
}

struct Player {
    world: World,
    room: Room,
    effects: Effects,
    /// Ms since the beginning.
    at: u64,
    recording: Recording,
}

impl Player {
    fn new(settings: &Settings) -> Self {
        let config = NodeConfig {
            timeout: settings.timeout(),
            grace: settings.grace,
            share: Share::Friends,
            // The story is about a dot: nobody watches the room's number.
            count_every: 0,
            ..NodeConfig::default()
        };
        let world = World { start: Hearing::new(0).now(0), config, fresh: FreshPoints::default() };
        let room = Room::new(KEYS, NONCE, &world.env(0));
        Self { world, room, effects: Effects::default(), at: 0, recording: Recording::default() }
    }

    /// Ends a step: what came of it is written down.
    fn finish(&mut self) {
        let Self { at, recording, effects, .. } = self;
        recording.events.extend(effects.events().map(|event| Event { at: *at, notice: event.notice }));
        recording.flickers += effects.stats.flickers;
        // The payload is for replicas, of which there is none.
        let _ = self.room.finish(&self.world.env(*at), effects);
        let watched = effects.messages.iter().filter(|message| message.to == To::Member(MEMBER));
        recording.messages.extend(watched.map(|message| Message { at: *at, body: message.body.to_vec() }));
        effects.clear();
        let count = self.room.count();
        if recording.counts.last().map_or(0, |&(_, before)| before) != count {
            recording.counts.push((*at, count));
        }
    }

    /// What silence brings about before `end`, each at its moment. Not at `end`: a tick of the module judges only what
    /// was due by the tick before, so a beat that arrives in the millisecond of a deadline is heard first.
    fn wait(&mut self, end: u64) {
        let end = self.world.start.saturating_add(end);
        while let Some(due) = self.room.next_due().filter(|&due| due < end) {
            self.at = self.at.max(due.saturating_sub(self.world.start));
            let env = self.world.env(self.at);
            self.room.tick(&env, env.now, &mut self.effects, &mut || true);
            self.finish();
        }
    }

    /// PRESENCE.BEAT: a plain one tries the short way first.
    fn beat(&mut self, at: u64) -> Result<(), Refusal> {
        self.wait(at);
        self.at = at;
        self.recording.heard += 1;
        let env = self.world.env(at);
        if !self.room.renew(MEMBER, SESSION, env.now, env.today) {
            self.room.beat(&env, MEMBER, SESSION, &Attributes::default(), &mut self.effects)?;
            self.finish();
        }
        Ok(())
    }

    /// PRESENCE.BYE.
    fn bye(&mut self, at: u64) {
        self.wait(at);
        self.at = at;
        self.room.bye(&self.world.env(at), MEMBER, Some(SESSION), false, &mut self.effects);
        self.finish();
    }
}

/// Plays the phone of [`phone`] through the engine, until the engine has nothing left to do. The settings must have been
/// checked.
///
/// # Errors
/// What the engine refused; with a phone alone in its room that is nothing.
pub fn play(settings: &Settings) -> Result<Recording, Refusal> {
    let mut player = Player::new(settings);
    for at in phone::beats(settings.heartbeat).filter(|&at| phone::has_signal(at)) {
        player.beat(at)?;
    }
    if settings.goodbye {
        player.bye(phone::LEAVES);
    }
    player.wait(u64::MAX);
    Ok(player.recording)
}
