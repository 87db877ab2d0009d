//! What the viewers do: the doors fill the room, then the audience breathes around its size, with arrivals, goodbyes,
//! silent departures and tunnels at random. The same seed and the same answers give the same story.

mod chances;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::chances::Owed;
use crate::audience::Audience;
use crate::Moment;

/// Of the departures, those without a word: empty batteries, crashes.
const SILENT: f64 = 0.08;
/// Of all that befalls viewers, what befalls those with friends: else there were few dots to judge.
const AMONG_FRIENDS: f64 = 0.1;
/// Of those with friends, those who come after the doors.
const LATECOMERS: f64 = 0.1;
/// Of timeout and grace, the shortest and the longest tunnel. What is missing to 1 is for the beat before it and for
/// finding the way back.
const TUNNEL: (f64, f64) = (0.02, 0.6);
/// Of tunnels, those in which the socket stays open and silent; in the others it is cut.
const MUTE: f64 = 0.5;
/// Without a welcome for so long a viewer tries elsewhere.
const UNANSWERED: Moment = Moment::from_secs(15);

/// How long it all takes, and with which settings of the room.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The room fills.
    pub doors: Moment,
    /// What is judged, after the doors.
    pub show: Moment,
    /// Of the room.
    pub timeout: Moment,
    /// Of the room.
    pub grace: Moment,
}

/// Something that a viewer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Connects and says hello.
    Enter,
    /// Proves that they are alive.
    Beat,
    /// Says goodbye.
    Bye,
    /// Loses the connection, and will be back.
    Tunnel {
        /// The socket stays open.
        mute: bool,
    },
    /// Loses the connection, for good.
    Vanish,
    /// Gives up waiting for the welcome.
    GiveUp,
}

/// A deed, whose, and at which gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub viewer: u32,
    /// Where.
    pub gateway: u16,
    /// What.
    pub deed: Deed,
}

/// What happened since the doors were open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Hellos of those who were not there.
    pub arrivals: u64,
    /// Goodbyes.
    pub goodbyes: u64,
    /// Departures without a word.
    pub silent: u64,
    /// Connections lost and made again after a while.
    pub tunnels: u64,
    /// Connections that a gateway or the network ended, each made again at once.
    pub cut: u64,
    /// Hellos that nobody answered.
    pub unanswered: u64,
    /// Beats, from the doors on.
    pub beats: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Not there. Will come if that is planned.
    #[default]
    Out,
    Entering,
    Here,
    /// There, without a connection.
    Away,
}

#[derive(Clone, Copy, Debug, Default)]
struct Viewer {
    state: State,
    /// Plans of before do not count.
    turn: u32,
    gateway: u16,
    /// In `here`.
    place: u32,
    /// Was there when the connection was lost.
    returns: bool,
    beat: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plan {
    Enter,
    Beat,
    GiveUp,
}

/// See the module.
pub struct Scenario {
    audience: Audience,
    times: Times,
    chance: StdRng,
    viewers: Vec<Viewer>,
    /// Who can be chosen for something.
    here: Vec<u32>,
    entering: u32,
    plans: BinaryHeap<Reverse<(Moment, u32, u32, Plan)>>,
    /// Gateways that are alive.
    gateways: Vec<u16>,
    opened: Option<Moment>,
    owed: Owed,
    tally: Tally,
}

impl Scenario {
    /// All are outside; the doors open at once.
    pub fn new(audience: Audience, times: Times, gateways: u16, seed: u64) -> Self {
        let mut scenario = Self {
            audience,
            times,
            chance: StdRng::seed_from_u64(seed),
            viewers: Vec::new(),
            here: Vec::new(),
            entering: 0,
            plans: BinaryHeap::new(),
            gateways: (0..gateways).collect(),
            opened: None,
            owed: Owed::new(audience.size, times.show),
            tally: Tally::default(),
        };
        let (mut viewer, mut missing) = (0, audience.size);
        while missing > 0 {
            scenario.viewers.push(Viewer::default());
            let late = audience.has_friends(viewer) && scenario.chance.random_bool(LATECOMERS);
            let at = match late {
                false => times.doors.mul_f64(scenario.chance.random()),
                true => times.doors + times.show.mul_f64(0.05 + 0.6 * scenario.chance.random::<f64>()),
            };
            scenario.plan(viewer, at, Plan::Enter);
            missing -= u32::from(!late);
            viewer += 1;
        }
        scenario
    }

