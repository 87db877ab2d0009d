//! The hub without Redis and without sockets: what it asks, what it tells, and when.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use presence_gateway::hub::{Ask, BeatAsk, BeatReply, Hub, Listening, Newcomer, Outlet, Topic, Verb};
use presence_gateway::metrics::Metrics;
use presence_gateway::outbox::{Close, Out, Outbox, CROWDED, DONE, RESTART, RULE};
use presence_gateway::protocol::{Message, Share, State};
use presence_gateway::settings::Limits;

/// A hub, and the phones that are connected to it.
struct Desk {
    hub: Hub,
    phones: BTreeMap<u64, Arc<Outbox>>,
}

fn limits() -> Limits {
    Limits { max_connections: 100, max_per_user: 2, max_watches: 3, max_rooms: 2, ..Limits::default() }
}

impl Desk {
    fn new() -> Self {
        Self::with(limits(), false)
    }

    fn with(limits: Limits, reciprocal: bool) -> Self {
        let mut hub = Hub::new(limits, reciprocal, "gw".into(), Arc::new(Metrics::new()));
        hub.connected();
        Self { hub, phones: BTreeMap::new() }
    }

    fn enter(&mut self, id: u64, user: &str, room: Option<&str>, share: Option<Share>) {
        let outbox = Arc::new(Outbox::new(16));
        let outlet = Outlet::Phone(outbox.clone());
        self.phones.insert(id, outbox);
        let newcomer = Newcomer { user: user.into(), room: room.map(Arc::from), share, status: None, outlet };
        self.hub.enter(id, newcomer);
    }

    /// The one ask about beats that a flush makes.
    fn flush(&mut self) -> BeatAsk {
        self.hub.flush();
        let [Ask::Beat(_, ask)] = &self.hub.asks()[..] else { panic!("one ask was expected") };
        ask.clone()
    }

    fn answer(&mut self, ask: BeatAsk, joins: &[i64], beats: &[i64]) {
        let reply = BeatReply {
            joins: joins.iter().map(|&n| Ok(n)).collect(),
            beats: beats.iter().map(|&n| Ok(n)).collect(),
            timeout: ask.pace.then_some(30_000),
        };
        self.hub.beaten(&"gig".into(), ask, Some(reply));
    }

    /// Somebody who is present already.
    fn present(&mut self, id: u64, user: &str) {
        self.enter(id, user, Some("gig"), Some(Share::Friends));
        let ask = self.flush();
        self.answer(ask, &[1], &[]);
        self.told(id);
    }

    /// What a phone has been told since the last time.
    fn told(&self, id: u64) -> Vec<Message> {
        std::iter::from_fn(|| match self.phones[&id].next().now_or_never() {
            Some(Out::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
            _ => None,
        })
        .collect()
    }

    fn closed(&self, id: u64) -> Option<Close> {
        self.told(id);
        match self.phones[&id].next().now_or_never() {
            Some(Out::Close(close)) => Some(close),
            _ => None,
        }
    }

    /// Answers a look and the subscription that it brings: `viewer` sees `member` so.
    fn seen(&mut self, viewer: u64, member: &str, look: Option<State>) {
        self.hub.looked(viewer, vec![(member.into(), 0, look.map(|state| (state, None)))]);
        for ask in self.hub.asks() {
            match ask {
                Ask::Name(topic) => self.hub.named(topic, Some(channel(member))),
                other => panic!("not expected: {other:?}"),
            }
        }
    }
}

fn channel(name: &str) -> Listening {
    Listening { channel: name.as_bytes().to_vec(), verb: Verb::Classic }
}

fn dot(member: &str, state: State) -> Message {
    Message::Member { room: "gig".into(), member: member.into(), state, status: None }
}

fn welcome(session: &str, beat: u64) -> Message {
    Message::Welcome { session: session.into(), beat: Some(beat) }
}

#[test]
fn who_comes_is_told_to_redis_and_welcomed_when_redis_has_answered() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", Some("gig"), Some(Share::Friends));
    assert_eq!(desk.told(1), []);
    let ask = desk.flush();
    assert_eq!((&*ask.joins[0].user, ask.joins[0].share, ask.pace), ("asha", Some(Share::Friends), true));
    assert_eq!(desk.told(1), []);
    desk.answer(ask, &[1], &[]);
    assert_eq!(desk.told(1), [welcome("gw-1", 10_000)]);
}

