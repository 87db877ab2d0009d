//! HTTP: sockets, pages, health, metrics.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{DefaultBodyLimit, Path, State, WebSocketUpgrade};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::hub::ViewerId;
use crate::line::{self, Line};
use crate::metrics::Metrics;
use crate::service::Event;
use crate::settings::Limits;
use crate::token::{Claims, Tokens};
use crate::{connection, pages, playground};

/// Bytes of the settings of a story.
const MAX_STORY_SETTINGS: usize = 1024;

/// What the sockets and pages share.
pub struct Gateway {
    /// Limits against abuse.
    pub limits: Limits,
    /// The gateway's figures.
    pub metrics: Arc<Metrics>,
    /// Reads tokens; for the demo signs them.
    pub tokens: Tokens,
    /// To the hub.
    pub events: mpsc::Sender<Event>,
    /// The line to Redis, as long as it stands.
    pub line: watch::Receiver<Option<Line>>,
    /// Connections so far.
    pub ids: AtomicU64,
}

impl Gateway {
    /// A number for a connection.
    pub fn next_id(&self) -> ViewerId {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the hub, and waits while it has much to do. It does not listen any more when the gateway goes down.
    pub async fn tell(&self, event: Event) {
        drop(self.events.send(event).await);
    }

    fn line(&self) -> Option<Line> {
        self.line.borrow().clone()
    }
}

type Shared = State<Arc<Gateway>>;

/// All paths. `demo` adds tokens for anybody, `crowd` the load generator's socket.
pub fn router(gateway: Arc<Gateway>, demo: bool, crowd: bool) -> Router {
    let mut router = Router::new()
        .route("/", get(|| page("index.html")))
        .route("/playground", get(|| page("playground.html")))
        .route("/playground/story", post(playground::answer).layer(DefaultBodyLimit::max(MAX_STORY_SETTINGS)))
        .route("/pages/{name}", get(|Path(name): Path<String>| async move { page(&name).await }))
        .route("/ws", any(socket))
        .route("/health", get(health))
        .route("/metrics", get(metrics));
    if demo {
        router = router.route("/demo/token", post(demo_token));
    }
    if crowd {
        router = router.route("/crowd", any(crowd_socket));
    }
    router.with_state(gateway)
}

async fn page(name: &str) -> Response {
    match pages::find(name) {
        Some((kind, text)) => {
            let policy = "default-src 'self'; connect-src 'self' ws: wss:; frame-ancestors 'none'";
            let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, policy)];
            (headers, text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn socket(State(gateway): Shared, upgrade: WebSocketUpgrade) -> Response {
    let most = gateway.limits.max_message;
    let upgrade = upgrade.max_message_size(most).max_frame_size(most).write_buffer_size(0);
    upgrade.on_upgrade(move |socket| connection::serve(gateway, socket))
}

async fn crowd_socket(State(gateway): Shared, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| connection::serve_crowd(gateway, socket))
}

async fn health(State(gateway): Shared) -> Response {
    match gateway.line() {
        Some(_) => "ok\n".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no line to Redis\n").into_response(),
    }
}

async fn metrics(State(gateway): Shared) -> Response {
    let mut text = gateway.metrics.text();
    if let Some(line) = gateway.line() {
        match line::info(&line).await {
            Ok(info) => text.push_str(&info),
            Err(error) => tracing::warn!(%error, "no INFO for the metrics"),
        }
    }
    text.push_str("# EOF\n");
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}

/// Who wants a token, and whose friend they are from now on.
#[derive(Deserialize)]
struct Wanted {
    user: String,
    #[serde(default)]
    friends: BTreeSet<String>,
}

#[derive(Serialize)]
struct Signed {
    token: String,
}

const DEMO_TOKEN: Duration = Duration::from_secs(60 * 60);
const DEMO_FRIENDS: usize = 20;

async fn demo_token(State(gateway): Shared, Json(wanted): Json<Wanted>) -> Result<Json<Signed>, (StatusCode, String)> {
    let away = |error: &dyn std::fmt::Display| (StatusCode::SERVICE_UNAVAILABLE, format!("Redis is away: {error}\n"));
    if wanted.friends.len() > DEMO_FRIENDS {
        return Err((StatusCode::UNPROCESSABLE_ENTITY, format!("at most {DEMO_FRIENDS} friends\n")));
    }
    let line = gateway.line().ok_or_else(|| away(&"no line"))?;
    for friend in &wanted.friends {
        line::befriend(&line, &wanted.user, friend).await.map_err(|error| away(&error))?;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let claims = Claims { sub: wanted.user, exp: (now + DEMO_TOKEN).as_secs(), rooms: None };
    let token = gateway.tokens.sign(&claims);
    let token = token.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("no token: {error}\n")))?;
    Ok(Json(Signed { token }))
}
