"""What the commands do, one contract sentence at a time."""

import datetime
import random
import time

import pytest

from harness import Err, Watcher
from support import QUICK, T_AND_G, check_sums, fields, member, names, pages, room_info, wait_until


@pytest.fixture(autouse=True)
def sums(server):
    yield
    check_sums(server)


def beat(client, id, *options, room="r"):
    return client("PRESENCE.BEAT", room, id, *options)


def session(client, id, name, *options, room="r"):
    return client("PRESENCE.BEAT", room, id, "SESSION", name, *options)


def bye(client, id, *options, room="r"):
    return client("PRESENCE.BYE", room, id, *options)


def refused(client, *command):
    """The text of the error that the command must be."""
    reply = client.call(*command)
    assert isinstance(reply, Err), reply
    return str(reply)


# -- beats and goodbyes ---------------------------------------------------------------------------------------------


def test_a_beat_brings_and_renews(client, watcher):
    assert [beat(client, "asha"), beat(client, "asha"), session(client, "asha", "phone")] == [1, 0, 0]
    assert client("PRESENCE.COUNT", "r") == 1 and client("PRESENCE.COUNT", "r", "SESSIONS") == 2
    watcher.sync()
    assert watcher.kinds() == ["online"]


def test_only_the_last_session_takes_the_member_away(client, watcher):
    for name in ("s1", "s2", "s3"):
        session(client, "asha", name)
    replies = [bye(client, "asha", "SESSION", name) for name in ("s1", "s2", "s3")]
    assert replies == [0, 0, 1]
    watcher.sync()
    assert watcher.kinds() == ["online", "offline"]


def test_a_goodbye_to_all_buries_every_named_session(client):
    beat(client, "asha")
    session(client, "asha", "s1"), session(client, "asha", "s2")
    assert bye(client, "asha") == 1 and bye(client, "asha") == 0
    assert session(client, "asha", "s1") == -1 and session(client, "asha", "s2") == -1
    assert client("PRESENCE.COUNT", "r") == 0 and member(client, "r", "asha") is None
    assert beat(client, "asha") == 1, "the unnamed session is never buried"
    assert session(client, "asha", "s1") == -1, "the member's return digs nobody up"
    assert session(client, "asha", "s3") == 0


def test_a_burial_lasts_timeout_and_grace_and_refusals_do_not_prolong_it(client, watcher):
    client("PRESENCE.CREATE", "r", *QUICK)
    session(client, "asha", "s1")
    bye(client, "asha")
    buried = watcher.wait("offline").t
    wait_until(lambda: session(client, "asha", "s1") == 1, timeout=T_AND_G + 5)
    # The burial began before its event arrived; a little is left for that.
    assert time.monotonic() >= buried + T_AND_G - 0.05
    watcher.sync()
    assert watcher.kinds() == ["online", "offline", "online"]


def test_a_goodbye_of_a_session_that_is_not_there(client):
    assert bye(client, "asha", "SESSION", "s1") == 0 and client("EXISTS", "r") == 0
    session(client, "asha", "s1")
    assert bye(client, "asha", "SESSION", "s2") == 0
    assert session(client, "asha", "s2") == -1, "its hello was overtaken"
    assert bye(client, "bela", "SESSION", "s1") == 0 and session(client, "bela", "s1") == 1


def test_soft_waits_for_the_grace_and_buries_nobody(client, watcher):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 60000, "GRACE", 300)
    session(client, "asha", "s1")
    assert bye(client, "asha", "SESSION", "s1", "SOFT") == 0
    soft = watcher.wait("grace").t
    assert member(client, "r", "asha")["state"] == b"grace"
    assert session(client, "asha", "s1") == 0
    watcher.wait("back")
    assert bye(client, "asha", "SOFT") == 0
    assert watcher.wait("offline").t >= soft + 0.3 - 0.05
    assert watcher.kinds() == ["online", "grace", "back", "grace", "offline"]


def test_soft_never_prolongs(client, watcher):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 200, "GRACE", 1000)
    beat(client, "asha")
    online = watcher.wait("online").t
    watcher.wait("grace")
    watcher.hold_until(online + 0.9)
    assert bye(client, "asha", "SOFT") == 0
    # Due at 1200 as without SOFT; with a fresh grace it would be 1900.
    assert online + 1.15 <= watcher.wait("offline").t < online + 1.8


