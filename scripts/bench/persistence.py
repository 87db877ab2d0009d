"""Saving and loading: a room beside a sorted set of the same ids."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Callable, NamedTuple

from filling import fill_room, fill_zset
from harness import Connection, Server
from measure import SETTINGS, Found, cpu_seconds, say
from requests import Scale

# A room is there again within this time, in s, at full size.
LOADED = 1.0


class Spent(NamedTuple):
    """Seconds of time and of the processor's."""

    wall: float
    cpu: float


def spend(client: Connection, *command: object) -> Spent:
    """What one command takes."""
    cpu, began = cpu_seconds(client), time.perf_counter()
    client(*command)
    wall = time.perf_counter() - began
    return Spent(wall, cpu_seconds(client) - cpu)


def persistence(kind: str, scale: Scale) -> list[Found]:
    """SAVE, and a load of what was saved into an empty server."""
    count = scale.many
    say(f"persistence: {count:,} members")
    fills: dict[str, Callable[[Connection], None]] = {
        "room": lambda client: fill_room(client, "room", count),
        "zset": lambda client: fill_zset(client, "zset", count),
    }
    saves: dict[str, list[Spent]] = {name: [] for name in fills}
    loads: dict[str, list[Spent]] = {name: [] for name in fills}
    plain: dict[str, list[Spent]] = {name: [] for name in fills}
    sizes = {}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(Server(kind, config=SETTINGS)) for name in fills}
        clients = {name: server.client() for name, server in servers.items()}
        for name, fill in fills.items():
            clients[name].socket.settimeout(120)
            fill(clients[name])
        # In turn, so that a machine that slows down slows both down.
        for _ in range(scale.rounds):
            for name, client in clients.items():
                saves[name].append(spend(client, "SAVE"))
                client("FLUSHALL", "SYNC")
                loads[name].append(spend(client, "DEBUG", "RELOAD", "NOSAVE", "NOFLUSH"))
                sizes[name] = (servers[name].dir / "dump.rdb").stat().st_size
                client("CONFIG", "SET", "rdbcompression", "no")
                plain[name].append(spend(client, "SAVE"))
                client("CONFIG", "SET", "rdbcompression", "yes")
        there = (clients["room"]("PRESENCE.COUNT", "room"), clients["zset"]("ZCARD", "zset"))
        if there != (count, count):
            raise SystemExit(f"bench: {there} came back of {count}")
    found = [
        _beside(f"SAVE of {count:,} members", saves, 1.0),
        # The server packs a room's long strings, and none of a zset's short ones.
        _beside("the same with rdbcompression no", plain),
        _beside(f"load of {count:,} members", loads, 1.0),
    ]
    took = statistics.median(spent.wall for spent in loads["room"])
    bound = LOADED * count / 1_000_000
    found.append(Found(f"load of {count:,}", f"{took:.2f} s", ratio=took, target=bound, most=True, unit=" s"))
    found.append(
        Found("size of the file", f"{sizes['room'] / count:.1f} bytes a member", f"zset: {sizes['zset'] / count:.1f} bytes")
    )
    return found


def _beside(what: str, spent: dict[str, list[Spent]], target: float | None = None) -> Found:
    ours, theirs = spent["room"], spent["zset"]
    median = lambda of: Spent(statistics.median(s.wall for s in of), statistics.median(s.cpu for s in of))
    tell = lambda one: f"{one.wall:.2f} s, {one.cpu:.2f} s of the processor"
    ratios = [a.wall / b.wall for a, b in zip(ours, theirs)]
    mine, other = median(ours), median(theirs)
    return Found(
        what,
        tell(mine),
        f"zset: {tell(other)}",
        mine.wall / other.wall,
        target,
        most=target is not None,
        spread=f"{min(ratios):.2f}–{max(ratios):.2f}",
    )
