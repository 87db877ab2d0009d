//! The line to Redis: to the one node that is primary, or to a cluster. In RESP3, so that messages come on it too.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisResult, ServerErrorKind, Value,
};
use tokio::sync::mpsc::UnboundedSender;

/// An answer that takes longer is none. Long enough for a server that forks or loads a script; short enough that a dead one is
/// noticed within any timeout of presence.
const ANSWER: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(2);

/// Where Redis is.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// URLs: of all that may be primary, or of some nodes of the cluster.
    pub urls: Vec<String>,
    /// They are a cluster.
    pub cluster: bool,
}

/// What comes without being asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A subscription stands, or stands again.
    Subscribed(Vec<u8>),
    /// A subscription has ended.
    Unsubscribed(Vec<u8>),
    /// A message on a channel.
    Message(Vec<u8>, Vec<u8>),
    /// The line with this number is cut.
    Cut(u64),
}

/// A line to Redis. Clones share it.
#[derive(Clone)]
pub enum Line {
    /// To a primary.
    One(MultiplexedConnection),
    /// To a cluster, which is followed as it changes.
    Cluster(ClusterConnection),
}

fn bytes(value: Option<Value>) -> Vec<u8> {
    match value {
        Some(Value::BulkString(bytes)) => bytes,
        Some(Value::SimpleString(text)) => text.into_bytes(),
        _ => Vec::new(),
    }
}

fn heard(push: PushInfo, number: u64, cluster: bool) -> Option<Heard> {
    let mut data = push.data.into_iter();
    let mut next = || bytes(data.next());
    Some(match push.kind {
        PushKind::Subscribe | PushKind::SSubscribe => Heard::Subscribed(next()),
        PushKind::Unsubscribe | PushKind::SUnsubscribe => Heard::Unsubscribed(next()),
        PushKind::Message | PushKind::SMessage => Heard::Message(next(), next()),
        // A cluster's connection mends itself, subscriptions included.
        PushKind::Disconnection if !cluster => Heard::Cut(number),
        _ => return None,
    })
}

impl Line {
    /// Connects; what is heard on it goes to `to`. `number` names this line when it is cut.
    ///
    /// # Errors
    /// No address answers, or none of them is a primary.
    pub async fn connect(addresses: &Addresses, number: u64, to: UnboundedSender<Heard>) -> RedisResult<Self> {
        let cluster = addresses.cluster;
        let sender = move |push: PushInfo| match heard(push, number, cluster) {
            Some(heard) => to.send(heard).map_err(drop),
            None => Ok(()),
        };
        if cluster {
            let client = ClusterClientBuilder::new(addresses.urls.iter().map(String::as_str))
                .use_protocol(ProtocolVersion::RESP3)
                .connection_timeout(CONNECT)
                .response_timeout(ANSWER)
                .retries(2)
                .push_sender(sender)
                .build()?;
            return Ok(Self::Cluster(client.get_async_connection().await?));
        }
        let mut failure = RedisError::from((ErrorKind::InvalidClientConfig, "no address of Redis is given"));
        for url in &addresses.urls {
            match Self::connect_primary(url, sender.clone()).await {
                Ok(line) => return Ok(line),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn connect_primary(
        url: &str,
        sender: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> RedisResult<Self> {
        let info = url.into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(ANSWER))
            .set_push_sender(sender);
        let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
        let role: Vec<Value> = redis::cmd("ROLE").query_async(&mut line).await?;
        match role.into_iter().next().map(|role| bytes(Some(role))).as_deref() {
            Some(b"master") => Ok(Self::One(line)),
            _ => Err((ErrorKind::Server(ServerErrorKind::ReadOnly), "this node is no primary").into()),
        }
    }

    /// One command.
    ///
    /// # Errors
    /// Those of the line, and those that the server answers.
    pub async fn command(&self, command: &Cmd) -> RedisResult<Value> {
        match self.clone() {
            Self::One(mut line) => line.req_packed_command(command).await?.extract_error(),
            Self::Cluster(mut line) => line.req_packed_command(command).await?.extract_error(),
        }
    }

    /// Several commands whose keys are in one slot. A command that the server refuses answers a [`Value::ServerError`].
    ///
    /// # Errors
    /// Those of the line.
    pub async fn commands(&self, commands: &Pipeline, count: usize) -> RedisResult<Vec<Value>> {
        match self.clone() {
            Self::One(mut line) => line.req_packed_commands(commands, 0, count).await,
            Self::Cluster(mut line) => line.req_packed_commands(commands, 0, count).await,
        }
    }
    /// Several commands at once, whose keys are in one slot.
    ///
    /// # Errors
    /// Those of the line, and those that the server answers.
    pub async fn transaction(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        // MULTI and each QUEUED come before the answer.
        let before = commands.len() + 1;
        let answers = match self.clone() {
            Self::One(mut line) => line.req_packed_commands(commands, before, 1).await?,
            Self::Cluster(mut line) => line.req_packed_commands(commands, before, 1).await?,
        };
        match answers.into_iter().next() {
            Some(Value::Array(answers)) => Ok(answers),
            Some(other) => other
                .extract_error()
                .and_then(|_| Err((ErrorKind::UnexpectedReturnType, "EXEC answers no list").into())),
            None => Err((ErrorKind::UnexpectedReturnType, "EXEC answers nothing").into()),
        }
    }
}

/// The line is of no more use: it is cut, or its end is no primary any more.
pub fn is_lost(error: &RedisError) -> bool {
    error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}
