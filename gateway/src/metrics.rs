//! What Prometheus is told of the gateway; what the module says of itself in INFO is added by [`crate::line::info`].

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{exponential_buckets, Histogram};
use prometheus_client::registry::Registry;

/// The gateway's figures.
pub struct Metrics {
    registry: Registry,
    /// Connections that have said hello.
    pub connections: Gauge,
    /// Hellos taken.
    pub hellos: Counter,
    /// Hellos turned away: no token, too late, too many.
    pub turned_away: Counter,
    /// Beats of phones.
    pub beats: Counter,
    /// Sessions told anew: Redis did not know them any more.
    pub rejoins: Counter,
    /// Sessions that the room did not take.
    pub refusals: Counter,
    /// Phones disconnected because they read too slowly.
    pub slow: Counter,
    /// Phones disconnected because they broke a rule.
    pub rule: Counter,
    /// Messages heard on count channels.
    pub counts: Counter,
    /// Messages heard on member channels.
    pub changes: Counter,
    /// Seconds from telling a room's news to Redis's answer.
    pub told: Histogram,
    /// Failures of what was asked of Redis; each is asked again.
    pub failures: Counter,
    /// Connections made to Redis.
    pub connects: Counter,
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("presence_gateway");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let hellos = counter("hellos", "Hellos taken");
        let turned_away = counter("turned_away", "Hellos turned away: no token, too late, too many");
        let beats = counter("beats", "Beats of phones");
        let rejoins = counter("rejoins", "Sessions told anew, as Redis did not know them any more");
        let refusals = counter("refusals", "Sessions that the room did not take");
        let slow = counter("slow_disconnects", "Phones disconnected because they read too slowly");
        let rule = counter("rule_disconnects", "Phones disconnected because they broke a rule");
        let counts = counter("count_messages", "Messages heard on count channels");
        let changes = counter("member_messages", "Messages heard on member channels");
        let failures = counter("redis_failures", "Failures of what was asked of Redis; each is asked again");
        let connects = counter("redis_connects", "Connections made to Redis");
        let connections = Gauge::default();
        registry.register("connections", "Connections that have said hello", connections.clone());
        let told = Histogram::new(exponential_buckets(0.000_5, 2.0, 14));
        registry.register("told_seconds", "From telling a room's news to Redis's answer", told.clone());
        Self {
            registry,
            connections,
            hellos,
            turned_away,
            beats,
            rejoins,
            refusals,
            slow,
            rule,
            counts,
            changes,
            told,
            failures,
            connects,
        }
    }

    /// In the text form of OpenMetrics, without its end mark.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            text.clear();
        }
        text.trim_end_matches("# EOF\n").to_owned()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
