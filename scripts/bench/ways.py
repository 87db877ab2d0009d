"""The ways to know who is here: ours, and what is run instead, each written as those write it who use it.

All of them know the same members and do the same jobs: a beat, how many are here, who of 200 friends is, and who left.
Times to live are as long as the caller says: a day where nobody is to leave, which costs a server no less than 30 s.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from harness import Connection, Server, Watcher
from measure import STAY

Words = Sequence[Any]
Known = Callable[[], dict[str, float]]

DAY_S = 86_400
# How often those sweep who sweep, in seconds.
SWEEP_S = 1.0
LUA = {name: (Path(__file__).parent / "lua" / f"{name}.lua").read_text() for name in ("beat", "bye", "sweep")}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Way:
    """One of them. A job that it cannot do gives None."""

    name = ""
    made_of = ""
    # When a departure is known, by design; and what one has to add, or to do without.
    departure = ""
    lacks = ""
    # What notify-keyspace-events must be for departures to be heard of.
    events = ""

    def missing(self, client: Connection) -> str:
        """What the server lacks for it."""
        return ""

    def prepare(self, client: Connection) -> None:
        pass

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        """The commands of one beat; without another in `stay` seconds the member has left."""
        raise NotImplementedError

    def count(self, now: int) -> Words | None:
        return None

    def friends(self, members: Sequence[str]) -> Words | None:
        return None

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known | None]:
        """While it lasts, the departures known so far: when each of those in `due` was known to have left."""
        yield None


class Ours(Way):
    name = "PRESENCE.BEAT"
    made_of = "PRESENCE.BEAT, COUNT, FRIENDS"
    departure = "pushed, with the name, as it is due"
    lacks = "servers that load no modules"
    events = "Ed"

    def prepare(self, client: Connection) -> None:
        client("PRESENCE.CREATE", "room", *STAY, "SHARE", "friends")

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        own = () if stay == DAY_S else ("TIMEOUT", stay * 1000, "GRACE", 0)
        return [("PRESENCE.BEAT", "room", member, *own)]

    def count(self, now: int) -> Words:
        return ("PRESENCE.COUNT", "room")

    def friends(self, members: Sequence[str]) -> Words:
        return ("PRESENCE.FRIENDS", "room", "viewer", *members)

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known]:
        with heard(server, due, b"room:", "__keyevent@0__:presence.offline") as known:
            yield known


class SortedSet(Way):
    name = "sorted set"
    made_of = "ZADD, ZCOUNT, ZMSCORE, ZREMRANGEBYSCORE"
    departure = "seen at once by who asks; found by the next sweep, each second"
    lacks = "sessions, grace, announcements; each beat is replicated and logged"

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        return [("ZADD", "online", now + stay * 1000, member)]

    def count(self, now: int) -> Words:
        return ("ZCOUNT", "online", now, "+inf")

    def friends(self, members: Sequence[str]) -> Words:
        return ("ZMSCORE", "online", *members)

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known]:
        found: dict[str, float] = {}
        with server.client() as client:

            def sweep() -> None:
                now = now_ms()
                *_, (gone, _) = client.pipeline(
                    [
                        ("MULTI",),
                        ("ZRANGEBYSCORE", "online", "-inf", now),
                        ("ZREMRANGEBYSCORE", "online", "-inf", now),
                        ("EXEC",),
                    ]
                )
                found.update((member.decode(), time.monotonic()) for member in gone)

            with every(SWEEP_S, sweep):
                yield lambda: dict(found)


class KeyEach(Way):
    name = "key each"
    made_of = "SET … EX, MGET, `expired` events"
    departure = "seen at once by who asks; pushed when the server's sampling comes by"
    lacks = "a count, sessions, grace; each beat is replicated and logged"
    events = "Ex"

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        return [("SET", f"online:{member}", 1, "EX", stay)]

    def friends(self, members: Sequence[str]) -> Words:
        return ("MGET", *(f"online:{member}" for member in members))

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known]:
        with heard(server, due, b"online:", "__keyevent@0__:expired") as known:
            yield known


class HashField(Way):
    name = "hash field each"
    made_of = "HSETEX (or HSET, HPEXPIRE), HLEN, HMGET, `hexpired` events"
    departure = "seen at once by who asks; pushed, without the name, when the server expires fields"
    lacks = "who left, sessions, grace; each beat is replicated and logged"
    events = "Eh"
    KEY = "here"

    def missing(self, client: Connection) -> str:
        self.at_once, later = (bool(reply) for reply in client("COMMAND", "INFO", "HSETEX", "HPEXPIRE"))
        return "" if self.at_once or later else "no fields with a time to live on this server"

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        if self.at_once:
            return [("HSETEX", self.KEY, "EX", stay, "FIELDS", 1, member, 1)]
        return [("HSET", self.KEY, member, 1), ("HPEXPIRE", self.KEY, stay * 1000, "FIELDS", 1, member)]

    def count(self, now: int) -> Words:
        return ("HLEN", self.KEY)

    def friends(self, members: Sequence[str]) -> Words:
        return ("HMGET", self.KEY, *members)

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known]:
        """The event says that some have left: who, only those learn who ask for the ones they know."""
        found: dict[str, float] = {}
        asked = 0

        with server.client() as client, Watcher(server, ["__keyevent@0__:hexpired"]) as watcher:

            def ask() -> None:
                nonlocal asked
                told = len(watcher.of())
                if told == asked:
                    return
                asked = told
                if open_ := [member for member in list(due) if member not in found]:
                    values = client("HMGET", self.KEY, *open_)
                    found.update((member, time.monotonic()) for member, value in zip(open_, values) if value is None)

            with every(0.001, ask):
                yield lambda: dict(found)


class Lua(Way):
    name = "Lua script"
    made_of = "EVALSHA of a beat with sessions, grace and PUBLISH; HLEN, HMGET; a sweeper script"
    departure = "pushed, with the name, by the next sweep, each second"
    lacks = "uniques, visibility, a feed; a server that stood still accuses everybody; each beat is replicated and logged"
    KEYS = ("{online}:sessions", "{online}:members")
    CHANNEL = "presence:online"

    def prepare(self, client: Connection) -> None:
        self.shas = {name: client("SCRIPT", "LOAD", text).decode() for name, text in LUA.items()}

    def run(self, script: str, *arguments: Any) -> Words:
        return ("EVALSHA", self.shas[script], len(self.KEYS), *self.KEYS, *arguments, self.CHANNEL)

    def beat(self, member: str, now: int, stay: int = DAY_S, session: str = "") -> list[Words]:
        return [self.run("beat", member, session, stay * 1000)]

    def count(self, now: int) -> Words:
        return ("HLEN", self.KEYS[1])

    def friends(self, members: Sequence[str]) -> Words:
        return ("HMGET", self.KEYS[1], *members)

    @contextmanager
    def listening(self, server: Server, due: Mapping[str, float]) -> Iterator[Known]:
        with ExitStack() as stack:
            known = stack.enter_context(heard(server, due, b"offline ", self.CHANNEL))
            client = stack.enter_context(server.client())
            stack.enter_context(every(SWEEP_S, lambda: client(*self.run("sweep"))))
            yield known


class HyperLogLog(Way):
    name = "HyperLogLog"
    made_of = "PFADD, PFCOUNT"
    departure = "not known: it counts the distinct members of a day"
    lacks = "who, now, and departures"

    def beat(self, member: str, now: int, stay: int = DAY_S) -> list[Words]:
        return [("PFADD", "day", member)]

    def count(self, now: int) -> Words:
        return ("PFCOUNT", "day")


WAYS: tuple[type[Way], ...] = (Ours, SortedSet, KeyEach, HashField, Lua, HyperLogLog)


@contextmanager
def heard(server: Server, due: Mapping[str, float], before: bytes, channel: str) -> Iterator[Known]:
    """Departures that the server pushes on a channel; `before` stands before the name of who left."""

    def known() -> dict[str, float]:
        told = ((event.name.removeprefix(before).decode(), event.t) for event in reversed(watcher.of()))
        return {member: moment for member, moment in told if member in due}

    with Watcher(server, [channel]) as watcher:
        yield known


@contextmanager
def every(seconds: float, act: Callable[[], Any]) -> Iterator[None]:
    """Acts again and again on a thread of its own."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(seconds):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
