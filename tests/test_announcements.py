"""Messages on count, member and feed channels: what is told, once, in order, to whom; and what is told when a room goes."""

import json
import time

import pytest

from harness import Connection, Watcher
from support import QUICK, check_sums, fields, wait_until

EVERYTHING = ("presence.*",)
LIVE = ("FEED", 100, "COUNTEVERY", 200)


def channels(client, room, *member):
    reply = fields(client("PRESENCE.CHANNELS", room, *member))
    return {name: value.decode("utf-8", "backslashreplace") for name, value in reply.items()}


def told(watcher, channel):
    """The messages on a channel so far, parsed."""
    watcher.sync()
    return [json.loads(event.name) for event in watcher.of(channel)]


def events(messages):
    return [(event["event"], event["member"]) for message in messages for event in message.get("events", [])]


def wait_told(watcher, channel, predicate, timeout=10):
    watcher.wait_for(lambda event: event.kind == channel and predicate(json.loads(event.name)), timeout)


@pytest.fixture
def live(server):
    """A room with a feed, a client, and ears on everything."""
    client = server.client()
    client("PRESENCE.CREATE", "r", *QUICK, *LIVE)
    with Watcher(server, EVERYTHING) as watcher:
        yield client, watcher


# -- in the step of the change ----------------------------------------------------------------------------------------


def test_each_change_is_told_once_and_in_order(live, server):
    client, watcher = live
    names = channels(client, "r", "asha")
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "friends", "STATUS", "row 4")
    client("PRESENCE.BEAT", "r", "bo", "SHARE", "everyone")
    client("PRESENCE.BEAT", "r", "carl")
    client("PRESENCE.BYE", "r", "bo")
    watcher.wait(names["member"], count=2)
    wait_told(watcher, names["count"], lambda message: message["count"] == 0)
    asha = told(watcher, names["member"])
    assert [(m["event"], m.get("status"), m.get("reason")) for m in asha] == [
        ("online", "row 4", None),
        ("offline", None, "timeout"),
    ]
    feed = told(watcher, names["feed"])
    assert events(feed) == [("online", "bo"), ("offline", "bo")]
    assert [m["from"] for m in feed] == [1] + [m["seq"] + 1 for m in feed[:-1]]
    assert feed[-1]["seq"] == client("PRESENCE.MEMBERS", "r")[2] == 6
    assert {m["epoch"] for m in feed + asha} == {client("PRESENCE.MEMBERS", "r")[1].decode()}
    counts = [m["count"] for m in told(watcher, names["count"])]
    assert counts[0] == 1 and counts[-1] == 0 and all(a != b for a, b in zip(counts, counts[1:]))
    info = server.info()
    assert (info["presence_messages_member"], info["presence_messages_feed"]) == ("4", str(len(feed)))
    assert info["presence_messages_count"] == str(len(counts))
    check_sums(server)


def test_an_unchanged_repeat_tells_and_replicates_nothing(live, server):
    client, watcher = live
    beat = ("PRESENCE.BEAT", "r", "asha", "SESSION", "s", "SHARE", "everyone", "STATUS", "here", "DATA", "d")
    client("PRESENCE.BEAT", "r", "asha", "SESSION", "other", "TIMEOUT", 60000)
    client(*beat, "TIMEOUT", 60000)
    watcher.wait_for(lambda event: event.kind == channels(client, "r")["count"])
    watcher.sync()
    seen, seq = len(watcher.events), client("PRESENCE.MEMBERS", "r")[2]
    offset, dirty = (server.info(s)[f] for s, f in (("replication", "master_repl_offset"), ("persistence", "rdb_changes_since_last_save")))
    for _ in range(100):
        assert client(*beat, "TIMEOUT", 60000) == 0
    watcher.hold_until(time.monotonic() + 0.4)
    assert len(watcher.events) == seen and client("PRESENCE.MEMBERS", "r")[2] == seq
    assert server.info("replication")["master_repl_offset"] == offset
    assert server.info("persistence")["rdb_changes_since_last_save"] == dirty
    # An update is one message, never a leave and a join.
    client(*beat[:-3], "busy", "DATA", "d")
    assert [m["event"] for m in told(watcher, channels(client, "r", "asha")["member"])][-1] == "update"
    assert events(told(watcher, channels(client, "r")["feed"]))[-1] == ("update", "asha")
    assert len(watcher.events) == seen + 2


