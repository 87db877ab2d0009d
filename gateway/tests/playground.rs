//! The playground's figures, which are a test of the engine, too: a phone for half an hour through the real one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

use axum::http::StatusCode;
use axum::Json;
use presence_engine::effects::Notice;
use presence_engine::member::Reason;
use presence_gateway::playground::{answer, phone, play, story, Audience, Settings, Span, Story};

const SECOND: u64 = 1_000;

fn with(heartbeat_s: u32, grace_s: u32) -> Settings {
    Settings { heartbeat: heartbeat_s * 1_000, grace: grace_s * 1_000, ..Settings::default() }
}

fn told(settings: &Settings) -> Story {
    story(settings).unwrap()
}

/// Every whole second of heartbeat that the page offers, with some graces; and rhythms of odd milliseconds.
fn all() -> impl Iterator<Item = Settings> {
    let whole = (1..=60).flat_map(|heartbeat| (0..=120).step_by(10).map(move |grace| with(heartbeat, grace)));
    let odd =
        (1_000..=60_000).step_by(977).map(|heartbeat| Settings { heartbeat, grace: heartbeat % 9_973, ..with(5, 0) });
    whole.chain(odd).flat_map(|settings| [false, true].map(|goodbye| Settings { goodbye, ..settings }))
}

/// Moments of heard beats, judged apart from the playground.
fn heard(settings: &Settings) -> Vec<u64> {
    let every = u64::from(settings.heartbeat);
    let mut beats: Vec<u64> = (44 * SECOND % every..25 * 60 * SECOND).step_by(every as usize).collect();
    beats.retain(|at| phone::DROPS.iter().all(|drop| *at < drop.from || drop.to <= *at));
    beats
}

/// When the dot must be green, from nothing but the heard beats.
fn wanted(settings: &Settings) -> Vec<Span> {
    let silence = u64::from(2 * settings.heartbeat + settings.grace);
    let mut spans: Vec<Span> = Vec::new();
    for at in heard(settings) {
        match spans.last_mut().filter(|span| at <= span.to) {
            Some(span) => span.to = at + silence,
            None => spans.push(Span { from: at, to: at + silence }),
        }
    }
    if settings.goodbye {
        spans.last_mut().unwrap().to = phone::LEAVES;
    }
    spans
}

fn minute(minute: u64, second: u64) -> u64 {
    (minute * 60 + second) * SECOND
}

#[test]
fn beats_each_five_seconds_without_a_grace() {
    let story = told(&with(5, 0));
    assert_eq!((story.timeout, story.figures.false_departures, story.figures.flickers_hidden), (10_000, 5, 0));
    assert_eq!((story.figures.mistaken_broadcasts, story.figures.broadcasts), (10, 12));
    assert_eq!(story.figures.delay, Some(9 * SECOND));
    // Each false departure is one `offline`, a timeout after the last beat heard, and one `online`, by the next beat.
    let mistakes = [
        (minute(3, 39), minute(3, 44)),
        (minute(7, 54), minute(8, 39)),
        (minute(12, 9), minute(12, 24)),
        (minute(16, 59), minute(17, 24)),
        (minute(22, 4), minute(22, 14)),
    ];
    assert_eq!(story.mistakes, mistakes.map(|(from, to)| Span { from, to }));
    let kinds: Vec<(bool, bool)> = story.broadcasts.iter().map(|told| (told.online, told.mistaken)).collect();
    let mut pattern = vec![(true, false)];
    pattern.extend([(false, true), (true, true)].repeat(5));
    pattern.push((false, false));
    assert_eq!(kinds, pattern);
    assert_eq!(story, told(&Settings::default()), "the default story");
}

#[test]
fn with_a_grace_of_thirty_seconds_only_the_tunnel_shows() {
    let story = told(&with(5, 30));
    assert_eq!((story.figures.false_departures, story.figures.flickers_hidden), (1, 5 - 1));
    assert_eq!(story.figures.delay, Some(39 * SECOND));
    assert_eq!(story.mistakes, [Span { from: minute(8, 24), to: minute(8, 39) }]);
    let tunnel = phone::DROPS.iter().find(|drop| drop.to - drop.from == 50 * SECOND).unwrap();
    assert!(story.mistakes.iter().all(|shown| tunnel.from < shown.from && shown.from < tunnel.to));
}

#[test]
fn with_beats_each_minute_no_drop_shows() {
    let story = told(&with(60, 0));
    assert_eq!((story.timeout, story.figures.false_departures, story.figures.flickers_hidden), (120_000, 0, 0));
    assert_eq!((story.figures.broadcasts, story.figures.delay), (2, Some(104 * SECOND)));
    assert_eq!((story.beats.heard, story.beats.lost), (25, 0));
}

