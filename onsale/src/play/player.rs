//! Plays the scenario over sockets, and tells the judge.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use presence_gateway::token::{Claims, Tokens};
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::time::{interval, Instant, MissedTickBehavior};

use super::crowd::Crowd;
use super::phone::{Order, Phone};
use super::{Ears, Heard, Notes, Room, What, Word};
use crate::audience::{user, Audience};
use crate::judge::{Judge, Line, Promises, Report};
use crate::scenario::{Deed, Scenario, Step, Times};
use crate::Moment;

const TICK: Duration = Duration::from_millis(25);
/// Ticks for which what crowds do is collected.
const TICKS: u64 = 4;
/// After the doors, and after the show: what is on its way arrives.
const SETTLE: Moment = Moment::from_secs(3);
/// The room must be full so long after the doors at the latest.
const FULL: Moment = Moment::from_secs(60);

/// What is played, and against what.
pub struct Plot {
    /// Who takes part.
    pub audience: Audience,
    /// How long it all takes.
    pub times: Times,
    /// `host:port` of each gateway.
    pub gateways: Vec<String>,
    /// Signs tokens.
    pub secret: String,
    /// The same seed gives the same plans.
    pub seed: u64,
    /// What is promised.
    pub promises: Promises,
}

/// Why it could not be played to its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Redis did not do what it was asked.
    #[error("Redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// A gateway could not be reached.
    #[error("gateway {0}: {1}")]
    Gateway(String, Box<tokio_tungstenite::tungstenite::Error>),
    /// A token could not be signed.
    #[error("token: {0}")]
    Token(String),
    /// The line to Redis ended: nothing can be judged.
    #[error("the line to Redis ended")]
    Deaf,
    /// The room did not fill.
    #[error("{0} viewers were not welcomed within a minute after the doors")]
    NotFull(u32),
}

/// What others are told meanwhile.
pub enum News<'a> {
    /// A second has passed.
    Second(&'a Line),
    /// The doors were open; the show begins.
    Opened,
    /// Half of the show is over.
    Half,
    /// The show is over.
    Closed,
}

/// A phone's present life.
struct Connected {
    life: u64,
    gateway: u16,
    orders: UnboundedSender<Order>,
}

/// See the module.
pub struct Player {
    plot: Plot,
    room: Room,
    name: Arc<str>,
    gateways: Vec<Arc<str>>,
    tokens: Tokens,
    expires: u64,
    scenario: Scenario,
    judge: Judge,
    crowds: Vec<Crowd>,
    phones: HashMap<u32, Connected>,
    lives: u64,
    /// Phones that have been welcomed and not gone.
    standing: HashMap<u32, u64>,
    notes: Notes,
    hears: UnboundedReceiver<Heard>,
    start: Instant,
    behind: Moment,
    behind_most: Moment,
    messages: u64,
    opened: Option<Moment>,
    dead: HashSet<u16>,
    died: Option<Moment>,
    /// Viewers whose connection ended without their doing, and who are not welcomed elsewhere yet.
    refugees: HashSet<u32>,
    /// The same, as far as they had a socket: at which gateway, and more in words.
    cuts: Vec<(u16, String)>,
    report: Report,
}

