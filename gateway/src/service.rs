//! The hub at work: one task that hears phones, Redis and the clock, and does what the hub asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{unbounded_channel, Receiver, UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, sleep, Instant, MissedTickBehavior};

use crate::hub::{Ask, BeatAsk, BeatReply, Hub, Listening, Newcomer, Seen, Topic, ViewerId};
use crate::line::{self, is_lost, Addresses, Heard, Line};
use crate::metrics::Metrics;
use crate::protocol::{Request, Share};

/// From the connections.
pub enum Event {
    /// Somebody has said hello.
    Enter(ViewerId, Newcomer),
    /// Proof of life.
    Beat(ViewerId),
    /// Changes who may see the user.
    Share(ViewerId, Share),
    /// Goodbye, `true` if it may be back in a moment.
    Bye(ViewerId, bool),
    /// Dots that are on the screen now.
    Watch(ViewerId, Vec<String>),
    /// Dots that are not on the screen any more.
    Unwatch(ViewerId, Vec<String>),
    /// A badge.
    WatchRoom(ViewerId, String),
    /// The badge is not on the screen any more.
    UnwatchRoom(ViewerId, String),
    /// The connection is gone. Says nothing after a goodbye.
    Lost(ViewerId),
    /// The gateway goes down: everybody is told, and what waits goes out.
    Stop(oneshot::Sender<()>),
}

impl Event {
    /// What a phone's request after its hello means; `None` for another hello.
    pub fn of(id: ViewerId, request: Request) -> Option<Self> {
        Some(match request {
            Request::Hello { .. } => return None,
            Request::Beat => Self::Beat(id),
            Request::Share { share } => Self::Share(id, share),
            Request::Bye { soft } => Self::Bye(id, soft),
            Request::Watch { members } => Self::Watch(id, members),
            Request::Unwatch { members } => Self::Unwatch(id, members),
            Request::WatchRoom { room } => Self::WatchRoom(id, room),
            Request::UnwatchRoom { room } => Self::UnwatchRoom(id, room),
        })
    }
}

enum Answer {
    Beaten(Arc<str>, BeatAsk, Option<BeatReply>),
    Named(Topic, Option<Listening>),
    Unheard(Listening),
    Unended(Listening),
    Counted(Arc<str>, u64, Option<String>),
    Looked(ViewerId, Vec<Seen>),
    Unseen(ViewerId, Vec<(Arc<str>, u64)>),
    Connected(u64, Line),
    Lost(u64),
}

/// How often things that may have changed unheard are looked at again.
const LOOK_AROUND: Duration = Duration::from_secs(60);
/// Events taken in one turn, before what they ask for is done.
const TURN: usize = 1_024;

/// The task's side of the line: the newest one, if it stands.
struct Driver {
    addresses: Addresses,
    metrics: Arc<Metrics>,
    answers: UnboundedSender<Answer>,
    heard: UnboundedSender<Heard>,
    line: watch::Sender<Option<Line>>,
    /// Of the line that stands, or is being made.
    number: u64,
    subscriptions: UnboundedSender<(Line, u64, Listening, bool)>,
}

/// Runs until [`Event::Stop`]. `line` has the line to Redis as long as it stands, for others to use.
pub async fn run(
    mut hub: Hub,
    mut events: Receiver<Event>,
    addresses: Addresses,
    flush_every: Duration,
    metrics: Arc<Metrics>,
    line: watch::Sender<Option<Line>>,
) {
    let (answers, mut answered) = unbounded_channel();
    let (heard, mut hears) = unbounded_channel();
    let (subscriptions, subscribing) = unbounded_channel();
    tokio::spawn(subscribe_in_order(subscribing, answers.clone(), metrics.clone()));
    let mut driver = Driver { addresses, metrics, answers, heard, line, number: 0, subscriptions };
    driver.connect();
    let mut flushes = interval(flush_every);
    flushes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = interval(LOOK_AROUND);
    let mut turn = Vec::with_capacity(TURN);
    let stopped = 'work: loop {
        tokio::select! {
            Some(answer) = answered.recv() => driver.answer(&mut hub, answer),
            Some(told) = hears.recv() => driver.hear(&mut hub, told),
            taken = events.recv_many(&mut turn, TURN) => {
                if taken == 0 {
                    break None;
                }
                for event in turn.drain(..) {
                    match event {
                        Event::Stop(done) => break 'work Some(done),
                        event => take(&mut hub, event),
                    }
                }
                driver.metrics.connections.set(i64::try_from(hub.connections()).unwrap_or(i64::MAX));
            }
            _ = flushes.tick() => hub.flush(),
            _ = looks.tick() => hub.look_around(),
        }
        driver.perform(hub.asks());
    };
    // What was heard from phones before the end still goes out.
    hub.close_all();
    hub.flush();
    driver.perform(hub.asks());
    let end = Instant::now() + Duration::from_secs(2);
    while hub.is_telling() && Instant::now() < end {
        if let Ok(Some(answer)) = tokio::time::timeout_at(end, answered.recv()).await {
            driver.answer(&mut hub, answer);
            // What had to wait for it goes out too.
            hub.flush();
            driver.perform(hub.asks());
        }
    }
    if let Some(done) = stopped {
        // Nobody may wait for it.
        let _ = done.send(());
    }
}

