//! One socket: a phone's, from its hello to its end, or a load generator's with many viewers on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::time::{interval, timeout};

use crate::crowd::CrowdRequest;
use crate::hub::{Crowd, Newcomer, Outlet, ViewerId};
use crate::outbox::{Close, Out, Outbox, LONG, RULE, SLOW};
use crate::protocol::{Message, Request};
use crate::rate::Rate;
use crate::server::Gateway;
use crate::service::Event;

/// A phone says hello within this time.
const HELLO: Duration = Duration::from_secs(10);
/// A close frame that a phone does not answer is not waited for longer.
const GOODBYE: Duration = Duration::from_secs(5);
/// A frame that cannot be sent in this time ends the connection: the line is dead, or the phone stopped reading.
const SEND: Duration = Duration::from_secs(10);
/// Longest STATUS, member id and room name, in bytes: Redis would refuse what is longer.
const MAX_STATUS: usize = 64;
const MAX_MEMBER: usize = 256;
const MAX_ROOM: usize = 512;

/// How a connection ends.
enum End {
    /// The phone closed with this status, or without a word.
    Closed(Option<u16>),
    /// The gateway closes it.
    Close(Close),
    /// It broke a rule.
    Rule(&'static str, String),
}

type To = SplitSink<WebSocket, Frame>;
type From = SplitStream<WebSocket>;

/// Serves a phone's socket until it ends.
pub async fn serve(gateway: Arc<Gateway>, socket: WebSocket) {
    let (mut to, mut from) = socket.split();
    let outbox = Arc::new(Outbox::new(gateway.limits.queue as usize));
    let too_late = || Err(End::Rule("hello", "no hello came in time".into()));
    let newcomer = match timeout(HELLO, hello(&gateway, &mut from, &outbox)).await.unwrap_or_else(|_| too_late()) {
        Ok(newcomer) => newcomer,
        Err(end) => {
            gateway.metrics.turned_away.inc();
            return part(to, from, end).await;
        }
    };
    let id = gateway.next_id();
    gateway.tell(Event::Enter(id, newcomer)).await;
    let end = talk(&gateway, id, &outbox, &mut to, &mut from).await;
    match &end {
        End::Closed(Some(1000)) => gateway.tell(Event::Bye(id, false)).await,
        // The browser goes to another page, or loads this one anew; it cannot say which.
        End::Closed(Some(1001)) => gateway.tell(Event::Bye(id, true)).await,
        End::Close(SLOW) => drop(gateway.metrics.slow.inc()),
        End::Rule(..) => drop(gateway.metrics.rule.inc()),
        End::Closed(_) | End::Close(_) => {}
    }
    gateway.tell(Event::Lost(id)).await;
    part(to, from, end).await;
}

/// The last words.
async fn part(mut to: To, mut from: From, end: End) {
    let last_words = async {
        let close = match end {
            End::Closed(_) => return,
            End::Close(close) => close,
            End::Rule(code, message) => {
                drop(to.send(message_frame(&Message::Error { code: code.to_owned(), message })).await);
                RULE
            }
        };
        let frame = CloseFrame { code: close.status, reason: close.reason.into() };
        if to.send(Frame::Close(Some(frame))).await.is_ok() {
            // The phone's answer ends the stream; what comes before it is of no interest any more.
            while let Some(Ok(_)) = from.next().await {}
        }
    };
    drop(timeout(GOODBYE, last_words).await);
}

fn message_frame(message: &Message) -> Frame {
    Frame::Text(serde_json::to_string(message).unwrap_or_default().into())
}

/// The next request of a phone.
async fn request(from: &mut From) -> Result<Request, End> {
    loop {
        match from.next().await {
            Some(Ok(frame)) => {
                if let Some(request) = request_in(frame)? {
                    return Ok(request);
                }
            }
            Some(Err(error)) => return Err(broken(&error)),
            None => return Err(End::Closed(None)),
        }
    }
}

/// `None` for frames that are none of the phone's words: pings and pongs.
fn request_in(frame: Frame) -> Result<Option<Request>, End> {
    match frame {
        Frame::Text(text) => match serde_json::from_str(&text) {
            Ok(request) => Ok(Some(request)),
            Err(error) => Err(End::Rule("message", format!("not understood: {error}"))),
        },
        Frame::Binary(_) => Err(End::Rule("message", "messages are JSON in text frames".into())),
        Frame::Close(frame) => Err(End::Closed(frame.map(|frame| frame.code))),
        Frame::Ping(_) | Frame::Pong(_) => Ok(None),
    }
}

fn broken(error: &axum::Error) -> End {
    let text = error.to_string();
    if text.to_lowercase().contains("too long") {
        return End::Close(LONG);
    }
    End::Closed(None)
}

/// Who the phone says it is, proven.
async fn hello(gateway: &Gateway, from: &mut From, outbox: &Arc<Outbox>) -> Result<Newcomer, End> {
    let Request::Hello { token, room, share, status } = request(from).await? else {
        return Err(End::Rule("hello", "the first message is a hello".into()));
    };
    let claims = gateway.tokens.read(&token).map_err(|error| End::Rule("token", format!("no valid token: {error}")))?;
    if claims.sub.is_empty() || claims.sub.len() > MAX_MEMBER {
        return Err(End::Rule("token", format!("a user's id has 1 to {MAX_MEMBER} bytes")));
    }
    if let Some(room) = &room {
        if room.is_empty() || room.len() > MAX_ROOM {
            return Err(End::Rule("room", format!("a room's name has 1 to {MAX_ROOM} bytes")));
        }
        if !claims.may_enter(room) {
            return Err(End::Rule("room", "the token is not for this room".into()));
        }
    }
    if status.as_ref().is_some_and(|status| status.len() > MAX_STATUS) {
        return Err(End::Rule("status", format!("a status has at most {MAX_STATUS} bytes")));
    }
    let room = room.map(Arc::from);
    Ok(Newcomer { user: claims.sub.into(), room, share, status, outlet: Outlet::Phone(outbox.clone()) })
}

/// Ids and names that Redis would refuse.
fn check(request: &Request) -> Result<(), End> {
    match request {
        Request::Watch { members } if members.iter().any(|member| member.is_empty() || member.len() > MAX_MEMBER) => {
            Err(End::Rule("watch", format!("a member's id has 1 to {MAX_MEMBER} bytes")))
        }
        Request::WatchRoom { room } if room.is_empty() || room.len() > MAX_ROOM => {
            Err(End::Rule("room", format!("a room's name has 1 to {MAX_ROOM} bytes")))
        }
        _ => Ok(()),
    }
}

/// Both directions, until one of them ends.
async fn talk(gateway: &Gateway, id: ViewerId, outbox: &Outbox, to: &mut To, from: &mut From) -> End {
    let idle = Duration::from_secs(gateway.limits.idle_s);
    let mut pings = interval(idle / 3);
    let mut rate = Rate::new(gateway.limits.max_rate, Instant::now());
    let mut last = Instant::now();
    loop {
        let out = tokio::select! {
            out = outbox.next() => match out {
                Out::Text(text) => Frame::Text(text.as_ref().into()),
                Out::Close(close) => return End::Close(close),
            },
            frame = from.next() => {
                last = Instant::now();
                match frame {
                    Some(Ok(frame)) => match request_in(frame) {
                        Ok(None) => {}
                        Ok(Some(_)) if !rate.admits(last) => {
                            let most = gateway.limits.max_rate;
                            return End::Rule("rate", format!("more than {most} messages a second"));
                        }
                        Ok(Some(request)) => {
                            if let Err(end) = check(&request) {
                                return end;
                            }
                            match Event::of(id, request) {
                                Some(event) => gateway.tell(event).await,
                                None => return End::Rule("hello", "a connection says hello once".into()),
                            }
                        }
                        Err(end) => return end,
                    },
                    Some(Err(error)) => return broken(&error),
                    None => return End::Closed(None),
                }
                continue;
            }
            _ = pings.tick() => {
                if last.elapsed() > idle {
                    return End::Closed(None);
                }
                Frame::Ping(Vec::new().into())
            }
        };
        tokio::select! {
            sent = timeout(SEND, to.send(out)) => match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return End::Closed(None),
                Err(_) => return End::Close(SLOW),
            },
            // It need not be waited for any longer.
            () = outbox.given_up() => return End::Close(SLOW),
        }
    }
}

