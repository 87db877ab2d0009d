//! Presence as a native Redis module.
