"""Clients that go on beating whatever happens to their servers, and ears that hear what each server announces."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Sequence

from harness import Connection, Err, Server
from harness.events import PRESENCE_EVENTS

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
