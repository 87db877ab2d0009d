"""Another module does something to the room from within the notification: nothing of the room is in use by then."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from harness import Watcher
from support import check_sums, digest, wait_until

SOURCE = Path(__file__).resolve().parent / "harness" / "meddler.c"
MEMBERS = [f"m{n}" for n in range(50)]
TIMES = ("TIMEOUT", 300, "GRACE", 100, "RECENT", 0)
# What the other module does to the room, and whether a room of that name is left.
DEEDS = {
    "DEL": False,
    "UNLINK": False,
    "SET x": False,
    "RENAME elsewhere": False,
    "COPY elsewhere REPLACE": True,
    "PRESENCE.BEAT intruder": True,
    "PRESENCE.BYE stays": True,
}
# In a command, in the tick, and the events that change nothing that is replicated, or little.
CASES = [(event, deed) for event in ("online", "offline") for deed in DEEDS] + [("grace", "DEL"), ("update", "DEL")]


@pytest.fixture(scope="module")
def meddler(tmp_path_factory):
    library = tmp_path_factory.mktemp("meddler") / "meddler.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return library


@pytest.mark.parametrize("event, deed", CASES)
def test_a_notification_may_end_or_change_the_room(make_server, meddler, event, deed):
    log = {"appendonly": "yes", "appendfsync": "always"}
    server = make_server(config=log | {"loadmodule": f"{meddler} presence.{event} {deed}"})
    client = server.client()
    with Watcher(server) as watcher:
        client("PRESENCE.CREATE", "r", *TIMES)
        if event == "online":
            assert client("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", *MEMBERS) == [1] * 50, "all of it, before anybody is told"
        else:
            client("PRESENCE.MBEAT", "r", "MEMBERS", *MEMBERS), client("PRESENCE.BEAT", "r", "stays", "TIMEOUT", 60_000)
        if event == "update":
            assert client("PRESENCE.BEAT", "r", "stays", "STATUS", "away") == 0
        first = watcher.wait(event)
        assert first.name.startswith(b"r:")
        watcher.sync()
        told = [(e.kind, e.name) for e in watcher.of("offline")]
        assert len(told) == len(set(told)), "each once"
        assert (client("TYPE", "r") == "presence1") == DEEDS[deed]
        if deed == "SET x":
            assert client("GET", "r") == b"x"
        # Life goes on, under this name too.
        client("DEL", "r", "elsewhere")
        assert client("PRESENCE.COUNT", "r") == 0
    check_sums(server)
    before = client("DEBUG", "DIGEST")
    server.restart(kill=True)
    assert server.client()("DEBUG", "DIGEST") == before
    check_sums(server)


def test_a_replica_follows_what_was_done_in_a_notification(make_server, meddler):
    """The going first, then what the other module made of it; and the tick goes on with the next room."""
    quiet = {"repl-ping-replica-period": "3600"}
    primary = make_server(port=0, config=quiet | {"loadmodule": f"{meddler} presence.offline DEL"})
    replica = make_server(port=0, config=quiet | {"replicaof": f"127.0.0.1 {primary.port}"})
    client, there = primary.client(), replica.client()
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30, every=0.05)
    # The stream begins with the replica's first answer, up to a second later.
    client("SET", "first", "x"), wait_until(lambda: there("EXISTS", "first")), client("DEL", "first")
    rooms = [f"r{n}" for n in range(20)]
    with Watcher(replica) as watcher:
        for room in rooms:
            client("PRESENCE.CREATE", room, *TIMES), client("PRESENCE.MBEAT", room, "MEMBERS", *MEMBERS, "stays")
            client("PRESENCE.BEAT", room, "stays", "TIMEOUT", 60_000)
        wait_until(lambda: client("DBSIZE") == 0)
        wait_until(lambda: there("DBSIZE") == 0)
        watcher.hold_until(time.monotonic() + 0.5)
        gone = [e.name for e in watcher.of("offline")]
        assert len(gone) == len(set(gone)) and {name.split(b":")[0].decode() for name in gone} == set(rooms)
    for room in rooms:
        client("PRESENCE.BEAT", room, "again")
    wait_until(lambda: digest(client, *rooms) == digest(there, *rooms))
    check_sums(primary), check_sums(replica)
