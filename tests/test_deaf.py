"""Silence is evidence only while the server could hear: stalls, pauses and refusals accuse nobody."""

import threading
import time

import pytest

from harness import Connection, Err
from harness.server import free_port
from support import check_sums, fields, wait_until

QUICK = ("TIMEOUT", 400, "GRACE", 300)
T_AND_G = 0.7


@pytest.fixture(autouse=True)
def sums(server):
    yield
    check_sums(server)


def moment(seconds):
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until)


class Beating:
    """Clients that each beat every 100 ms over a connection of their own, whatever is answered."""

    def __init__(self, server, room, ids):
        self.refusals: set[str] = set()
        self.returned = 0  # beats that brought somebody who should have been there
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._beat, args=(server.socket, room, id), daemon=True) for id in ids]

    def _beat(self, address, room, id):
        with Connection(address) as connection:
            while not self._stop.is_set():
                reply = connection.call("PRESENCE.BEAT", room, id)
                if isinstance(reply, Err):
                    self.refusals.add(reply.code)
                elif reply != 0:
                    self.returned += 1
                self._stop.wait(0.1)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)


@pytest.fixture
def crowd(server, client):
    """20 members of r that beat for as long as the test lasts, and `silent`, which has beaten once."""
    client("PRESENCE.CREATE", "r", *QUICK)
    ids = [f"m{n}" for n in range(20)]
    client("PRESENCE.MBEAT", "r", "MEMBERS", *ids, "silent")
    with Beating(server, "r", ids) as beating:
        yield beating


def only_silent_went(watcher, crowd, not_before):
    """Waits for the one rightful going, and sees that there is no other."""
    gone = watcher.wait("offline", "r:silent", timeout=20)
    watcher.hold_until(gone.t + T_AND_G)
    assert watcher.of("online", "offline") == [gone] and crowd.returned == 0
    assert gone.t >= not_before


def deaf(server, cause):
    info = server.info()
    return int(info[f"presence_deaf_ms_{cause}"]), int(info[f"presence_amnesties_{cause}"])


def test_a_stopped_process(server, crowd, watcher):
    server.pause()
    moment(3 * T_AND_G)
    resumed = time.monotonic()
    server.resume()
    only_silent_went(watcher, crowd, resumed + T_AND_G)
    stalled, amnesties = deaf(server, "stall")
    assert stalled >= 1500 and amnesties == 1


def test_a_long_script(server, crowd, watcher):
    client = server.client()
    client("CONFIG", "SET", "busy-reply-threshold", 500)
    now = "local function now() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end"
    client("EVAL", now + " local start = now() repeat until now() - start > 3e6", 0)
    only_silent_went(watcher, crowd, time.monotonic() + T_AND_G - 0.1)
    assert "BUSY" in crowd.refusals and deaf(server, "stall")[1] == 1


def test_many_short_stalls(server, crowd, watcher):
    """Two thirds of the time deaf: the silent one goes all the same, the others stay."""
    client = server.client()
    until = time.monotonic() + 4
    while time.monotonic() < until:
        client("DEBUG", "SLEEP", 0.4), moment(0.2)
    watcher.wait("offline", "r:silent", timeout=20)
    watcher.sync()
    assert len(watcher.of("offline")) == 1 and watcher.of("online") == [] and crowd.returned == 0
    assert deaf(server, "stall")[0] >= 1000


def test_repeated_stalls_keep_nobody_for_ever(server, client, watcher):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 500, "GRACE", 100), client("PRESENCE.BEAT", "r", "asha")
    heard = 0.0
    while not watcher.of("offline"):
        client("DEBUG", "SLEEP", 1.1)
        began = time.monotonic()
        moment(0.3)
        heard += time.monotonic() - began
        watcher.sync()
        assert heard < 2 * 0.5 + 0.1 + 1.0, "one fresh timeout, however often it stalls"
    # Of the heard time before the first stall the test knows nothing; after it there is one fresh timeout.
    assert heard >= 0.55
    assert deaf(server, "stall")[1] >= 2


@pytest.mark.config(appendonly="yes")
def test_paused_writes(server, crowd, watcher):
    client, other = server.client(), server.client()
    moment(0.5)
    client("CLIENT", "PAUSE", 1200, "WRITE")
    paused = time.monotonic()
    while time.monotonic() < paused + 1.1:
        assert other("PING") == "PONG" and other("PRESENCE.COUNT", "r") == 21
        moment(0.05)
    only_silent_went(watcher, crowd, paused + 1.2 + T_AND_G - 0.05)
    assert deaf(server, "paused")[1] == 1 and server.alive


@pytest.mark.config(appendonly="yes")
def test_a_member_that_falls_due_while_writes_are_paused(server, client, watcher):
    """Such a going, replicated during a pause, would abort the server."""
    client("PRESENCE.BEAT", "r", "asha", "TIMEOUT", 200, "GRACE", 0)
    client("CLIENT", "PAUSE", 900, "WRITE")
    paused = time.monotonic()
    watcher.hold_until(paused + 0.85)
    assert watcher.of("offline") == [] and client("PING") == "PONG"
    watcher.wait("offline")
    assert client("PRESENCE.COUNT", "r") == 0


@pytest.mark.config(save="3600 1")
def test_refused_after_a_failed_save(server, crowd, watcher):
    client = server.client()
    (server.dir / "dump.rdb").mkdir()  # where the file should go
    client("BGSAVE")
    wait_until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err")
    wait_until(lambda: "MISCONF" in crowd.refusals)
    refused = time.monotonic()
    watcher.hold_until(refused + 3 * T_AND_G)
    assert watcher.of("offline") == [] and client("PRESENCE.COUNT", "r") == 21
    repaired = time.monotonic()
    (server.dir / "dump.rdb").rmdir()
    client("BGSAVE")
    only_silent_went(watcher, crowd, repaired + T_AND_G)
    assert deaf(server, "refusing")[1] == 1


def test_refused_without_replicas(server, crowd, watcher):
    client = server.client()
    client("CONFIG", "SET", "min-replicas-to-write", 1)
    wait_until(lambda: "NOREPLICAS" in crowd.refusals)
    watcher.hold_until(time.monotonic() + 3 * T_AND_G)
    assert watcher.of("offline") == []
    mended = time.monotonic()
    client("CONFIG", "SET", "min-replicas-to-write", 0)
    only_silent_went(watcher, crowd, mended + T_AND_G)
    assert fields(client("PRESENCE.GET", "r", "m0"))["state"] == b"online"


@pytest.mark.config(appendonly="yes")
def test_a_shutdown_that_waits_and_is_called_off(make_server, server, crowd, watcher, kind):
    """SHUTDOWN pauses writes for a lagging replica; goings fall due meanwhile."""
    client = server.client()
    client("CONFIG", "SET", "port", port := free_port())
    replica = make_server(port=0, config={"replicaof": f"127.0.0.1 {port}"})
    wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30)
    watcher.clear()
    replica.pause()
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(20))
    stopping = server.client()
    stopping.send("SHUTDOWN", "NOSAVE")
    moment(1.5)
    assert client("PING") == "PONG"
    client("SHUTDOWN", "ABORT")
    replica.resume()
    assert stopping.read().code == "ERR"
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 20)
    watcher.sync()
    assert crowd.returned == 0 and sorted(e.name for e in watcher.of("offline") if e.name != b"r:silent") == sorted(
        b"r:%d" % n for n in range(20)
    )