#[test]
fn beats_of_ten_million_users() {
    assert_eq!(told(&with(5, 0)).figures.beats_per_second, 2e6);
    assert_eq!((told(&with(60, 0)).figures.beats_per_second / 1e3).round(), 167.0);
    let alone = told(&Settings { users: 1, ..with(5, 0) });
    assert_eq!(alone.figures.beats_per_second, 0.2);
}

#[test]
fn two_hundred_friends_cost_twenty_five_times_eight() {
    for settings in [with(5, 0), with(5, 30), with(60, 0)] {
        let [friends, screen] =
            [Audience::Friends, Audience::Screen].map(|audience| told(&Settings { audience, ..settings }).figures);
        assert_eq!((friends.messages_per_change, screen.messages_per_change), (200, 8));
        assert_eq!(friends.messages, 25 * screen.messages);
        assert_eq!(friends.messages, 200 * friends.broadcasts);
        assert_eq!(friends.messages_per_second, 1e7 * friends.messages as f64 / 1800.0);
        assert_eq!(friends.broadcasts, screen.broadcasts);
    }
}

#[test]
fn a_goodbye_is_seen_at_once_and_changes_nothing_before() {
    for silent in all().filter(|settings| !settings.goodbye) {
        let silent = told(&silent);
        let polite = told(&Settings { goodbye: true, ..silent.settings });
        assert_eq!(polite.figures.delay, Some(0), "{:?}", silent.settings);
        assert_eq!(polite.figures.false_departures, silent.figures.false_departures);
        let reasons = [&polite, &silent].map(|story| story.broadcasts.last().unwrap().reason.clone().unwrap());
        assert_eq!(reasons, ["goodbye", "timeout"]);
    }
}

#[test]
fn what_is_shown_is_what_the_heard_beats_say_and_what_the_engine_counts() {
    for settings in all() {
        let (story, recording) = (told(&settings), play(&settings).unwrap());
        assert_eq!(story.shown, wanted(&settings), "{settings:?}");
        assert_eq!(story.beats.heard as usize, heard(&settings).len());
        // The messages and the engine's own count tell the same, at the same moments.
        let shown: Vec<(u64, u32)> = story.broadcasts.iter().map(|told| (told.at, told.online.into())).collect();
        assert_eq!(shown, recording.counts, "{settings:?}");
        // And so do the service's events.
        let events = recording.events.iter().filter_map(|event| match event.notice {
            Notice::Online => Some((event.at, 1)),
            Notice::Offline(_) => Some((event.at, 0)),
            _ => None,
        });
        assert_eq!(events.collect::<Vec<(u64, u32)>>(), recording.counts);
    }
}

#[test]
fn a_grace_ends_in_a_hidden_flicker_or_in_a_departure() {
    for settings in all() {
        let (story, recording) = (told(&settings), play(&settings).unwrap());
        let number = |wanted: fn(Notice) -> bool| recording.events.iter().filter(|event| wanted(event.notice)).count();
        let graces = number(|notice| notice == Notice::Grace);
        let gone = number(|notice| notice == Notice::Offline(Reason::Timeout));
        let backs = number(|notice| notice == Notice::Back);
        assert_eq!(graces, backs + if settings.grace > 0 { gone } else { 0 }, "{settings:?}");
        assert_eq!((story.waiting.len(), story.figures.flickers_hidden), (graces, backs as u64));
        for waited in &story.waiting {
            assert!(story.shown.iter().any(|shown| shown.from < waited.from && waited.to <= shown.to), "{settings:?}");
            assert!(waited.to - waited.from <= u64::from(settings.grace));
        }
    }
}

#[test]
fn more_grace_never_shows_more_and_makes_the_departure_as_much_later() {
    for heartbeat in 1..=60 {
        let mut before = told(&with(heartbeat, 0));
        let lost = before.figures.false_departures;
        for grace in 1..=120 {
            let story = told(&with(heartbeat, grace));
            let figures = story.figures;
            assert!(figures.false_departures <= before.figures.false_departures, "{:?}", story.settings);
            assert_eq!(figures.false_departures + figures.flickers_hidden, lost, "{:?}", story.settings);
            assert_eq!(figures.delay.unwrap(), before.figures.delay.unwrap() + SECOND, "{:?}", story.settings);
            before = story;
        }
        assert_eq!(before.figures.false_departures, 0, "two minutes hide every drop");
    }
}

#[test]
fn every_departure_is_told_within_the_half_hour() {
    let longest = Settings { heartbeat: *Settings::HEARTBEAT.end(), grace: *Settings::GRACE.end(), ..with(5, 0) };
    for settings in all().chain([longest]) {
        let story = told(&settings);
        let last = story.broadcasts.last().unwrap();
        assert!(!last.online && !last.mistaken && last.at <= phone::LENGTH, "{settings:?}");
        assert_eq!(story.figures.delay, Some(last.at - phone::LEAVES));
        let silence = u64::from(2 * settings.heartbeat + settings.grace);
        assert!(last.at - phone::LEAVES <= silence);
    }
}

