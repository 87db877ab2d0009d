"""Clients that go on beating whatever happens to their servers, and ears that hear what each server announces."""

from __future__ import annotations

import heapq
import os
import selectors
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Sequence

from harness import Connection, Err, Server
from harness.events import PRESENCE_EVENTS
from harness.resp import encode

SHIM = Path(__file__).resolve().parents[1] / "harness" / "shim.c"


class Beating:
    """Members of one room that beat every `every` seconds over a few connections, half of those by MBEAT and half by single
    BEATs. A refused or broken connection is tried again, at the next of `servers`, as a client library would."""

    def __init__(self, servers: Sequence[Server], room: str, ids: Sequence[str], connections: int = 4, every: float = 0.1):
        self.refusals: set[str] = set()
        self.returned: list[str] = []  # members whom a beat brought back although they had never left
        self._servers, self._room, self._every = list(servers), room, every
        self._stop = threading.Event()
        self._rounds = [0] * connections
        parts = [ids[n::connections] for n in range(connections)]
        self._threads = [
            threading.Thread(target=self._run, args=(n, part, n % 2 == 0), daemon=True) for n, part in enumerate(parts)
        ]

    def __enter__(self) -> Beating:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def rounds(self) -> int:
        """How often each member has beaten with success, at least."""
        return min(self._rounds)

    def _run(self, n: int, ids: Sequence[str], together: bool) -> None:
        at, connection = 0, None
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                connection = connection or Connection(self._servers[at].socket)
                replies = self._beat(connection, ids, together)
            except (OSError, ValueError):
                replies = [Err("CLOSED")]
            errors = [reply for reply in replies if isinstance(reply, Err)]
            if errors:
                self.refusals.update(error.code for error in errors)
                if errors[0].code in ("CLOSED", "READONLY", "MASTERDOWN"):
                    connection = connection and connection.close()
                    at = (at + 1) % len(self._servers)
                self._stop.wait(0.02)
                continue
            self._rounds[n] += 1
            self.returned += [id for id, reply in zip(ids, replies) if reply != 0]
            self._stop.wait(max(0.0, self._every - (time.monotonic() - started)))
        if connection:
            connection.close()

    def _beat(self, connection: Connection, ids: Sequence[str], together: bool) -> list[Any]:
        if together:
            reply = connection.call("PRESENCE.MBEAT", self._room, "EACH", "MEMBERS", *ids)
            return reply if isinstance(reply, list) else [reply]
        for id in ids:
            connection.send("PRESENCE.BEAT", self._room, id)
        return [connection.read() for _ in ids]