def test_messages_are_in_the_order_of_the_state_within_transactions_and_scripts(live):
    client, watcher = live
    client("MULTI")
    for n in range(20):
        client("PRESENCE.BEAT", "r", f"m{n}", "SHARE", "everyone")
        client("PRESENCE.BYE", "r", f"m{n}")
    client("EXEC")
    client("EVAL", "for n = 1, 20 do redis.call('PRESENCE.BEAT', KEYS[1], 'l' .. n, 'SHARE', 'everyone') end", 1, "r")
    feed = told(watcher, channels(client, "r")["feed"])
    seqs = [event["seq"] for message in feed for event in message["events"]]
    assert seqs == list(range(1, 61))
    assert events(feed)[:2] == [("online", "m0"), ("offline", "m0")] and events(feed)[-1] == ("online", "l20")


def test_bytes_that_are_no_text(live):
    client, watcher = live
    client("PRESENCE.BEAT", "r", b"\xff\n\0", "SHARE", "everyone", "DATA", b"\x80")
    client("PRESENCE.BEAT", "r", 'q"\\\u2028', "SHARE", "everyone", "STATUS", "\U0001f642")
    [first], [second] = (m["events"] for m in told(watcher, channels(client, "r")["feed"]))
    assert (first["member64"], first["data64"], "member" in first) == ("/woA", "gA==", False)
    assert (second["member"], second["status"]) == ('q"\\\u2028', "\U0001f642")


def test_the_number_of_a_database_is_in_the_names(server):
    client = server.client(db=3)
    with Watcher(server, EVERYTHING) as watcher:
        client("PRESENCE.BEAT", "r", "asha", "SHARE", "friends")
        names = channels(client, "r", "asha")
        assert names["count"] == "presence.count:3:{r}" and names["member"] == "presence.member:3:{r}:asha"
        watcher.wait(names["count"]), watcher.wait(names["member"])
        assert client("PRESENCE.COUNT", "r") == 1, "still in its database"


def test_sharded_channels_where_that_is_asked_for(server):
    client = server.client()
    client("CONFIG", "SET", "presence.pubsub", "sharded")
    names = channels(client, "r")
    assert names["verb"] == "SSUBSCRIBE"
    with Watcher(server, EVERYTHING, shard_channels=[names["count"]]) as watcher:
        client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
        watcher.wait(names["count"])
        assert [event.kind for event in watcher.events] == [names["count"]], "once, and not as a classic message"
        client("CONFIG", "SET", "presence.pubsub", "auto")
        assert channels(client, "r")["verb"] == "SUBSCRIBE"


# -- counts -----------------------------------------------------------------------------------------------------------


def test_many_changes_are_few_counts(live):
    client, watcher = live
    client("PRESENCE.ALTER", "r", "COUNTEVERY", 300, "TIMEOUT", 60000, "FEED", 0)
    count = channels(client, "r")["count"]
    started = time.monotonic()
    number = 0
    while time.monotonic() < started + 1.5:
        number += 1
        client("PRESENCE.BEAT", "r", f"m{number}")
    wait_told(watcher, count, lambda message: message["count"] == number)
    took = time.monotonic() - started
    counts = told(watcher, count)
    assert 2 <= len(counts) <= took / 0.3 + 2 and counts[0] == {"count": 1, "badge": "1"}
    assert counts[-1]["badge"] == client("PRESENCE.COUNT", "r", "BADGE").decode()
    seen = len(counts)
    watcher.hold_until(time.monotonic() + 0.7)
    assert len(told(watcher, count)) == seen, "a number that did not change is not repeated"


def test_counts_of_the_whole_node_can_be_changed_at_once(server):
    client = server.client()
    with Watcher(server, EVERYTHING) as watcher:
        client("CONFIG", "SET", "presence.count-every", 86400000)
        client("PRESENCE.MBEAT", "r", "MEMBERS", "a", "b")
        client("PRESENCE.MBEAT", "r", "MEMBERS", "c")
        client("CONFIG", "SET", "presence.count-every", 100)
        wait_told(watcher, channels(client, "r")["count"], lambda message: message["count"] == 3)


# -- rooms that go ----------------------------------------------------------------------------------------------------

GONE = {"count": 0, "badge": "0", "gone": True}


