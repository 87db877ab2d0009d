"""The wall clock jumps: it serves the calendar, and nobody comes or goes by it."""

import datetime
import time
import zoneinfo

import pytest

from crowds import Beating, Shim, moment
from harness import Watcher
from support import FAST, QUICK, T_AND_G, check_sums, deaf, member, wait_until

HOUR, DAY = 3600, 86400
IDS = [f"m{n}" for n in range(100)]
SILENT = [f"s{n}" for n in range(20)]


@pytest.fixture
def shim(tmp_path, monkeypatch):
    return Shim(tmp_path, monkeypatch.setenv)


def server_time(client):
    seconds, microseconds = client("TIME")
    return int(seconds) + int(microseconds) / 1e6


def day_of(client, zone="UTC"):
    return datetime.datetime.fromtimestamp(server_time(client), zoneinfo.ZoneInfo(zone)).date()


def compact(day):
    return day.strftime("%Y%m%d")


@pytest.mark.parametrize("waited", ["while live", "in grace"])
def test_a_jump_takes_nobody_offline_and_keeps_nobody(shim, make_server, waited):
    """F80: by an hour and by a day, forth and back."""
    server = make_server()
    client = server.client()
    assert abs(server_time(client) - time.time()) < 1
    client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 0)
    # Long enough for clients on a busy machine, and nothing beside an hour.
    assert set(client.pipeline([("PRESENCE.BEAT", "r", id, "TIMEOUT", 5000) for id in IDS])) == {1}
    late = []
    offset = 0
    with Watcher(server) as watcher, Beating([server], "r", IDS) as beating:
        for jump in (HOUR, -HOUR, DAY, -DAY, -HOUR, HOUR, -DAY, DAY):
            watcher.clear()
            before, deaf_before = time.monotonic(), deaf(server)
            assert client("PRESENCE.MBEAT", "r", "MEMBERS", *SILENT) == 20
            beaten = time.monotonic()
            watcher.wait("grace", count=20) if waited == "in grace" else moment(0.15)
            shim.set(offset := offset + jump)
            # Valkey 9.1 may still tell the moment at which it fell asleep.
            wait_until(lambda: abs(server_time(client) - time.time() - offset) < 1)
            view = member(client, "r", "s0")
            assert 0 <= view["idle"] < 10_000 and view["state"] in (b"grace", b"online" if waited == "while live" else b"grace")
            watcher.wait("offline", count=20)
            watcher.hold_until(time.monotonic() + 0.3)
            gone = watcher.of("offline")
            assert sorted(e.name for e in gone) == sorted(f"r:{id}".encode() for id in SILENT), "each once, no other"
            assert min(e.t for e in gone) >= before + T_AND_G - FAST
            late.append(max(e.t for e in gone) - (beaten + T_AND_G) - (deaf(server) - deaf_before))
            assert 0 <= member(client, "r", "m0")["idle"] < 10_000
        assert beating.returned == [] and beating.refusals == set()
    # Each kind of jump comes several times: one late moment of a busy machine is none of theirs.
    assert sorted(late)[-2] < 0.3 and max(late) < 2, late
    check_sums(server)


def test_a_clock_that_steps_back_reopens_no_day(shim, make_server):
    server = make_server(config={"presence.uniques-days": "5"})
    client = server.client()
    first = day_of(client)
    uniques = lambda day: client("PRESENCE.UNIQUE", "r", "DAY", compact(day))
    client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"a{n}" for n in range(30)))
    assert uniques(first) == 30
    shim.set(DAY)
    wait_until(lambda: day_of(client) > first)
    second = day_of(client)
    wait_until(lambda: client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"b{n}" for n in range(20))) == 0 and uniques(second) == 20)
    shim.set(0)
    moment(0.3)
    client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"c{n}" for n in range(10)), *(f"a{n}" for n in range(30)))
    assert uniques(first) == 30, "that day is over"
    check_sums(server)


ZONES = ["UTC", "Asia/Shanghai", "Asia/Kathmandu", "America/St_Johns"]


def test_the_day_begins_at_the_zones_midnight(shim, make_server, monkeypatch):
    """F74: the server's own TZ plays no part."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    server = make_server()
    client = server.client()
    for number, zone in enumerate(ZONES):
        client("CONFIG", "SET", "presence.day-zone", zone)
        # Each zone a few days later than the one before: a day that is over stays so.
        day = datetime.date.today() + datetime.timedelta(days=3 * number + 2)
        midnight = datetime.datetime.combine(day + datetime.timedelta(days=1), datetime.time(), zoneinfo.ZoneInfo(zone))
        until = midnight.timestamp()
        room = f"r{number}"
        client("PRESENCE.CREATE", room, "TIMEOUT", 60000, "UNIQUES", 3)
        shim.set(until - 5 - time.time())
        moment(0.3)  # the tick has seen it
        shim.set(until - 1 - time.time())
        client("PRESENCE.MBEAT", room, "MEMBERS", "before", "both", "stays")
        assert server_time(client) < until
        wait_until(lambda: server_time(client) > until + 0.1, every=0.005)
        client("PRESENCE.MBEAT", room, "MEMBERS", "after", "both")
        unique = lambda *options: client("PRESENCE.UNIQUE", room, *options)
        assert unique("DAY", compact(day)) == 3, zone
        assert unique("DAY", compact(day + datetime.timedelta(days=1))) == unique() == 2, zone
        assert unique("DAYS", 2) == 4 and client("PRESENCE.COUNT", room) == 4
    assert client.call("CONFIG", "SET", "presence.day-zone", "Nowhere/X").code == "ERR"
    check_sums(server)


@pytest.mark.parametrize("later", [600, -600, 2 * DAY])
def test_loaded_after_a_long_stop(shim, make_server, later):
    """F105: what the wall clock did meanwhile is nobody's silence."""
    server = make_server()
    client = server.client()
    client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 600, "SHARE", "everyone")
    ids = [f"u{n}" for n in range(200)]
    began = time.monotonic()
    client("PRESENCE.MBEAT", "r", "MEMBERS", *ids)
    client("SAVE")
    server.kill()
    shim.set(later)
    start = time.monotonic()
    server.start()
    with Watcher(server) as watcher:
        client = server.client()
        ready, deaf_before = time.monotonic(), deaf(server)
        assert client("PRESENCE.COUNT", "r") == 200
        idle = member(client, "r", "u0")["idle"]
        assert 0 <= idle <= (time.monotonic() - began) * 1000
        watcher.wait("offline", count=200)
        gone = watcher.of("offline")
        assert sorted(e.name for e in gone) == sorted(f"r:{id}".encode() for id in ids)
        assert min(e.t for e in gone) >= start + T_AND_G - FAST
        assert max(e.t for e in gone) < ready + T_AND_G + 0.3 + deaf(server) - deaf_before
        assert set(client("PRESENCE.FRIENDS", "r", "v", *ids)) == {b"recent"}
        wait_until(lambda: set(client("PRESENCE.FRIENDS", "r", "v", *ids)) == {b"offline"}, timeout=3)
        # Not before RECENT, reckoned from the first moment at which anybody can have gone: an event may be heard late.
        forgotten = time.monotonic()
        assert forgotten >= start + T_AND_G + 0.6 - FAST
        assert forgotten < gone[-1].t + 1.5 + deaf(server) - deaf_before
        watcher.hold_until(time.monotonic() + 0.3)
        assert len(watcher.of("offline")) == 200
    check_sums(server)