impl Player {
    /// Connects the crowds.
    ///
    /// # Errors
    /// A gateway cannot be reached.
    pub async fn new(plot: Plot, room: Room) -> Result<Self, Failure> {
        let start = Instant::now();
        let (sender, hears) = unbounded_channel();
        let notes = Notes::new(start, sender);
        let name: Arc<str> = room.name.as_str().into();
        let mut crowds = Vec::new();
        for (number, gateway) in (0..).zip(&plot.gateways) {
            let crowd = Crowd::connect(gateway, number, name.clone(), notes.clone()).await;
            crowds.push(crowd.map_err(|error| Failure::Gateway(gateway.clone(), error.into()))?);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            scenario: Scenario::new(plot.audience, plot.times, plot.gateways.len() as u16, plot.seed),
            judge: Judge::new(plot.audience, plot.times.timeout + plot.times.grace),
            gateways: plot.gateways.iter().map(|gateway| gateway.as_str().into()).collect(),
            tokens: Tokens::new(&plot.secret).map_err(|error| Failure::Token(error.to_string()))?,
            expires: now.as_secs() + 3600,
            plot,
            room,
            name,
            crowds,
            phones: HashMap::new(),
            lives: 0,
            standing: HashMap::new(),
            notes,
            hears,
            start,
            behind: Moment::ZERO,
            behind_most: Moment::ZERO,
            messages: 0,
            opened: None,
            dead: HashSet::new(),
            died: None,
            refugees: HashSet::new(),
            cuts: Vec::new(),
            report: Report::default(),
        })
    }

    /// Plays it all, and tells of it.
    ///
    /// # Errors
    /// It could not be played to its end.
    pub async fn play(mut self, mut tell: impl FnMut(News<'_>)) -> Result<Report, Failure> {
        let _ears = Ears::open(&self.room, self.notes.clone()).await?;
        let Times { doors, show, .. } = self.plot.times;
        self.run_until(doors + SETTLE, &mut tell).await?;
        let full = self.start.elapsed() + FULL;
        while self.scenario.entering() > 0 {
            if self.start.elapsed() > full {
                return Err(Failure::NotFull(self.scenario.entering()));
            }
            self.run_until(self.start.elapsed() + TICK * 4, &mut tell).await?;
        }
        let before = self.room.info().await?;
        let opened = self.start.elapsed();
        self.opened = Some(opened);
        self.behind_most = Moment::ZERO;
        self.report.sockets.least = u32::MAX;
        self.scenario.open(opened);
        self.judge.open(opened);
        tell(News::Opened);
        self.run_until(opened + show / 2, &mut tell).await?;
        tell(News::Half);
        self.run_until(opened + show, &mut tell).await?;
        self.opened = None;
        self.scenario.close();
        tell(News::Closed);
        let seconds = (self.start.elapsed() - opened).as_secs_f64();
        let server = self.room.info().await?;
        self.report.behind_ms = self.behind_most.as_secs_f64() * 1000.0;
        self.report.tally = self.scenario.tally();
        self.run_until(self.start.elapsed() + SETTLE, &mut tell).await?;
        let mut report = std::mem::take(&mut self.report);
        report.seconds = seconds;
        report.server =
            server.iter().map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(&0))).collect();
        let unexplained = self.cuts.iter().filter(|(gateway, _)| !self.dead.contains(gateway));
        report.cuts = unexplained.map(|(_, why)| why.clone()).collect();
        self.judge.report(&mut report, self.start.elapsed());
        report.judge(self.plot.promises);
        Ok(report)
    }

    async fn run_until(&mut self, end: Moment, tell: &mut impl FnMut(News<'_>)) -> Result<(), Failure> {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut heard, mut steps, mut number) = (Vec::new(), Vec::new(), 0_u64);
        let mut told = self.start.elapsed().as_secs();
        while self.start.elapsed() < end {
            tokio::select! {
                due = ticks.tick() => {
                    let now = self.start.elapsed();
                    self.is_behind(now.saturating_sub(due - self.start));
                    number += 1;
                    self.tick(now, &mut steps, number % TICKS == 0)?;
                    if now.as_secs() > told {
                        told = now.as_secs();
                        self.second(now, tell);
                    }
                }
                _ = self.hears.recv_many(&mut heard, 1024) => {
                    if let Some(first) = heard.first() {
                        self.is_behind(self.start.elapsed().saturating_sub(first.at));
                    }
                    for heard in heard.drain(..) {
                        self.hear(heard)?;
                    }
                }
            }
        }
        self.crowds.iter_mut().for_each(Crowd::flush);
        Ok(())
    }

    fn is_behind(&mut self, by: Moment) {
        self.behind = self.behind.max(by);
        self.behind_most = self.behind_most.max(by);
    }

    fn tick(&mut self, now: Moment, steps: &mut Vec<Step>, flush: bool) -> Result<(), Failure> {
        self.scenario.step(now, steps);
        for step in steps.drain(..) {
            self.judge.did(step, now);
            self.act(step)?;
        }
        self.judge.tick(now);
        if flush {
            self.crowds.iter_mut().for_each(Crowd::flush);
        }
        Ok(())
    }

    fn act(&mut self, step: Step) -> Result<(), Failure> {
        let Step { viewer, gateway, deed } = step;
        if !self.plot.audience.has_socket(viewer) {
            if let Some(crowd) = self.crowds.get_mut(gateway as usize) {
                match deed {
                    Deed::Enter => crowd.enter(viewer),
                    Deed::Beat => crowd.beat(viewer),
                    Deed::Bye => crowd.bye(viewer),
                    Deed::Tunnel { .. } | Deed::Vanish | Deed::GiveUp => crowd.lose(viewer),
                }
            }
            return Ok(());
        }
        let order = match deed {
            Deed::Enter => return self.enter(viewer, gateway),
            Deed::Beat => Order::Beat,
            Deed::Bye => Order::Bye,
            Deed::Vanish | Deed::Tunnel { mute: true } => Order::Mute(self.plot.times.timeout + self.plot.times.grace),
            Deed::Tunnel { mute: false } | Deed::GiveUp => Order::Cut,
        };
        if order != Order::Beat {
            self.standing.remove(&viewer);
        }
        if let Some(phone) = self.phones.get(&viewer) {
            // One that has ended since does nothing more.
            phone.orders.send(order).ok();
        }
        Ok(())
    }

    fn enter(&mut self, viewer: u32, number: u16) -> Result<(), Failure> {
        let Some(gateway) = self.gateways.get(number as usize).cloned() else { return Ok(()) };
        self.lives += 1;
        let claims = Claims { sub: user(viewer), exp: self.expires, rooms: None };
        let token = self.tokens.sign(&claims).map_err(|error| Failure::Token(error.to_string()))?;
        let friends = self.plot.audience.friends_of(viewer).collect();
        let phone = Phone { viewer, life: self.lives, gateway, room: self.name.clone(), token, friends };
        let (orders, ordered) = unbounded_channel();
        tokio::spawn(phone.live(ordered, self.notes.clone()));
        self.phones.insert(viewer, Connected { life: self.lives, gateway: number, orders });
        Ok(())
    }

    fn hear(&mut self, heard: Heard) -> Result<(), Failure> {
        let at = heard.at;
        match heard.what {
            What::Phone(viewer, life, word) => {
                // What was on its way to an end of before is of no interest.
                if self.phones.get(&viewer).is_some_and(|phone| phone.life == life) {
                    self.word(viewer, life, word, at);
                }
            }
            What::Crowd(viewers, beat) => {
                for viewer in viewers {
                    self.welcome(viewer as u32, beat, at);
                }
            }
            What::Refused(viewers) => self.judge.refused(viewers),
            What::Dead(gateway) => self.gateway_died(gateway, at),
            What::Count(count) => {
                self.judge.broadcast(count, at);
                if self.opened.is_some() {
                    let (there, (least, most)) = (self.judge.truth().there(), self.report.there);
                    self.report.there = if most == 0 { (there, there) } else { (least.min(there), most.max(there)) };
                }
            }
            What::Offline(viewer) => self.judge.offline(viewer, at),
            What::Deaf => return Err(Failure::Deaf),
        }
        Ok(())
    }

    fn word(&mut self, viewer: u32, life: u64, word: Word, at: Moment) {
        match word {
            Word::Welcome(beat) => {
                if self.welcome(viewer, beat, at) {
                    self.standing.insert(viewer, life);
                    self.judge.drawn(viewer, at);
                }
            }
            Word::Badge(text) => {
                self.messages += 1;
                self.judge.badge(viewer, &text, at);
            }
            Word::Dot(friend, online) => {
                self.messages += 1;
                self.judge.dot(viewer, friend, online, at);
            }
            Word::Refused => self.judge.refused(1),
            Word::Cut(why) => {
                self.standing.remove(&viewer);
                if self.scenario.cut(viewer, at) {
                    self.judge.cut(viewer);
                    self.refugees.insert(viewer);
                    let gateway = self.phones.get(&viewer).map_or(u16::MAX, |phone| phone.gateway);
                    self.cuts.push((gateway, format!("v{viewer} at {at:.2?}: {why}")));
                }
            }
        }
    }

    fn welcome(&mut self, viewer: u32, beat: Moment, at: Moment) -> bool {
        let waited_for = self.scenario.welcome(viewer, beat, at);
        if waited_for {
            self.judge.welcomed(viewer, at);
            if self.refugees.remove(&viewer) && self.refugees.is_empty() {
                self.report.refuge_ms = self.died.map(|died| (at - died).as_secs_f64() * 1000.0);
            }
        }
        waited_for
    }

    fn gateway_died(&mut self, gateway: u16, at: Moment) {
        self.report.gateways_died += usize::from(self.dead.insert(gateway));
        self.died.get_or_insert(at);
        self.judge.gateway_died(gateway, at);
        for viewer in self.scenario.gateway_died(gateway, at) {
            self.judge.cut(viewer);
            self.refugees.insert(viewer);
        }
    }

    fn second(&mut self, now: Moment, tell: &mut impl FnMut(News<'_>)) {
        let sockets = self.standing.len() as u32;
        if self.opened.is_some() {
            let kept = &mut self.report.sockets;
            (kept.least, kept.most) = (kept.least.min(sockets), kept.most.max(sockets));
        }
        let last = self.judge.last();
        tell(News::Second(&Line {
            at: now.as_secs_f64(),
            there: self.judge.truth().there(),
            sockets,
            count: last.map(|broadcast| broadcast.count),
            error: last.map(|broadcast| broadcast.error()),
            entering: self.scenario.entering(),
            tally: self.scenario.tally(),
            messages: std::mem::take(&mut self.messages),
            false_departures: self.judge.false_departures(),
            behind_ms: std::mem::take(&mut self.behind).as_secs_f64() * 1000.0,
        }));
    }
}
