//! Every command's arguments: the good forms, each error, and anything at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

use presence_engine::error::Refusal;
use presence_engine::member::Attributes;
use presence_engine::request::{
    parse_count, parse_friends, parse_member, parse_members, parse_settings, parse_share, BatchRequest, BeatRequest,
    ByeRequest, CountOf, UniqueRequest,
};
use presence_engine::room::PageRequest;
use presence_engine::settings::{
    SettingsChange, Share, MAX_BATCH, MAX_FRIENDS, MAX_MEMBER_ID, MAX_SESSION_ID, MAX_STATUS,
};
use presence_engine::uniques::Day;
use proptest::prelude::*;

/// Arguments as a client would type them; a lone `''` is the empty argument.
fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(|word| if word == "''" { b"".as_slice() } else { word.as_bytes() }).collect()
}

fn beat(line: &str) -> Result<BeatRequest<'_>, Refusal> {
    // Leaked, so that the request may outlive its list of arguments: this is a test.
    BeatRequest::parse(&*words(line).leak(), 1_024)
}

fn beat_error(line: &str) -> String {
    beat(line).unwrap_err().to_string()
}

#[test]
fn beat_takes_its_options_in_any_order_and_case() {
    assert_eq!(beat("c k u"), Ok(BeatRequest { member: b"u", session: b"", attributes: Attributes::default() }));
    let all = Attributes {
        share: Some(Share::Friends),
        status: Some(b"hi"),
        data: Some(b"d"),
        timeout: Some(100),
        grace: Some(0),
    };
    for line in [
        "c k u SESSION s SHARE friends STATUS hi DATA d TIMEOUT 100 GRACE 0",
        "c k u grace 0 Timeout 100 dAtA d status hi share FRIENDS session s",
    ] {
        assert_eq!(beat(line), Ok(BeatRequest { member: b"u", session: b"s", attributes: all }));
        assert!(!beat(line).unwrap().is_plain());
    }
    assert!(beat("c k u SESSION s").unwrap().is_plain());
    // An option's name may stand as a member, a session or a text.
    let odd = beat("c k SESSION SESSION STATUS STATUS DATA DATA STATUS").unwrap();
    assert_eq!((odd.member, odd.session), (b"SESSION".as_slice(), b"STATUS".as_slice()));
    assert_eq!((odd.attributes.status, odd.attributes.data), (Some(b"DATA".as_slice()), Some(b"STATUS".as_slice())));
    let empty = beat("c k u SESSION '' STATUS '' DATA ''").unwrap();
    assert_eq!(
        (empty.session, empty.attributes.status, empty.attributes.data),
        (b"".as_slice(), Some(b"".as_slice()), Some(b"".as_slice()))
    );
}

#[test]
fn beat_says_what_is_wrong() {
    for (line, wanted) in [
        ("c", "ERR wrong number of arguments for 'presence.beat' command"),
        ("c k", "ERR wrong number of arguments for 'presence.beat' command"),
        ("c k ''", "ERR a member id must have 1 to 256 bytes"),
        ("c k u STATUS a STATUS b", "ERR syntax error: STATUS is given twice"),
        ("c k u session a SESSION b", "ERR syntax error: SESSION is given twice"),
        ("c k u SHARE nobody SHARE nobody", "ERR syntax error: SHARE is given twice"),
        ("c k u DATA a DATA b", "ERR syntax error: DATA is given twice"),
        ("c k u TIMEOUT 100 TIMEOUT 100", "ERR syntax error: TIMEOUT is given twice"),
        ("c k u GRACE 1 GRACE 1", "ERR syntax error: GRACE is given twice"),
        ("c k u SHARE some", "ERR SHARE must be nobody, friends or everyone"),
        ("c k u TIMEOUT abc", "ERR TIMEOUT must be a whole number"),
        ("c k u TIMEOUT 1e3", "ERR TIMEOUT must be a whole number"),
        ("c k u TIMEOUT ''", "ERR TIMEOUT must be a whole number"),
        ("c k u TIMEOUT -", "ERR TIMEOUT must be a whole number"),
        ("c k u TIMEOUT +100", "ERR TIMEOUT must be a whole number"),
        ("c k u TIMEOUT 0", "ERR TIMEOUT must be between 100 and 86400000"),
        ("c k u TIMEOUT 99", "ERR TIMEOUT must be between 100 and 86400000"),
        ("c k u TIMEOUT -1", "ERR TIMEOUT must be between 100 and 86400000"),
        ("c k u TIMEOUT 86400001", "ERR TIMEOUT must be between 100 and 86400000"),
        ("c k u TIMEOUT 9223372036854775808", "ERR TIMEOUT must be between 100 and 86400000"),
        ("c k u GRACE -1", "ERR GRACE must be between 0 and 86400000"),
        ("c k u GRACE -99999999999999999999999", "ERR GRACE must be between 0 and 86400000"),
    ] {
        assert_eq!(beat_error(line), wanted, "{line}");
    }
    for line in [
        "c k u SESSION",
        "c k u s1",
        "c k u STATUS",
        "c k u SOFT",
        "c k u ''",
        "c k u DATA d STATUS",
        "c k u SESSION s SESSIO s",
    ] {
        let error = beat_error(line);
        assert!(error.starts_with("ERR syntax error: the options of presence.beat are SESSION, SHARE"), "{error}");
    }
    assert!(beat("c k u TIMEOUT 86400000 GRACE 86400000").is_ok());
}

