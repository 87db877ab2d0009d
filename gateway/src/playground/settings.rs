//! The settings of a story, and their bounds: they keep a story short enough to be played while a slider moves.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// What a story is played with. What is left out of the JSON is as in [`Settings::default`].
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Milliseconds between two beats of the phone.
    pub heartbeat: u32,
    /// How long a lost session is still waited for, in milliseconds.
    pub grace: u32,
    /// The phone says goodbye when it leaves for good.
    pub goodbye: bool,
    /// Who is told of each change.
    pub audience: Audience,
    /// Users online, for the figures of all of them together.
    pub users: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { heartbeat: 5_000, grace: 0, goodbye: false, audience: Audience::Friends, users: 10_000_000 }
    }
}

/// Who is told of each change.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// All friends, whether they look or not.
    #[default]
    Friends,
    /// Those friends who have the phone's owner on their screen.
    Screen,
}

impl Audience {
    /// How many they are.
    pub const fn size(self) -> u64 {
        match self {
            Self::Friends => 200,
            Self::Screen => 8,
        }
    }
}

/// A setting out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {least} to {greatest}{unit}")]
pub struct Invalid {
    name: &'static str,
    least: u64,
    greatest: u64,
    unit: &'static str,
}

impl Settings {
    /// Bounds of `heartbeat`, ms.
    pub const HEARTBEAT: RangeInclusive<u32> = 1_000..=60_000;
    /// Bounds of `grace`, ms. With the longest heartbeat a silent departure is still seen within the half hour.
    pub const GRACE: RangeInclusive<u32> = 0..=120_000;
    /// Bounds of `users`.
    pub const USERS: RangeInclusive<u64> = 1..=1_000_000_000;

    /// Silence after which a session is lost, in milliseconds: two heartbeats.
    pub const fn timeout(&self) -> u32 {
        2 * self.heartbeat
    }

    /// Whether each setting is in its range.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), Invalid> {
        let range = |range: RangeInclusive<u32>| u64::from(*range.start())..=u64::from(*range.end());
        for (name, value, range, unit) in [
            ("heartbeat", self.heartbeat.into(), range(Self::HEARTBEAT), " ms"),
            ("grace", self.grace.into(), range(Self::GRACE), " ms"),
            ("users", self.users, Self::USERS, ""),
        ] {
            if !range.contains(&value) {
                return Err(Invalid { name, least: *range.start(), greatest: *range.end(), unit });
            }
        }
        Ok(())
    }
}
