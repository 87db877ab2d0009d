//! Hears what the room announces: its count, and the service's events of departures.

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, PushInfo, PushKind, RedisResult, Value};
use serde::Deserialize;

use super::{Notes, Room, What};
use crate::audience;

const OFFLINE: &str = "__keyevent@0__:presence.offline";

/// Listens as long as it is kept.
pub struct Ears {
    _line: MultiplexedConnection,
}

impl Ears {
    /// Subscribes.
    ///
    /// # Errors
    /// Redis does not do it.
    pub async fn open(room: &Room, notes: Notes) -> RedisResult<Self> {
        let start = format!("{}:", room.name);
        let hear = move |push: PushInfo| -> Result<(), ()> {
            if let Some(what) = what(&push, &start) {
                notes.note(what);
            }
            Ok(())
        };
        let separator = if room.node.contains('?') { '&' } else { '?' };
        let client = Client::open(format!("{}{separator}protocol=resp3", room.node))?;
        let config = AsyncConnectionConfig::new().set_push_sender(hear);
        let mut line = client.get_multiplexed_async_connection_with_config(&config).await?;
        let names: std::collections::HashMap<String, String> =
            cmd("PRESENCE.CHANNELS").arg(&room.name).query_async(&mut line).await?;
        let name = |field: &str| names.get(field).cloned().unwrap_or_default();
        cmd(&name("verb")).arg(name("count")).exec_async(&mut line).await?;
        cmd("SUBSCRIBE").arg(OFFLINE).exec_async(&mut line).await?;
        Ok(Self { _line: line })
    }
}

/// `start`: of the names of events, before the member.
fn what(push: &PushInfo, start: &str) -> Option<What> {
    match push.kind {
        PushKind::Disconnection => return Some(What::Deaf),
        PushKind::Message | PushKind::SMessage => {}
        _ => return None,
    }
    let (Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) = (push.data.first(), push.data.get(1))
    else {
        return None;
    };
    if channel == OFFLINE.as_bytes() {
        let name = std::str::from_utf8(payload).ok()?;
        return Some(What::Offline(audience::viewer(name.strip_prefix(start)?)?));
    }
    #[derive(Deserialize)]
    struct Told {
        count: u64,
    }
    serde_json::from_slice(payload).ok().map(|told: Told| What::Count(told.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(kind: PushKind, words: &[&str]) -> PushInfo {
        PushInfo { kind, data: words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect() }
    }

    #[test]
    fn counts_and_departures_are_heard_and_nothing_else() {
        let heard = |kind, words: &[&str]| what(&push(kind, words), "sale:");
        let count = r#"{"count":2341,"badge":"2.3k"}"#;
        assert!(matches!(heard(PushKind::SMessage, &["presence.count:{sale}", count]), Some(What::Count(2341))));
        assert!(matches!(heard(PushKind::Message, &[OFFLINE, "sale:v17"]), Some(What::Offline(17))));
        assert!(heard(PushKind::Message, &[OFFLINE, "other:v17"]).is_none());
        assert!(heard(PushKind::Subscribe, &[OFFLINE]).is_none());
        assert!(matches!(heard(PushKind::Disconnection, &[]), Some(What::Deaf)));
    }
}