#[test]
fn lengths_end_where_the_contract_says() {
    fn parse(member: usize, session: usize, status: &[u8], data: usize, max_data: u16) -> Option<String> {
        let (member, session, data) = (vec![0; member], vec![255; session], vec![1; data]);
        let args: [&[u8]; 9] = [b"c", b"k", &member, b"SESSION", &session, b"STATUS", status, b"DATA", &data];
        BeatRequest::parse(&args[..], max_data).err().map(|error| error.to_string())
    }
    assert_eq!(parse(MAX_MEMBER_ID, MAX_SESSION_ID, &[b'x'; MAX_STATUS], 1_024, 1_024), None);
    let refused = |error: Option<String>, limit: &str| assert!(error.as_ref().unwrap().contains(limit), "{error:?}");
    refused(parse(257, 0, b"", 0, 1_024), "256");
    refused(parse(1_000_000, 0, b"", 0, 1_024), "256");
    refused(parse(1, 129, b"", 0, 1_024), "128");
    refused(parse(1, 1, &[b'x'; 65], 0, 1_024), "64");
    refused(parse(1, 1, b"\xc3\x28", 0, 1_024), "UTF-8");
    refused(parse(1, 1, "é".repeat(33).as_bytes(), 0, 1_024), "64");
    refused(parse(1, 1, b"", 1_025, 1_024), "1024");
    refused(parse(1, 1, b"", 11, 10), "10");
    refused(parse(1, 1, b"", 1, 0), "0");
}

#[test]
fn batches() {
    fn items(line: &str) -> Result<(Vec<(String, String)>, bool), Refusal> {
        let args = words(line);
        let batch = BatchRequest::parse(&args[..])?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let items: Vec<_> = batch.items.iter().map(|(member, session)| (text(member), text(session))).collect();
        Ok((items, batch.each))
    }
    let pair = |member: &str, session: &str| (member.to_owned(), session.to_owned());
    assert_eq!(items("c k MEMBERS u"), Ok((vec![pair("u", "")], false)));
    assert_eq!(items("c k each members u EACH"), Ok((vec![pair("u", ""), pair("EACH", "")], true)));
    assert_eq!(items("c k Sessions u s v ''"), Ok((vec![pair("u", "s"), pair("v", "")], false)));
    assert_eq!(items("c k MEMBERS MEMBERS"), Ok((vec![pair("MEMBERS", "")], false)));
    for line in ["c", "c k", "c k EACH"] {
        assert_eq!(items(line), Err(Refusal::Arity { command: "presence.mbeat" }), "{line}");
    }
    for line in ["c k u", "c k MEMBERS", "c k SESSIONS", "c k SESSIONS u", "c k SESSIONS u s v", "c k EACH EACH u"] {
        assert_eq!(items(line), Err(Refusal::Batch), "{line}");
    }
    assert_eq!(items("c k MEMBERS u ''"), Err(Refusal::MemberId));
    assert_eq!(items(&format!("c k SESSIONS u s v {}", "s".repeat(129))), Err(Refusal::SessionId));
    assert_eq!(items(&format!("c k MEMBERS u {}", "s".repeat(257))), Err(Refusal::MemberId));
    for (count, good) in [(MAX_BATCH, true), (MAX_BATCH + 1, false)] {
        assert_eq!(items(&format!("c k MEMBERS{}", " m".repeat(count))).is_ok(), good);
        assert_eq!(items(&format!("c k SESSIONS{}", " m s".repeat(count))).is_ok(), good);
    }
}

