"""Growth: beats a second, memory and the longest stop, as one room grows and as rooms of one member become many."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple

from filling import member, send_all
from harness import Server
from harness.resp import encode
from measure import SETTINGS, STAY, Load, ask, info, median, say, used_memory
from requests import DIGITS, Scale

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
BATCH = 32


class Point(NamedTuple):
    """One size. `shape`: `one room`, or `rooms of one`, of which a member is as much as a room, key and all. Beats and
    items of batches are a second, by the median of the rounds; rooms of one have no batches. `longest_ms` is the longest
    turn of the event loop while it grew, with one request at a time: the shorter one of two such growths, for the machine
    makes some turns long by chance."""

    kind: str
    shape: str
    members: int
    beats: float
    batch_items: float | None
    bytes_a_member: float
    longest_ms: float


class Grown(NamedTuple):
    server: Server
    bytes_a_member: float
    longest_ms: float


def growth(kind: str, scale: Scale) -> list[Point]:
    """Beats, memory and the longest stop at sizes from 10,000 on, ids of 14 bytes, in one room and in rooms of one member."""
    one = [of_one_room(kind, scale, count) for count in SIZES if count <= scale.crowd]
    many = [of_many_rooms(kind, scale, count) for count in SIZES if count <= max(scale.many, SIZES[0])]
    return one + many


def of_one_room(kind: str, scale: Scale, count: int) -> Point:
    say(f"growth: one room of {count:,}")

    def joins() -> Iterator[bytes]:
        yield encode(("PRESENCE.CREATE", "room", *STAY))
        for at in range(0, count, BATCH):
            yield encode(("PRESENCE.MBEAT", "room", "MEMBERS", *map(member, range(at, min(at + BATCH, count)))))

    with grown(kind, count, joins) as (server, each, longest):
        beat, batch = Load(100, 8, 500_000 // scale.share), Load(16, 4, 200_000 // scale.share)
        ids = [DIGITS] * BATCH
        beats = [ask(server, beat, "PRESENCE.BEAT", "room", DIGITS, random=count) for _ in range(scale.rounds)]
        batches = [ask(server, batch, "PRESENCE.MBEAT", "room", "MEMBERS", *ids, random=count) for _ in range(scale.rounds)]
        return Point(kind, "one room", count, median(beats).rps, median(batches).rps * BATCH, each, longest)


def of_many_rooms(kind: str, scale: Scale, count: int) -> Point:
    say(f"growth: {count:,} rooms of one")

    def joins() -> Iterator[bytes]:
        return (encode(("PRESENCE.BEAT", member(n), "asha")) for n in range(count))

    with grown(kind, count, joins, args=["timeout", STAY[1]]) as (server, each, longest):
        beat = Load(100, 8, 500_000 // scale.share)
        beats = [ask(server, beat, "PRESENCE.BEAT", DIGITS, "asha", random=count) for _ in range(scale.rounds)]
        return Point(kind, "rooms of one", count, median(beats).rps, None, each, longest)


@contextmanager
def grown(kind: str, count: int, joins: Callable[[], Iterator[bytes]], **how: Any) -> Iterator[Grown]:
    """A server on which these have joined, the second one on which they did."""
    least = math.inf
    for last in (False, True):
        with Server(kind, config=SETTINGS, **how) as server, server.client() as client:
            empty = used_memory(client)
            send_all(client, joins(), at_once=1)
            each = (used_memory(client) - empty) / count
            longest = int(info(client, "presence")["presence_loop_max_us"]) / 1000
            least = min(least, longest)
            if last:
                yield Grown(server, each, least)
