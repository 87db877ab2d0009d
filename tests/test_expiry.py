"""Silence: who goes when, with nobody reading. Never early; how late is bounded loosely, for the machine is shared."""

import time

import pytest

from harness import Watcher
from support import QUICK, T_AND_G, check_sums, member, wait_until

# Between the server's reading of the clock and the arrival of an event; early means earlier than that.
SLACK = 0.02


@pytest.fixture(autouse=True)
def sums(server):
    yield
    check_sums(server)


def timed(client, *command):
    """The reply, and the moments before and after it."""
    before = time.monotonic()
    reply = client(*command)
    return reply, before, time.monotonic()


def test_the_promised_case(client, watcher):
    """Offline 500 ms after the only beat, once; a beat in between hides the gap."""
    name = b"event42:asha"
    reply, before, after = timed(client, "PRESENCE.BEAT", "event42", "asha", "TIMEOUT", 300, "GRACE", 200)
    assert reply == 1
    offline = watcher.wait("offline", name)
    assert before + 0.5 <= offline.t <= after + 1.0
    watcher.sync()
    assert watcher.kinds() == ["online", "grace", "offline"]

    watcher.clear()
    reply, before, _ = timed(client, "PRESENCE.BEAT", "event42", "asha", "TIMEOUT", 300, "GRACE", 2000)
    assert reply == 1
    watcher.hold_until(before + 0.4)
    watcher.wait("grace", name)
    assert client("PRESENCE.BEAT", "event42", "asha", "TIMEOUT", 60000) == 0
    watcher.hold_until(before + 0.8)
    assert watcher.kinds() == ["online", "grace", "back"]


@pytest.mark.parametrize("sleepiness", ["hz 1", "no active expire"])
def test_nobody_needs_to_read(client, watcher, sleepiness):
    if sleepiness == "hz 1":
        client("CONFIG", "SET", "hz", 1)
    else:
        client("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    client("PRESENCE.CREATE", "r", *QUICK)
    for n in range(3):
        _, before, after = timed(client, "PRESENCE.BEAT", "r", n)
        assert before + T_AND_G <= watcher.wait("offline", f"r:{n}").t <= after + T_AND_G + 1.0


def test_each_goes_at_its_own_moment_and_in_order(client, watcher):
    client("PRESENCE.CREATE", "r", "GRACE", 50)
    due = {}
    for n in range(100):
        timeout = 300 + (n * 37 % 100) * 8
        _, before, _ = timed(client, "PRESENCE.BEAT", "r", f"m{n}", "TIMEOUT", timeout)
        due[f"r:m{n}".encode()] = before + timeout / 1000 + 0.05
    watcher.wait("offline", count=100)
    watcher.sync()
    offline = watcher.of("offline")
    assert len(offline) == 100 and {event.name for event in offline} == set(due)
    assert all(event.t >= due[event.name] for event in offline)
    order = [due[event.name] for event in offline]
    assert all(later >= earlier - SLACK for earlier, later in zip(order, order[1:]))
    assert client("PRESENCE.COUNT", "r") == 0


def test_a_beat_moves_the_moment_and_a_read_does_not(client, watcher):
    client("PRESENCE.CREATE", "r", *QUICK)
    start = time.monotonic()
    last = start
    while time.monotonic() < start + 1.5:
        last = time.monotonic()
        assert client("PRESENCE.BEAT", "r", "asha") in (0, 1)
        until = last + 0.1
        wait_until(lambda: time.monotonic() >= until)
    watcher.sync()
    assert watcher.kinds() == ["online"]
    # Reads only, from now on.
    reads = ("GET r asha", "COUNT r", "FRIENDS r asha bela", "MEMBERS r ALL", "INFO r", "UNIQUE r")

    def gone():
        for read in reads:
            name, *arguments = read.split()
            client(f"PRESENCE.{name}", *arguments)
        return watcher.of("offline")

    [offline] = wait_until(gone, every=0.02)
    assert offline.t >= last + T_AND_G
    assert watcher.kinds() == ["online", "grace", "offline"]


def test_grace_nought_goes_with_the_timeout(client, watcher):
    _, before, after = timed(client, "PRESENCE.BEAT", "r", "asha", "TIMEOUT", 300, "GRACE", 0)
    assert before + 0.3 <= watcher.wait("offline").t <= after + 1.3
    watcher.sync()
    assert watcher.kinds()[0] == "online" and watcher.kinds()[-1] == "offline"
    _, before, after = timed(client, "PRESENCE.BEAT", "r", "asha", "TIMEOUT", 60000, "GRACE", 0)
    timed(client, "PRESENCE.BYE", "r", "asha", "SOFT")
    assert watcher.wait("offline", count=2).t <= after + 1.0


# -- a change of a number makes nobody leave --------------------------------------------------------------------------


def change(client, how, timeout):
    """Sets the timeout of room and session-less members; the moments before and after."""
    command = {
        "ALTER": ("PRESENCE.ALTER", "r", "TIMEOUT", timeout),
        "CONFIG SET": ("CONFIG", "SET", "presence.timeout", timeout),
    }[how]
    return timed(client, *command)[1:]


@pytest.mark.parametrize("how", ["ALTER", "CONFIG SET"])
def test_a_shorter_timeout_holds_at_once_and_afresh(client, watcher, how):
    client("CONFIG", "SET", "presence.timeout", 60000, "presence.grace", 200)
    client("PRESENCE.BEAT", "r", "plain"), client("PRESENCE.BEAT", "r", "own", "TIMEOUT", 900)
    online = watcher.wait("online", "r:own").t
    watcher.hold_until(online + 0.5)
    before, after = change(client, how, 400)
    assert before + 0.6 <= watcher.wait("offline", "r:plain").t <= after + 1.6
    # A session's own timeout is not changed, but starts afresh with all the others.
    assert before + 1.1 <= watcher.wait("offline", "r:own").t <= after + 2.1
    watcher.sync()
    assert len(watcher.of("offline")) == 2


@pytest.mark.parametrize("how", ["ALTER", "CONFIG SET"])
def test_a_longer_timeout_holds_at_once(client, watcher, how):
    client("CONFIG", "SET", "presence.timeout", 300, "presence.grace", 200)
    client("PRESENCE.BEAT", "r", "asha")
    watcher.wait("grace")
    before, _ = change(client, how, 60000)
    assert member(client, "r", "asha")["sessions"][b""]["timeout"] == 60000
    watcher.hold_until(before + 1.0)
    assert watcher.of("offline") == []


# -- many -------------------------------------------------------------------------------------------------------------


def test_two_thousand_rooms(client, watcher, server):
    client("CONFIG", "SET", "presence.timeout", 500, "presence.grace", 200, "presence.uniques-days", 0)
    rooms = [f"room{n}".encode() for n in range(2000)]
    start = time.monotonic()
    assert set(client.pipeline([("PRESENCE.BEAT", room, "asha") for room in rooms])) == {1}
    assert server.info()["presence_rooms"] == "2000"
    watcher.wait("offline", count=2000, timeout=20)
    watcher.sync()
    gone = [event.name for event in watcher.of("offline")]
    assert sorted(gone) == sorted(room + b":asha" for room in rooms), "each once, under its own name"
    assert min(event.t for event in watcher.of("offline")) >= start + 0.7
    wait_until(lambda: client("DBSIZE") == 0)


def test_a_crowd_in_one_room_goes_once_each(client, watcher, server):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 500, "GRACE", 0, "RECENT", 0)
    for start in range(0, 20_000, 4000):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *range(start, start + 4000))
    before = time.monotonic()
    assert client("PRESENCE.MBEAT", "r", "MEMBERS", *range(100)) == 0
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 0, timeout=30)
    watcher.sync()
    assert len({event.name for event in watcher.of("offline")}) == len(watcher.of("offline")) == 20_000
    late = {b"r:%d" % n for n in range(100)}
    assert min(event.t for event in watcher.of("offline") if event.name in late) >= before + 0.5
    assert server.info()["presence_goings_timeout"] == "20000"