#[test]
fn who_only_looks_is_welcomed_at_once_and_is_not_present() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", None, None);
    assert_eq!(desk.told(1), [Message::Welcome { session: "gw-1".into(), beat: None }]);
    desk.hub.beat(1);
    desk.hub.bye(1, false);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
    assert_eq!(desk.closed(1), Some(DONE));
}

#[test]
fn beats_are_collected_and_each_session_beats_once() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.present(2, "bo");
    for _ in 0..5 {
        desk.hub.beat(1);
        desk.hub.beat(2);
    }
    let ask = desk.flush();
    let beats: Vec<_> = ask.beats.iter().map(|(_, user, session)| (&**user, session.as_str())).collect();
    assert_eq!(beats, [("asha", "gw-1"), ("bo", "gw-2")]);
    desk.answer(ask, &[], &[0, 0]);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
}

#[test]
fn nothing_overtakes_what_is_under_way() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", Some("gig"), None);
    let ask = desk.flush();
    desk.hub.bye(1, false);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), [], "the join has not been answered");
    desk.answer(ask, &[1], &[]);
    let ask = desk.flush();
    assert_eq!((ask.joins.len(), ask.byes.len()), (0, 1));
    assert_eq!(desk.told(1), [], "nobody is welcomed after a goodbye");
}

#[test]
fn what_failed_is_told_again_in_its_order() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.present(2, "bo");
    desk.hub.beat(1);
    desk.hub.share(1, Share::Everyone);
    desk.hub.bye(2, true);
    desk.enter(3, "carl", Some("gig"), None);
    let ask = desk.flush();
    desk.hub.share(1, Share::Nobody);
    desk.hub.beaten(&"gig".into(), ask.clone(), None);
    let again = desk.flush();
    assert_eq!((&again.joins, &again.beats, &again.byes), (&ask.joins, &ask.beats, &ask.byes));
    assert_eq!(again.shares, [("asha".into(), Share::Nobody)], "the later word holds");
}

#[test]
fn what_failed_of_one_who_is_gone_is_not_told_again() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.enter(2, "bo", Some("gig"), None);
    desk.hub.beat(1);
    let ask = desk.flush();
    desk.hub.lost(1);
    desk.hub.lost(2);
    desk.hub.beaten(&"gig".into(), ask, None);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
}

#[test]
fn the_last_beat_before_a_cut_counts_once() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.beat(1);
    desk.hub.lost(1);
    let ask = desk.flush();
    assert_eq!((&*ask.beats[0].1, ask.beats[0].2.as_str(), ask.byes.len()), ("asha", "gw-1", 0));
    // It is gone: what Redis makes of the beat changes nothing here, and a beat of long ago is not told later.
    desk.answer(ask.clone(), &[], &[1]);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
    desk.hub.beaten(&"gig".into(), ask, None);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
}

#[test]
fn a_goodbye_says_bye_a_reload_says_so_and_a_cut_says_nothing() {
    let mut desk = Desk::new();
    for (id, user) in [(1, "asha"), (2, "bo"), (3, "carl")] {
        desk.present(id, user);
    }
    desk.hub.bye(1, false);
    desk.hub.bye(2, true);
    desk.hub.lost(3);
    desk.hub.lost(1);
    let byes: Vec<_> = desk.flush().byes.iter().map(|bye| (bye.user.to_string(), bye.soft)).collect();
    assert_eq!(byes, [("asha".into(), false), ("bo".into(), true)]);
    assert_eq!(desk.closed(1), Some(DONE));
}

#[test]
fn one_who_left_before_redis_knew_is_never_told_of() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", Some("gig"), None);
    desk.hub.bye(1, false);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
}

#[test]
fn a_session_that_said_goodbye_elsewhere_goes_on_as_a_new_one() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.beat(1);
    let ask = desk.flush();
    desk.answer(ask, &[], &[-1]);
    let ask = desk.flush();
    assert_eq!((ask.joins[0].session.as_str(), ask.joins[0].share), ("gw-2", Some(Share::Friends)));
    desk.answer(ask, &[1], &[]);
    assert_eq!(desk.told(1), [welcome("gw-2", 10_000)]);
}