class Clients:
    """Members that beat every `every` seconds, each over a connection of its own, all of them on one thread. As client
    libraries do, each waits for the answer before it beats again, tries again after a refusal, goes to the next server when
    its own is gone or no primary, and follows the slots of a cluster."""

    # After these the same beat may succeed later, here or elsewhere. Others are kept in `odd`.
    LATER = {"BUSY", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "LOADING"}
    ELSEWHERE = {"READONLY", "MASTERDOWN", "CLOSED"}
    RETRY = 0.02

    def __init__(self, servers: Sequence[Server], members: Sequence[tuple[str, str]], every: float = 0.1):
        self.returned: list[str] = []  # `room:member` whom a later beat brought back although they had never left
        self.odd: set[str] = set()
        self.refusals: set[str] = set()
        self._servers, self._every = list(servers), every
        self._clients = [_Client(room, id) for room, id in members]
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clients", daemon=True)

    def __enter__(self) -> Clients:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join(30)
        for client in self._clients:
            self._close(client)

    def beats(self) -> int:
        """How often each of those who stay has beaten with success, at least."""
        return min(client.beats for client in self._clients if not client.leaves)

    def leave(self, members: Sequence[tuple[str, str]]) -> None:
        """These fall silent. Returns when the last beat of each has been answered."""
        leaving = [client for client in self._clients if (client.room, client.id) in set(members)]
        for client in leaving:
            client.leaves = True
        for client in leaving:
            if not client.gone.wait(30):
                raise AssertionError(f"{client.id} gets no answer; refusals so far: {sorted(self.refusals)}")

    def _run(self) -> None:
        step = self._every / max(1, len(self._clients))
        due = [(time.monotonic() + n * step, n) for n in range(len(self._clients))]
        while not self._stop.is_set():
            while due and due[0][0] <= time.monotonic():
                n = heapq.heappop(due)[1]
                client = self._clients[n]
                if client.leaves:
                    self._close(client)
                    client.gone.set()
                elif not self._send(client):
                    heapq.heappush(due, (time.monotonic() + self.RETRY, n))
            wait = min(0.05, max(0.0, due[0][0] - time.monotonic())) if due else 0.05
            for key, _ in self._selector.select(wait):
                client = self._clients[key.data]
                for reply in self._receive(client):
                    heapq.heappush(due, (time.monotonic() + self._answered(client, reply), key.data))

    def _send(self, client: _Client) -> bool:
        try:
            if client.socket is None:
                client.socket = socket.socket(socket.AF_UNIX)
                client.socket.setblocking(False)
                client.socket.connect(self._servers[client.at].socket)
                self._selector.register(client.socket, selectors.EVENT_READ, self._clients.index(client))
            asking = encode(["ASKING"]) if client.asking else b""
            client.socket.sendall(asking + encode(["PRESENCE.BEAT", client.room, client.id]))
            return True
        except OSError:
            self.refusals.add("CLOSED")
            self._close(client)
            client.at = (client.at + 1) % len(self._servers)
            return False

    def _receive(self, client: _Client) -> list[bytes]:
        """The reply, if it is whole by now. All replies to a beat are one line."""
        try:
            data = client.socket.recv(4096) if client.socket else b""
        except OSError:
            data = b""
        if not data:
            return [b"-CLOSED"]
        client.buffer += data
        *lines, client.buffer = client.buffer.split(b"\r\n")
        if client.asking and lines:
            client.asking = lines.pop(0) != b"+OK"
        return lines

    def _answered(self, client: _Client, reply: bytes) -> float:
        """Takes the answer in; how long to wait before the next beat."""
        if not reply.startswith(b"-"):
            client.beats += 1
            if reply != (b":1" if client.beats == 1 else b":0"):
                self.returned.append(f"{client.room}:{client.id}")
            return self._every
        code, *words = reply[1:].decode().split()
        if code in ("MOVED", "ASK"):
            port = int(words[1].rpartition(":")[2])
            self._close(client)
            client.at = next(n for n, server in enumerate(self._servers) if server.port == port)
            client.asking = code == "ASK"
            return 0.001
        self.refusals.add(code)
        if code in self.ELSEWHERE:
            self._close(client)
            client.at = (client.at + 1) % len(self._servers)
        elif code not in self.LATER:
            self.odd.add(reply.decode())
        return self.RETRY

    def _close(self, client: _Client) -> None:
        if client.socket is not None:
            try:
                self._selector.unregister(client.socket)
            except KeyError:
                pass  # it never connected
            client.socket.close()
        client.socket, client.buffer, client.asking = None, b"", False


class _Client:
    def __init__(self, room: str, id: str):
        self.room, self.id = room, id
        self.at = 0  # which of the servers
        self.socket: socket.socket | None = None
        self.buffer = b""
        self.asking = False  # the next beat goes to a slot on its way
        self.beats = 0
        self.leaves = False
        self.gone = threading.Event()


class Ears:
    """Records the presence events of one server, and subscribes again when the connection breaks."""

    def __init__(self, server: Server):
        self.heard: list[tuple[float, str, str]] = []  # arrival, kind, name
        self._server = server
        self._stop = threading.Event()
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.ready.wait(10)

    def of(self, kind: str) -> list[str]:
        """The names in the events of this kind, in order."""
        return [name for _, k, name in list(self.heard) if k == kind]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def __enter__(self) -> Ears:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with Connection(self._server.socket, resp=3) as connection:
                    connection.send("PSUBSCRIBE", PRESENCE_EVENTS)
                    connection.read_push()
                    self.ready.set()
                    while not self._stop.is_set():
                        try:
                            message = connection.read_push(0.2)
                        except TimeoutError:
                            continue
                        kind = message[-2].split(b"__:presence.", 1)[1].decode()
                        self.heard.append((time.monotonic(), kind, message[-1].decode()))
            except (OSError, RuntimeError, ValueError):
                self._stop.wait(0.005)


class Shim:
    """A wall clock that a test may move, for servers that are started while it is in force."""

    def __init__(self, folder: Path, setenv: Callable[[str, str], None]):
        library, self._offset = folder / "shim.so", folder / "offset"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", library, SHIM], check=True)
        self._offset.write_bytes(bytes(8))
        setenv("LD_PRELOAD", str(library))
        setenv("SHIM_OFFSET", str(self._offset))

    def set(self, seconds: float) -> None:
        """The server's wall clock is now this far ahead of the true one."""
        with self._offset.open("r+b", buffering=0) as file:
            file.write(round(seconds * 1e6).to_bytes(8, "little", signed=True))


def moment(seconds: float) -> None:
    """Lets so much time pass."""
    threading.Event().wait(seconds)
