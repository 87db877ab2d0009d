#!/usr/bin/env python3
"""What servers go through, on real ones: who beats is never announced gone, who left is, and once.

In each scenario 100 members beat over a few connections that retry, and 20 others stop. Then something happens to the
server. A false departure is a member announced gone, or brought back by a beat, who had beaten all along; a ghost is one
who stopped and was not announced within 2 x timeout + grace after the server could hear again (or stayed in the count);
a double announcement is the same going told twice by one server. Exits with 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "survival")]

from crowds import Beating, Ears, moment  # noqa: E402
from harness import KINDS, Err, Server  # noqa: E402
from support import wait_until  # noqa: E402

TIMEOUT, GRACE = 0.6, 0.3
BEATING = [f"m{n}" for n in range(100)]
LEAVING = [f"s{n}" for n in range(20)]
# On a busy machine the announcement itself, and the test's own threads, may be late.
SLACK = 0.5


class Scene:
    """The servers of one scenario; `now` is the primary."""

    def __init__(self, kind: str, replicas: int, config: dict[str, str]):
        config = {"repl-ping-replica-period": "3600"} | config
        self.servers = [Server(kind, port=0, config=config)]
        try:
            for _ in range(replicas):
                link = {"replicaof": f"127.0.0.1 {self.servers[0].port}"}
                self.servers.append(Server(kind, port=0, config=config | link))
                self.linked(self.servers[-1], self.servers[0])
        except BaseException:
            self.close()
            raise
        self.now = self.servers[0]
        self.room = "r"
        self.seen: set[str] = set()

    def call(self, *command: object) -> object:
        with self.now._connect() as client:
            return client.call(*command)

    @staticmethod
    def linked(replica: Server, primary: Server) -> None:
        wait_until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=30, every=0.02)
        with primary._connect() as client:
            client("PUBLISH", "in", "step")
        offset = lambda server, name: server.info("replication").get(name)
        wait_until(lambda: offset(primary, "master_repl_offset") == offset(replica, "slave_repl_offset"), timeout=30)

    def close(self) -> None:
        for server in self.servers:
            server.close()


def stopped(scene: Scene) -> None:
    scene.now.pause()
    moment(3 * TIMEOUT)
    scene.now.resume()


def asleep(scene: Scene) -> None:
    scene.call("DEBUG", "SLEEP", 3 * TIMEOUT)


def script(scene: Scene) -> None:
    scene.call("CONFIG", "SET", "busy-reply-threshold", 300)
    now = "local function now() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end"
    scene.call("EVAL", f"{now} local start = now() repeat until now() - start > {3e6 * TIMEOUT}", 0)


def paused(scene: Scene) -> None:
    scene.call("CLIENT", "PAUSE", round(3000 * TIMEOUT), "WRITE")
    moment(3 * TIMEOUT)


def unsaved(scene: Scene) -> None:
    file = scene.now.dir / "dump.rdb"
    file.mkdir()  # where the file should go
    scene.call("BGSAVE")
    wait_until(lambda: scene.now.info("persistence")["rdb_last_bgsave_status"] == "err")
    moment(3 * TIMEOUT)
    file.rmdir()
    scene.call("SAVE")


def alone(scene: Scene) -> None:
    scene.call("CONFIG", "SET", "min-replicas-to-write", 1)
    moment(3 * TIMEOUT)
    scene.call("CONFIG", "SET", "min-replicas-to-write", 0)


def handed_over(scene: Scene) -> None:
    for turn in range(5):
        old, new = scene.now, scene.servers[1 - turn % 2]
        scene.call("FAILOVER")
        wait_until(lambda: new.info("replication")["role"] == "master" and old.info("replication")["role"] == "slave")
        wait_until(lambda: old.info("replication").get("master_link_status") == "up", timeout=30, every=0.02)
        scene.now = new


def restarted_from_rdb(scene: Scene) -> None:
    scene.call("SAVE")
    scene.now.restart(kill=True)


def restarted_from_aof(scene: Scene) -> None:
    scene.now.restart(kill=True)


def promoted(scene: Scene) -> None:
    scene.now.kill()
    moment(2 * (TIMEOUT + GRACE))
    scene.now = scene.servers[1]
    scene.call("REPLICAOF", "NO", "ONE")


def restored(scene: Scene) -> None:
    payload = scene.call("DUMP", "r")
    moment(TIMEOUT / 2)
    scene.call("RESTORE", "r", 0, payload, "REPLACE")


def stalled(scene: Scene) -> None:
    for _ in range(5):
        scene.call("DEBUG", "SLEEP", 0.3)
        moment(0.7)


LOG = {"appendonly": "yes", "appendfsync": "always"}
# Name, what happens, replicas, settings.
SCENARIOS: list[tuple[str, Callable[[Scene], None], int, dict[str, str]]] = [
    ("SIGSTOP, SIGCONT", stopped, 0, {}),
    ("DEBUG SLEEP", asleep, 0, {}),
    ("busy script", script, 0, {}),
    ("CLIENT PAUSE WRITE", paused, 1, {"appendonly": "yes"}),
    ("MISCONF", unsaved, 0, {"save": "3600 1"}),
    ("NOREPLICAS", alone, 0, {}),
    ("FAILOVER, 5 times", handed_over, 1, LOG),
    ("restart from RDB", restarted_from_rdb, 0, {}),
    ("restart from AOF", restarted_from_aof, 0, LOG),
    ("promotion", promoted, 1, {}),
    ("RESTORE REPLACE", restored, 0, {}),
    ("stalls, 300 ms a second", stalled, 0, {}),
]


def play(kind: str, what: tuple[str, Callable[[Scene], None], int, dict[str, str]]) -> tuple[int, int, int, str]:
    """False departures, ghosts, double announcements, and what else went wrong."""
    _, happen, replicas, config = what
    scene = Scene(kind, replicas, config)
    ears: list[Ears] = []
    trouble = ""
    try:
        scene.call("PRESENCE.CREATE", "r", "TIMEOUT", round(TIMEOUT * 1000), "GRACE", round(GRACE * 1000), "RECENT", 0)
        scene.call("PRESENCE.MBEAT", "r", "MEMBERS", *BEATING)
        for replica in scene.servers[1:]:
            scene.linked(replica, scene.now)
        ears = [Ears(server) for server in scene.servers]
        with Beating(scene.servers, "r", BEATING) as beating:
            moment(0.3)
            scene.call("PRESENCE.MBEAT", "r", "MEMBERS", *LEAVING)
            for replica in scene.servers[1:]:
                scene.linked(replica, scene.now)
            happen(scene)
            moment(2 * TIMEOUT + GRACE + SLACK)
            gone = set().union(*(ear.of("offline") for ear in ears))
            beats = beating.rounds()
            count = scene.call("PRESENCE.COUNT", "r")
            try:
                wait_until(lambda: beating.rounds() > beats, timeout=5)
            except AssertionError:
                trouble = f"the clients do not get through ({sorted(beating.refusals)})"
            false = {f"r:{id}" for id in BEATING} & gone | set(beating.returned)
        # Two seconds more would show a second announcement.
        moment(TIMEOUT + GRACE)
        twice = sum(n - 1 for ear in ears for n in Counter(ear.of("offline")).values())
        ghosts = max(len({f"r:{id}" for id in LEAVING} - gone), count - len(BEATING) if not isinstance(count, Err) else 1)
        if not scene.now.alive:
            trouble = "the server died"
        if panics := int(scene.now.info().get("presence_panics", "0")):
            trouble = f"{panics} panics"
        return len(false), ghosts, twice, trouble
    finally:
        for ear in ears:
            ear.close()
        scene.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3, help="begin another round while less has passed (default 3)")
    parser.add_argument("--servers", default=",".join(KINDS), help="which, comma-separated (default all)")
    parser.add_argument("--only", default="", help="scenarios whose name has this")
    parser.add_argument("--at-once", type=int, default=2, help="servers tried at the same time (default 2)")
    options = parser.parse_args()
    began, failed, played = time.monotonic(), 0, 0
    print(f"{'server':12} {'scenario':24} {'false':>6} {'ghosts':>7} {'double':>7}   ok", flush=True)

    def one(kind: str, what: tuple[str, Callable[[Scene], None], int, dict[str, str]]) -> bool:
        try:
            false, ghosts, twice, trouble = play(kind, what)
        except Exception as failure:  # whatever it is, the scenario is not proved
            false, ghosts, twice, trouble = 0, 0, 0, f"{type(failure).__name__}: {str(failure)[:200]}"
        good = not (false or ghosts or twice or trouble)
        verdict = "ok" if good else f"NO {trouble}".rstrip()
        print(f"{kind:12} {what[0]:24} {false:6} {ghosts:7} {twice:7}   {verdict}", flush=True)
        return good

    work = [(kind, what) for what in SCENARIOS if options.only in what[0] for kind in options.servers.split(",")]
    with ThreadPoolExecutor(options.at_once) as pool:
        while not played or time.monotonic() - began < options.minutes * 60:
            # A round that began is played to its end, unless it is a repetition and time is up.
            again = played > 0
            results = pool.map(lambda w: None if again and time.monotonic() - began > options.minutes * 60 else one(*w), work)
            done = [good for good in results if good is not None]
            played += len(done)
            failed += done.count(False)
    print(f"{played} scenarios in {time.monotonic() - began:.0f} s, {failed} not as promised")
    return 1 if failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
