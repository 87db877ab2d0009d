//! What each setting costs: one phone for half an hour, played through the real engine in virtual time.
//!
//! [`phone`] is what happens, [`play()`] drives the engine with it as the module would, and [`story()`] makes of the
//! recording what the page shows: docs/playground.md.

pub mod phone;
mod play;
mod settings;
mod story;

use axum::http::StatusCode;
use axum::Json;

pub use self::play::{play, Event, Message, Recording};
pub use self::settings::{Audience, Invalid, Settings};
pub use self::story::{story, Beats, Broadcast, Error, Figures, Span, Story};

/// `POST /playground/story`: settings in, the story out.
///
/// # Errors
/// 422 and a text for people, if a setting is out of its range.
pub async fn answer(Json(settings): Json<Settings>) -> Result<Json<Story>, (StatusCode, String)> {
    // Some dozens of microseconds to a millisecond: no need to leave this thread for it.
    story(&settings).map(Json).map_err(|error| {
        let status = match error {
            Error::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Engine(_) | Error::Message(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, error.to_string())
    })
}