#[test]
fn the_ten_drops() {
    let long = phone::DROPS.iter().filter(|drop| drop.to - drop.from == 50 * SECOND).count();
    assert_eq!((phone::DROPS.len(), long), (10, 1));
    assert!(phone::DROPS.windows(2).all(|pair| pair[0].to < pair[1].from));
    // After the last one a beat is heard in time, however slow the rhythm.
    assert!(phone::DROPS[9].to + 2 * 60 * SECOND <= phone::LEAVES);
    let story = told(&with(5, 0));
    let mut all: Vec<Span> = story.signal.iter().chain(&story.drops).copied().collect();
    all.sort_by_key(|span| span.from);
    assert_eq!((all[0].from, all.last().unwrap().to), (4 * SECOND, phone::LEAVES));
    assert!(all.windows(2).all(|pair| pair[0].to == pair[1].from), "there it has a signal or none");
}

#[test]
fn no_reference_figure_hangs_on_one_millisecond() {
    for settings in [with(5, 0), with(5, 30), with(60, 0)] {
        let timeout = u64::from(2 * settings.heartbeat);
        for pair in heard(&settings).windows(2) {
            for deadline in [timeout, timeout + u64::from(settings.grace)] {
                assert_ne!(pair[1] - pair[0], deadline, "{settings:?}");
            }
        }
    }
    assert_eq!(heard(&with(5, 0)).last(), Some(&(1_499 * SECOND)));
}

#[test]
fn a_beat_in_the_millisecond_of_a_deadline_is_heard_first() {
    // Beats each 4 s and one lost: the next comes 8 s after the last, which is the timeout.
    let settings = with(4, 0);
    let ties = heard(&settings).windows(2).filter(|pair| pair[1] - pair[0] == 8 * SECOND).count();
    assert!(ties > 0);
    assert_eq!(told(&settings).shown, wanted(&settings));
}

#[test]
fn settings_out_of_range_are_refused() {
    let default = Settings::default();
    for (settings, text) in [
        (Settings { heartbeat: 999, ..default }, "heartbeat must be 1000 to 60000 ms"),
        (Settings { heartbeat: 60_001, ..default }, "heartbeat must be 1000 to 60000 ms"),
        (Settings { heartbeat: 0, ..default }, "heartbeat must be 1000 to 60000 ms"),
        (Settings { grace: 120_001, ..default }, "grace must be 0 to 120000 ms"),
        (Settings { grace: u32::MAX, ..default }, "grace must be 0 to 120000 ms"),
        (Settings { users: 0, ..default }, "users must be 1 to 1000000000"),
        (Settings { users: u64::MAX, ..default }, "users must be 1 to 1000000000"),
    ] {
        assert_eq!(story(&settings).unwrap_err().to_string(), text);
    }
    for (settings, _) in [
        (Settings { heartbeat: 1_000, grace: 0, users: 1, ..default }, "least"),
        (Settings { heartbeat: 60_000, grace: 120_000, users: 1_000_000_000, ..default }, "greatest"),
    ] {
        assert!(story(&settings).is_ok());
    }
}

#[test]
fn settings_as_json() {
    let read = |text: &str| serde_json::from_str::<Settings>(text);
    assert_eq!(read("{}").unwrap(), Settings::default());
    let text = r#"{"heartbeat":60000,"grace":30000,"goodbye":true,"audience":"screen","users":1000}"#;
    let settings = Settings { goodbye: true, audience: Audience::Screen, users: 1_000, ..with(60, 30) };
    assert_eq!(read(text).unwrap(), settings);
    assert_eq!(serde_json::to_string(&settings).unwrap(), text);
    for wrong in [
        r#"{"heartbeat":-1}"#,
        r#"{"heartbeat":5.5}"#,
        r#"{"heartbeat":4294968296}"#,
        r#"{"grace":null}"#,
        r#"{"audience":"everybody"}"#,
        r#"{"hartbeat":5000}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn the_answer_is_the_story_or_a_clear_refusal() {
    let Json(answered) = answer(Json(with(5, 30))).await.unwrap();
    assert_eq!(answered, told(&with(5, 30)));
    let json = serde_json::to_value(&answered).unwrap();
    assert_eq!(json["figures"]["delay"], 39_000);
    assert_eq!(json["broadcasts"][1]["reason"], "timeout");
    let message: serde_json::Value = serde_json::from_str(json["broadcasts"][1]["message"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&message["event"], &message["member"], &message["seq"]),
        (&"offline".into(), &"asha".into(), &2.into())
    );
    assert_eq!(serde_json::from_value::<Story>(json).unwrap(), answered);

    let (status, text) = answer(Json(with(61, 0))).await.unwrap_err();
    assert_eq!((status, text.as_str()), (StatusCode::UNPROCESSABLE_ENTITY, "heartbeat must be 1000 to 60000 ms"));
}