#[test]
fn byes_and_shares() {
    let bye = |line: &'static str| ByeRequest::parse(&*words(line).leak());
    assert_eq!(bye("c k u"), Ok(ByeRequest { member: b"u", session: None, soft: false }));
    assert_eq!(bye("c k u soft session s"), Ok(ByeRequest { member: b"u", session: Some(b"s"), soft: true }));
    assert_eq!(bye("c k u SESSION ''").unwrap().session, Some(b"".as_slice()));
    assert_eq!(bye("c k u SOFT SOFT"), Err(Refusal::Repeated { name: "SOFT" }));
    assert_eq!(bye("c k u SESSION a SESSION a"), Err(Refusal::Repeated { name: "SESSION" }));
    assert_eq!(bye("c k"), Err(Refusal::Arity { command: "presence.bye" }));
    assert_eq!(bye("c k ''"), Err(Refusal::MemberId));
    for line in ["c k u SESSION", "c k u HARD", "c k u s1"] {
        assert!(matches!(bye(line), Err(Refusal::Option { .. })), "{line}");
    }
    let share = |line: &'static str| parse_share(&*words(line).leak());
    assert_eq!(share("c k u Everyone"), Ok((b"u".as_slice(), Share::Everyone)));
    assert_eq!(share("c k u all"), Err(Refusal::Share));
    assert_eq!(share("c k '' nobody"), Err(Refusal::MemberId));
    assert_eq!(share("c k u"), Err(Refusal::Arity { command: "presence.share" }));
    assert!(share("c k u nobody now").is_err());
}

#[test]
fn counts_members_and_friends() {
    let count = |line| parse_count(&words(line)[..]);
    assert_eq!(count("c k"), Ok(CountOf::Members));
    assert_eq!(count("c k badge"), Ok(CountOf::Badge));
    assert_eq!(count("c k SESSIONS"), Ok(CountOf::Sessions));
    assert!(count("c").is_err() && count("c k ALL").is_err() && count("c k BADGE SESSIONS").is_err());

    let friends = |line: &'static str| parse_friends(&*words(line).leak());
    assert_eq!(friends("c k v a b"), Ok((b"v".as_slice(), 3)));
    assert!(friends("c k v").is_err() && friends("c k '' a").is_err() && friends("c k v a ''").is_err());
    for (count, good) in [(MAX_FRIENDS, true), (MAX_FRIENDS + 1, false)] {
        let line: &'static str = Box::leak(format!("c k v{}", " f".repeat(count)).into_boxed_str());
        assert_eq!(friends(line).is_ok(), good);
    }

    let member = |line: &'static str, extra| parse_member(&*words(line).leak(), "presence.get", extra);
    assert_eq!(member("c k u", 0), Ok(b"u".as_slice()));
    assert_eq!(member("c k u set", 1), Ok(b"u".as_slice()));
    assert_eq!(member("c k ''", 0), Err(Refusal::MemberId));
    for (line, extra) in [("c k", 0), ("c k u x", 0), ("c k u", 1), ("c", 0)] {
        assert_eq!(member(line, extra), Err(Refusal::Arity { command: "presence.get" }));
    }
}

