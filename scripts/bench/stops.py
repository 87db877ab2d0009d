"""The longest stop: how long everybody waits while a room grows, falls silent, changes the day or is listed.

Told in three ways: by a client of its own that pings all the time; by the module's figures of the event loop's turns; and,
where each round sends the same commands, by the longest of them in all rounds. The last leaves out what the machine does
by chance. What that is, is told by a client of a server that has nothing to do, and by a process that only counts.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

from filling import member
from harness import Connection, Server
from harness.resp import encode
from measure import SETTINGS, STAY, Found, info, say
from outside import Outside, Pings
from requests import Scale

# What nothing of a room may exceed, in ms.
TARGET = 2.0
# As gateways send them.
GATEWAY = 500
DAY = 86_400


class Stops(NamedTuple):
    """Of one round, in ms: what the pings saw, the module's figures of turns, and how long each command took."""

    pings: Pings
    turns_p999: float
    longest_turn: float
    long_turns: int
    commands: Sequence[float]


Work = Callable[[Connection], Sequence[float]]


@contextmanager
def fresh(kind: str, module: bool = True, **settings: Any) -> Iterator[Server]:
    """A server for one round."""
    with Server(kind, module=module, config=SETTINGS | settings) as server:
        yield server


def turns(client: Connection) -> dict[str, int]:
    """The module's figures of the event loop."""
    return {k.removeprefix("presence_loop_"): int(v) for k, v in info(client, "presence").items() if "_loop_" in k}


def watched(server: Server, work: Work) -> Stops:
    """What was seen while `work` was done. What was done before is part of the module's figures but for the last."""
    with server.client() as client:
        before = turns(client)
        with Outside("ping", server.socket) as pinger:
            commands = work(client)
        after = turns(client)
    p999, longest = (after.get(name, 0) / 1e3 for name in ("p999_us", "max_us"))
    return Stops(pinger.pings, p999, longest, after.get("long_turns", 0) - before.get("long_turns", 0), commands)


def told(what: str, rounds: Sequence[Stops]) -> list[Found]:
    """The lines of the table."""
    p999s = [stops.pings.p999 for stops in rounds]
    longest = max(stops.pings.longest for stops in rounds)
    machine = statistics.median(stops.pings.overslept for stops in rounds)
    found = [_line(f"{what}: PING", p999s, longest, f"the client itself woke late by {machine:.2f} ms (p99.9)")]
    if any(stops.longest_turn for stops in rounds):
        long = sum(stops.long_turns for stops in rounds)
        longest = max(stops.longest_turn for stops in rounds)
        found.append(_line(f"{what}: turns", [stops.turns_p999 for stops in rounds], longest, f"{long} above 2 ms"))
    if all(stops.commands for stops in rounds) and len({len(stops.commands) for stops in rounds}) == 1:
        # The least of all rounds at each place: what took long in every one of them.
        again = max(map(min, zip(*(stops.commands for stops in rounds)))) * 1e3
        slowest = [max(stops.commands) * 1e3 for stops in rounds]
        found.append(
            Found(
                f"{what}: a command, in all rounds",
                f"longest {again:.2f} ms",
                f"by chance {max(slowest):.1f} ms",
                again,
                TARGET,
                most=True,
                spread=f"{min(slowest):.2f}–{max(slowest):.2f}",
                unit=" ms",
            )
        )
    return found


def _line(what: str, p999s: Sequence[float], longest: float, against: str) -> Found:
    median = statistics.median(p999s)
    return Found(
        what,
        f"p99.9 {median:.2f} ms, longest {longest:.1f} ms",
        against,
        median,
        TARGET,
        most=True,
        spread=f"{min(p999s):.2f}–{max(p999s):.2f}",
        unit=" ms",
    )


def batches(room: str, first: int, count: int, size: int) -> Iterator[bytes]:
    """MBEATs of members from `first` on."""
    for at in range(first, first + count, size):
        yield encode(("PRESENCE.MBEAT", room, "MEMBERS", *map(member, range(at, min(at + size, first + count)))))


def one_by_one(client: Connection, commands: Iterable[bytes]) -> list[float]:
    """As a gateway does: the next when the answer is there. How long each took, in s."""
    took = []
    for command in commands:
        began = time.perf_counter()
        client.send_raw(command)
        client.read()
        took.append(time.perf_counter() - began)
    return took


def machine(kind: str, scale: Scale) -> list[Found]:
    """A server without module and load, and a process that only counts: what the machine does by itself."""
    say("stops: the machine by itself")
    rounds, counts = [], []
    with fresh(kind, module=False) as server:
        for _ in range(scale.rounds):
            rounds.append(watched(server, lambda _: [time.sleep(0.5 if scale.short else 5)][:0]))
            with Outside("count") as counter:
                time.sleep(0.5 if scale.short else 5)
            counts.append(counter.saw)
    found = told("a server without load", rounds)
    p999s = [count["p999"] for count in counts]
    found.append(
        Found(
            "a process that counts for 1 ms, again and again",
            f"p99.9 {statistics.median(p999s):.2f} ms, longest {max(count['longest'] for count in counts):.1f} ms",
            f"median {statistics.median(count['p50'] for count in counts):.2f} ms",
            spread=f"{min(p999s):.2f}–{max(p999s):.2f}",
            unit=" ms",
        )
    )
    return found