def test_the_remaining_session_keeps_its_own_grace(client, watcher):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 200, "GRACE", 400)
    session(client, "asha", "s1")
    online = watcher.wait("online").t
    session(client, "asha", "s2", "TIMEOUT", 60000)
    watcher.hold_until(online + 0.3)
    assert bye(client, "asha", "SESSION", "s2") == 0, "s1 is still waited for"
    assert watcher.wait("offline").t >= online + 0.55
    assert watcher.kinds() == ["online", "grace", "offline"]


def test_mbeat_is_all_or_nothing_when_malformed(client):
    beat(client, "asha")
    for items in (["MEMBERS", "bela", ""], ["SESSIONS", "bela", "s", "asha", "x" * 129], ["SESSIONS", "bela"]):
        refused(client, "PRESENCE.MBEAT", "r", *items)
    refused(client, "PRESENCE.MBEAT", "r", "MEMBERS", *range(4097))
    assert names(client, "r") == [b"asha"] and client("PRESENCE.UNIQUE", "r") == 1
    assert client("PRESENCE.MBEAT", "r", "MEMBERS", *range(4096)) == 4096
    assert client("PRESENCE.COUNT", "r") == 4097


def test_a_batch_in_which_some_come_renews_the_others(client):
    """Those who come may move others in the room's memory while the batch goes on."""
    present = [f"m{n}" for n in range(0, 3000, 3)]
    assert client("PRESENCE.MBEAT", "r", "MEMBERS", *present) == len(present)
    batch = [f"m{n}" for n in range(3000)] + ["m1", "m3", "twice", "twice"]
    random.Random(5).shuffle(batch)
    seen, expected = set(present), []
    for member in batch:
        expected.append(int(member not in seen))
        seen.add(member)
    assert client("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", *batch) == expected
    assert client("PRESENCE.COUNT", "r") == 3001
    assert client("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", *batch) == [0] * len(batch)


def test_mbeat_each_says_what_became_of_every_item(client):
    session(client, "asha", "s1"), bye(client, "asha")
    assert client("PRESENCE.MBEAT", "r", "EACH", "SESSIONS", "asha", "s1", "bela", "s1", "bela", "s1") == [-1, 1, 0]
    client("CONFIG", "SET", "presence.max-members", 2)
    assert client("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", "bela", "chen", "dana", "chen") == [0, 1, -2, 0]
    assert client("PRESENCE.MBEAT", "r", "MEMBERS", "emil", "chen") == 0
    assert sorted(names(client, "r")) == [b"bela", b"chen"]


# -- what is shown --------------------------------------------------------------------------------------------------


def test_the_session_that_changed_last_is_shown(client, watcher):
    session(client, "asha", "s1", "STATUS", "away", "DATA", b"\0\xff")
    session(client, "asha", "s2", "STATUS", "typing")
    session(client, "asha", "s1")
    view = member(client, "r", "asha")
    assert (view["status"], view["data"]) == (b"typing", b"")
    assert view["sessions"][b"s1"]["status"] == b"away" and view["sessions"][b"s1"]["data"] == b"\0\xff"
    assert bye(client, "asha", "SESSION", "s2") == 0
    view = member(client, "r", "asha")
    assert (view["status"], view["data"]) == (b"away", b"\0\xff")
    watcher.sync()
    assert watcher.kinds() == ["online", "update", "update"]


def test_a_repeat_is_no_change(client, watcher):
    for _ in range(3):
        session(client, "asha", "s1", "STATUS", "away", "DATA", "x", "SHARE", "friends")
        beat(client, "asha", "SESSION", "s1")
    seq = client("PRESENCE.MEMBERS", "r")[2]
    since = member(client, "r", "asha")["since"]
    assert seq == 1
    session(client, "asha", "s1", "STATUS", "back", "DATA", "y")
    assert client("PRESENCE.MEMBERS", "r")[2] == 2 and member(client, "r", "asha")["since"] == since
    watcher.sync()
    assert watcher.kinds() == ["online", "update"]


def test_timeout_and_grace_stick_to_their_session(client):
    session(client, "asha", "s1", "TIMEOUT", 1234, "GRACE", 0)
    session(client, "asha", "s1"), session(client, "asha", "s2")
    sessions = member(client, "r", "asha")["sessions"]
    assert (sessions[b"s1"]["timeout"], sessions[b"s1"]["grace"]) == (1234, 0)
    assert (sessions[b"s2"]["timeout"], sessions[b"s2"]["grace"]) == (30000, 15000)


