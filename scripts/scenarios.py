"""What happens to servers in `make chaos`: the scenes, what befalls them, and the table of both."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Collection

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "survival")]

from crowds import Clients, Ears, Shim, moment  # noqa: E402
from harness import Err, Server  # noqa: E402
from harness.cluster import Cluster, slot_of  # noqa: E402
from harness.migration import KINDS as MIGRATING, Migration  # noqa: E402
from support import wait_until  # noqa: E402

STAY, LEAVE = 100, 20
# On a busy machine the announcement itself, and the ears, may be late.
SLACK = 0.5
HOUR, DAY = 3600, 86400


class Scene:
    """A primary, `now`, perhaps with replicas; one room."""

    timeout, grace = 0.6, 0.3
    rooms = ["r"]

    def __init__(self, kind: str, config: dict[str, str], replicas: int = 0, clock: bool = False):
        self.kind, self.servers, self._env, self._folder = kind, [], {}, None
        if clock:
            self._folder = tempfile.TemporaryDirectory(prefix="pr-")
            self.clock = Shim(Path(self._folder.name), self._env.__setitem__)
        try:
            self.begin(config, replicas)
        except BaseException:
            self.close()
            raise

    def begin(self, config: dict[str, str], replicas: int) -> None:
        config = {"repl-ping-replica-period": "3600"} | config
        self.now = self.make(port=0, config=config)
        for _ in range(replicas):
            self.make(port=0, config=config | {"replicaof": f"127.0.0.1 {self.now.port}"})
        self.settle()

    def make(self, **options: object) -> Server:
        self.servers.append(Server(self.kind, env=self._env, **options))
        return self.servers[-1]

    def call(self, *command: object) -> object:
        """At the primary; a refusal is an answer, too."""
        with self.now._connect() as client:
            return client.call(*command)

    def settle(self) -> None:
        """Until all copies hold what their primary holds."""
        offset = lambda server, name: server.info("replication").get(name)
        for replica in self.servers:
            if replica is self.now:
                continue
            wait_until(lambda: offset(replica, "master_link_status") == "up", timeout=30, every=0.02)
            self.call("PUBLISH", "in", "step")
            wait_until(lambda: offset(self.now, "master_repl_offset") == offset(replica, "slave_repl_offset"), timeout=30)

    def shard(self, server: Server) -> int:
        """Only one shard tells of a going: its primary, and its replica after it."""
        return 0

    def close(self) -> None:
        for server in self.servers:
            server.close()
        if self._folder:
            self._folder.cleanup()


class ClusterScene(Scene):
    """Three primaries with a replica each, ten rooms over all of them. A timeout and a grace hold a failover."""

    timeout, grace = 1.0, 0.8
    rooms = [f"r{n}" for n in range(10)]

    def begin(self, config: dict[str, str], replicas: int) -> None:
        self.cluster = Cluster(self.make, config)
        self.now = self.servers[0]
        self.client = self.cluster.client()

    def call(self, *command: object) -> object:
        return self.client.call(*command)

    def settle(self) -> None:
        self.cluster.wait_equal()

    def shard(self, server: Server) -> int:
        return next(node.shard for node in self.cluster.nodes if node.server is server)

    def close(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
        super().close()


# -- what happens: each returns the seconds, if any, in which the server could hear meanwhile --------------------------


def stopped(scene: Scene) -> None:
    scene.now.pause()
    moment(3 * scene.timeout)
    scene.now.resume()


def asleep(scene: Scene) -> None:
    scene.call("DEBUG", "SLEEP", 3 * scene.timeout)


def script(scene: Scene) -> None:
    scene.call("CONFIG", "SET", "busy-reply-threshold", 300)
    now = "local function now() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end"
    scene.call("EVAL", f"{now} local start = now() repeat until now() - start > {3e6 * scene.timeout}", 0)


def paused(scene: Scene) -> None:
    scene.call("CLIENT", "PAUSE", round(3000 * scene.timeout), "WRITE")
    moment(3 * scene.timeout)


def unsaved(scene: Scene) -> None:
    file = scene.now.dir / "dump.rdb"
    file.mkdir()  # where the file should go
    scene.call("BGSAVE")
    wait_until(lambda: scene.now.info("persistence")["rdb_last_bgsave_status"] == "err")
    moment(3 * scene.timeout)
    file.rmdir()
    scene.call("SAVE")


def without_replicas(scene: Scene) -> None:
    scene.call("CONFIG", "SET", "min-replicas-to-write", 1)
    moment(3 * scene.timeout)
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
    moment(2 * (scene.timeout + scene.grace))
    scene.now = scene.servers[1]
    scene.call("REPLICAOF", "NO", "ONE")


def restored(scene: Scene) -> None:
    payload = scene.call("DUMP", "r")
    moment(scene.timeout / 2)
    scene.call("RESTORE", "r", 0, payload, "REPLACE")


def stalled(scene: Scene) -> float:
    for _ in range(5):
        scene.call("DEBUG", "SLEEP", 0.3)
        moment(0.7)
    return 5 * 0.7


def clock_set(scene: Scene) -> float:
    began, offset = time.monotonic(), 0
    for jump in (HOUR, -HOUR, DAY, -DAY, -HOUR, HOUR, -DAY, DAY):
        scene.clock.set(offset := offset + jump)
        moment(scene.timeout / 2)
    return time.monotonic() - began


def cluster_handed_over(scene: ClusterScene) -> None:
    nodes = scene.cluster
    for one, two in zip(nodes.primaries, nodes.replicas):
        nodes.fail_over(two)
    nodes.fail_over(nodes.primaries[0])


def cluster_down(scene: ClusterScene) -> None:
    """Of the three shards two die, with their replicas; the third may not serve alone."""
    nodes, last = scene.cluster, scene.cluster.primaries[2]
    lost = [node for node in nodes.nodes if node.shard != 2]
    for node in lost:
        nodes.kill(node)
    nodes.wait(lambda: last.state() == "fail", "the cluster to be down")
    moment(3 * scene.timeout)
    nodes.restart(*lost)
    nodes.wait_ok()


def slots_moved_by_hand(scene: ClusterScene) -> None:
    for room in scene.rooms:
        source = scene.cluster.owner(slot_of(room))
        to = scene.cluster.primaries[(source.shard + 1) % 3]
        if scene.cluster.move_slot(slot_of(room), to) != 1:
            raise AssertionError(f"{room} was not there")


def slots_migrated(scene: ClusterScene) -> None:
    for room in scene.rooms:
        source = scene.cluster.owner(slot_of(room))
        to = scene.cluster.primaries[(source.shard + 1) % 3]
        Migration(scene.cluster, slot_of(room), slot_of(room), to).wait()


@dataclass
class Scenario:
    """`happen` befalls a scene; `only` names the servers that can do it, if not all can."""

    name: str
    happen: Callable[..., float | None]
    scene: type[Scene] = Scene
    config: dict[str, str] = field(default_factory=dict)
    replicas: int = 0
    clock: bool = False
    only: Collection[str] = ()


LOG = {"appendonly": "yes", "appendfsync": "always"}
SCENARIOS = [
    Scenario("SIGSTOP, SIGCONT", stopped),
    Scenario("DEBUG SLEEP", asleep),
    Scenario("busy script", script),
    Scenario("CLIENT PAUSE WRITE", paused, config={"appendonly": "yes"}, replicas=1),
    Scenario("MISCONF", unsaved, config={"save": "3600 1"}),
    Scenario("NOREPLICAS", without_replicas),
    Scenario("FAILOVER, 5 times", handed_over, config=LOG, replicas=1),
    Scenario("restart from RDB", restarted_from_rdb),
    Scenario("restart from AOF", restarted_from_aof, config=LOG),
    Scenario("promotion", promoted, replicas=1),
    Scenario("RESTORE REPLACE", restored),
    Scenario("stalls, 300 ms a second", stalled),
    Scenario("wall clock set, 8 times", clock_set, clock=True),
    Scenario("CLUSTER FAILOVER, 4 times", cluster_handed_over, ClusterScene),
    Scenario("CLUSTERDOWN", cluster_down, ClusterScene, config=LOG),
    Scenario("slots by MIGRATE", slots_moved_by_hand, ClusterScene),
    Scenario("slots all at once", slots_migrated, ClusterScene, only=MIGRATING),
]


@dataclass
class Outcome:
    """How it went; all is well if everything is nothing."""

    false: int = 0
    ghosts: int = 0
    twice: int = 0
    trouble: str = ""

    def __bool__(self) -> bool:
        return not (self.false or self.ghosts or self.twice or self.trouble)


def play(kind: str, scenario: Scenario) -> Outcome:
    """Those who stay beat throughout. Half of the others fall silent, half say goodbye; then it happens."""
    scene = scenario.scene(kind, scenario.config, scenario.replicas, scenario.clock)
    ears: list[Ears] = []
    member = lambda name, n: (scene.rooms[n % len(scene.rooms)], f"{name}{n}")
    stay = [member("m", n) for n in range(STAY)]
    silent, goodbye = [member("s", n) for n in range(LEAVE)], [member("b", n) for n in range(LEAVE)]
    try:
        for room in scene.rooms:
            lasts = ("TIMEOUT", round(scene.timeout * 1000), "GRACE", round(scene.grace * 1000))
            expect(scene.call("PRESENCE.CREATE", room, *lasts, "RECENT", 0), "OK")
        ears = [Ears(server) for server in scene.servers]
        with Clients(scene.servers, [*stay, *silent, *goodbye]) as clients:
            count = lambda: sum(scene.call("PRESENCE.COUNT", room) for room in scene.rooms)
            wait_until(lambda: count() == STAY + 2 * LEAVE)
            clients.leave(silent), clients.leave(goodbye)
            for who in goodbye:
                expect(scene.call("PRESENCE.BYE", *who), 1)
            told_of = lambda: set().union(*(ears_.of("offline") for ears_ in ears))
            # A message on its way to the ears would die with its server.
            wait_until(lambda: names(goodbye) <= told_of())
            scene.settle()
            heard = scenario.happen(scene) or 0.0
            ended, deaf_before = time.monotonic(), deaf(scene)
            bound = max(0.0, 2 * scene.timeout + scene.grace - heard) + SLACK
            # On a busy machine a server stands still at times that it counts as deaf.
            while not names([*silent, *goodbye]) <= (gone := told_of()):
                if time.monotonic() > ended + bound + deaf(scene) - deaf_before:
                    break
                moment(0.05)
            moment(max(0.0, ended + bound - time.monotonic()))
            counted, beats = count(), clients.beats()
            outcome = Outcome()
            try:
                wait_until(lambda: clients.beats() > beats + 1, timeout=5)
            except AssertionError:
                outcome.trouble = f"not all clients get through ({sorted(clients.refusals)})"
            # Whoever were accused, or announced again, would be by now.
            moment(scene.timeout + scene.grace)
            told = [(scene.shard(server), Counter(ears_.of("offline"))) for server, ears_ in zip(scene.servers, ears)]
            accused = set().union(*(counts for _, counts in told)) & names(stay)
            outcome.false = len(accused | set(clients.returned))
        outcome.ghosts = max(len(names([*silent, *goodbye]) - gone), counted - STAY)
        shards = Counter(name for name, _ in {(name, shard) for shard, counts in told for name in counts})
        outcome.twice = sum(n - 1 for _, counts in told for n in counts.values()) + sum(n - 1 for n in shards.values())
        if clients.odd:
            outcome.trouble = f"odd answers: {sorted(clients.odd)[:3]}"
        for server in scene.servers:
            if not server.alive and scenario.happen is not promoted:
                outcome.trouble = "a server died"
            elif server.alive and (panics := int(server.info().get("presence_panics", "0"))):
                outcome.trouble = f"{panics} panics"
        return outcome
    finally:
        for ears_ in ears:
            ears_.close()
        scene.close()


def names(members: list[tuple[str, str]]) -> set[str]:
    """As events have them."""
    return {f"{room}:{id}" for room, id in members}


def deaf(scene: Scene) -> float:
    """Seconds for which the deafest of the living servers has been deaf since it was started."""
    infos = [server.info() for server in scene.servers if server.alive]
    return max(sum(int(value) for name, value in info.items() if "_deaf_ms_" in name) for info in infos) / 1000


def expect(reply: object, wanted: object) -> None:
    if reply != wanted or isinstance(reply, Err):
        raise AssertionError(f"{reply!r}, not {wanted!r}")
