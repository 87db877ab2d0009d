"""Memory by used_memory: of a member, of its session, of a room of two; while a room grows, and after its members have changed.

What a member may take is the contract's: 40 bytes and the id, 24 and the id for a session with a name, 512 for a room of two.
"""

from __future__ import annotations

import random
import time
from typing import Callable, Iterable, Sequence

from filling import SESSION, fill_keys, fill_room, fill_zset, send_all
from harness import Connection, Server
from harness.resp import encode
from measure import SETTINGS, STAY, Found, info, say, used_memory
from requests import Scale

Name = Callable[[int], str]
# How many times all members are replaced.
TIMES = 3
BATCH = 2_000


def name_of(length: int) -> Name:
    """Ids of this length."""
    return lambda n: f"m{n:0{length - 1}d}"


def each(kind: str, count: int, fill: Callable[[Connection], None]) -> float:
    """Bytes for each of so many. On a server of its own: what is left of one thing must not be lent to the next."""
    with Server(kind, config=SETTINGS) as server, server.client() as client:
        before = used_memory(client)
        fill(client)
        return (used_memory(client) - before) / count


def memory(kind: str, scale: Scale) -> list[Found]:
    """Bytes a member and a room, beside what the contract grants and what a sorted set and keys take."""
    count = scale.many
    found = []
    for length in (10, 12):
        found += of_members(kind, count, length)
    return [*found, of_rooms(kind, count // 10), *of_life(kind, count)]


def of_members(kind: str, count: int, length: int) -> list[Found]:
    say(f"memory: {count:,} members, ids of {length} bytes")
    name = name_of(length)
    ours = each(kind, count, lambda client: fill_room(client, "room", count, name=name))
    named = each(kind, count, lambda client: fill_room(client, "room", count, SESSION, name))
    zset = each(kind, count, lambda client: fill_zset(client, "seen", count, name))
    keys = each(kind, count, lambda client: fill_keys(client, count, 86_400, name))
    ids = f"ids of {length} bytes"
    return [
        bytes_of(f"memory of a member, {ids}", ours, 40 + length),
        bytes_of(f"memory of its session, id of {len(SESSION)} bytes", named - ours, 24 + len(SESSION)),
        Found(
            f"memory of a member, {ids}",
            f"{ours:.1f} bytes",
            f"sorted set + key with TTL: {zset:.1f} + {keys:.1f} bytes",
            ours / (zset + keys),
            0.25,
            most=True,
        ),
    ]


def of_rooms(kind: str, count: int) -> Found:
    """Rooms in which two came at moments of their own, key and the day's uniques and all."""
    say(f"memory: {count:,} rooms of two")

    def fill(client: Connection) -> None:
        for who in ("asha", "bela"):
            for some in batches(range(count)):
                send_all(client, [encode(("PRESENCE.BEAT", f"room:{n:06d}", f"{who}{n:06d}")) for n in some])
            # Until no room is about to tell its count.
            while int(info(client, "presence")["presence_messages_planned"]):
                time.sleep(0.1)

    return bytes_of("memory of a room of two, key included", each(kind, count, fill), 512)


def of_life(kind: str, count: int) -> list[Found]:
    """While a room grows, and after all of its members have been replaced, some times over, in no order."""
    say(f"memory: growth to {count:,}, and {TIMES} changes of all")
    length = 12
    name = name_of(length)
    with Server(kind, config=SETTINGS) as server, server.client() as client:
        client("PRESENCE.CREATE", "room", *STAY)
        before, seen = used_memory(client), []
        for some in batches(range(count)):
            client("PRESENCE.MBEAT", "room", "MEMBERS", *map(name, some))
            seen.append((some[-1] + 1, used_memory(client) - before))
        grown = (used_memory(client) - before) / count
        # From a tenth on: of what is less, much does not grow with the room.
        worst = max((held / members, members) for members, held in seen if members >= count // 10)
        chance, present, following = random.Random(1), list(range(count)), count
        for _ in range(2 * TIMES):
            chance.shuffle(present)
            leaving, present = present[: count // 2], present[count // 2 :]
            for some in batches(leaving):
                send_all(client, [encode(("PRESENCE.BYE", "room", name(n))) for n in some])
                coming = range(following, following + len(some))
                client("PRESENCE.MBEAT", "room", "MEMBERS", *map(name, coming))
                present += coming
                following += len(some)
        assert client("PRESENCE.COUNT", "room") == count
        after = (used_memory(client) - before) / count
    return [
        Found(
            "memory while a room grows",
            f"at most {worst[0]:.1f} bytes a member, at {worst[1]:,}",
            f"{grown:.1f} at {count:,}",
            worst[0] / grown,
            1.5,
            most=True,
        ),
        bytes_of(f"memory of a member after {TIMES} changes of all, ids of {length} bytes", after, 40 + length),
        Found("memory after churn", f"{after:.1f} bytes a member", f"before: {grown:.1f}", after / grown),
    ]


def batches(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH))


def bytes_of(what: str, figure: float, most: float) -> Found:
    return Found(what, f"{figure:.1f} bytes", f"promised: {most:g} bytes", figure / most, 1, most=True)
