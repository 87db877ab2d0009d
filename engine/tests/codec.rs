//! The one form of a room: round trips, and everything that is not quite a payload.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

mod common;

use std::hash::Hasher;

use common::{digest, saved, Driver, KEYS, TERM};
use presence_engine::codec::{decode, Damage, Entry, Log, VERSION};
use presence_engine::effects::Effects;
use presence_engine::member::{Attributes, Change, Reason};
use presence_engine::room::Room;
use presence_engine::settings::{SettingsChange, Share};
use presence_engine::uniques::Day;
use proptest::prelude::*;
use siphasher::sip::SipHasher13;

/// The checksum as the format defines it, written down once more: a change of it would orphan every stored room.
fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher13::new_with_keys(0x7072_6573_656e_6365, 0x666f_726d_2076_3031);
    hasher.write(bytes);
    hasher.finish().to_le_bytes()
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend_from_slice(&checksum(body));
    payload
}

fn body(payload: &[u8]) -> &[u8] {
    &payload[..payload.len() - 8]
}

/// A room with everything that a room can have.
fn rich() -> Driver {
    let mut d = Driver::field();
    d.create(&SettingsChange {
        timeout: Some(Some(400)),
        grace: Some(Some(300)),
        recent: Some(Some(600)),
        uniques_days: Some(Some(7)),
        share: Some(Some(Share::Everyone)),
        feed: Some(Some(1_000)),
        count_every: Some(Some(100)),
        interval_over: Some(Some(1_000_000)),
    });
    let all = Attributes {
        share: Some(Share::Friends),
        status: Some("tippt … ✍".as_bytes()),
        data: Some(&[0, 255, 128]),
        timeout: Some(86_400_000),
        grace: Some(0),
    };
    d.beat("plain", "");
    d.beat_with("rich", "s1", &all);
    d.beat_with("rich", "", &Attributes { timeout: None, grace: Some(86_400_000), ..all });
    d.beat("rich", &"s".repeat(128));
    d.beat_with("big", "s1", &Attributes { data: Some(&[7; 1_024]), ..all });
    d.beat(&"m".repeat(256), "s1");
    d.beat("hidden", "s1");
    d.share("hidden", Share::Nobody);
    d.beat_with("choice", "s1", &Attributes { share: Some(Share::Nobody), ..Attributes::default() });
    d.bye("choice", None, false);
    d.beat("recent", "s1");
    d.bye("recent", Some("s1"), false);
    for n in 0..5 {
        d.beat("soft", &format!("s{n}"));
        d.bye("soft", Some(&format!("s{n}")), n % 2 == 0);
    }
    d.status("cleared", "s1", "x");
    d.status("cleared", "s1", "");
    d.go(200);
    d.beat("plain", "");
    d.go(450);
    d
}

fn load(d: &Driver, payloads: &[Vec<u8>]) -> Result<Room, Damage> {
    Room::load_from(KEYS, 9, &d.env(), payloads.iter().map(Vec::as_slice))
}

#[test]
fn a_rich_room_comes_back_as_it_was() {
    let d = rich();
    d.check_copies();
    let payloads = saved(&d.room, Some(TERM), d.now);
    let copy = load(&d, &payloads).unwrap();
    // Without moments there is nothing that a copy could not know: the bytes are the same, in the same order.
    let again = saved(&copy, None, d.now);
    assert_eq!(payloads, again);
    assert_eq!(copy.own_settings(), d.room.own_settings());
    assert_eq!(copy.seq(), d.room.seq());
    assert_eq!(copy.epoch(None), d.room.epoch(Some(TERM)));
    for id in ["plain", "rich", "big", "hidden", "recent", "soft", "cleared"] {
        let (was, is) =
            (d.room.member(&d.env(), id.as_bytes()).unwrap(), copy.member(&d.env(), id.as_bytes()).unwrap());
        assert_eq!((was.share, was.since, &was.status, &was.data), (is.share, is.since, &is.status, &is.data), "{id}");
        assert_eq!(was.sessions.len(), is.sessions.len());
        assert!(is.idle <= 1, "idle counts from readiness on");
    }
}

