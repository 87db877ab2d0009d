"""Records what a server publishes, with the time of arrival."""

from __future__ import annotations

import re
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence

from .resp import Connection, Push

if TYPE_CHECKING:
    from .server import Server

PRESENCE_EVENTS = "__keyevent@*__:presence.*"
_KEYEVENT = re.compile(rb"__keyevent@(\d+)__:(.*)", re.DOTALL)


class Event(NamedTuple):
    """One message: arrival by time.monotonic(); the keyspace event's database, kind and name. Of other messages
    `db` is -1, `kind` the channel and `name` the payload."""

    t: float
    db: int
    kind: str
    name: bytes


class Watcher:
    """Subscribes on a connection of its own and records everything that arrives, on a thread of its own."""

    def __init__(
        self,
        server: Server,
        patterns: Sequence[str | bytes] = (PRESENCE_EVENTS,),
        channels: Sequence[str | bytes] = (),
        shard_channels: Sequence[str | bytes] = (),
        resp: int = 3,
    ):
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._mark = f"harness:{uuid.uuid4().hex}"
        self._marks: set[bytes] = set()
        self._connection: Connection = server.client(resp=resp)
        self._publisher: Connection = server.client()
        subscriptions = [
            ("PSUBSCRIBE", patterns),
            ("SUBSCRIBE", [*channels, self._mark]),
            ("SSUBSCRIBE", shard_channels),
        ]
        for verb, names in subscriptions:
            for name in names:
                # One at a time: sharded channels of several slots do not go together.
                self._connection.send(verb, name)
                confirmation = self._connection.read_push()
                if not isinstance(confirmation, list):
                    raise AssertionError(f"{verb} failed: {confirmation!r}")
        self._thread = threading.Thread(target=self._read, name="watcher", daemon=True)
        self._thread.start()

    # -- looking back -----------------------------------------------------------------------------------------------

    def of(self, *kinds: str, name: bytes | str | None = None) -> list[Event]:
        """The events recorded so far, of these kinds (`presence.online` or `online`; all if none) and this name."""
        with self._changed:
            events = list(self.events)
        return [e for e in events if _matches(e, kinds, name)]

    def kinds(self, name: bytes | str | None = None) -> list[str]:
        """The kinds recorded so far, in order, without the `presence.` before them."""
        return [e.kind.removeprefix("presence.") for e in self.of(name=name)]

    # -- waiting ----------------------------------------------------------------------------------------------------

    def wait_for(self, predicate: Callable[[Event], bool], timeout: float = 10.0, count: int = 1) -> Event:
        """The `count`th event for which `predicate` holds, already here or still to come; AssertionError if none in time."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = [e for e in self.events if predicate(e)]
                if len(found) >= count:
                    return found[count - 1]
                self._check()
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise AssertionError(f"not within {timeout} s ({len(found)} of {count}); seen: {self.events[-20:]}")

    def wait(self, kind: str, name: bytes | str | None = None, timeout: float = 10.0, count: int = 1) -> Event:
        """Waits for the `count`th event of this kind (and name)."""
        return self.wait_for(lambda e: _matches(e, (kind,), name), timeout, count)

    def sync(self, timeout: float = 10.0) -> None:
        """Returns when all that the server had published before this call is recorded: the way to see that nothing came."""
        mark = uuid.uuid4().hex.encode()
        self._publisher("PUBLISH", self._mark, mark)
        deadline = time.monotonic() + timeout
        with self._changed:
            while mark not in self._marks:
                self._check()
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise AssertionError(f"the subscriber heard nothing for {timeout} s")

    def hold_until(self, t: float) -> None:
        """Lets time pass until `t` (time.monotonic()), then `sync`s: the silence that a test is about."""
        while (left := t - time.monotonic()) > 0:
            time.sleep(left)
        self.sync()

    def clear(self) -> None:
        with self._changed:
            self.events.clear()

    def close(self) -> None:
        try:
            self._connection.socket.shutdown(2)
        except OSError:
            pass
        self._thread.join(5)
        self._connection.close()
        self._publisher.close()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # -- the reader -------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"the subscription broke: {self._failure!r}; seen: {self.events[-20:]}")

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.read_push(3600)
                arrived = time.monotonic()
                if not isinstance(message, (list, Push)) or message[0] not in (b"message", b"pmessage", b"smessage"):
                    raise AssertionError(f"unexpected message: {message!r}")
                channel, payload = message[-2], message[-1]
                with self._changed:
                    if channel == self._mark.encode():
                        self._marks.add(payload)
                    else:
                        self.events.append(_event(arrived, channel, payload))
                    self._changed.notify_all()
        except BaseException as failure:  # told to whoever waits
            with self._changed:
                self._failure = failure
                self._changed.notify_all()


def _event(arrived: float, channel: bytes, payload: bytes) -> Event:
    if found := _KEYEVENT.fullmatch(channel):
        return Event(arrived, int(found[1]), found[2].decode(), payload)
    return Event(arrived, -1, channel.decode("utf-8", "backslashreplace"), payload)


def _matches(event: Event, kinds: Sequence[str], name: bytes | str | None) -> bool:
    if kinds and event.kind not in kinds and event.kind.removeprefix("presence.") not in kinds:
        return False
    wanted = name.encode() if isinstance(name, str) else name
    return wanted is None or event.name == wanted