#[test]
fn days_of_uniques() {
    let unique = |line| UniqueRequest::parse(&words(line)[..]);
    let day = Day::parse(b"20260101");
    assert_eq!(unique("c k"), Ok(UniqueRequest { last: None, days: 1, with: None }));
    assert_eq!(unique("c k DAYS 7 day 20260101 with a b"), Ok(UniqueRequest { last: day, days: 7, with: Some(7) }));
    // Whatever follows WITH is a key.
    assert_eq!(unique("c k WITH DAYS 3"), Ok(UniqueRequest { last: None, days: 1, with: Some(3) }));
    assert_eq!(unique("c k WITH").map_err(|error| matches!(error, Refusal::Option { .. })), Err(true));
    for line in ["c k DAY today", "c k DAY 20260230", "c k DAY 2026011", "c k DAY 202601011", "c k DAY 19691231"] {
        assert_eq!(unique(line), Err(Refusal::Day), "{line}");
    }
    assert_eq!(unique("c k DAY 20260101 DAY 20260101"), Err(Refusal::Repeated { name: "DAY" }));
    assert_eq!(unique("c k DAYS 1 DAYS 1"), Err(Refusal::Repeated { name: "DAYS" }));
    for line in ["c k DAYS 0", "c k DAYS 401", "c k DAYS -1"] {
        assert_eq!(unique(line), Err(Refusal::OutOfRange { name: "DAYS", min: 1, max: 400 }), "{line}");
    }
    assert!(unique("c").is_err() && unique("c k DAY").is_err() && unique("c k 20260101").is_err());
}

#[test]
fn pages() {
    let members = |line| parse_members(&words(line)[..]);
    assert_eq!(members("c k"), Ok(PageRequest { cursor: 0, count: 100, all: false }));
    assert_eq!(members("c k all Count 7 cursor 12"), Ok(PageRequest { cursor: 12, count: 7, all: true }));
    for cursor in ["x", "-1", "''", "1.5", "99999999999999999999"] {
        assert_eq!(
            members(Box::leak(format!("c k CURSOR {cursor}").into_boxed_str())),
            Err(Refusal::Cursor),
            "{cursor}"
        );
    }
    assert!(members("c k COUNT 0").is_err() && members("c k COUNT 10001").is_err() && members("c").is_err());
    for line in ["c k ALL ALL", "c k CURSOR 0 CURSOR 0", "c k COUNT 1 COUNT 1"] {
        assert!(matches!(members(line), Err(Refusal::Repeated { .. })), "{line}");
    }
    assert!(members("c k 0").is_err() && members("c k CURSOR").is_err());
}

#[test]
fn settings() {
    let create = |line| parse_settings(&words(line)[..], "presence.create", false);
    assert_eq!(create("c k"), Ok(SettingsChange::default()));
    let all =
        "c k TIMEOUT 100 GRACE 0 RECENT 0 UNIQUES 400 SHARE everyone FEED 1000000 COUNTEVERY 0 INTERVALOVER 1000000";
    let change = SettingsChange {
        timeout: Some(Some(100)),
        grace: Some(Some(0)),
        recent: Some(Some(0)),
        uniques_days: Some(Some(400)),
        share: Some(Some(Share::Everyone)),
        feed: Some(Some(1_000_000)),
        count_every: Some(Some(0)),
        interval_over: Some(Some(1_000_000)),
    };
    assert_eq!(create(all), Ok(change));
    let defaults = "c k timeout default grace DEFAULT recent Default uniques default share default feed default \
                    countevery default intervalover default";
    let given_back = SettingsChange {
        timeout: Some(None),
        grace: Some(None),
        recent: Some(None),
        uniques_days: Some(None),
        share: Some(None),
        feed: Some(None),
        count_every: Some(None),
        interval_over: Some(None),
    };
    assert_eq!(create(defaults), Ok(given_back));
    for (name, beyond) in [
        ("TIMEOUT", ["99", "86400001"]),
        ("GRACE", ["-1", "86400001"]),
        ("RECENT", ["-1", "86400001"]),
        ("UNIQUES", ["-1", "401"]),
        ("FEED", ["-1", "1000001"]),
        ("COUNTEVERY", ["-1", "86400001"]),
        ("INTERVALOVER", ["-1", "1000001"]),
    ] {
        let line = |value: &str| -> &'static str { Box::leak(format!("c k {name} {value}").into_boxed_str()) };
        for value in beyond {
            let error = create(line(value)).unwrap_err();
            assert!(matches!(error, Refusal::OutOfRange { .. }) && error.to_string().contains(name), "{error}");
        }
        assert_eq!(create(line("many")), Err(Refusal::NotANumber { name }));
        assert!(matches!(create(line("")), Err(Refusal::NotANumber { .. } | Refusal::Option { .. })));
        assert_eq!(create(line(&format!("DEFAULT {name} DEFAULT"))), Err(Refusal::Repeated { name }));
    }
    assert_eq!(create("c k SHARE all"), Err(Refusal::Share));
    assert_eq!(create("c k SHARE nobody SHARE nobody"), Err(Refusal::Repeated { name: "SHARE" }));
    assert!(create("c").is_err() && create("c k TIMEOUT").is_err() && create("c k STATUS x").is_err());
    assert!(parse_settings(&words("c k")[..], "presence.alter", true).is_err());
    assert!(parse_settings(&words("c k FEED 0")[..], "presence.alter", true).is_ok());
}