/// Serves a load generator's socket until it ends; then all its viewers are gone without a word.
pub async fn serve_crowd(gateway: Arc<Gateway>, socket: WebSocket) {
    let (mut to, mut from) = socket.split();
    let crowd = Arc::new(Crowd::default());
    let mut ids = HashMap::new();
    loop {
        tokio::select! {
            messages = crowd.next() => {
                let Some(messages) = messages else { break };
                for message in messages {
                    let text = serde_json::to_string(&message).unwrap_or_default();
                    if to.send(Frame::Text(text.into())).await.is_err() {
                        break;
                    }
                }
            }
            frame = from.next() => match frame {
                Some(Ok(Frame::Text(text))) => match serde_json::from_str(&text) {
                    Ok(request) => crowd_request(&gateway, &crowd, &mut ids, request).await,
                    Err(error) => {
                        tracing::warn!(%error, "a crowd's message is not understood");
                        break;
                    }
                },
                Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
                _ => break,
            },
        }
    }
    for id in ids.into_values() {
        gateway.tell(Event::Lost(id)).await;
    }
}

async fn crowd_request(gateway: &Gateway, crowd: &Arc<Crowd>, ids: &mut HashMap<u64, ViewerId>, request: CrowdRequest) {
    match request {
        CrowdRequest::Enter { room, share, viewers } => {
            let room: Arc<str> = room.into();
            for (number, user) in viewers {
                let id = gateway.next_id();
                ids.insert(number, id);
                let outlet = Outlet::Crowd(crowd.clone(), number);
                let newcomer = Newcomer { user: user.into(), room: Some(room.clone()), share, status: None, outlet };
                gateway.tell(Event::Enter(id, newcomer)).await;
            }
        }
        CrowdRequest::Beat { viewers } => {
            for id in viewers.iter().filter_map(|number| ids.get(number)) {
                gateway.tell(Event::Beat(*id)).await;
            }
        }
        CrowdRequest::Bye { viewers } => {
            for id in viewers.iter().filter_map(|number| ids.remove(number)) {
                gateway.tell(Event::Bye(id, false)).await;
            }
        }
        CrowdRequest::Lose { viewers } => {
            for id in viewers.iter().filter_map(|number| ids.remove(number)) {
                gateway.tell(Event::Lost(id)).await;
            }
        }
    }
}