def test_times_are_known_or_absent(client):
    now = datetime.datetime.now().timestamp() * 1000
    session(client, "asha", "s1", "SHARE", "friends")
    view = member(client, "r", "asha")
    assert abs(view["since"] - now) < 60_000 and 0 <= view["idle"] < 10_000
    bye(client, "asha")
    recent = member(client, "r", "asha")
    assert recent["state"] == b"recent" and recent["sessions"] == {} and recent["since"] == view["since"]
    beat(client, "bela"), bye(client, "bela")
    assert member(client, "r", "bela") is None, "who shares with nobody is never remembered"


# -- who sees whom --------------------------------------------------------------------------------------------------


def test_friends_see_what_is_shared(client):
    beat(client, "none"), beat(client, "some", "SHARE", "friends"), beat(client, "all", "SHARE", "everyone")
    beat(client, "left", "SHARE", "friends"), bye(client, "left")
    beat(client, "hidden"), bye(client, "hidden")
    asked = ["none", "some", "all", "left", "hidden", "unknown", "some"]
    told = [b"offline", b"online", b"online", b"recent", b"offline", b"offline", b"online"]
    assert client("PRESENCE.FRIENDS", "r", "viewer", *asked) == told
    client("SADD", "set", *asked)
    three = client("PRESENCE.FRIENDSFROM", "r", "viewer", "set")
    assert fields(three) == {"some": b"online", "all": b"online", "left": b"recent"}
    assert client("PRESENCE.FRIENDS", "r", "none", "none", "some") == [b"online", b"online"], "the viewer's own state"
    assert names(client, "r", "COUNT", 10) == [b"all"]
    assert client("PRESENCE.COUNT", "r") == 3, "the hidden count"


def test_taking_a_right_away_acts_at_once(client):
    beat(client, "asha", "SHARE", "friends")
    client("SADD", "set", "asha")
    assert client("PRESENCE.FRIENDSFROM", "r", "v", "set") == [b"asha", b"online"]
    client("SREM", "set", "asha")
    assert client("PRESENCE.FRIENDSFROM", "r", "v", "set") == []
    assert client("PRESENCE.SHARE", "r", "asha", "nobody") == 1 and client("PRESENCE.SHARE", "r", "asha", "nobody") == 0
    assert client("PRESENCE.FRIENDS", "r", "v", "asha", "unknown") == [b"recent", b"offline"], "hiding is a goodbye"
    assert client("PRESENCE.SHARE", "r", "unknown", "friends") == 0


def test_hiding_shows_recent_and_then_nothing(client):
    client("PRESENCE.CREATE", "r", "RECENT", 300)
    beat(client, "asha", "SHARE", "everyone")
    client("PRESENCE.SHARE", "r", "asha", "nobody")
    wait_until(lambda: client("PRESENCE.FRIENDS", "r", "v", "asha") == [b"offline"])
    assert client("PRESENCE.COUNT", "r") == 1 and names(client, "r", "COUNT", 10) == []
    assert bye(client, "asha") == 1
    assert client("PRESENCE.FRIENDS", "r", "v", "asha") == [b"offline"], "a later going shows nothing"


def test_reciprocal_shows_nobody_to_those_who_hide(client):
    beat(client, "asha", "SHARE", "everyone"), beat(client, "left", "SHARE", "friends"), bye(client, "left")
    beat(client, "viewer")
    client("SADD", "set", "asha", "left")
    client("CONFIG", "SET", "presence.reciprocal", "yes")
    asked = ("PRESENCE.FRIENDS", "r", "viewer", "asha", "left", "viewer")
    hidden, seen = [b"offline", b"offline", b"online"], [b"online", b"recent", b"online"]
    assert client(*asked) == hidden and client("PRESENCE.FRIENDSFROM", "r", "viewer", "set") == []
    client("PRESENCE.SHARE", "r", "viewer", "friends")
    assert client(*asked) == seen and len(client("PRESENCE.FRIENDSFROM", "r", "viewer", "set")) == 4
    bye(client, "viewer")
    assert client(*asked)[:2] == hidden[:2], "who is absent shares nothing"