def test_rooms_in_several_databases(server, watcher):
    for db in (0, 5, 15):
        server.client(db=db)("PRESENCE.BEAT", "r", f"in{db}", "TIMEOUT", 300, "GRACE", 100)
    for db in (0, 5, 15):
        assert watcher.wait("offline", f"r:in{db}").db == db
        assert server.client(db=db)("PRESENCE.COUNT", "r") == 0
    watcher.sync()
    assert len(watcher.of("offline")) == 3


def test_many_sessions_expire_one_by_one(client, watcher):
    client("PRESENCE.CREATE", "r", *QUICK)
    for n in range(20):
        client("PRESENCE.BEAT", "r", "asha", "SESSION", n, "TIMEOUT", 300 + 20 * n)
    last = time.monotonic()
    wait_until(lambda: 0 < client("PRESENCE.COUNT", "r", "SESSIONS") < 20)
    assert client("PRESENCE.COUNT", "r") == 1
    assert watcher.wait("offline").t >= last + 0.3 + 0.38 + 0.3 - 0.05
    watcher.sync()
    assert watcher.kinds() == ["online", "grace", "offline"], "the member is announced, not its sessions"
    assert client("PRESENCE.COUNT", "r", "SESSIONS") == 0


def test_a_pending_deadline_does_not_make_a_room_look_used(client, watcher):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 1200, "GRACE", 600)
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(50))
    client("PRESENCE.BEAT", "r", "stays", "TIMEOUT", 60000)
    watcher.wait("offline", count=50)
    assert client("OBJECT", "IDLETIME", "r") >= 1


def test_expire_on_a_room_announces_nobody(client, server):
    with Watcher(server, patterns=["__keyevent@*__:*"]) as events:
        client("PRESENCE.CREATE", "r", *QUICK), client("PRESENCE.BEAT", "r", "asha")
        client("PEXPIRE", "r", 100)
        expired = events.wait("expired", "r")
        events.hold_until(expired.t + T_AND_G + 0.2)
        assert [event.name for event in events.of("offline")] == []
        assert client("PRESENCE.COUNT", "r") == 0 and client("PRESENCE.BEAT", "r", "asha") == 1


def test_eviction_of_rooms_announces_nobody(client, server):
    with Watcher(server, patterns=["__keyevent@*__:*"]) as events:
        client("CONFIG", "SET", "presence.timeout", 800, "presence.grace", 0)
        rooms = [f"r{n}" for n in range(20)]
        for room in rooms:
            client("PRESENCE.MBEAT", room, "MEMBERS", *range(20))
        client("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", 1)
        # Any command makes the server look for memory.
        wait_until(lambda: client("DBSIZE") == 0)
        wait_until(lambda: server.info()["presence_rooms"] == "0")
        client("CONFIG", "SET", "maxmemory", 0)
        evicted = events.wait("evicted", count=20)
        assert {event.name.decode() for event in events.of("evicted")} == set(rooms)
        events.hold_until(evicted.t + 1.0)
        assert events.of("offline", "grace") == []
