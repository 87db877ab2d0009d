"""50,000 fall silent at once, in one room or each in its own, and a million are heard afresh: the server stays quick.
In the short form there are fewer."""

import time

import pytest

from harness import Watcher
from support import FULL, check_sums, wait_until
from test_crowd import Pings

MANY = 50_000 if FULL else 10_000
MILLION = 1_000_000 if FULL else 40_000
QUIET = {"repl-ping-replica-period": "3600", "client-output-buffer-limit": ["pubsub 0 0 0", "replica 0 0 0"]}
SETTINGS = {"presence.uniques-days": "0", "presence.recent": "0"}


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rooms", [1, MANY], ids=["one room", "each its own"])
def test_many_go_at_once(make_server, rooms):
    primary = make_server(port=0, config=QUIET | SETTINGS | {"appendonly": "yes"})
    replica = make_server(port=0, config=QUIET | SETTINGS | {"replicaof": f"127.0.0.1 {primary.port}"})
    client, there = primary.client(), replica.client()
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30, every=0.05)
    client("SET", "first", "x"), wait_until(lambda: there("EXISTS", "first")), client("DEL", "first")
    # A stall of the machine while they come must not set them free one by one: they come with a long timeout.
    client("CONFIG", "SET", "presence.timeout", 600_000, "presence.grace", 0)
    if rooms == 1:
        client("PRESENCE.CREATE", "r")
        for start in range(0, MANY, 4000):
            client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"m{n}" for n in range(start, min(MANY, start + 4000))))
    else:
        for start in range(0, MANY, 1000):
            assert set(client.pipeline([("PRESENCE.BEAT", f"r{n}", "m") for n in range(start, start + 1000)])) == {1}
    members = lambda server: int(server.info()["presence_members"])
    wait_until(lambda: members(replica) == MANY, timeout=60, every=0.1)
    with Watcher(primary) as here, Watcher(replica) as hears, Pings(primary) as pings:
        began = time.monotonic()
        client("CONFIG", "SET", "presence.timeout", 500)
        wait_until(lambda: members(primary) < MANY, timeout=30)
        first = time.monotonic()
        wait_until(lambda: members(primary) == 0, timeout=120, every=0.05)
        took = time.monotonic() - first
        assert first >= began + 0.5
        wait_until(lambda: members(replica) == 0, timeout=120, every=0.05)
        here.sync(60), hears.sync(60)
        names = {f"r:m{n}" if rooms == 1 else f"r{n}:m" for n in range(MANY)}
        for watcher in (here, hears):
            gone = [event.name.decode() for event in watcher.of("offline")]
            assert len(gone) == MANY and set(gone) == names, "each once"
    print(f"{primary.kind}: {MANY} members of {rooms} rooms gone in {took:.2f} s")
    pings.judge(f"{primary.kind}: while they go")
    left = 1 if rooms == 1 else 0
    wait_until(lambda: client("DBSIZE") == there("DBSIZE") == left, timeout=60)
    wait_until(lambda: client("DEBUG", "DIGEST") == there("DEBUG", "DIGEST"), timeout=60)
    for server in (primary, replica):
        assert server.info()["presence_rooms"] == str(left)
        check_sums(server)


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_promotion_grants_a_million_a_fresh_timeout_in_one_step(make_server):
    """To the replica everybody is silent since long; its promotion may neither accuse them nor walk through them."""
    primary = make_server(port=0, config=QUIET | SETTINGS)
    client = primary.client()
    client("CONFIG", "SET", "presence.timeout", 600_000)
    client("PRESENCE.CREATE", "r")
    for start in range(0, MILLION, 4000):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *range(start, start + 4000))
    short = {"presence.timeout": "2000", "presence.grace": "0"}
    replica = make_server(port=0, config=QUIET | SETTINGS | short | {"replicaof": f"127.0.0.1 {primary.port}"})
    there = replica.client()
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=60, every=0.05)
    wait_until(lambda: there("PRESENCE.COUNT", "r") == MILLION, timeout=30)
    loaded = time.monotonic()
    wait_until(lambda: time.monotonic() > loaded + 2.5)
    with Watcher(replica) as watcher, Pings(replica) as pings:
        started = len(pings.took)
        wait_until(lambda: len(pings.took) > started + 50)
        before = time.monotonic()
        there("REPLICAOF", "NO", "ONE")
        took = time.monotonic() - before
        watcher.hold_until(before + 1.9)
        assert watcher.events == [] and there("PRESENCE.COUNT", "r") == MILLION
    print(f"{replica.kind}: promoted in {took * 1000:.1f} ms")
    pings.judge(f"{replica.kind}: while a million are heard afresh")
    assert took < 0.5
    there("PRESENCE.ALTER", "r", "TIMEOUT", 600_000)
    there("UNLINK", "r")
    wait_until(lambda: replica.info()["presence_rooms"] == "0")
