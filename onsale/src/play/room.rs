//! The room and its friendships, in Redis.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::{cmd, pipe, Client, RedisResult};

use crate::audience::{user, Audience};
use crate::scenario::Times;

/// Friendships that are written at once.
const AT_ONCE: usize = 500;

/// Where the room is.
pub struct Room {
    /// Its name.
    pub name: String,
    /// The node that has it, and all nodes if it is a cluster.
    pub node: String,
    /// Nodes of the cluster.
    pub cluster: Vec<String>,
}

impl Room {
    /// Makes the room, and all friendships mutual.
    ///
    /// # Errors
    /// Redis does not do it: the room is there, for example.
    pub async fn make(&self, audience: Audience, times: Times, count_every: u64) -> RedisResult<()> {
        let mut node = self.connection().await?;
        let mut create = cmd("PRESENCE.CREATE");
        create.arg(&self.name).arg("TIMEOUT").arg(times.timeout.as_millis() as u64);
        create.arg("GRACE").arg(times.grace.as_millis() as u64).arg("COUNTEVERY").arg(count_every);
        create.exec_async(&mut node).await?;
        let users: Vec<_> = (0..audience.friends).collect();
        if self.cluster.is_empty() {
            for part in users.chunks(AT_ONCE) {
                let mut adds = pipe();
                for &viewer in part {
                    adds.add_command(befriend(audience, viewer)).ignore();
                }
                adds.exec_async(&mut node).await?;
            }
            return Ok(());
        }
        let nodes = ClusterClient::new(self.cluster.iter().map(String::as_str))?.get_async_connection().await?;
        for part in users.chunks(AT_ONCE) {
            try_join_all(part.iter().map(|&viewer| {
                let mut nodes = nodes.clone();
                async move { befriend(audience, viewer).exec_async(&mut nodes).await }
            }))
            .await?;
        }
        Ok(())
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        Client::open(self.node.as_str())?.get_multiplexed_async_connection().await
    }

    /// The numbers of INFO presence, of the node that has the room.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn info(&self) -> RedisResult<BTreeMap<String, i64>> {
        let mut node = self.connection().await?;
        let text: String = cmd("INFO").arg("presence").query_async(&mut node).await?;
        let numbers = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.strip_prefix("presence_")?.to_owned(), value.trim().parse().ok()?))
        });
        Ok(numbers.collect())
    }
}

fn befriend(audience: Audience, viewer: u32) -> redis::Cmd {
    let mut add = cmd("SADD");
    add.arg(format!("friends:{}", user(viewer)));
    for friend in audience.friends_of(viewer) {
        add.arg(user(friend));
    }
    add
}