#[test]
fn a_room_of_many_payloads() {
    let mut d = Driver::field();
    d.replica = None;
    for n in 0..3_000 {
        d.beat_with(&format!("member {n}"), "s1", &Attributes { data: Some(&[1; 300]), ..Attributes::default() });
    }
    let payloads = saved(&d.room, Some(TERM), d.now);
    assert!(payloads.len() > 10, "{}", payloads.len());
    assert!(payloads.iter().all(|payload| payload.len() < 100_000), "no payload is long to write or to apply");
    d.check_copies();
}

#[test]
fn each_payload_can_be_applied_twice() {
    let d = rich();
    let payloads = saved(&d.room, Some(TERM), d.now);
    let twice: Vec<Vec<u8>> = payloads.iter().flat_map(|payload| [payload.clone(), payload.clone()]).collect();
    let copy = load(&d, &twice).unwrap();
    assert_eq!(digest(&copy, d.now), digest(&d.room, d.now));
    assert_eq!((copy.count(), copy.sessions()), (d.room.count(), d.room.sessions()));
}

#[test]
fn truncations_and_altered_bytes_are_refused() {
    let d = rich();
    for payload in saved(&d.room, Some(TERM), d.now) {
        for len in 0..payload.len() {
            assert!(decode(&payload[..len], d.now).is_err(), "the first {len} bytes");
        }
        let mut altered = payload.clone();
        altered.push(0);
        assert!(decode(&altered, d.now).is_err());
        let mut altered = payload.clone();
        for at in 0..payload.len() {
            for mask in [1, 2, 16, 128, 255] {
                altered[at] ^= mask;
                assert!(decode(&altered, d.now).is_err(), "byte {at} ^ {mask}");
                altered[at] ^= mask;
            }
        }
        assert!(decode(&altered, d.now).is_ok());
    }
}

/// Payloads of one entry each, for every kind of entry and every change that it may tell of.
fn single_entries(d: &Driver) -> Vec<Vec<u8>> {
    let rich = saved(&d.room, Some(TERM), d.now);
    let entries: Vec<Entry<'_>> = rich.iter().flat_map(|payload| decode(payload, d.now).unwrap().entries).collect();
    let changes = [
        Change::None,
        Change::Online,
        Change::Offline(Reason::Timeout),
        Change::Offline(Reason::Goodbye),
        Change::Update,
    ];
    let day = Day::from_number(20_000);
    let (mut log, mut payloads) = (Log::default(), Vec::new());
    let mut end = |log: &mut Log| payloads.push(log.finish(7, 300));
    for entry in &entries {
        // A new kind of entry belongs here, too.
        match entry {
            Entry::Settings(own) => {
                log.settings(own.as_ref());
                end(&mut log);
                log.settings(None);
                end(&mut log);
            }
            Entry::Put { id, member, .. } => {
                for change in changes {
                    log.put(id, member, change, 300);
                    end(&mut log);
                    log.remove(id, change, 300);
                    end(&mut log);
                }
            }
            Entry::Uniques(uniques) => {
                log.uniques(uniques);
                end(&mut log);
                log.unique(day, 0x0123_4567_89ab_cdef);
                end(&mut log);
                log.forget_days(day, 3);
                end(&mut log);
                log.foretell(300);
                end(&mut log);
            }
            Entry::Remove { .. } | Entry::Unique(..) | Entry::ForgetDays(..) | Entry::Expect(..) => {
                panic!("not in a small saved room: {entry:?}")
            }
        }
    }
    payloads
}

