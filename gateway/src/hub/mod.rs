//! Everything the gateway knows: who is connected, what is to be told to Redis, and who watches what.
//!
//! Pure: events come in by calls, what is to be done goes out as [`Ask`]s (for Redis) and into outlets (for phones). It
//! never waits. One task drives it: [`crate::service`].

mod ask;
mod beats;
mod outlet;
mod topics;
mod viewers;

pub use self::ask::{Ask, BeatAsk, BeatReply, Joined, Listening, Parting, Refusal, Seen, Topic, Verb};
pub use self::outlet::{Crowd, Outlet};
pub use self::viewers::{Newcomer, ViewerId};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use self::beats::Room;
use self::topics::Listened;
use self::viewers::Viewer;
use crate::metrics::Metrics;
use crate::settings::Limits;

/// See the module.
pub struct Hub {
    limits: Limits,
    reciprocal: bool,
    metrics: Arc<Metrics>,
    /// Begins the name of every session, so that no two gateways, and no two lives of one, give the same.
    life: String,
    sessions: u64,
    viewers: HashMap<ViewerId, Viewer>,
    of_user: HashMap<Arc<str>, usize>,
    rooms: HashMap<Arc<str>, Room>,
    topics: HashMap<Topic, Listened>,
    /// Which topic a channel is.
    channels: HashMap<Vec<u8>, Topic>,
    /// Redis can be asked.
    up: bool,
    /// What a viewer may see is to be read again, for these members.
    looks: Looks,
    asks: Vec<Ask>,
    /// What failed, to be asked again with the next flush.
    later: Vec<Ask>,
    later_looks: Looks,
}

type Looks = BTreeMap<ViewerId, BTreeSet<Arc<str>>>;

impl Hub {
    /// Nobody is connected yet. `life` is unlike that of any other gateway.
    pub fn new(limits: Limits, reciprocal: bool, life: String, metrics: Arc<Metrics>) -> Self {
        Self {
            limits,
            reciprocal,
            metrics,
            life,
            sessions: 0,
            viewers: HashMap::new(),
            of_user: HashMap::new(),
            rooms: HashMap::new(),
            topics: HashMap::new(),
            channels: HashMap::new(),
            up: false,
            looks: Looks::new(),
            asks: Vec::new(),
            later: Vec::new(),
            later_looks: Looks::new(),
        }
    }

    /// Redis can be asked, for the first time or again: subscriptions are made anew, and what waits goes out with the next
    /// [`Hub::flush`].
    pub fn connected(&mut self) {
        self.up = true;
        self.later.clear();
        self.listen_to_all();
    }

    /// Redis cannot be asked. Replies to what was asked still come, as failures.
    pub fn disconnected(&mut self) {
        self.up = false;
        self.channels.clear();
        for topic in self.topics.values_mut() {
            topic.forget_channel();
        }
    }

    /// What is to be asked of Redis now.
    pub fn asks(&mut self) -> Vec<Ask> {
        self.take_looks();
        std::mem::take(&mut self.asks)
    }

    /// Ends all connections, as the gateway goes down.
    pub fn close_all(&mut self) {
        for viewer in self.viewers.values() {
            viewer.outlet.close(crate::outbox::RESTART);
        }
    }

    /// Connections that are there.
    pub fn connections(&self) -> usize {
        self.viewers.len()
    }
}