def test_friends_have_a_limit(client):
    assert client("PRESENCE.FRIENDS", "r", "v", *range(5000)) == [b"offline"] * 5000
    assert "5000" in refused(client, "PRESENCE.FRIENDS", "r", "v", *range(5001))
    client("SADD", "set", *range(10_000))
    assert client("PRESENCE.FRIENDSFROM", "r", "v", "set") == []
    client("SADD", "set", "one more", "x" * 300)
    assert "10000" in refused(client, "PRESENCE.FRIENDSFROM", "r", "v", "set")


# -- numbers --------------------------------------------------------------------------------------------------------


def test_counts_and_badges(client):
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(999))
    assert client("PRESENCE.COUNT", "r", "BADGE") == b"999"
    client("PRESENCE.BEAT", "r", "one more", "SESSION", "a"), client("PRESENCE.BEAT", "r", "one more", "SESSION", "b")
    assert client("PRESENCE.COUNT", "r", "BADGE") == b"1k" and client("PRESENCE.COUNT", "r", "SESSIONS") == 1001
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(1000, 2341))
    assert client("PRESENCE.COUNT", "r") == 2341 and client("PRESENCE.COUNT", "r", "BADGE") == b"2.3k"
    assert client("PRESENCE.MCOUNT", "r", "none", "r") == [2341, 0, 2341]


def test_uniques_count_each_member_once(client):
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    for room in ("a", "b"):
        client("PRESENCE.MBEAT", room, "MEMBERS", *range(100 if room == "a" else 50, 150))
        client("PRESENCE.MBEAT", room, "MEMBERS", *range(100 if room == "a" else 50, 150))
        client("PRESENCE.BYE", room, 120)
    assert client("PRESENCE.UNIQUE", "a") == 50 and client("PRESENCE.UNIQUE", "b", "DAY", today) == 100
    assert client("PRESENCE.UNIQUE", "a", "DAYS", 2, "WITH", "b", "missing") == 100
    assert client("PRESENCE.UNIQUE", "missing") == 0
    before = client("DEBUG", "DIGEST")
    for wrong in (("DAY", "20200101"), ("DAYS", 3), ("DAY", "29990101"), ("DAY", "0"), ("DAYS", 0)):
        refused(client, "PRESENCE.UNIQUE", "a", *wrong)
    assert "2 days" in refused(client, "PRESENCE.UNIQUE", "missing", "DAYS", 3)
    assert client("DEBUG", "DIGEST") == before


def test_a_large_crowd_is_estimated_within_two_percent(client):
    for start in range(0, 40_000, 4000):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *range(start, start + 4000))
    assert abs(client("PRESENCE.UNIQUE", "r") - 40_000) < 1_000
    assert client("PRESENCE.COUNT", "r") == 40_000


# -- lists ----------------------------------------------------------------------------------------------------------


def test_a_member_present_throughout_is_listed_exactly_once(client):
    client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"stays{n}" for n in range(800)), *(f"leaves{n}" for n in range(400)))
    cursor, seen, page = b"0", [], 0
    while True:
        cursor, _, _, entries = client("PRESENCE.MEMBERS", "r", "CURSOR", cursor, "COUNT", 50, "ALL")
        seen += [fields(entry)["member"] for entry in entries]
        assert len(entries) <= 50
        for n in range(40 * page, 40 * page + 40):
            client("PRESENCE.BYE", "r", f"leaves{n}"), client("PRESENCE.BEAT", "r", f"comes{n}")
        page += 1
        if cursor == b"0":
            break
    assert len(seen) == len(set(seen)), "nobody twice"
    assert {f"stays{n}".encode() for n in range(800)} <= set(seen)


def test_a_list_shows_what_its_view_may_see(client):
    beat(client, "all", "SHARE", "everyone", "STATUS", "here", "DATA", "x"), beat(client, "some", "SHARE", "friends")
    [shown] = pages(client, "r")[0]
    assert shown == {"member": b"all", "status": b"here", "data": b"x"}
    everybody = {entry["member"]: entry for entry in pages(client, "r", "ALL")[0]}
    assert everybody[b"all"]["state"] == b"online" and everybody[b"some"]["share"] == b"friends"
    cursor, epoch, seq, _ = client("PRESENCE.MEMBERS", "r")
    info = room_info(client, "r")
    assert cursor == b"0" and epoch == info["epoch"] and seq == info["seq"] == 2