fn take(hub: &mut Hub, event: Event) {
    match event {
        Event::Enter(id, newcomer) => hub.enter(id, newcomer),
        Event::Beat(id) => hub.beat(id),
        Event::Share(id, share) => hub.share(id, share),
        Event::Bye(id, soft) => hub.bye(id, soft),
        Event::Watch(id, members) => hub.watch(id, members),
        Event::Unwatch(id, members) => hub.unwatch(id, &members),
        Event::WatchRoom(id, room) => hub.watch_room(id, room),
        Event::UnwatchRoom(id, room) => hub.unwatch_room(id, &room),
        Event::Lost(id) => hub.lost(id),
        Event::Stop(_) => {}
    }
}

impl Driver {
    /// Makes a new line, however long it takes.
    fn connect(&mut self) {
        self.number += 1;
        let number = self.number;
        let (addresses, answers, heard) = (self.addresses.clone(), self.answers.clone(), self.heard.clone());
        tokio::spawn(async move {
            let mut wait = Duration::from_millis(20);
            loop {
                match Line::connect(&addresses, number, heard.clone()).await {
                    Ok(line) => return drop(answers.send(Answer::Connected(number, line))),
                    Err(error) => tracing::warn!(%error, "no line to Redis"),
                }
                sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(1));
            }
        });
    }

    fn lost(&mut self, hub: &mut Hub, number: u64) {
        if number == self.number && self.line.borrow().is_some() {
            tracing::warn!("the line to Redis is cut");
            self.line.send_replace(None);
            hub.disconnected();
            self.connect();
        }
    }

    fn hear(&mut self, hub: &mut Hub, told: Heard) {
        match told {
            Heard::Subscribed(channel) => hub.subscribed(&channel),
            Heard::Unsubscribed(channel) => hub.unsubscribed(&channel),
            Heard::Message(channel, payload) => hub.published(&channel, &payload),
            Heard::Cut(number) => self.lost(hub, number),
        }
    }

    fn answer(&mut self, hub: &mut Hub, answer: Answer) {
        match answer {
            Answer::Beaten(room, ask, reply) => hub.beaten(&room, ask, reply),
            Answer::Named(topic, listening) => hub.named(topic, listening),
            Answer::Unheard(listening) => hub.unheard(listening),
            Answer::Unended(listening) => hub.unended(listening),
            Answer::Counted(room, heard, badge) => hub.counted(&room, heard, badge),
            Answer::Looked(id, seen) => hub.looked(id, seen),
            Answer::Unseen(id, members) => hub.unseen(id, members),
            Answer::Lost(number) => self.lost(hub, number),
            Answer::Connected(number, line) => {
                if number == self.number {
                    tracing::info!("the line to Redis stands");
                    self.metrics.connects.inc();
                    self.line.send_replace(Some(line));
                    hub.connected();
                }
            }
        }
    }

    fn perform(&self, asks: Vec<Ask>) {
        let Some(line) = self.line.borrow().clone() else {
            return self.fail(asks);
        };
        for ask in asks {
            match ask {
                Ask::Subscribe(listening) => self.in_order(&line, listening, true),
                Ask::Unsubscribe(listening) => self.in_order(&line, listening, false),
                ask => {
                    let (line, number) = (line.clone(), self.number);
                    let (answers, metrics) = (self.answers.clone(), self.metrics.clone());
                    tokio::spawn(async move {
                        let (answer, error) = ask_of(&line, ask, &metrics).await;
                        report(error, number, &answers, &metrics);
                        drop(answers.send(answer));
                    });
                }
            }
        }
    }

    fn in_order(&self, line: &Line, listening: Listening, on: bool) {
        drop(self.subscriptions.send((line.clone(), self.number, listening, on)));
    }

    /// What is asked while there is no line fails at once.
    fn fail(&self, asks: Vec<Ask>) {
        for ask in asks {
            if let Some(answer) = failed(ask) {
                drop(self.answers.send(answer));
            }
        }
    }
}

