//! Plays an on-sale against gateways that are there. `scripts/onsale.py` starts them, and makes a table of what is said here:
//! one JSON object a line.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use presence_onsale::audience::Audience;
use presence_onsale::judge::{Promises, Report};
use presence_onsale::play::{Failure, News, Player, Plot, Room};
use presence_onsale::scenario::Times;
use serde_json::{json, Value};

/// A load generator for gateways of the presence module, and its judge.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Options {
    /// Viewers.
    #[arg(long, default_value_t = 200_000)]
    size: u32,
    /// Of the viewers, those with a WebSocket each.
    #[arg(long, default_value_t = 12_500)]
    sockets: u32,
    /// Of the sockets, those who watch eight friends.
    #[arg(long, default_value_t = 4_000)]
    friends: u32,
    /// Seconds that are judged.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Seconds before, in which the room fills.
    #[arg(long, default_value_t = 30)]
    doors: u64,
    /// Timeout of the room, ms.
    #[arg(long, default_value_t = 20_000)]
    timeout: u64,
    /// Grace of the room, ms.
    #[arg(long, default_value_t = 20_000)]
    grace: u64,
    /// How often the room broadcasts its count, ms.
    #[arg(long, default_value_t = 1_000)]
    count_every: u64,
    /// host:port of each gateway; started with --crowd.
    #[arg(long, value_delimiter = ',', required = true)]
    gateways: Vec<String>,
    /// The gateways' secret.
    #[arg(long, env = "GATEWAY_SECRET", hide_env_values = true)]
    secret: String,
    /// Redis: the node that has the room, with `notify-keyspace-events Ed`.
    #[arg(long)]
    redis: String,
    /// The nodes of the cluster, if it is one.
    #[arg(long, value_delimiter = ',')]
    cluster: Vec<String>,
    /// The room, which must not be there yet.
    #[arg(long, default_value = "sale:42")]
    room: String,
    /// The same seed gives the same plans.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Greatest error of a broadcast number, in percent of the truth.
    #[arg(long, default_value_t = 1.0)]
    error: f64,
    /// What 99 of 100 badges and dots may be late, ms.
    #[arg(long, default_value_t = 1_000)]
    late: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match play(Options::parse()).await {
        Ok(report) => {
            say(&json!({ "type": "report", "report": report }));
            ExitCode::from(u8::from(!report.broken.is_empty()))
        }
        Err(failure) => {
            eprintln!("onsale: {failure}");
            ExitCode::from(2)
        }
    }
}

async fn play(options: Options) -> Result<Report, Failure> {
    // Everybody with friends has a socket, and everybody with a socket is one of the audience.
    let sockets = options.sockets.min(options.size);
    let audience = Audience { size: options.size, sockets, friends: options.friends.min(sockets) };
    let times = Times {
        doors: Duration::from_secs(options.doors),
        show: Duration::from_secs(options.seconds),
        timeout: Duration::from_millis(options.timeout),
        grace: Duration::from_millis(options.grace),
    };
    let room = Room { name: options.room, node: options.redis, cluster: options.cluster };
    room.make(audience, times, options.count_every).await?;
    let promises = Promises { error: options.error / 100.0, late: Duration::from_millis(options.late) };
    let (gateways, secret, seed) = (options.gateways, options.secret, options.seed);
    let player = Player::new(Plot { audience, times, gateways, secret, seed, promises }, room).await?;
    player
        .play(|news| match news {
            News::Second(line) => say(&json!({ "type": "second", "line": line })),
            News::Opened => say(&json!({ "type": "opened" })),
            News::Half => say(&json!({ "type": "half" })),
            News::Closed => say(&json!({ "type": "closed" })),
        })
        .await
}

/// One line to whoever started this.
fn say(what: &Value) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{what}").and_then(|()| out.flush()));
}
