//! Starts the gateway: docs/gateway.md.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt;
use clap::Parser;
use presence_gateway::hub::Hub;
use presence_gateway::line::Addresses;
use presence_gateway::metrics::Metrics;
use presence_gateway::server::{router, Gateway};
use presence_gateway::service::{self, Event};
use presence_gateway::settings::Settings;
use presence_gateway::token::Tokens;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::{mpsc, oneshot, watch};

/// Events of phones that wait for the hub, before phones wait for it.
const EVENTS: usize = 16_384;
/// After the end has been told, connections may take this long to close.
const CLOSING: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> ExitCode {
    let level = std::env::var("GATEWAY_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(tracing::Level::INFO);
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    match serve(Settings::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the gateway ends");
            ExitCode::FAILURE
        }
    }
}

/// A name for this life of the gateway.
fn life() -> std::io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(random)))
}

async fn serve(settings: Settings) -> std::io::Result<()> {
    let tokens = Tokens::new(&settings.secret).map_err(std::io::Error::other)?;
    let listener = TcpListener::bind(settings.listen).await?;
    let address: SocketAddr = listener.local_addr()?;
    // Else the second of two small messages waits for the phone to acknowledge the first, 40 ms or more.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let metrics = Arc::new(Metrics::new());
    let (events, hears) = mpsc::channel(EVENTS);
    let (line, stands) = watch::channel(None);
    let hub = Hub::new(settings.limits.clone(), settings.reciprocal, life()?, metrics.clone());
    let addresses = Addresses { urls: settings.redis.clone(), cluster: settings.cluster };
    let service = tokio::spawn(service::run(hub, hears, addresses, settings.flush_every(), metrics.clone(), line));
    let gateway = Arc::new(Gateway {
        limits: settings.limits.clone(),
        metrics,
        tokens,
        events: events.clone(),
        line: stands,
        ids: AtomicU64::new(1),
    });
    let app = router(gateway, settings.demo, settings.crowd);
    // Read by whoever started it with port 0.
    println!("gateway: listening on http://{address}");
    let (over, ends) = oneshot::channel::<()>();
    let stop = async move {
        ended_by_signal().await;
        tracing::info!("going down");
        let (done, told) = oneshot::channel();
        if events.send(Event::Stop(done)).await.is_ok() {
            drop(told.await);
        }
        // Whoever waits for it may have gone.
        let _ = over.send(());
    };
    let serving = axum::serve(listener, app).with_graceful_shutdown(stop);
    tokio::select! {
        served = serving.into_future() => served?,
        () = async { drop(ends.await); tokio::time::sleep(CLOSING).await } => {}
    }
    drop(service.await);
    Ok(())
}

async fn ended_by_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
