"""50,000 fall silent at once, in one room or each in its own: the server stays quick, and the replica follows."""

import time

import pytest

from harness import Watcher
from support import check_sums, wait_until
from test_crowd import Pings

MANY = 50_000
QUIET = {"repl-ping-replica-period": "3600", "client-output-buffer-limit": ["pubsub 0 0 0", "replica 0 0 0"]}
SETTINGS = {"presence.uniques-days": "0", "presence.recent": "0"}


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rooms", [1, MANY], ids=["one room", "each its own"])
def test_fifty_thousand_go_at_once(make_server, rooms):
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