def test_any_cursor_comes_to_an_end(client):
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(1000))
    for cursor in (1, 999, 1000, 2**31, 2**32, 2**63 - 1):
        assert len(client("PRESENCE.MEMBERS", "r", "CURSOR", cursor, "COUNT", 10000, "ALL")[3]) <= 1000
    for cursor in (2**64, "x", "", "1 ", "+1"):
        refused(client, "PRESENCE.MEMBERS", "r", "CURSOR", cursor)
    client("DEL", "r")
    assert client("PRESENCE.MEMBERS", "r", "CURSOR", 999)[0] == b"0"


# -- rooms ----------------------------------------------------------------------------------------------------------


def test_a_room_has_its_own_settings_until_they_are_given_back(client):
    own = {"timeout": 1000, "grace": 0, "recent": 7, "uniques": 3, "share": b"friends"}
    own |= {"feed": 50, "countevery": 0, "intervalover": 9}
    assert client("PRESENCE.CREATE", "r", *(word for pair in own.items() for word in pair)) == "OK"
    assert own.items() <= room_info(client, "r").items()
    beat(client, "asha")
    assert member(client, "r", "asha")["share"] == b"friends"
    client("PRESENCE.ALTER", "r", "grace", "5", "SHARE", "DEFAULT")
    assert room_info(client, "r").items() >= (own | {"grace": 5, "share": b"nobody"}).items()
    bye(client, "asha")
    assert client("EXISTS", "r") == 1, "a room with settings of its own stays"
    refused(client, "PRESENCE.CREATE", "r")
    assert refused(client, "PRESENCE.ALTER", "none", "TIMEOUT", 1000).startswith("NOROOM")


def test_giving_back_the_last_setting_of_an_empty_room_deletes_it(client, server):
    with Watcher(server, patterns=["__keyevent@*__:del"]) as deleted:
        client("PRESENCE.CREATE", "r", "TIMEOUT", 1000)
        client("PRESENCE.ALTER", "r", "TIMEOUT", "DEFAULT")
        deleted.sync()
        assert client("EXISTS", "r") == 0
        assert [event.name for event in deleted.events] == [b"r"]


def test_an_empty_room_is_deleted_with_one_event(client, server):
    client("CONFIG", "SET", "presence.uniques-days", 0)
    client("CONFIG", "SET", "presence.recent", 200)
    with Watcher(server, patterns=["__keyevent@*__:*"]) as events:
        beat(client, "asha"), bye(client, "asha")
        assert client("EXISTS", "r") == 0, "nobody present, recent, buried or counted"
        beat(client, "asha", "SHARE", "friends"), bye(client, "asha")
        assert client("EXISTS", "r") == 1, "asha is recent"
        wait_until(lambda: not client("EXISTS", "r"))
        session(client, "asha", "s1", "TIMEOUT", 100, "GRACE", 100), bye(client, "asha")
        assert client("EXISTS", "r") == 1, "s1 is buried"
        wait_until(lambda: not client("EXISTS", "r"))
        events.sync()
        assert events.kinds() == ["online", "offline", "del"] * 3


def test_rooms_are_made_by_beats_only_if_the_operator_wishes(client):
    client("CONFIG", "SET", "presence.auto-create", "no")
    assert refused(client, "PRESENCE.BEAT", "r", "asha").startswith("NOROOM")
    assert refused(client, "PRESENCE.MBEAT", "r", "EACH", "MEMBERS", "asha").startswith("NOROOM")
    assert client("EXISTS", "r") == 0
    client("PRESENCE.CREATE", "r")
    assert beat(client, "asha") == 1


# -- limits ---------------------------------------------------------------------------------------------------------


def test_a_full_room_admits_nobody_else(client):
    client("CONFIG", "SET", "presence.max-members", 20)
    for n in range(20):
        assert beat(client, n) == 1
    assert "20" in refused(client, "PRESENCE.BEAT", "r", "late") and client("PRESENCE.UNIQUE", "r") == 20
    assert beat(client, 0) == 0 and session(client, 0, "second") == 0, "who is present may stay and bring devices"
    bye(client, 7)
    assert beat(client, "late") == 1
    refused(client, "PRESENCE.BEAT", "r", "later")


