//! A phone: one WebSocket, one life from the connection to its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use presence_gateway::protocol::{Message, Request, Share, State};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message as Frame};
use tokio_tungstenite::WebSocketStream;

use super::{Notes, What, Word};
use crate::{audience, Moment};

type Socket = WebSocketStream<TcpStream>;

/// After its goodbye a phone waits so long for the gateway to close.
const CLOSING: Duration = Duration::from_secs(5);

/// What the player has a phone do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Proof of life.
    Beat,
    /// Goodbye, and the end.
    Bye,
    /// The connection is cut without a word.
    Cut,
    /// The connection stays, without a word, for so long.
    Mute(Duration),
}

/// Who the phone is.
pub(super) struct Phone {
    pub(super) viewer: u32,
    /// Which life of it this is.
    pub(super) life: u64,
    /// `host:port` of its gateway.
    pub(super) gateway: Arc<str>,
    pub(super) room: Arc<str>,
    pub(super) token: String,
    /// Whom it watches, and shares with. Nobody: it shares with nobody.
    pub(super) friends: Vec<u32>,
}

impl Phone {
    /// Lives until an order or the gateway ends it.
    pub(super) async fn live(self, mut orders: UnboundedReceiver<Order>, notes: Notes) {
        let note = |word| notes.note(What::Phone(self.viewer, self.life, word));
        let mut socket = match self.enter().await {
            Ok(socket) => socket,
            Err(error) => return note(Word::Cut(error.to_string())),
        };
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Beat) => {
                        // If the line is dead, reading tells.
                        drop(say(&mut socket, &Request::Beat).await);
                    }
                    Some(Order::Bye) => return leave(socket).await,
                    Some(Order::Mute(time)) => return tokio::time::sleep(time).await,
                    Some(Order::Cut) | None => return,
                },
                frame = socket.next() => match frame {
                    Some(Ok(Frame::Text(text))) => match serde_json::from_str(&text) {
                        Ok(Message::Welcome { beat, .. }) => {
                            note(Word::Welcome(Moment::from_millis(beat.unwrap_or_default())));
                            if let Err(error) = self.draw(&mut socket).await {
                                return note(Word::Cut(error.to_string()));
                            }
                        }
                        Ok(Message::Count { badge, .. }) => note(Word::Badge(badge)),
                        Ok(Message::Member { member, state, .. }) => {
                            if let Some(friend) = audience::viewer(&member) {
                                note(Word::Dot(friend, state == State::Online));
                            }
                        }
                        Ok(Message::Refused { .. }) => note(Word::Refused),
                        Ok(Message::Error { code, message }) => return note(Word::Cut(format!("{code}: {message}"))),
                        Err(error) => return note(Word::Cut(error.to_string())),
                    },
                    Some(Ok(Frame::Close(frame))) => return note(Word::Cut(format!("closed: {frame:?}"))),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return note(Word::Cut(error.to_string())),
                    None => return note(Word::Cut("closed".into())),
                },
            }
        }
    }

    async fn enter(&self) -> Result<Socket, Error> {
        let stream = TcpStream::connect(&*self.gateway).await?;
        stream.set_nodelay(true)?;
        // Thousands of these: the usual buffers are 128 KiB each.
        let config = WebSocketConfig::default().read_buffer_size(2048).write_buffer_size(0);
        let url = format!("ws://{}/ws", self.gateway);
        let (mut socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await?;
        let share = if self.friends.is_empty() { Share::Nobody } else { Share::Friends };
        let (token, room) = (self.token.clone(), Some(self.room.to_string()));
        say(&mut socket, &Request::Hello { token, room, share: Some(share), status: None }).await?;
        Ok(socket)
    }

    /// Asks for what is on the screen.
    async fn draw(&self, socket: &mut Socket) -> Result<(), Error> {
        say(socket, &Request::WatchRoom { room: self.room.to_string() }).await?;
        if !self.friends.is_empty() {
            let members = self.friends.iter().map(|&friend| audience::user(friend)).collect();
            say(socket, &Request::Watch { members }).await?;
        }
        Ok(())
    }
}

async fn say(socket: &mut Socket, request: &Request) -> Result<(), Error> {
    let text = serde_json::to_string(request).map_err(|error| Error::Io(error.into()))?;
    socket.send(Frame::text(text)).await
}

async fn leave(mut socket: Socket) {
    drop(say(&mut socket, &Request::Bye { soft: false }).await);
    drop(tokio::time::timeout(CLOSING, async { while let Some(Ok(_)) = socket.next().await {} }).await);
}
