"""The storm: 200,000 come within ten seconds, all fall silent at once, and only those who watch hear of it, each change once."""

import json
import threading
import time

import pytest

from harness import Watcher
from support import check_sums, fields, wait_until
from test_crowd import MEMBERS, Pings, figures, ids

# As gateways send them.
BATCH = 500
COME_IN_S = 10
WATCHED = 50

pytestmark = [pytest.mark.alone, pytest.mark.timeout(240)]


def gapless(messages):
    return [m["from"] for m in messages[1:]] == [m["seq"] + 1 for m in messages[:-1]]


@pytest.mark.config(client_output_buffer_limit="pubsub 0 0 0")
def test_those_who_watch_hear_each_change_once_and_the_server_stays_quick(server):
    client = server.client()
    client("CONFIG", "SET", "presence.share-default", "everyone")
    client("PRESENCE.CREATE", "hall", "TIMEOUT", 600_000, "RECENT", 0, "FEED", 10_000, "COUNTEVERY", 500, "INTERVALOVER", 400)
    members = ids()
    watched = members[:: MEMBERS // WATCHED]
    names = {member: fields(client("PRESENCE.CHANNELS", "hall", member)) for member in watched}
    feed, count = (names[watched[0]][kind].decode() for kind in ("feed", "count"))
    backlogs, stop = [], threading.Event()

    def look():
        with server._connect() as c:
            while not stop.is_set():
                info = dict(line.split(":", 1) for line in c("INFO", "presence").decode().split("\r\n") if ":" in line)
                backlogs.append((int(info["presence_backlog_rooms"]), int(info["presence_backlog_age_ms"])))
                stop.wait(0.02)

    eyes = threading.Thread(target=look)
    with Watcher(server, (), channels=[feed, count, *(name["member"] for name in names.values())]) as watcher:
        with Pings(server) as pings:
            began = time.monotonic()
            for batch, at in enumerate(range(0, MEMBERS, BATCH), 1):
                client("PRESENCE.MBEAT", "hall", "MEMBERS", *members[at : at + BATCH])
                time.sleep(max(0.0, began + batch * COME_IN_S * BATCH / MEMBERS - time.monotonic()))
            came = time.monotonic() - began
        pings.judge(f"while 200,000 come in {came:.1f} s")
        # A short timeout from here on: everybody has been heard now, and nobody beats any more.
        client("PRESENCE.ALTER", "hall", "TIMEOUT", 1000, "GRACE", 500)
        eyes.start()
        with Pings(server) as pings:
            wait_until(lambda: client("PRESENCE.COUNT", "hall") < MEMBERS, timeout=30)
            first = time.monotonic()
            wait_until(lambda: client("PRESENCE.COUNT", "hall") == 0, timeout=120, every=0.02)
            took = time.monotonic() - first
        stop.set(), eyes.join()
        print(f"gone in {took:.2f} s: {MEMBERS / took:,.0f} a second; {figures(server)}; backlog up to {max(backlogs)}")
        pings.judge("while 200,000 go")
        watcher.wait_for(lambda e: e.kind == count and json.loads(e.name)["count"] == 0 and e.t > first)
        watcher.sync()
        # Every watched change once and in order.
        for member in watched:
            heard = [json.loads(e.name) for e in watcher.of(names[member]["member"].decode())]
            assert [(m["event"], m["member"], m.get("reason")) for m in heard] == [
                ("online", member, None),
                ("offline", member, "timeout"),
            ]
            assert heard[0]["seq"] < heard[1]["seq"] and heard[0]["epoch"] == heard[1]["epoch"]
        stream = [json.loads(e.name) for e in watcher.of(feed)]
        # The first batch is above the limit at once, so nobody was ever named until the crowd was nearly gone.
        interval = [m for m in stream if m.get("mode") == "interval"]
        named = [m for m in stream if m.get("events")]
        assert stream[0]["mode"] == "interval" and gapless(stream) and stream[-1]["seq"] == 2 * MEMBERS
        assert len(interval) <= (came + took + 10) / 0.5 and sum(m["came"] for m in interval) == MEMBERS
        after = next(n for n, m in enumerate(stream) if m.get("resync"))
        assert all(m.get("mode") == "interval" for m in stream[:after]) and stream[after]["count"] < 360
        assert sum(len(m["events"]) for m in named) < 360 and all("events" in m for m in stream[after:])
        counts = [json.loads(e.name)["count"] for e in watcher.of(count)]
        assert counts[0] == BATCH and counts[-1] == 0 and all(a != b for a, b in zip(counts, counts[1:]))
        assert len(counts) <= (came + took + 10) / 0.5
    # While there was more to do than a tick may, INFO said how much and for how long.
    assert any(rooms == 1 and age > 0 for rooms, age in backlogs), backlogs[:20]
    assert int(server.info()["presence_messages_member"]) == 2 * MEMBERS
    check_sums(server)


ROOMS = 100_000


def test_the_counts_of_many_rooms_come_spread_over_the_interval(server):
    client = server.client()
    client("CONFIG", "SET", "presence.timeout", 600_000, "presence.uniques-days", 0, "presence.count-every", 4000)
    sent = lambda: int(server.info()["presence_messages_count"])
    rooms = [f"room{n}" for n in range(ROOMS)]
    for at in range(0, ROOMS, 5000):
        client.pipeline([("PRESENCE.MBEAT", room, "MEMBERS", "a", "b") for room in rooms[at : at + 5000]])
    assert sent() == ROOMS, "from nothing to two, at once"
    # As all at one moment, as far as this goes: a third comes to each.
    began = time.monotonic()
    for at in range(0, ROOMS, 5000):
        client.pipeline([("PRESENCE.BEAT", room, "c") for room in rooms[at : at + 5000]])
    filled = time.monotonic()
    curve = []
    with Pings(server) as pings:
        while not curve or curve[-1][1] < 2 * ROOMS:
            curve.append((time.monotonic(), sent()))
            assert curve[-1][0] < filled + 60
            time.sleep(0.05)
    pings.judge(f"while {ROOMS} rooms tell their counts in {curve[-1][0] - began:.1f} s")
    steps = [(b[1] - a[1]) / max(b[0] - a[0], 0.05) for a, b in zip(curve, curve[1:])]
    print(f"at most {max(steps):,.0f} counts a second, {ROOMS / 4:,.0f} would be even")
    assert max(steps) < 4 * ROOMS / 4, "spread, not at one moment"
    info = server.info()
    assert (info["presence_messages_planned"], int(info["presence_messages_count"])) == ("0", 2 * ROOMS), "once each"
    cpu = lambda: sum(float(server.info("cpu")[f"used_cpu_{kind}"]) for kind in ("user", "sys"))
    before, started = cpu(), time.monotonic()
    wait_until(lambda: time.monotonic() > started + 2)
    assert (cpu() - before) / (time.monotonic() - started) < 0.1, "idle rooms cost nothing"
    assert sent() == 2 * ROOMS


def test_many_rooms_that_are_flushed_are_told_gone_once_each_while_the_server_stays_quick(server):
    client = server.client()
    client("CONFIG", "SET", "presence.timeout", 600_000, "presence.uniques-days", 0)
    for at in range(0, ROOMS, 5000):
        client.pipeline([("PRESENCE.BEAT", f"room{n}", "a") for n in range(at, at + 5000)])
    sent = lambda: int(server.info()["presence_messages_count"])
    assert sent() == ROOMS
    with Pings(server) as pings:
        began = time.monotonic()
        client("FLUSHALL", "ASYNC")
        wait_until(lambda: sent() == 2 * ROOMS and server.info()["presence_rooms"] == "0", timeout=60, every=0.05)
        took = time.monotonic() - began
    pings.judge(f"while {ROOMS} rooms are freed and told gone in {took:.1f} s")
    assert sent() == 2 * ROOMS
    check_sums(server)