def evict(client):
    client("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    client("CONFIG", "SET", "maxmemory", 1)
    wait_until(lambda: client.call("SET", "x", "y") and client("EXISTS", "r") == 0)
    client("CONFIG", "SET", "maxmemory", 0)


REMOVALS = {
    "DEL": lambda client: client("DEL", "r"),
    "UNLINK": lambda client: client("UNLINK", "r"),
    "EXPIRE": lambda client: client("PEXPIRE", "r", 30),
    "SET": lambda client: client("SET", "r", "x"),
    "FLUSHDB": lambda client: client("FLUSHDB", "SYNC"),
    "FLUSHALL ASYNC": lambda client: client("FLUSHALL", "ASYNC"),
    "RENAME": lambda client: client("RENAME", "r", "elsewhere"),
    "MOVE": lambda client: client("MOVE", "r", 1),
    "SWAPDB": lambda client: client("SWAPDB", 0, 1),
    "eviction": evict,
}


@pytest.mark.parametrize("how", REMOVALS)
def test_a_room_that_is_removed_is_gone_for_its_screens(live, server, how):
    client, watcher = live
    client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"m{n}" for n in range(500)))
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
    epoch = client("PRESENCE.MEMBERS", "r")[1].decode()
    names = channels(client, "r", "asha")
    REMOVALS[how](client)
    wait_told(watcher, names["feed"], lambda message: message.get("gone"))
    watcher.hold_until(time.monotonic() + 0.3)
    assert told(watcher, names["count"])[-1] == GONE and told(watcher, names["feed"])[-1] == {"epoch": epoch, "gone": True}
    assert [m["event"] for m in told(watcher, names["member"])] == ["online"], "no member is announced"
    assert sum(m == GONE for m in told(watcher, names["count"])) == 1
    if how in ("RENAME", "MOVE", "SWAPDB"):
        # It lives on: whoever watches the new name is told so.
        elsewhere = {"RENAME": (0, "elsewhere")}.get(how, (1, "r"))
        with Connection(server.socket, db=elsewhere[0]) as there:
            new = channels(there, elsewhere[1])
            wait_told(watcher, new["feed"], lambda message: message.get("resync") and message["epoch"] == epoch)
            wait_told(watcher, new["count"], lambda message: message["count"] == there("PRESENCE.COUNT", elsewhere[1]))
            there("DEL", elsewhere[1])
    client("DEL", "r")
    if how != "SWAPDB":
        client("PRESENCE.BEAT", "r", "bo")
        assert client("PRESENCE.MEMBERS", "r")[1].decode() != epoch
        wait_told(watcher, names["count"], lambda message: message == {"count": 1, "badge": "1"})
    check_sums(server)


def restore(client):
    payload = client("DUMP", "r")
    client("RESTORE", "r", 0, payload, "REPLACE")


REPLACEMENTS = {
    "RESTORE REPLACE": restore,
    "COPY REPLACE": lambda client: client("COPY", "other", "r", "REPLACE"),
    "RENAME onto it": lambda client: client("RENAME", "other", "r"),
    "DEL and beat at once": lambda client: [client("MULTI"), client("DEL", "r"), client("PRESENCE.BEAT", "r", "z"), client("EXEC")],
}


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_a_name_that_another_room_holds_is_not_gone(live, server, how):
    client, watcher = live
    client("PRESENCE.CREATE", "other", *LIVE, "TIMEOUT", 60000)
    for room in ("r", "other"):
        client("PRESENCE.MBEAT", room, "MEMBERS", "a", "b", *([] if room == "r" else ["c"]))
    names = channels(client, "r")
    before = client("PRESENCE.MEMBERS", "r")[1]
    REPLACEMENTS[how](client)
    epoch, count = client("PRESENCE.MEMBERS", "r")[1], client("PRESENCE.COUNT", "r")
    assert epoch != before
    if "beat" not in how:
        # Whoever watched the name learns that they must start over, and the count.
        wait_told(watcher, names["feed"], lambda m: m.get("resync") and m["epoch"] == epoch.decode())
    wait_told(watcher, names["count"], lambda message: message["count"] == count)
    watcher.hold_until(time.monotonic() + 0.2)
    assert not any(m.get("gone") for m in told(watcher, names["count"]) + told(watcher, names["feed"]))


@pytest.mark.parametrize("how", ["the last goes", "DEBUG RELOAD", "restart"])
def test_what_is_not_a_removal_is_silent(live, server, how):
    client, watcher = live
    if how == "the last goes":
        client("PRESENCE.BEAT", "q", "asha", "TIMEOUT", 200, "GRACE", 100)
        client("PRESENCE.ALTER", "q", "UNIQUES", 0)
        client("PRESENCE.ALTER", "q", "UNIQUES", "DEFAULT")
        client("CONFIG", "SET", "presence.uniques-days", 0)
        wait_until(lambda: client("EXISTS", "q") == 0)
        watcher.hold_until(time.monotonic() + 0.3)
        assert told(watcher, channels(client, "q")["count"]) == [{"count": 1, "badge": "1"}, {"count": 0, "badge": "0"}]
        return
    client("PRESENCE.ALTER", "r", "TIMEOUT", 60000)
    client("PRESENCE.MBEAT", "r", "MEMBERS", "a", "b")
    if how == "restart":
        client("SAVE")
        server.restart()
        client = server.client()
        with Watcher(server, EVERYTHING) as after:
            after.hold_until(time.monotonic() + 0.7)
            assert after.events == []
            client("PRESENCE.BEAT", "r", "c")
            after.wait(channels(client, "r")["feed"])
        return
    wait_told(watcher, channels(client, "r")["count"], lambda message: message["count"] == 2)
    watcher.clear()
    client("DEBUG", "RELOAD")
    watcher.hold_until(time.monotonic() + 0.7)
    assert watcher.events == []


