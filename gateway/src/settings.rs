//! How the gateway is started: options, each an environment variable too.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// The reference gateway of the presence module.
#[derive(Clone, Debug, Parser)]
#[command(name = "presence-gateway", version, about)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, env = "GATEWAY_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Redis: all nodes that may be primary, or some nodes of the cluster.
    #[arg(long, env = "GATEWAY_REDIS", value_delimiter = ',', default_value = "redis://127.0.0.1:6379")]
    pub redis: Vec<String>,
    /// The nodes are a cluster.
    #[arg(long, env = "GATEWAY_CLUSTER")]
    pub cluster: bool,
    /// What tokens are signed with (HS256).
    #[arg(long, env = "GATEWAY_SECRET", hide_env_values = true)]
    pub secret: String,
    /// Serves a token for anybody who asks, to try the page on. Never in use.
    #[arg(long, env = "GATEWAY_DEMO")]
    pub demo: bool,
    /// Serves /crowd, for load tests. Never in use.
    #[arg(long, env = "GATEWAY_CROWD")]
    pub crowd: bool,
    /// Milliseconds for which beats are collected.
    #[arg(long, env = "GATEWAY_FLUSH_MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub flush_ms: u64,
    /// The server has `presence.reciprocal yes`: who does not share sees nobody.
    #[arg(long, env = "GATEWAY_RECIPROCAL")]
    pub reciprocal: bool,
    /// Limits against abuse.
    #[command(flatten)]
    pub limits: Limits,
}

impl Settings {
    /// For how long beats are collected.
    pub fn flush_every(&self) -> Duration {
        Duration::from_millis(self.flush_ms)
    }
}

/// Limits against abuse.
#[derive(Clone, Debug, clap::Args)]
pub struct Limits {
    /// Connections in all.
    #[arg(long, env = "GATEWAY_MAX_CONNECTIONS", default_value_t = 50_000)]
    pub max_connections: usize,
    /// Connections of one user.
    #[arg(long, env = "GATEWAY_MAX_PER_USER", default_value_t = 32)]
    pub max_per_user: usize,
    /// Bytes of one message from a phone.
    #[arg(long, env = "GATEWAY_MAX_MESSAGE", default_value_t = 16_384)]
    pub max_message: usize,
    /// Messages a second from one phone, over some seconds.
    #[arg(long, env = "GATEWAY_MAX_RATE", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_rate: u32,
    /// Members that one connection watches.
    #[arg(long, env = "GATEWAY_MAX_WATCHES", default_value_t = 200)]
    pub max_watches: usize,
    /// Rooms whose badges one connection watches.
    #[arg(long, env = "GATEWAY_MAX_ROOMS", default_value_t = 50)]
    pub max_rooms: usize,
    /// Messages that wait for a slow phone before it is disconnected; badges are not among them.
    #[arg(long, env = "GATEWAY_QUEUE", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub queue: u32,
    /// Seconds without any frame after which a connection is given up; a third of it is between pings.
    #[arg(long, env = "GATEWAY_IDLE_S", default_value_t = 90, value_parser = clap::value_parser!(u64).range(3..))]
    pub idle_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            limits: Limits,
        }
        Alone::parse_from(["limits"]).limits
    }
}