#[test]
fn one_whom_redis_forgot_says_anew_what_it_shows() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.beat(1);
    let ask = desk.flush();
    desk.answer(ask, &[], &[1]);
    let ask = desk.flush();
    assert_eq!((ask.joins[0].session.as_str(), ask.joins[0].share), ("gw-1", Some(Share::Friends)));
}

#[test]
fn a_full_room_refuses_and_takes_with_a_later_beat() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", Some("gig"), None);
    let ask = desk.flush();
    let reply = BeatReply { joins: vec![Err("the room is full".into())], ..BeatReply::default() };
    desk.hub.beaten(&"gig".into(), ask, Some(reply));
    assert_eq!(desk.told(1), [Message::Refused { reason: "the room is full".into() }]);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), [], "a refused one is not asked for until it beats");
    desk.hub.beat(1);
    let ask = desk.flush();
    desk.answer(ask, &[1], &[]);
    assert_eq!(desk.told(1), [welcome("gw-1", 10_000)]);
}

#[test]
fn a_new_timeout_is_a_new_pace_for_everybody() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.present(2, "bo");
    desk.hub.look_around();
    desk.hub.beat(1);
    let ask = desk.flush();
    assert!(ask.pace);
    let reply = BeatReply { beats: vec![Ok(0)], timeout: Some(6_000), ..BeatReply::default() };
    desk.hub.beaten(&"gig".into(), ask, Some(reply));
    assert_eq!((desk.told(1), desk.told(2)), (vec![welcome("gw-1", 2_000)], vec![welcome("gw-2", 2_000)]));
}

#[test]
fn a_friend_is_listened_to_and_a_stranger_is_not() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch(1, vec!["bo".into(), "stranger".into()]);
    let [Ask::Look { viewer: 1, members, .. }] = &desk.hub.asks()[..] else { panic!() };
    assert_eq!(members, &[("bo".into(), 0), ("stranger".into(), 0)]);
    desk.hub.looked(1, vec![("bo".into(), 0, Some((State::Online, None))), ("stranger".into(), 0, None)]);
    assert_eq!(desk.told(1), [dot("bo", State::Online), dot("stranger", State::Offline)]);
    assert_eq!(desk.hub.asks(), [Ask::Name(Topic::Member("gig".into(), "bo".into()))]);
}

#[test]
fn a_change_is_told_once_to_each_who_watches_and_to_nobody_else() {
    let mut desk = Desk::new();
    for (id, user) in [(1, "asha"), (2, "bo"), (3, "carl")] {
        desk.present(id, user);
    }
    for (id, subscribed) in [(1, vec![Ask::Subscribe(channel("dina"))]), (2, vec![])] {
        desk.hub.watch(id, vec!["dina".into()]);
        desk.hub.asks();
        desk.seen(id, "dina", Some(State::Offline));
        assert_eq!(desk.told(id), [dot("dina", State::Offline)]);
        assert_eq!(desk.hub.asks(), subscribed);
    }
    desk.hub.published(b"dina", br#"{"event":"online","member":"dina","epoch":"1","seq":1,"status":"row 4"}"#);
    let told = Message::Member {
        room: "gig".into(),
        member: "dina".into(),
        state: State::Online,
        status: Some("row 4".into()),
    };
    assert_eq!((desk.told(1), desk.told(2), desk.told(3)), (vec![told.clone()], vec![told], vec![]));
}

#[test]
fn a_departure_asks_what_may_be_seen_now_and_an_older_look_does_not_count() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Online));
    desk.told(1);
    desk.hub.published(b"bo", br#"{"event":"offline","member":"bo","epoch":"1","seq":2,"reason":"timeout"}"#);
    let asks = desk.hub.asks();
    assert!(matches!(&asks[..], [Ask::Subscribe(_), Ask::Look { members, .. }] if members[0].1 == 1), "{asks:?}");
    desk.hub.looked(1, vec![("bo".into(), 0, Some((State::Online, None)))]);
    assert_eq!(desk.told(1), [], "that look was before the message");
    desk.hub.looked(1, vec![("bo".into(), 1, Some((State::Recent, None)))]);
    assert_eq!(desk.told(1), [dot("bo", State::Recent)]);
}