# -- replicas ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(make_server):
    primary = make_server(port=0, config={"repl-ping-replica-period": "3600"})
    replica = make_server(port=0, config={"replicaof": f"127.0.0.1 {primary.port}"})
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30)
    return primary, replica


def test_a_replica_tells_its_own_subscribers_the_same(pair):
    primary, replica = pair
    client = primary.client()
    client("PRESENCE.CREATE", "r", *QUICK, *LIVE, "INTERVALOVER", 40)
    client("PRESENCE.CREATE", "gone", *LIVE)
    with Watcher(primary, EVERYTHING) as here, Watcher(replica, EVERYTHING) as there:
        for n in range(30):
            client("PRESENCE.BEAT", "r", f"m{n}", "SHARE", ("nobody", "friends", "everyone")[n % 3], "STATUS", f"s{n}")
        client("PRESENCE.BEAT", "r", "m2", "STATUS", "other")
        client("PRESENCE.BYE", "r", "m5")
        client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"x{n}" for n in range(30)))
        client("PRESENCE.BEAT", "gone", "a")
        client("DEL", "gone")
        names = channels(client, "r")
        for watcher in (here, there):
            wait_told(watcher, names["count"], lambda message: message["count"] == 0, timeout=20)
            wait_told(watcher, channels(client, "gone")["feed"], lambda message: message.get("gone"))
            watcher.hold_until(time.monotonic() + 0.3)
        members = [[(e.kind, e.name) for e in w.events if e.kind.startswith("presence.member:")] for w in (here, there)]
        assert members[0] == members[1] and len(members[0]) > 30
        for channel in (names["feed"], channels(client, "gone")["feed"]):
            named = [[m for m in told(w, channel) if m.get("mode") != "interval"] for w in (here, there)]
            # Where an interval ended may differ: each node has its own moments. What is named does not.
            assert [events([m]) for m in named[0]] == [events([m]) for m in named[1]]
            for watcher in (here, there):
                feed = [m for m in told(watcher, channel) if "seq" in m]
                assert [m["from"] for m in feed] == [1] + [m["seq"] + 1 for m in feed[:-1]], "no gap"
        counts = [[m["count"] for m in told(w, names["count"])] for w in (here, there)]
        assert all(c[0] == 1 and c[-1] == 0 for c in counts), counts
        assert len([m for m in told(there, channels(client, "gone")["count"]) if m == GONE]) == 1
        # Its history is the primary's.
        epoch, seq = client("PRESENCE.MEMBERS", "r")[1:3]
        assert replica.client()("PRESENCE.MEMBERS", "r")[1:3] == [epoch, seq]