/// Mostly words that mean something.
fn argument() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static str> =
        "SESSION SHARE STATUS DATA TIMEOUT GRACE RECENT UNIQUES FEED COUNTEVERY INTERVALOVER \
        DEFAULT EACH MEMBERS SESSIONS SOFT BADGE DAY DAYS WITH CURSOR COUNT ALL nobody friends everyone 0 1 100 400 \
        20260101 -5 u s1"
            .split_whitespace()
            .collect();
    prop_oneof![
        6 => prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => "[0-9+-]{0,25}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_at_all(args in prop::collection::vec(argument(), 0..14), max_data in 0..1_025_u16) {
        let owned: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
        let lower: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let args = &args[..];
        if let Ok(beat) = BeatRequest::parse(args, max_data) {
            prop_assert!((1..=256).contains(&beat.member.len()) && beat.session.len() <= 128);
            let with = beat.attributes;
            prop_assert!(with.status.is_none_or(|text| text.len() <= 64 && std::str::from_utf8(text).is_ok()));
            prop_assert!(with.data.is_none_or(|data| data.len() <= usize::from(max_data)));
            prop_assert!(with.timeout.is_none_or(|ms| (100..=86_400_000).contains(&ms)));
            prop_assert!(with.grace.is_none_or(|ms| ms <= 86_400_000));
            // Names of options are known in any case.
            let again = BeatRequest::parse(&lower[..], max_data).map(|beat| beat.attributes);
            prop_assert_eq!(again.map(|a| (a.timeout, a.grace, a.share)), Ok((with.timeout, with.grace, with.share)));
        }
        if let Ok(batch) = BatchRequest::parse(args) {
            prop_assert!((1..=MAX_BATCH).contains(&batch.items.len()));
            prop_assert!(batch.items.iter().all(|(member, session)| !member.is_empty() && session.len() <= 128));
        }
        if let Ok(unique) = UniqueRequest::parse(args) {
            prop_assert!((1..=400).contains(&unique.days) && unique.with.is_none_or(|first| first < args.len()));
        }
        if let Ok((_, first)) = parse_friends(args) {
            prop_assert!(first == 3 && args.len() > first);
        }
        if let Ok(page) = parse_members(args) {
            prop_assert!((1..=1_000).contains(&page.count));
        }
        prop_assert_eq!(parse_settings(args, "c", false).is_ok(), parse_settings(&lower[..], "c", false).is_ok());
        for error in [
            ByeRequest::parse(args).err(),
            parse_share(args).err(),
            parse_count(args).err(),
            parse_member(args, "c", 0).err(),
            parse_settings(args, "c", true).err(),
        ].into_iter().flatten() {
            // One line, and nothing in it that came from a client.
            let line = error.to_string();
            prop_assert!(line.starts_with("ERR ") && line.is_ascii() && !line.contains(['\r', '\n']), "{}", line);
        }
    }
}