def test_only_live_sessions_refuse_one_more(client):
    client("CONFIG", "SET", "presence.max-sessions", 3)
    session(client, "asha", "s1"), session(client, "asha", "s2"), session(client, "asha", "s3")
    assert "3" in refused(client, "PRESENCE.BEAT", "r", "asha", "SESSION", "s4")
    assert client("PRESENCE.MBEAT", "r", "EACH", "SESSIONS", "asha", "s4", "asha", "s1") == [-2, 0]
    bye(client, "asha", "SESSION", "s2", "SOFT")
    assert session(client, "asha", "s4") == 0, "the waiting one makes place"
    assert set(member(client, "r", "asha")["sessions"]) == {b"s1", b"s3", b"s4"}


def test_ids_and_values_at_their_limits(client):
    assert client("PRESENCE.BEAT", "r", "x" * 256, "SESSION", "s" * 128, "STATUS", "ä" * 32, "DATA", "d" * 1024) == 1
    for wrong in (
        ("x" * 257,),
        ("x" * 1_000_000,),
        ("a", "SESSION", "s" * 129),
        ("a", "STATUS", "s" * 65),
        ("a", "STATUS", b"\xc3"),
        ("a", "DATA", "d" * 1025),
        ("a", "TIMEOUT", 99),
        ("a", "GRACE", 86_400_001),
    ):
        refused(client, "PRESENCE.BEAT", "r", *wrong)
        refused(client, "PRESENCE.BEAT", "none", *wrong)
    client("CONFIG", "SET", "presence.max-data", 0)
    refused(client, "PRESENCE.BEAT", "r", "a", "DATA", "d")
    assert client("EXISTS", "none") == 0 and client("PRESENCE.COUNT", "r") == 1


def test_when_memory_is_short_the_present_stay(client, watcher):
    client("PRESENCE.CREATE", "r", *QUICK)
    beat(client, "asha", "STATUS", "away", "DATA", "data"), beat(client, "bela"), beat(client, "chen")
    client("CONFIG", "SET", "maxmemory", 1)
    for command in (("BEAT", "r", "dana"), ("BEAT", "new", "asha"), ("BEAT", "r", "asha", "DATA", "longer data")):
        assert refused(client, f"PRESENCE.{command[0]}", *command[1:]).startswith("OOM ")
    assert client("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", "asha", "dana") == [0, -2]
    assert client("PRESENCE.MBEAT", "new", "EACH", "MEMBERS", "asha") == [-2]
    assert beat(client, "asha", "STATUS", "away", "DATA", "data") == 0 and session(client, "asha", "new one") == 0
    assert bye(client, "bela") == 1
    # asha goes on for more than timeout and grace, chen falls silent.
    gone = watcher.wait("online", "r:chen").t + T_AND_G
    wait_until(lambda: beat(client, "asha") == 0 and watcher.of("offline", name="r:chen"), every=0.05)
    assert watcher.of("offline", name="r:chen")[0].t >= gone - 0.05
    assert client("EXISTS", "new") == 0
    client("CONFIG", "SET", "maxmemory", 0)
    assert watcher.of("offline", name="r:asha") == []
    assert beat(client, "dana") == 1


# -- a type like any other ------------------------------------------------------------------------------------------


def test_rooms_in_transactions_and_through_a_client_library(server):
    with server.redis() as redis:
        with redis.pipeline(transaction=True) as pipe:
            pipe.execute_command("PRESENCE.BEAT", "a", "asha")
            pipe.execute_command("PRESENCE.COUNT", "a")
            pipe.execute_command("PRESENCE.BYE", "a", "asha")
            pipe.execute_command("PRESENCE.COUNT", "a")
            assert pipe.execute() == [1, 1, 1, 0]
        assert redis.eval("return redis.call('PRESENCE.BEAT', KEYS[1], ARGV[1])", 1, "a", "bela") == 1
        assert redis.type("a") == b"presence1"


def test_a_multi_is_one_step_for_everybody(client):
    client("MULTI")
    client("PRESENCE.BEAT", "r", "guest", "SESSION", "s1"), client("PRESENCE.BYE", "r", "guest", "SESSION", "s1")
    client("PRESENCE.BEAT", "r", "user", "SESSION", "s1"), client("PRESENCE.BEAT", "r", "guest", "SESSION", "s1")
    assert client("EXEC") == [1, 1, 1, -1], "a session id belongs to its member alone"
