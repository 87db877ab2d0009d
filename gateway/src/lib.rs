//! The reference gateway of the presence module: docs/gateway.md.

pub mod crowd;
pub mod playground;
pub mod protocol;