/// How many are expected is a hint. Whatever it says, the same room comes of it, of about the same size.
#[test]
fn a_wrong_number_of_members_does_no_harm() {
    let mut d = Driver::with(60_000, 1_000, 1_000, Share::Friends);
    for n in 0..3_000 {
        d.beat(&format!("member {n}"), "");
    }
    let saved = saved(&d.room, None, d.now);
    let expected = |payload: &[u8]| decode(payload, d.now).unwrap().entries.contains(&Entry::Expect(3_000));
    assert!(expected(&saved[0]));
    let honest = load(&d, &saved).unwrap();
    for told in [0, 1, 64, 3_001, 100_000, usize::MAX] {
        let mut log = Log::default();
        log.foretell(told);
        let mut payloads = vec![log.finish(7, 0)];
        payloads.extend_from_slice(&saved);
        let room = load(&d, &payloads).unwrap();
        assert_eq!(digest(&room, d.now), digest(&honest, d.now));
        assert!(room.memory() < honest.memory() * 5 / 4, "{told}: {} and {}", room.memory(), honest.memory());
        assert_eq!(load(&d, &payloads[..1]).unwrap().memory(), load(&d, &[]).unwrap().memory(), "nobody came: {told}");
    }
}

#[test]
fn every_kind_of_entry_is_refused_if_it_ends_too_early() {
    let mut d = rich();
    let before = (digest(&d.room, d.now), d.room.seq(), d.room.count());
    let head = body(&Log::default().finish(7, 300)).len();
    let payloads = single_entries(&d);
    let mut kinds: Vec<u8> = payloads.iter().map(|payload| payload[head]).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8]);
    let (env, mut fx) = (Driver::field(), Effects::default());
    for payload in payloads {
        assert_eq!(decode(&payload, d.now).unwrap().entries.len(), 1);
        let whole = body(&payload);
        // Both as it breaks off, and with a checksum that fits what is left. Only before the entry is there an end.
        for len in 0..payload.len() {
            assert!(d.room.apply(&env.env(), &payload[..len], &mut fx).is_err(), "{len} bytes of {payload:?}");
        }
        for len in (0..whole.len()).filter(|&len| len != head) {
            assert!(d.room.apply(&env.env(), &sealed(&whole[..len]), &mut fx).is_err(), "{len} bytes of {whole:?}");
        }
    }
    assert!(fx.is_empty());
    assert_eq!((digest(&d.room, d.now), d.room.seq(), d.room.count()), before);
}

#[test]
fn a_refused_payload_changes_nothing() {
    let mut d = rich();
    let mut other = Driver::field();
    other.beat("else", "s1");
    let mut payload = saved(&other.room, Some(TERM), other.now).pop().unwrap();
    let before = (digest(&d.room, d.now), d.room.seq(), d.room.count());
    // Members first and nonsense behind them, with a checksum that fits.
    let mut nonsense = body(&payload).to_vec();
    nonsense.push(99);
    payload = sealed(&nonsense);
    let mut fx = Effects::default();
    let env = common::Driver::field();
    assert_eq!(d.room.apply(&env.env(), &payload, &mut fx), Err(Damage::Malformed));
    assert!(fx.is_empty());
    assert_eq!((digest(&d.room, d.now), d.room.seq(), d.room.count()), before);
}

#[test]
fn newer_versions_are_told_apart_from_damage() {
    let d = rich();
    let payload = saved(&d.room, Some(TERM), d.now).remove(0);
    let mut newer = body(&payload).to_vec();
    newer[0] = VERSION + 1;
    for newer in [newer.clone(), sealed(&newer)] {
        let refused = decode(&newer, d.now).unwrap_err();
        assert_eq!(refused, Damage::Newer(VERSION + 1));
        let line = refused.to_string();
        assert!(line.contains(&(VERSION + 1).to_string()) && line.contains("update"), "{line}");
    }
    let mut older = body(&payload).to_vec();
    older[0] = 0;
    assert_eq!(decode(&sealed(&older), d.now).unwrap_err(), Damage::Malformed);
    assert_eq!(decode(&[], d.now).unwrap_err(), Damage::Malformed);
}

