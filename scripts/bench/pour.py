"""Requests written out beforehand and poured into a server: for what redis-benchmark cannot make up, as moments that grow."""

from __future__ import annotations

import selectors
import time
from typing import Any, Iterable, Sequence

from harness import Server
from harness.resp import encode
from measure import Rate, cpu_seconds

LINES = 4
MARK = b"the-end"
PIECE = 1 << 18
PATIENCE = 60.0


class _Line:
    """One connection: what it still has to send, and the end of what it has received."""

    def __init__(self, server: Server, requests: bytes):
        self.client = server.client()
        self.socket = self.client.socket
        self.socket.setblocking(False)
        self.left = memoryview(requests + encode(("ECHO", MARK)))
        self.tail = b"\r\n"

    def send(self) -> bool:
        """Whether there is more to send."""
        self.left = self.left[self.socket.send(self.left[:PIECE]) :]
        return bool(self.left)

    def receive(self) -> bool:
        """Whether there is more to receive. An error among the replies is one of this run."""
        data = self.tail + self.socket.recv(PIECE)
        if (at := data.find(b"\r\n-")) >= 0:
            raise RuntimeError(f"a request failed: {data[at + 2 : at + 200]!r}")
        if data == self.tail:
            raise RuntimeError("the server closed the connection")
        self.tail = data[-len(MARK) - 2 :]
        return self.tail != MARK + b"\r\n"


def pour(server: Server, streams: Sequence[bytes], requests: int) -> Rate:
    """Each stream over a connection of its own, as fast as the server takes them; `requests` is how many they hold in all."""
    lines = [_Line(server, stream) for stream in streams]
    with selectors.DefaultSelector() as selector, server.client() as client:
        for line in lines:
            selector.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
        cpu, started = cpu_seconds(client), time.perf_counter()
        while selector.get_map():
            ready = selector.select(PATIENCE)
            if not ready:
                raise TimeoutError(f"the server was silent for {PATIENCE:.0f} s")
            for key, events in ready:
                line = key.data
                if events & selectors.EVENT_WRITE and not line.send():
                    selector.modify(line.socket, selectors.EVENT_READ, line)
                if events & selectors.EVENT_READ and not line.receive():
                    selector.unregister(line.socket)
        rate = Rate(requests / (time.perf_counter() - started), (cpu_seconds(client) - cpu) / requests * 1e6)
    for line in lines:
        line.client.close()
    return rate


def streams(commands: Iterable[Sequence[Any]]) -> list[bytes]:
    """Commands, dealt out to the connections in turn."""
    encoded = [encode(command) for command in commands]
    return [b"".join(encoded[n::LINES]) for n in range(LINES)]