    /// The doors are open: from now on the audience breathes, for the time of the show.
    pub fn open(&mut self, now: Moment) {
        self.opened = Some(now);
        self.owed = Owed::new(self.audience.size, self.times.show);
        self.tally = Tally::default();
    }

    /// The show is over: who is here stays and beats, who is away comes back, and nothing else happens.
    pub fn close(&mut self) {
        self.opened = None;
    }

    /// How many wait for their welcome.
    pub fn entering(&self) -> u32 {
        self.entering
    }

    /// What happened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// All that happens until `now`, in its order.
    pub fn step(&mut self, now: Moment, steps: &mut Vec<Step>) {
        while let Some(&Reverse((at, viewer, turn, plan))) = self.plans.peek() {
            if at > now {
                break;
            }
            self.plans.pop();
            if self.of(viewer).turn == turn {
                self.carry_out(viewer, plan, now, steps);
            }
        }
        if let Some(opened) = self.opened {
            self.breathe(now.saturating_sub(opened), now, steps);
        }
    }

    fn carry_out(&mut self, viewer: u32, plan: Plan, now: Moment, steps: &mut Vec<Step>) {
        let Viewer { state, gateway, beat, returns, .. } = self.of(viewer);
        match plan {
            Plan::Enter => {
                let Some(gateway) = self.some_gateway((state == State::Away).then_some(gateway)) else { return };
                if !returns {
                    self.owed.arrived();
                    self.tally.arrivals += 1;
                }
                self.set(viewer, State::Entering);
                if let Some(who) = self.viewers.get_mut(viewer as usize) {
                    who.gateway = gateway;
                }
                self.plan(viewer, now + UNANSWERED, Plan::GiveUp);
                steps.push(Step { viewer, gateway, deed: Deed::Enter });
            }
            Plan::Beat => {
                self.tally.beats += 1;
                self.plan(viewer, now + beat, Plan::Beat);
                steps.push(Step { viewer, gateway, deed: Deed::Beat });
            }
            Plan::GiveUp => {
                self.tally.unanswered += 1;
                steps.push(Step { viewer, gateway, deed: Deed::GiveUp });
                self.set(viewer, State::Away);
                self.plan(viewer, now, Plan::Enter);
            }
        }
    }

    fn breathe(&mut self, since: Moment, now: Moment, steps: &mut Vec<Step>) {
        let (arrivals, departures, tunnels) = self.owed.until(since);
        for _ in 0..arrivals {
            let newcomer = self.viewers.len() as u32;
            self.viewers.push(Viewer::default());
            self.carry_out(newcomer, Plan::Enter, now, steps);
        }
        for _ in 0..departures {
            let Some(viewer) = self.somebody() else { return };
            let gateway = self.of(viewer).gateway;
            let silent = self.chance.random_bool(SILENT);
            let deed = if silent { Deed::Vanish } else { Deed::Bye };
            *(if silent { &mut self.tally.silent } else { &mut self.tally.goodbyes }) += 1;
            steps.push(Step { viewer, gateway, deed });
            self.set(viewer, State::Out);
            if self.audience.has_socket(viewer) {
                // Not before everything of the time before is forgotten, lost connections too.
                let forgotten = (self.times.timeout + self.times.grace).mul_f64(1.05);
                let after = forgotten + self.times.show.mul_f64(0.02 + 0.1 * self.chance.random::<f64>());
                self.plan(viewer, now + after, Plan::Enter);
            }
        }
        for _ in 0..tunnels {
            let Some(viewer) = self.somebody() else { return };
            self.tally.tunnels += 1;
            let gateway = self.of(viewer).gateway;
            let mute = self.audience.has_socket(viewer) && self.chance.random_bool(MUTE);
            steps.push(Step { viewer, gateway, deed: Deed::Tunnel { mute } });
            self.set(viewer, State::Away);
            let share = self.chance.random_range(TUNNEL.0..TUNNEL.1);
            self.plan(viewer, now + (self.times.timeout + self.times.grace).mul_f64(share), Plan::Enter);
        }
    }

