"""UNIQUE beside PFCOUNT of the same: of one day, and of seven."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from filling import member
from harness import Connection, Server
from harness.server import PROJECT
from measure import SETTINGS, STAY, Found, Load, ask, compare, say, take_turns
from pour import pour, streams

sys.path.append(str(PROJECT / "tests/survival"))

from crowds import Shim  # noqa: E402

DAYS = 7
DAY_S = 86_400
BATCH = 500
# A fifth of a day's members are new.
NEW = 5
# Two estimates of the same, each with a standard error of 0.81 %.
APART = 0.06


def unique(server: Server, scale) -> list[Found]:
    """UNIQUE of a day, and of seven, beside PFCOUNT of the same.

    The room lives through its days on a server whose clock is moved, and is asked on one whose clock is not.
    """
    members = scale.many // 10
    say(f"uniques: {DAYS} days of {members:,} members")
    keys = [f"day:{day}" for day in range(DAYS)]
    with server.client() as client:
        client("RESTORE", "room", 0, room_of(server.kind, members))
        for day, key in enumerate(keys):
            adding = [("PFADD", key, *batch) for batch in of_day(day, members)]
            pour(server, streams(adding), len(adding))
        agree(client("PRESENCE.UNIQUE", "room"), client("PFCOUNT", keys[-1]))
        agree(client("PRESENCE.UNIQUE", "room", "DAYS", DAYS), client("PFCOUNT", *keys))
        load, slow = Load(100, 8, 500_000 // scale.share), Load(16, 4, 5_000 // scale.share)
        one = take_turns(
            scale.rounds,
            {
                "UNIQUE": lambda: ask(server, load, "PRESENCE.UNIQUE", "room"),
                "PFCOUNT": lambda: ask(server, load, "PFCOUNT", keys[-1]),
            },
        )
        week = take_turns(
            scale.rounds,
            {
                "UNIQUE": lambda: ask(server, slow, "PRESENCE.UNIQUE", "room", "DAYS", DAYS),
                "PFCOUNT": lambda: ask(server, slow, "PFCOUNT", *keys),
            },
        )
        client("FLUSHALL", "SYNC")
    found = compare("UNIQUE of a day", "UNIQUE", one, {"PFCOUNT": 0.5})
    return found + compare(f"UNIQUE of {DAYS} days", "UNIQUE", week, {"PFCOUNT": 0.1})


def of_day(day: int, members: int) -> list[list[str]]:
    """Who was there on a day, in batches."""
    first = day * members // NEW
    return [[member(n) for n in range(at, min(at + BATCH, first + members))] for at in range(first, first + members, BATCH)]


def room_of(kind: str, members: int) -> bytes:
    """A room with its days, the last of them today, as DUMP gives it."""
    env: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        shim = Shim(Path(folder), env.__setitem__)
        shim.set(-(DAYS - 1) * DAY_S)
        with Server(kind, config=SETTINGS, env=env) as server, server.client() as client:
            client("PRESENCE.CREATE", "room", *STAY, "UNIQUES", DAYS)
            for day in range(DAYS):
                offset = (day - DAYS + 1) * DAY_S
                shim.set(offset)
                await_day(client, offset)
                beats = [("PRESENCE.MBEAT", "room", "MEMBERS", *batch) for batch in of_day(day, members)]
                pour(server, streams(beats), len(beats))
            payload: bytes = client("DUMP", "room")
    return payload


def await_day(client: Connection, offset: int) -> None:
    """Until the server's clock, and with its next tick the module's day, has moved."""
    deadline = time.monotonic() + 10
    while abs(int(client("TIME")[0]) - time.time() - offset) > 2:
        if time.monotonic() > deadline:
            raise RuntimeError("the server's clock does not move")
        time.sleep(0.01)
    time.sleep(0.2)


def agree(ours: int, theirs: int) -> None:
    if abs(ours - theirs) > APART * theirs:
        raise RuntimeError(f"not the same: UNIQUE says {ours}, PFCOUNT {theirs}")
