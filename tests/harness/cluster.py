"""A cluster of three primaries with a replica each, as real processes on loopback, and a client that follows the slots."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from typing import Any, Callable, Iterable, Mapping

from .events import Watcher
from .resp import Connection, Err, ReplyError
from .server import Server

SLOTS = 16384
SHARDS = 3
CONFIG = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": "1500",
    "cluster-replica-validity-factor": "0",
    "cluster-allow-replica-migration": "no",
    # Else two crashes in a row wait for a replica that is gone.
    "repl-backlog-size": "4mb",
}
# Answers that mean "not here" or "not now"; the command had no effect.
AGAIN = ("CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY", "BUSY")


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM, by which keys are spread over slots."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def slot_of(key: str | bytes) -> int:
    """The slot of a key: of its first non-empty `{tag}`, else of all of it."""
    data = key.encode() if isinstance(key, str) else key
    start = data.find(b"{")
    if start >= 0 and (end := data.find(b"}", start + 1)) > start + 1:
        data = data[start + 1 : end]
    return crc16(data) % SLOTS


class Node:
    """One server of the cluster."""

    def __init__(self, server: Server, shard: int):
        self.server = server
        self.shard = shard
        self.id = str(server.client()("CLUSTER", "MYID"), "ascii")
        self.address = ("127.0.0.1", server.port)

    def __repr__(self) -> str:
        return f"<{self.server.kind}:{self.server.port} shard {self.shard}>"

    def call(self, *args: Any) -> Any:
        """One command on a connection of its own."""
        with Connection(self.server.socket) as c:
            return c(*args)

    def is_primary(self) -> bool:
        return self.server.alive and self.server.info("replication")["role"] == "master"

    def state(self) -> str:
        return _fields(self.call("CLUSTER", "INFO")).get("cluster_state", "")

    def owners(self) -> dict[tuple[int, int], str]:
        """Ranges of slots to the id of their primary, as this node sees it."""
        return {(a, b): str(primary[2], "ascii") for a, b, primary, *_ in self.call("CLUSTER", "SLOTS")}


class Cluster:
    """Six nodes. `primaries[n]` and `replicas[n]` are of shard n as they were created; `owner` tells who it is now."""

    def __init__(self, make_server: Callable[..., Server], config: Mapping[str, Any] | None = None):
        config = CONFIG | dict(config or {})
        servers = [make_server(port=0, config=config) for _ in range(2 * SHARDS)]
        self.nodes = [Node(server, number % SHARDS) for number, server in enumerate(servers)]
        self.primaries, self.replicas = self.nodes[:SHARDS], self.nodes[SHARDS:]
        self._join()

    def _join(self) -> None:
        for number, node in enumerate(self.nodes):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        self._meet()
        for number, node in enumerate(self.primaries):
            start, end = SLOTS * number // SHARDS, SLOTS * (number + 1) // SHARDS - 1
            node.call("CLUSTER", "ADDSLOTSRANGE", start, end)
        for primary, replica in zip(self.primaries, self.replicas):
            replica.call("CLUSTER", "REPLICATE", primary.id)
        self.wait_ok()

    def _meet(self) -> None:
        met = lambda: all(len(self._known(node)) == len(self.nodes) for node in self.nodes)
        # A node forgets whom it has not met within its node timeout, which a busy machine may need.
        for attempt in range(4):
            for node in self.nodes[1:]:
                port = node.call("CONFIG", "GET", "cluster-port")[1]
                self.nodes[0].call("CLUSTER", "MEET", *node.address, int(port))
            try:
                self.wait(met, "all nodes to meet", 10.0)
                return
            except AssertionError:
                if attempt == 3:
                    raise

    def _known(self, node: Node) -> list[bytes]:
        lines = node.call("CLUSTER", "NODES").splitlines()
        return [line for line in lines if b"handshake" not in line and b"connected" in line]

    # -- waiting ----------------------------------------------------------------------------------------------------

    @staticmethod
    def wait(predicate: Callable[[], Any], what: str, timeout: float = 30.0) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            try:
                if value := predicate():
                    return value
            except (OSError, ReplyError):
                value = None
            if time.monotonic() >= deadline:
                raise AssertionError(f"waited {timeout} s for {what}; last: {value!r}")
            time.sleep(0.02)

    def wait_ok(self, timeout: float = 40.0) -> None:
        """Until every living node says that the cluster serves, sees the same owners, and every replica is in step."""

        def ok() -> bool:
            living = self.living()
            if any(node.state() != "ok" for node in living):
                return False
            if len({tuple(sorted(_by_slot(node.owners()))) for node in living}) != 1:
                return False
            roles = [node.server.info("replication") for node in living]
            return all(r["role"] == "master" or r.get("master_link_status") == "up" for r in roles)

        self.wait(ok, "the cluster to serve", timeout)

    def wait_equal(self) -> None:
        """Until the two nodes of every shard hold the same."""
        self.wait_ok()
        digest = lambda node: node.call("DEBUG", "DIGEST")
        pairs = list(zip(self.primaries, self.replicas))
        self.wait(lambda: all(digest(one) == digest(two) for one, two in pairs), "replicas to hold the same")

    def living(self) -> list[Node]:
        return [node for node in self.nodes if node.server.alive]

    # -- who has what -----------------------------------------------------------------------------------------------

    def by_id(self, id: str) -> Node:
        return next(node for node in self.nodes if node.id == id)

    def owner(self, slot: int) -> Node:
        """The primary that serves the slot, as the living primaries see it."""
        owners = next(node for node in self.living() if node.state() == "ok").owners()
        return self.by_id(next(id for (a, b), id in owners.items() if a <= slot <= b))

    def partner(self, node: Node) -> Node:
        """The other node of its shard."""
        return next(other for other in self.nodes if other.shard == node.shard and other is not node)

    def client(self) -> ClusterClient:
        return ClusterClient(self)

    # -- what operators do ------------------------------------------------------------------------------------------

    def move_slot(self, slot: int, to: Node, at_once: int = 10) -> int:
        """Moves one slot as operators do by hand: SETSLOT, MIGRATE … KEYS, SETSLOT. Returns how many keys went."""
        source, moved = self.owner(slot), 0
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, at_once):
            source.call("MIGRATE", *to.address, "", 0, 5000, "KEYS", *keys)
            moved += len(keys)
        # Each knows whose it is, but news of before may still be on the way and undo it: then it is said again.
        for _ in range(5):
            others = (p for p in self.living() if p is not to and p is not source and p.is_primary())
            for node in (to, source, *others):
                node.call("CLUSTER", "SETSLOT", slot, "NODE", to.id)
            if self._agree(slot, to):
                break
        return moved

    def _agree(self, slot: int, to: Node) -> bool:
        """Whether all living primaries say for a second, or as soon as all heard of it, that the slot is `to`'s."""
        try:
            owner = lambda node: next((id for (a, b), id in node.owners().items() if a <= slot <= b), None)
            primaries = [node for node in self.living() if node.is_primary()]
            self.wait(lambda: all(owner(node) == to.id for node in primaries), "one owner of the slot", 2.0)
            return True
        except AssertionError:
            return False

    def reshard(self, source: Node, to: Node, slots: int) -> str:
        """`redis-cli --cluster reshard`, which wants all nodes to agree first; its output."""
        self.wait_ok()
        tool = shutil.which("redis-cli") or "redis-cli"
        options = ["--cluster-from", source.id, "--cluster-to", to.id, "--cluster-slots", str(slots), "--cluster-yes"]
        address = f"{source.address[0]}:{source.address[1]}"
        done = subprocess.run(
            [tool, "--cluster", "reshard", address, *options], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise RuntimeError(f"reshard failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def fail_over(self, replica: Node, *how: str) -> None:
        """CLUSTER FAILOVER, and waits until the replica is the primary and all agree."""
        # The others do not vote twice for one shard within two node timeouts.
        for attempt in range(4):
            replica.call("CLUSTER", "FAILOVER", *how)
            try:
                self.wait(replica.is_primary, "the replica's promotion", 6.0)
                break
            except AssertionError:
                if attempt == 3:
                    raise
        self.wait_ok()

    def kill(self, node: Node) -> None:
        node.server.kill()

    def restart(self, *nodes: Node) -> None:
        for node in nodes:
            node.server.start()


class ClusterClient:
    """Follows MOVED and ASK. `call` tries again, for `patience` s, while nobody can serve; `once` gives up at once."""

    def __init__(self, cluster: Cluster, patience: float = 30.0):
        self.cluster = cluster
        self.patience = patience
        self.redirections: dict[str, int] = {}
        self._map: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def __call__(self, *args: Any, key: str | bytes | None = None) -> Any:
        reply = self.call(*args, key=key)
        if isinstance(reply, Err):
            raise ReplyError(reply)
        return reply

    def call(self, *args: Any, key: str | bytes | None = None) -> Any:
        deadline = time.monotonic() + self.patience
        while True:
            reply = self.once(*args, key=key)
            if reply is not None and not (isinstance(reply, Err) and reply.code in AGAIN):
                return reply if not isinstance(reply, _Nil) else None
            if time.monotonic() >= deadline:
                raise AssertionError(f"nobody served {args[:3]} for {self.patience} s; last: {reply!r}")
            time.sleep(0.05)

    def once(self, *args: Any, key: str | bytes | None = None) -> Any:
        """The reply, an error such as CLUSTERDOWN, or None if the node could not be reached. A nil is `NIL`."""
        slot = slot_of(args[1] if key is None else key)
        address, asking = self._address(slot), False
        for _ in range(8):
            reply = self._try(address, args, asking) if address else None
            asking = False
            if reply is None:
                self._map.clear()
                return None
            if not isinstance(reply, Err) or reply.code not in ("MOVED", "ASK"):
                if isinstance(reply, Err) and reply.code in AGAIN:
                    self._map.clear()
                return reply
            self.redirections[reply.code] = self.redirections.get(reply.code, 0) + 1
            host, _, port = reply.split(" ")[2].rpartition(":")
            address = (host or "127.0.0.1", int(port))
            if reply.code == "ASK":
                asking = True
            else:
                self._map[slot] = address
        return Err("TRYAGAIN sent to and fro")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _address(self, slot: int) -> tuple[str, int] | None:
        if slot not in self._map:
            for node in self.cluster.living():
                if isinstance(ranges := self._try(node.address, ("CLUSTER", "SLOTS"), False), list):
                    self._map = {s: (str(p[0], "ascii"), p[1]) for a, b, p, *_ in ranges for s in range(a, b + 1)}
                    break
        return self._map.get(slot)

    def _try(self, address: tuple[str, int], args: Iterable[Any], asking: bool) -> Any:
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = Connection(address, timeout=5.0)
            if asking:
                connection("ASKING")
            reply = connection.call(*args)
            return NIL if reply is None else reply
        except (OSError, ReplyError):
            if connection := self._connections.pop(address, None):
                connection.close()
            return None


class _Nil:
    """A nil reply, where None says something else."""


NIL = _Nil()


class Crowd:
    """Members that beat every `every` s, each room on a thread of its own, until they are told to stop."""

    def __init__(self, cluster: Cluster, rooms: Mapping[str, Iterable[str]], every: float = 0.25):
        self.cluster = cluster
        self.every = every
        self.rooms = {room: list(ids) for room, ids in rooms.items()}
        self._beats = dict.fromkeys(self.rooms, 0)
        # Each beat and its answer, by `room:member`: what to look at when somebody was accused.
        self.tried: dict[str, list[tuple[float, str]]] = {}
        self.odd: list[str] = []
        self._stop = threading.Event()
        # Held for each beat, so that nothing of whoever has left is still under way.
        self._locks = {room: threading.Lock() for room in self.rooms}
        self._threads = [threading.Thread(target=self._run, args=(room,), daemon=True) for room in self.rooms]

    @property
    def beats(self) -> int:
        """Beats that renewed somebody."""
        return sum(self._beats.values())

    def start(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def leave(self, room: str, id: str) -> None:
        """This one falls silent; its last beat has been answered."""
        with self._locks[room]:
            self.rooms[room].remove(id)

    def __enter__(self) -> Crowd:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, room: str) -> None:
        client = self.cluster.client()
        while not self._stop.is_set():
            for id in list(self.rooms[room]):
                # Refused, it tries again at once, as client libraries do.
                while not self._beat(client, room, id) and not self._stop.wait(0.02):
                    pass
            self._stop.wait(self.every)
        client.close()

    def _beat(self, client: ClusterClient, room: str, id: str) -> bool:
        with self._locks[room]:
            if id not in self.rooms[room]:
                return True
            reply = client.once("PRESENCE.BEAT", room, id)
        refused = reply is None or isinstance(reply, Err) and reply.code in AGAIN
        self.tried.setdefault(f"{room}:{id}", []).append((round(time.monotonic(), 3), str(reply)))
        if reply == 0:
            self._beats[room] += 1
        elif not refused:
            self.odd.append(f"{time.monotonic():.3f} {room} {id}: {reply!r}")
        return not refused


class Watch:
    """Presence events of all nodes. A node that was started anew must be `add`ed again."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.watchers: list[tuple[Node, Watcher]] = []
        for node in cluster.nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        self.watchers.append((node, Watcher(node.server)))

    def sync(self) -> None:
        for node, watcher in self.watchers:
            if node.server.alive:
                try:
                    watcher.sync()
                except (AssertionError, OSError):
                    # It watched the process before this one.
                    if any(n is node and w is not watcher for n, w in self.watchers):
                        continue
                    raise

    def of(self, *kinds: str) -> list[tuple[Node, float, str, str]]:
        """Node, moment, kind and `room:member`, by time."""
        found = [
            (node, event.t, event.kind.removeprefix("presence."), event.name.decode())
            for node, watcher in self.watchers
            for event in watcher.of(*kinds)
        ]
        return sorted(found, key=lambda event: event[1])

    def told(self, kind: str, by: Iterable[Node] | None = None) -> dict[str, list[Node]]:
        """`room:member` to the nodes (of `by`, if given) that told of it, as often as they did."""
        told: dict[str, list[Node]] = {}
        for node, _, _, name in self.of(kind):
            if by is None or node in by:
                told.setdefault(name, []).append(node)
        return told

    def doubles(self, kind: str, by: Iterable[Node] | None = None) -> list[str]:
        """What more than one shard, or a node more than once, told. A primary and its replica tell of the same change."""
        return [
            f"{name}: {nodes}"
            for name, nodes in self.told(kind, by).items()
            if len({node.shard for node in nodes}) > 1 or len(set(nodes)) < len(nodes)
        ]

    def close(self) -> None:
        for _, watcher in self.watchers:
            watcher.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _fields(text: bytes) -> dict[str, str]:
    lines = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    return {name: value for name, value in lines}


def _by_slot(owners: dict[tuple[int, int], str]) -> list[tuple[int, int, str]]:
    return [(a, b, id) for (a, b), id in owners.items()]
