//! The commands.

pub(crate) mod spec;
