//! A crowd: many viewers on one WebSocket of a gateway.

use std::sync::Arc;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use presence_gateway::crowd::{CrowdMessage, CrowdRequest};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio_tungstenite::tungstenite::{Error, Message as Frame};
use tokio_tungstenite::WebSocketStream;

use super::{Notes, What};
use crate::{audience, Moment};

/// Viewers in one message, at most: others shall not wait for its end.
const MOST: usize = 500;

/// What viewers of one gateway did since the last message.
pub(super) struct Crowd {
    room: Arc<str>,
    orders: UnboundedSender<CrowdRequest>,
    enter: Vec<(u64, String)>,
    beat: Vec<u64>,
    bye: Vec<u64>,
    lose: Vec<u64>,
}

impl Crowd {
    /// Connects.
    pub(super) async fn connect(gateway: &str, number: u16, room: Arc<str>, notes: Notes) -> Result<Self, Error> {
        let stream = TcpStream::connect(gateway).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = tokio_tungstenite::client_async(format!("ws://{gateway}/crowd"), stream).await?;
        let (mut to, mut from) = socket.split();
        let (orders, mut ordered) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(request) = ordered.recv().await {
                if send(&mut to, &request).await.is_err() {
                    // Reading tells.
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Some(Ok(frame)) = from.next().await {
                let Frame::Text(text) = frame else { continue };
                match serde_json::from_str(&text) {
                    Ok(CrowdMessage::Welcome { viewers, beat }) => {
                        notes.note(What::Crowd(viewers, Moment::from_millis(beat)))
                    }
                    Ok(CrowdMessage::Refused { viewers }) => notes.note(What::Refused(viewers.len() as u64)),
                    Err(_) => break,
                }
            }
            notes.note(What::Dead(number));
        });
        Ok(Self { room, orders, enter: Vec::new(), beat: Vec::new(), bye: Vec::new(), lose: Vec::new() })
    }

    pub(super) fn enter(&mut self, viewer: u32) {
        self.enter.push((viewer.into(), audience::user(viewer)));
    }

    pub(super) fn beat(&mut self, viewer: u32) {
        self.beat.push(viewer.into());
    }

    pub(super) fn bye(&mut self, viewer: u32) {
        self.bye.push(viewer.into());
    }

    pub(super) fn lose(&mut self, viewer: u32) {
        self.lose.push(viewer.into());
    }

    /// Sends what was collected. Whoever enters has done nothing else since, so entering comes last.
    pub(super) fn flush(&mut self) {
        let room = self.room.to_string();
        let send = |request| drop(self.orders.send(request));
        let all = |from: &mut Vec<u64>, make: fn(Vec<u64>) -> CrowdRequest| {
            from.chunks(MOST).for_each(|part| send(make(part.to_vec())));
            from.clear();
        };
        all(&mut self.beat, |viewers| CrowdRequest::Beat { viewers });
        all(&mut self.bye, |viewers| CrowdRequest::Bye { viewers });
        all(&mut self.lose, |viewers| CrowdRequest::Lose { viewers });
        for part in self.enter.chunks(MOST) {
            // The room's default: they are counted, and named to nobody.
            send(CrowdRequest::Enter { room: room.clone(), share: None, viewers: part.to_vec() });
        }
        self.enter.clear();
    }
}

async fn send(to: &mut SplitSink<WebSocketStream<TcpStream>, Frame>, request: &CrowdRequest) -> Result<(), Error> {
    let text = serde_json::to_string(request).map_err(|error| Error::Io(error.into()))?;
    to.send(Frame::text(text)).await
}