@pytest.mark.parametrize("load", ["disabled", "swapdb"])
def test_a_full_sync_tells_counts_and_new_starts_but_nothing_gone(pair, load):
    primary, replica = pair
    client = primary.client()
    client("CONFIG", "SET", "repl-diskless-sync", "yes", "repl-diskless-sync-delay", 0)
    replica.client()("CONFIG", "SET", "repl-diskless-load", load)
    client("PRESENCE.CREATE", "r", "TIMEOUT", 60000, *LIVE)
    client("PRESENCE.MBEAT", "r", "MEMBERS", "a", "b")
    client("PRESENCE.BEAT", "away", "x")
    wait_until(lambda: replica.client()("PRESENCE.COUNT", "r") == 2 and replica.client()("EXISTS", "away"))
    names = channels(client, "r")
    with Watcher(replica, EVERYTHING) as watcher:
        replica.client()("REPLICAOF", "NO", "ONE")
        client("PRESENCE.BEAT", "r", "c")
        client("DEL", "away")
        replica.client()("PRESENCE.BEAT", "r", "own")  # so that it must sync in full
        replica.client()("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30)
        epoch = client("PRESENCE.MEMBERS", "r")[1].decode()
        wait_told(watcher, names["feed"], lambda m: m.get("resync") and m["epoch"] == epoch)
        watcher.hold_until(time.monotonic() + 0.5)
        assert told(watcher, names["count"])[-1]["count"] == 3
        assert not any("gone" in json.loads(event.name) for event in watcher.events)


def test_a_promotion_tells_readers_to_start_over(pair):
    primary, replica = pair
    client = primary.client()
    client("PRESENCE.CREATE", "r", "TIMEOUT", 60000, *LIVE)
    client("PRESENCE.MBEAT", "r", "MEMBERS", "a", "b")
    there = replica.client()
    wait_until(lambda: there("PRESENCE.COUNT", "r") == 2)
    names = channels(there, "r")
    with Watcher(replica, EVERYTHING) as watcher:
        there("REPLICAOF", "NO", "ONE")
        epoch = there("PRESENCE.MEMBERS", "r")[1]
        assert epoch != client("PRESENCE.MEMBERS", "r")[1]
        wait_told(watcher, names["feed"], lambda m: m.get("resync") and m["epoch"] == epoch.decode())
        wait_told(watcher, names["count"], lambda m: m["count"] == 2)
        watcher.hold_until(time.monotonic() + 0.5)
        assert len(told(watcher, names["feed"])) == 1


# -- CHANGES ----------------------------------------------------------------------------------------------------------


def test_changes_tell_what_a_reader_missed(live):
    client, watcher = live
    client("PRESENCE.ALTER", "r", "TIMEOUT", 60000)
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
    epoch, seq = client("PRESENCE.MEMBERS", "r")[1:3]
    client("PRESENCE.BEAT", "r", "asha", "STATUS", "away", "DATA", b"\xff")
    client("PRESENCE.BEAT", "r", "hidden")
    client("PRESENCE.SHARE", "r", "asha", "friends")
    reply = fields(client("PRESENCE.CHANGES", "r", epoch, seq))
    assert (reply["epoch"], reply["seq"]) == (epoch, seq + 3)
    assert [fields(event) for event in reply["events"]] == [
        {"event": b"update", "member": b"asha", "seq": 2, "status": b"away", "data": b"\xff"},
        {"event": b"offline", "member": b"asha", "seq": 4, "reason": b"goodbye"},
    ]
    service = [fields(event) for event in fields(client("PRESENCE.CHANGES", "r", epoch, seq, "ALL", "COUNT", 2))["events"]]
    assert [(event["event"], event["member"], event["share"]) for event in service] == [
        (b"update", b"asha", b"everyone"),
        (b"online", b"hidden", b"nobody"),
    ]
    for _ in range(100):
        client("PRESENCE.BEAT", "r", "asha", "STATUS", "a")
        client("PRESENCE.BEAT", "r", "asha", "STATUS", "b")
    assert client.call("PRESENCE.CHANGES", "r", epoch, seq).code == "RESYNC"
    client("DEBUG", "RELOAD")
    assert client.call("PRESENCE.CHANGES", "r", epoch, client("PRESENCE.MEMBERS", "r")[2]).code == "RESYNC"


# -- who may listen ---------------------------------------------------------------------------------------------------


def test_a_user_who_may_count_shows_badges_and_learns_no_name(live, server):
    client, watcher = live
    client("ACL", "SETUSER", "badge", "on", ">pw", "~*", "+presence.count", "+subscribe", "+psubscribe", "resetchannels", "&presence.count:*")
    names = channels(client, "r", "asha")
    guest = server.client(resp=3)
    guest("AUTH", "badge", "pw")
    guest.send("SUBSCRIBE", names["count"])
    assert guest.read_push()[0] == b"subscribe"
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
    assert json.loads(guest.read_push()[2]) == {"count": 1, "badge": "1"}
    other = server.client()
    other("AUTH", "badge", "pw")
    assert other("PRESENCE.COUNT", "r", "BADGE") == b"1"
    refused = [
        ("SUBSCRIBE", names["feed"]),
        ("SUBSCRIBE", names["member"]),
        ("PSUBSCRIBE", "presence.*"),
        ("PSUBSCRIBE", "__key*__:*"),
        ("PRESENCE.MEMBERS", "r"),
        ("PRESENCE.GET", "r", "asha"),
        ("PRESENCE.FRIENDS", "r", "bo", "asha"),
        ("PRESENCE.CHANGES", "r", "0" * 16, 0),
        ("PRESENCE.INFO", "r"),
        ("SSUBSCRIBE", names["feed"]),
    ]
    assert {command: other.call(*command).code for command in refused} == dict.fromkeys(refused, "NOPERM")
