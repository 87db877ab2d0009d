//! The reference gateway of the presence module: docs/gateway.md.
//!
//! The way of a beat: [`connection`] (one socket), [`hub`] (all that is known, pure), [`service`] (the task that drives it),
//! [`line`] (Redis). The way back is the same: what Redis publishes comes in on the line, and the hub puts it into the
//! [`outbox`] of each phone that watches.

pub mod connection;
pub mod crowd;
pub mod hub;
pub mod line;
pub mod metrics;
pub mod outbox;
pub mod pages;
pub mod playground;
pub mod protocol;
pub mod rate;
pub mod server;
pub mod service;
pub mod settings;
pub mod token;