#[test]
fn what_is_told_to_others_before_the_first_look_is_answered_is_looked_at_again() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.present(2, "carl");
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Offline));
    desk.hub.watch(2, vec!["bo".into()]);
    desk.hub.asks();
    desk.hub.published(b"bo", br#"{"event":"online","member":"bo","epoch":"1","seq":2}"#);
    assert_eq!(desk.told(2), [], "whether bo is a friend is not known yet");
    desk.hub.looked(2, vec![("bo".into(), 0, Some((State::Offline, None)))]);
    let asks = desk.hub.asks();
    assert!(matches!(&asks[..], [Ask::Look { viewer: 2, members, .. }] if members[0].1 == 1), "{asks:?}");
    desk.hub.looked(2, vec![("bo".into(), 1, Some((State::Online, None)))]);
    assert_eq!(desk.told(2), [dot("bo", State::Online)]);
}

#[test]
fn a_dot_that_did_not_change_is_not_told_again() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Online));
    assert_eq!(desk.told(1), [dot("bo", State::Online)]);
    desk.hub.asks();
    desk.hub.subscribed(b"bo");
    assert!(matches!(&desk.hub.asks()[..], [Ask::Look { .. }]), "read when the subscription stands");
    desk.hub.looked(1, vec![("bo".into(), 0, Some((State::Online, None)))]);
    assert_eq!(desk.told(1), []);
}

#[test]
fn a_friendship_that_ended_ends_the_dot() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Online));
    desk.hub.asks();
    desk.told(1);
    desk.hub.look_around();
    assert!(matches!(&desk.hub.asks()[..], [Ask::Look { .. }]));
    desk.hub.looked(1, vec![("bo".into(), 0, None)]);
    assert_eq!(desk.told(1), [dot("bo", State::Offline)]);
    assert_eq!(desk.hub.asks(), [Ask::Unsubscribe(channel("bo"))]);
    desk.hub.published(b"bo", br#"{"event":"online","member":"bo","epoch":"1","seq":3}"#);
    assert_eq!(desk.told(1), []);
}

#[test]
fn the_last_who_looks_away_ends_the_subscription() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.present(2, "bo");
    for id in [1, 2] {
        desk.hub.watch(id, vec!["dina".into()]);
        desk.hub.asks();
        desk.seen(id, "dina", Some(State::Online));
    }
    desk.hub.asks();
    desk.hub.unwatch(1, &["dina".into()]);
    assert_eq!(desk.hub.asks(), []);
    desk.hub.lost(2);
    assert_eq!(desk.hub.asks(), [Ask::Unsubscribe(channel("dina"))]);
}

#[test]
fn with_reciprocity_every_change_is_asked_for() {
    let mut desk = Desk::with(limits(), true);
    desk.present(1, "asha");
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Offline));
    desk.told(1);
    desk.hub.asks();
    desk.hub.published(b"bo", br#"{"event":"online","member":"bo","epoch":"1","seq":1}"#);
    assert_eq!(desk.told(1), []);
    assert!(matches!(&desk.hub.asks()[..], [Ask::Look { .. }]));
    desk.hub.share(1, Share::Nobody);
    assert!(matches!(&desk.hub.asks()[..], [Ask::Look { .. }]), "who hides sees nobody");
}

