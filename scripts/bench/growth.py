"""Growth: beats a second, memory and the longest stop, as one room grows and as rooms of one member become many."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from filling import member, send_all
from harness import Connection, Server
from harness.resp import encode
from measure import SETTINGS, STAY, Load, ask, info, median, say, used_memory
from requests import DIGITS, Scale

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
BATCH = 32


class Point(NamedTuple):
    """One size. `shape`: `one room`, or `rooms of one`, of which a member is as much as a room, key and all. Beats and
    items of batches are a second, by the median of the rounds; rooms of one have no batches. `longest_ms` is the longest
    turn of the event loop while it grew, with one request at a time."""

    kind: str
    shape: str
    members: int
    beats: float
    batch_items: float | None
    bytes_a_member: float
    longest_ms: float


def growth(kind: str, scale: Scale) -> list[Point]:
    """Beats, bytes and the longest turn at all sizes up to those of the scale, each on a server of its own."""
    one = [of_one_room(kind, scale, count) for count in SIZES if count <= scale.crowd]
    many = [of_many_rooms(kind, scale, count) for count in SIZES if count <= max(scale.many, SIZES[0])]
    return one + many


def of_one_room(kind: str, scale: Scale, count: int) -> Point:
    say(f"growth: one room of {count:,}")
    with Server(kind, config=SETTINGS) as server, server.client() as client:
        client("PRESENCE.CREATE", "room", *STAY)
        joins = (
            encode(("PRESENCE.MBEAT", "room", "MEMBERS", *map(member, range(at, min(at + BATCH, count)))))
            for at in range(0, count, BATCH)
        )
        each, longest = grow(client, joins, count)
        beat = Load(100, 8, 500_000 // scale.share)
        beats = median([ask(server, beat, "PRESENCE.BEAT", "room", DIGITS, random=count) for _ in range(scale.rounds)])
        batch, ids = Load(16, 4, 200_000 // scale.share), [DIGITS] * BATCH
        batches = [ask(server, batch, "PRESENCE.MBEAT", "room", "MEMBERS", *ids, random=count) for _ in range(scale.rounds)]
        return Point(kind, "one room", count, beats.rps, median(batches).rps * BATCH, each, longest)


def of_many_rooms(kind: str, scale: Scale, count: int) -> Point:
    say(f"growth: {count:,} rooms of one")
    with Server(kind, config=SETTINGS, args=["timeout", STAY[1]]) as server, server.client() as client:
        joins = (encode(("PRESENCE.BEAT", member(n), "asha")) for n in range(count))
        each, longest = grow(client, joins, count)
        beat = Load(100, 8, 500_000 // scale.share)
        beats = median([ask(server, beat, "PRESENCE.BEAT", DIGITS, "asha", random=count) for _ in range(scale.rounds)])
        return Point(kind, "rooms of one", count, beats.rps, None, each, longest)


def grow(client: Connection, requests: Iterator[bytes], count: int) -> tuple[float, float]:
    """Bytes a member, and the longest turn in ms."""
    before = used_memory(client)
    send_all(client, requests, at_once=1)
    each = (used_memory(client) - before) / count
    return each, int(info(client, "presence")["presence_loop_max_us"]) / 1000