fn failed(ask: Ask) -> Option<Answer> {
    Some(match ask {
        Ask::Beat(room, ask) => Answer::Beaten(room, ask, None),
        Ask::Name(topic) => Answer::Named(topic, None),
        Ask::Count { room, heard } => Answer::Counted(room, heard, None),
        Ask::Look { viewer, members, .. } => Answer::Unseen(viewer, members),
        Ask::Subscribe(listening) => Answer::Unheard(listening),
        // The line that is cut has taken the subscription along.
        Ask::Unsubscribe(_) => return None,
    })
}

fn report(error: Option<redis::RedisError>, number: u64, answers: &UnboundedSender<Answer>, metrics: &Metrics) {
    if let Some(error) = error {
        metrics.failures.inc();
        tracing::debug!(%error, "Redis did not answer as hoped");
        if is_lost(&error) {
            drop(answers.send(Answer::Lost(number)));
        }
    }
}

/// Performs an ask; the error is for the record, the answer says already that it failed.
async fn ask_of(line: &Line, ask: Ask, metrics: &Metrics) -> (Answer, Option<redis::RedisError>) {
    match ask {
        Ask::Beat(room, ask) => {
            let begun = Instant::now();
            let result = line::beat(line, &room, &ask).await;
            metrics.told.observe(begun.elapsed().as_secs_f64());
            let (reply, error) = split(result);
            (Answer::Beaten(room, ask, reply), error)
        }
        Ask::Name(topic) => {
            let (listening, error) = split(line::name(line, &topic).await);
            (Answer::Named(topic, listening), error)
        }
        Ask::Count { room, heard } => {
            let (badge, error) = split(line::count(line, &room).await);
            (Answer::Counted(room, heard, badge), error)
        }
        Ask::Look { viewer, user, room, members } => match line::look(line, &user, &room, &members).await {
            Ok(seen) => (Answer::Looked(viewer, seen), None),
            Err(error) => (Answer::Unseen(viewer, members), Some(error)),
        },
        Ask::Subscribe(listening) | Ask::Unsubscribe(listening) => (Answer::Unheard(listening), None),
    }
}

fn split<T>(result: redis::RedisResult<T>) -> (Option<T>, Option<redis::RedisError>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    }
}

/// Subscribes and unsubscribes in the order in which that was asked for: what is subscribed to again must not be undone by
/// an older word. Neighbours of one kind go together.
async fn subscribe_in_order(
    mut asked: UnboundedReceiver<(Line, u64, Listening, bool)>,
    answers: UnboundedSender<Answer>,
    metrics: Arc<Metrics>,
) {
    let mut next = None;
    loop {
        let Some(first) = (match next.take() {
            Some(first) => Some(first),
            None => asked.recv().await,
        }) else {
            return;
        };
        let on = first.3;
        let mut group = vec![first];
        while let Ok(more) = asked.try_recv() {
            if more.3 == on {
                group.push(more);
            } else {
                next = Some(more);
                break;
            }
        }
        let tasks = group.into_iter().map(|(line, number, listening, on)| {
            let (answers, metrics) = (answers.clone(), metrics.clone());
            async move {
                let (done, error) = split(line::subscribe(&line, &listening, on).await);
                report(error, number, &answers, &metrics);
                if done.is_none() {
                    let answer = if on { Answer::Unheard(listening) } else { Answer::Unended(listening) };
                    drop(answers.send(answer));
                }
            }
        });
        futures_util::future::join_all(tasks).await;
    }
}
