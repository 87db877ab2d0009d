"""What is seen from outside: clients in processes of their own, so that nobody's Python but theirs keeps them waiting.

`python outside.py ping <socket>` pings, `python outside.py listen <socket> <channel>` listens, `python outside.py count`
only counts. Each says when it is under way, goes on until its standard input ends, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import time
from typing import Any, NamedTuple, Sequence

# Between two pings, in s.
PAUSE = 0.0005
# What the counter does between two looks at the clock, in s.
BLOCK = 0.001


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Pings(NamedTuple):
    """In ms. `overslept`: how late the prober's own sleeps ended, which is none of the server's doing."""

    count: int
    p50: float
    p999: float
    longest: float
    overslept: float


class Outside:
    """One of them, at work as long as the block runs; `.saw` is what it prints."""

    saw: Any = None

    def __init__(self, *arguments: str):
        self._arguments = arguments

    def __enter__(self) -> Outside:
        command = [sys.executable, __file__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._process.stdout is None or not self._process.stdout.readline():
            raise SystemExit(f"bench: {self._arguments[0]} did not begin")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        out, _ = self._process.communicate("", timeout=60)
        if kind is None:
            self.saw = json.loads(out)

    @property
    def pings(self) -> Pings:
        return Pings(**self.saw)


def _ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _connected(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    return server


def _begun() -> None:
    print("under way", flush=True)


def ping(address: str) -> dict[str, float]:
    """Asks about 2,000 times a second."""
    took, overslept = [], []
    clock = time.perf_counter
    with _connected(address) as server:
        # The end is looked for only now and then, as that costs time.
        while len(took) % 32 or not took or not _ended():
            asked = clock()
            server.sendall(b"PING\r\n")
            if server.recv(64) != b"+PONG\r\n":
                raise SystemExit("the server did not answer PING")
            answered = clock()
            if not took:
                _begun()
            took.append(answered - asked)
            time.sleep(PAUSE)
            overslept.append(clock() - answered - PAUSE)
    ms = lambda values, share: percentile(values, share) * 1e3
    return Pings(len(took), ms(took, 0.5), ms(took, 0.999), ms(took, 1), ms(overslept, 0.999))._asdict()


def listen(address: str, channel: str) -> list[tuple[float, str]]:
    """Moments by the monotonic clock, which all processes share, and what came then."""
    came: list[tuple[float, bytes]] = []
    with _connected(address) as server:
        server.sendall(b"SUBSCRIBE %s\r\n" % channel.encode())
        server.recv(4096)
        _begun()
        # What was sent by the end is heard before.
        while select.select([server], [], [], 0.05)[0] or not _ended():
            if select.select([server], [], [], 0)[0]:
                data = server.recv(1 << 20)
                came.append((time.monotonic(), data))
    # Taken apart afterwards, as that takes time. A message may be torn: it came with its last byte.
    heard, rest = [], b""
    head = b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n" % (len(channel), channel.encode())
    for moment, data in came:
        *whole, rest = (rest + data).split(head)
        heard += [(moment, text) for text in whole]
        if rest.endswith(b"\r\n") and rest.count(b"\r\n") == 2:
            heard, rest = [*heard, (moment, rest)], b""
    return [(moment, text.split(b"\r\n")[1].decode()) for moment, text in heard if text]


def count() -> dict[str, float]:
    """Blocks of work of a millisecond, and how long they took in ms: what the machine does to somebody who works."""
    clock = time.perf_counter

    def work(turns: int) -> float:
        began = clock()
        for _ in range(turns):
            pass
        return clock() - began

    turns = 10_000
    turns = int(turns * BLOCK / min(work(turns) for _ in range(10)))
    took = []
    _begun()
    while len(took) % 32 or not _ended():
        took.append(work(turns))
    return {"p50": percentile(took, 0.5) * 1e3, "p999": percentile(took, 0.999) * 1e3, "longest": max(took) * 1e3}


if __name__ == "__main__":
    print(json.dumps({"ping": ping, "listen": listen, "count": count}[sys.argv[1]](*sys.argv[2:])))