#[test]
fn a_badge_is_told_to_all_who_watch_and_at_once_to_the_next() {
    let mut desk = Desk::new();
    desk.enter(1, "asha", None, None);
    desk.enter(2, "bo", None, None);
    desk.told(1);
    desk.told(2);
    desk.hub.watch_room(1, "gig".into());
    assert_eq!(desk.hub.asks(), [Ask::Name(Topic::Count("gig".into()))]);
    desk.hub.named(Topic::Count("gig".into()), Some(channel("count")));
    assert_eq!(desk.hub.asks(), [Ask::Subscribe(channel("count"))]);
    desk.hub.subscribed(b"count");
    assert_eq!(desk.hub.asks(), [Ask::Count { room: "gig".into(), heard: 0 }]);
    desk.hub.counted(&"gig".into(), 0, Some("7".into()));
    let badge = |badge: &str, gone| Message::Count { room: "gig".into(), badge: badge.into(), gone };
    assert_eq!(desk.told(1), [badge("7", false)]);
    desk.hub.watch_room(2, "gig".into());
    assert_eq!((desk.hub.asks(), desk.told(2)), (vec![], vec![badge("7", false)]));
    desk.hub.published(b"count", br#"{"count":2341,"badge":"2.3k"}"#);
    desk.hub.counted(&"gig".into(), 0, Some("7".into()));
    assert_eq!(desk.told(1), [badge("2.3k", false)], "an older answer does not undo a message");
    desk.hub.published(b"count", br#"{"count":2358,"badge":"2.3k"}"#);
    assert_eq!(desk.told(1), [], "the same badge is no news");
    desk.hub.published(b"count", br#"{"count":0,"badge":"0","gone":true}"#);
    assert_eq!(desk.told(2), [badge("0", true)]);
}

#[test]
fn what_is_watched_already_is_told_again_when_asked_for() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch_room(1, "gig".into());
    desk.hub.counted(&"gig".into(), 0, Some("7".into()));
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Offline));
    assert_eq!(desk.told(1).len(), 2);
    desk.hub.watch_room(1, "gig".into());
    assert!(matches!(&desk.told(1)[..], [Message::Count { badge, .. }] if badge == "7"));
    desk.hub.asks();
    desk.hub.watch(1, vec!["bo".into()]);
    desk.hub.asks();
    desk.seen(1, "bo", Some(State::Offline));
    assert_eq!(desk.told(1), [dot("bo", State::Offline)]);
}

#[test]
fn after_an_interruption_everything_is_subscribed_to_anew() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch_room(1, "gig".into());
    desk.hub.named(Topic::Count("gig".into()), Some(channel("old")));
    desk.hub.asks();
    desk.hub.disconnected();
    desk.hub.beat(1);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
    desk.hub.published(b"old", br#"{"count":1,"badge":"1"}"#);
    assert_eq!(desk.told(1), [], "the channel belonged to the line that is cut");
    desk.hub.connected();
    assert_eq!(desk.hub.asks(), [Ask::Name(Topic::Count("gig".into()))]);
    desk.hub.named(Topic::Count("gig".into()), Some(channel("new")));
    assert_eq!(desk.hub.asks(), [Ask::Subscribe(channel("new"))]);
    assert_eq!(desk.flush().beats.len(), 1, "the beat has waited");
}

#[test]
fn a_subscription_that_the_server_ended_is_made_again() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.watch_room(1, "gig".into());
    desk.hub.named(Topic::Count("gig".into()), Some(channel("count")));
    desk.hub.asks();
    desk.hub.unsubscribed(b"count");
    desk.hub.unsubscribed(b"nobody's");
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), [Ask::Subscribe(channel("count"))]);
}

#[test]
fn limits_hold() {
    let mut desk = Desk::with(Limits { max_connections: 3, ..limits() }, false);
    for id in 1..=3 {
        desk.enter(id, "asha", Some("gig"), None);
    }
    let [Message::Error { code, .. }] = &desk.told(3)[..] else { panic!() };
    assert_eq!((code.as_str(), desk.closed(3)), ("too_many_connections", Some(RULE)));
    desk.enter(4, "bo", Some("gig"), None);
    desk.enter(5, "carl", Some("gig"), None);
    assert_eq!((desk.closed(4), desk.closed(5)), (None, Some(CROWDED)));
    desk.hub.lost(1);
    desk.enter(6, "asha", Some("gig"), None);
    assert_eq!(desk.closed(6), None, "there is room again");
    desk.hub.watch(4, (0..5).map(|n| n.to_string()).collect());
    let [Message::Error { code, .. }] = &desk.told(4)[..] else { panic!() };
    assert_eq!((code.as_str(), desk.closed(4)), ("ignored", None));
    let asks = desk.hub.asks();
    assert!(matches!(&asks[..], [Ask::Look { members, .. }] if members.len() == 3), "{asks:?}");
    for room in ["a", "b", "c"] {
        desk.hub.watch_room(4, room.into());
    }
    assert!(matches!(&desk.told(4)[..], [Message::Error { .. }]));
}

#[test]
fn when_the_gateway_goes_down_everybody_is_sent_elsewhere_and_nobody_says_goodbye() {
    let mut desk = Desk::new();
    desk.present(1, "asha");
    desk.hub.close_all();
    assert_eq!(desk.closed(1), Some(RESTART));
    desk.hub.lost(1);
    desk.hub.flush();
    assert_eq!(desk.hub.asks(), []);
}