def growth(kind: str, scale: Scale, size: int) -> list[Found]:
    """One room grows to its full size."""
    what = f"growth to {scale.crowd:,}, {size} a command"
    rounds = []
    for number in range(min(scale.rounds, 3)):
        say(f"stops: {what}, round {number + 1}")
        with fresh(kind) as server:
            with server.client() as client:
                client("PRESENCE.CREATE", "room", *STAY)
            rounds.append(watched(server, lambda client: grow(client, scale.crowd, size)))
    return told(what, rounds)


def grow(client: Connection, crowd: int, size: int) -> list[float]:
    """Encoded in parts beforehand, so that the client is not what is busy."""
    took, part = [], 1_000_000
    for first in range(0, crowd, part):
        took += one_by_one(client, list(batches("room", first, min(part, crowd - first), size)))
    return took


def silence(kind: str, scale: Scale, heard: bool = False) -> list[Found]:
    """All members beat within a second, and never again. `heard`: everything is announced that can be."""
    what = f"{scale.many:,} fall silent together" + (", all announced" if heard else "")
    say(f"stops: {what}")
    settings = ("SHARE", "everyone", "FEED", 10_000, "INTERVALOVER", 1_000_000) if heard else ()
    timeout = 1_000 if scale.short else 6_000
    rounds = []
    for _ in range(scale.rounds):
        with fresh(kind, notify_keyspace_events="KEd" if heard else "") as server:
            with server.client() as client:
                client("PRESENCE.CREATE", "room", "TIMEOUT", timeout, "GRACE", 500, "RECENT", 0, *settings)
                one_by_one(client, batches("room", 0, scale.many, GATEWAY))
                # Encoded before, so that it takes a second at most.
                again = list(batches("room", 0, scale.many, GATEWAY))
                one_by_one(client, again)
            del again
            rounds.append(watched(server, wait_for_silence))
    return told(what, rounds)


def wait_for_silence(client: Connection) -> Sequence[float]:
    """Asks now and then."""
    while client("PRESENCE.COUNT", "room"):
        time.sleep(0.05)
    return ()


def midnight(kind: str, scale: Scale) -> list[Found]:
    """The day changes in a room in which everybody goes on beating."""
    from survival.crowds import Shim

    say(f"stops: day change at {scale.many:,}")
    rounds = []
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory() as folder:
            env: dict[str, str] = {}
            shim = Shim(Path(folder), env.__setitem__)
            with Server(kind, config=SETTINGS, env=env) as server:
                with server.client() as client:
                    client("PRESENCE.CREATE", "room", *STAY)
                    one_by_one(client, batches("room", 0, scale.many, GATEWAY))
                beats = list(batches("room", 0, scale.many, GATEWAY))

                def work(client: Connection) -> list[float]:
                    took = one_by_one(client, beats)
                    shim.set(DAY)
                    took += one_by_one(client, beats)
                    if client("PRESENCE.UNIQUE", "room") < 0.9 * scale.many:
                        raise SystemExit("bench: the day did not change")
                    return took

                rounds.append(watched(server, work))
    return told(f"day change at {scale.many:,}", rounds)


def listing(kind: str, scale: Scale, count: int) -> list[Found]:
    """MEMBERS, page after page."""
    what = f"MEMBERS of {scale.many:,}, COUNT {count:,}"
    say(f"stops: {what}")
    rounds = []

    def work(client: Connection) -> Sequence[float]:
        cursor, seen = b"0", 0
        while seen == 0 or cursor != b"0":
            cursor, _, _, members = client("PRESENCE.MEMBERS", "room", "CURSOR", cursor, "COUNT", count, "ALL")
            seen += len(members)
        if seen != scale.many:
            raise SystemExit(f"bench: {seen} members listed of {scale.many}")
        return ()

    for _ in range(scale.rounds):
        with fresh(kind) as server:
            with server.client() as client:
                client("PRESENCE.CREATE", "room", *STAY, "SHARE", "everyone")
                one_by_one(client, batches("room", 0, scale.many, GATEWAY))
            rounds.append(watched(server, work))
    return told(what, rounds)


def stops(kind: str, scale: Scale) -> list[Found]:
    """The longest stops: a room that grows, many who fall silent at once, the day's change, listing."""
    return [
        *machine(kind, scale),
        *growth(kind, scale, 32),
        *growth(kind, scale, GATEWAY),
        *silence(kind, scale),
        *silence(kind, scale, heard=True),
        *midnight(kind, scale),
        *listing(kind, scale, 100),
        *listing(kind, scale, 10_000),
    ]