/// A hostile payload is refused or makes a room that works, and that says of itself what it was told.
fn survives(d: &Driver, payload: &[u8]) -> bool {
    let Ok(mut room) = Room::load_from(KEYS, 9, &d.env(), [payload]) else { return false };
    let again = saved(&room, None, d.now);
    let copy = load(d, &again).expect("what is written can be read");
    assert_eq!(saved(&copy, None, d.now), again);
    assert_eq!(digest(&copy, d.now), digest(&room, d.now));
    // Life goes on in it.
    let (mut env, mut fx) = (d.env(), Effects::default());
    let listed = room.page(&env, presence_engine::room::PageRequest { cursor: 0, count: 10, all: true });
    for member in listed.members {
        room.member(&env, &member.id).expect("who is listed is known");
        room.friends(&env, b"eve", [&*member.id].into_iter(), |_| ());
        let _ = room.beat(&env, &member.id, b"late", &Attributes::default(), &mut fx);
        room.bye(&env, &member.id, Some(b"s1"), false, &mut fx);
    }
    env.now += 400_000_000;
    while !room.tick(&env, env.now, &mut fx, &mut || true) {}
    assert_eq!((room.count(), room.sessions()), (0, 0), "nobody stays for ever");
    assert!(room.finish(&env, &mut fx).is_none_or(|payload| decode(&payload, env.now).is_ok()));
    true
}

#[test]
fn every_altered_byte_with_a_fitting_checksum() {
    let d = rich();
    let mut accepted = 0;
    for payload in saved(&d.room, Some(TERM), d.now) {
        let mut altered = body(&payload).to_vec();
        let step = if altered.len() > 4_000 { 7 } else { 1 };
        for at in (0..altered.len()).step_by(step) {
            for mask in [1, 3, 8, 64, 128, 255] {
                altered[at] ^= mask;
                accepted += usize::from(survives(&d, &sealed(&altered)));
                altered[at] ^= mask;
            }
        }
        for len in 0..altered.len() {
            accepted += usize::from(survives(&d, &sealed(&altered[..len])));
        }
    }
    assert!(accepted > 100, "some of them are payloads as good as any: {accepted}");
}

#[test]
fn numbers_at_the_end_of_their_range() {
    let d = rich();
    let head = |seq: &[u8]| {
        let mut payload = vec![VERSION];
        payload.extend_from_slice(&7u64.to_le_bytes());
        payload.extend_from_slice(seq);
        payload
    };
    // 2^64 - 1, 2^63, and a number in a form that is not the shortest.
    for seq in [
        &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1][..],
        &[128, 128, 128, 128, 128, 128, 128, 128, 128, 1],
        &[129, 0],
    ] {
        assert_eq!(decode(&sealed(&head(seq)), d.now).unwrap_err(), Damage::Malformed, "{seq:?}");
    }
    assert!(decode(&sealed(&head(&[1])), d.now).is_ok());
    // A list of uniques that claims more days than there are bytes.
    let mut payload = head(&[1]);
    payload.extend_from_slice(&[5, 0x91, 1]);
    assert_eq!(decode(&sealed(&payload), d.now).unwrap_err(), Damage::Malformed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_payloads_with_fitting_checksums(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        which in any::<prop::sample::Index>(),
    ) {
        let d = rich();
        let payloads = saved(&d.room, Some(TERM), d.now);
        let mut bytes = body(&payloads[which.index(payloads.len())]).to_vec();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
            prop_assume!(!bytes.is_empty());
        }
        survives(&d, &sealed(&bytes));
    }

    #[test]
    fn random_entries_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..9_u8) {
        let mut payload = vec![VERSION, 1, 2, 3, 4, 5, 6, 7, 8, 3, kind];
        payload.extend_from_slice(&bytes);
        survives(&rich(), &sealed(&payload));
        let _ = decode(&bytes, rich().now);
    }
}
