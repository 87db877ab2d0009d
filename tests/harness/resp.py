"""A raw RESP2/RESP3 connection: what the server really sent, not what a client library makes of it."""

from __future__ import annotations

import socket
import time
from collections import deque
from typing import Any, Callable, Iterable

# How long a reply that has begun, or that is due, may take.
REPLY_TIMEOUT = 30.0


class Err(str):
    """An error reply, without the leading `-`; a value like any other until a test looks at it."""

    @property
    def code(self) -> str:
        return self.split(" ", 1)[0]

    def __repr__(self) -> str:
        return f"Err({str.__repr__(self)})"


class ReplyError(Exception):
    """An error reply where the caller expected none."""

    def __init__(self, err: Err):
        super().__init__(str(err))
        self.err = err


class Push(list):
    """A RESP3 push message."""


class Verbatim(bytes):
    """A RESP3 verbatim string, without its three-letter format."""


class ProtocolError(Exception):
    """What came is not RESP."""


def encode(args: Iterable[Any]) -> bytes:
    """One command as RESP; str as UTF-8, numbers as decimal."""
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, list) else value


class Connection:
    """One connection. `c("GET", "k")` returns the reply or raises ReplyError; `c.call("GET", "k")` returns errors as `Err` too.

    Bulk strings are bytes, simple strings str, null None, doubles float, booleans bool, maps dict, sets set.
    """

    def __init__(self, address: str | tuple[str, int], resp: int = 2, db: int = 0, timeout: float = REPLY_TIMEOUT):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.resp = resp
        self.pushes: deque[Push] = deque()
        self.last_raw = b""
        self._buffer = bytearray()
        self._at = 0
        if resp == 3:
            self("HELLO", "3")
        if db:
            self("SELECT", db)

    # -- commands ---------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any) -> Any:
        reply = self.call(*args)
        if isinstance(reply, Err):
            raise ReplyError(reply)
        return reply

    def call(self, *args: Any) -> Any:
        self.send(*args)
        return self.read()

    def raw(self, *args: Any) -> bytes:
        """The exact bytes of the reply, for golden files."""
        self.call(*args)
        return self.last_raw

    def pipeline(self, commands: Iterable[Iterable[Any]]) -> list[Any]:
        """Sends all commands at once; the replies in order, errors as `Err`."""
        encoded = [encode(c) for c in commands]
        self.send_raw(b"".join(encoded))
        return [self.read() for _ in encoded]

    def send(self, *args: Any) -> None:
        self.send_raw(encode(args))

    def send_raw(self, data: bytes) -> None:
        self.socket.settimeout(self.timeout)
        self.socket.sendall(data)

    # -- replies ----------------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> Any:
        """The next reply; RESP3 pushes before it are kept in `pushes`. TimeoutError if none begins in time."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            value = self._frame(deadline)
            if not isinstance(value, Push):
                return value
            self.pushes.append(value)

    def read_push(self, timeout: float = REPLY_TIMEOUT) -> Any:
        """The next message of a subscriber: a push (RESP3) or the next reply (RESP2). TimeoutError if none comes."""
        if self.pushes:
            return self.pushes.popleft()
        value = self._frame(time.monotonic() + timeout)
        if self.resp == 3 and not isinstance(value, Push):
            raise ProtocolError(f"expected a push, got {value!r}")
        return value

    def wait_push(self, predicate: Callable[[Any], bool], timeout: float = REPLY_TIMEOUT) -> Any:
        """The first message for which `predicate` holds; those before it are dropped."""
        deadline = time.monotonic() + timeout
        while True:
            value = self.read_push(max(0.0, deadline - time.monotonic()))
            if predicate(value):
                return value

    def at_end(self, timeout: float = REPLY_TIMEOUT) -> bool:
        """Whether the server has closed the connection, waiting at most `timeout` for it."""
        try:
            self._frame(time.monotonic() + timeout)
        except ConnectionError:
            return True
        except TimeoutError:
            pass
        return False

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # -- parsing ----------------------------------------------------------------------------------------------------

    def _frame(self, deadline: float) -> Any:
        # Waits for the first byte until the deadline; once a frame has begun it is read whole, so a timeout never tears one.
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
            self._receive(max(0.001, deadline - time.monotonic()))
        start = self._at
        value = self._value()
        self.last_raw = bytes(self._buffer[start : self._at])
        return value

    def _receive(self, timeout: float) -> None:
        self.socket.settimeout(timeout)
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._buffer += data

    def _line(self) -> bytes:
        search = self._at
        while (end := self._buffer.find(b"\r\n", search)) < 0:
            search = max(self._at, len(self._buffer) - 1)
            self._receive(REPLY_TIMEOUT)
        line = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return line

    def _bulk(self, length: int) -> bytes:
        end = self._at + length
        while len(self._buffer) < end + 2:
            self._receive(REPLY_TIMEOUT)
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolError("a bulk string does not end where it says")
        data = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return data

    def _value(self) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Err(rest.decode("utf-8", "backslashreplace"))
        if kind in (b":", b"("):
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._value() for _ in range(int(rest))]
        if kind == b"_":
            return None
        if kind == b"#":
            return {b"t": True, b"f": False}[rest]
        if kind == b",":
            return float(rest)
        if kind == b"=":
            return Verbatim(self._bulk(int(rest))[4:])
        if kind == b"!":
            return Err(self._bulk(int(rest)).decode("utf-8", "backslashreplace"))
        if kind == b"~":
            members = [_hashable(self._value()) for _ in range(int(rest))]
            return self._unique(members, set(members))
        if kind == b"%":
            pairs = [(_hashable(self._value()), self._value()) for _ in range(int(rest))]
            return self._unique(pairs, dict(pairs))
        if kind == b">":
            return Push(self._value() for _ in range(int(rest)))
        if kind == b"|":  # attributes of the reply that follows
            for _ in range(2 * int(rest)):
                self._value()
            return self._value()
        raise ProtocolError(f"not RESP: {line!r}")

    @staticmethod
    def _unique(items: list[Any], collected: Any) -> Any:
        if len(items) != len(collected):
            raise ProtocolError(f"repeated keys or members: {items!r}")
        return collected