    /// The gateway took the viewer in; `beat` is the time between beats. Whether that was waited for.
    pub fn welcome(&mut self, viewer: u32, beat: Moment, now: Moment) -> bool {
        if self.of(viewer).state != State::Entering {
            return false;
        }
        self.set(viewer, State::Here);
        if let Some(who) = self.viewers.get_mut(viewer as usize) {
            who.beat = beat;
        }
        self.plan(viewer, now + beat, Plan::Beat);
        true
    }

    /// The viewer's connection ended from the other side: they make another one in a moment, elsewhere. Whether they had
    /// one.
    pub fn cut(&mut self, viewer: u32, now: Moment) -> bool {
        let connected = matches!(self.of(viewer).state, State::Entering | State::Here);
        if connected {
            self.tally.cut += 1;
            self.set(viewer, State::Away);
            // All who were on one gateway try again: not all at once.
            let after = self.times.show.mul_f64(0.001 + 0.015 * self.chance.random::<f64>());
            self.plan(viewer, now + after, Plan::Enter);
        }
        connected
    }

    /// The gateway is dead. Those of the crowd who were on it.
    pub fn gateway_died(&mut self, gateway: u16, now: Moment) -> Vec<u32> {
        self.gateways.retain(|&other| other != gateway);
        let numbers = self.audience.sockets..self.viewers.len() as u32;
        let on_it: Vec<_> = numbers.filter(|&viewer| self.of(viewer).gateway == gateway).collect();
        on_it.into_iter().filter(|&viewer| self.cut(viewer, now)).collect()
    }

    fn of(&self, viewer: u32) -> Viewer {
        self.viewers.get(viewer as usize).copied().unwrap_or_default()
    }

    fn plan(&mut self, viewer: u32, at: Moment, plan: Plan) {
        self.plans.push(Reverse((at, viewer, self.of(viewer).turn, plan)));
    }

    fn set(&mut self, viewer: u32, state: State) {
        let before = self.of(viewer);
        if before.state == State::Here {
            self.here.swap_remove(before.place as usize);
            if let Some(moved) =
                self.here.get(before.place as usize).and_then(|&moved| self.viewers.get_mut(moved as usize))
            {
                moved.place = before.place;
            }
        }
        self.entering -= u32::from(before.state == State::Entering);
        self.entering += u32::from(state == State::Entering);
        let place = self.here.len() as u32;
        if state == State::Here {
            self.here.push(viewer);
        }
        if let Some(who) = self.viewers.get_mut(viewer as usize) {
            who.returns = match state {
                State::Out => false,
                State::Here => true,
                State::Entering | State::Away => who.returns,
            };
            (who.state, who.place, who.turn) = (state, place, who.turn + 1);
        }
    }

    /// Somebody who is here.
    fn somebody(&mut self) -> Option<u32> {
        if self.audience.friends > 0 && self.chance.random_bool(AMONG_FRIENDS) {
            let viewer = self.chance.random_range(0..self.audience.friends);
            if self.of(viewer).state == State::Here {
                return Some(viewer);
            }
        }
        if self.here.is_empty() {
            return None;
        }
        let place = self.chance.random_range(0..self.here.len());
        self.here.get(place).copied()
    }

    /// A living gateway, not this one if there is another.
    fn some_gateway(&mut self, but: Option<u16>) -> Option<u16> {
        if self.gateways.is_empty() {
            return None;
        }
        let place = self.chance.random_range(0..self.gateways.len());
        let chosen = self.gateways.get(place).copied();
        if chosen != but {
            return chosen;
        }
        self.gateways.get((place + 1) % self.gateways.len()).copied()
    }
}

#[cfg(test)]
mod tests;
