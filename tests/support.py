"""What several test files need: replies as dicts, waiting for a state, and the sums that must always agree."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

from harness import Connection, ReplyError, Server

TYPE = "presence1"
# What is long at its full length; else what fits into every `make test`.
FULL = os.environ.get("PRESENCE_FULL") == "1"
# A room in which silence ends soon: offline 700 ms after the last beat.
QUICK = ("TIMEOUT", 400, "GRACE", 300)
T_AND_G = 0.7
# By how much a server's monotonic clock, which it calibrates at its start, may run fast in such a time on a busy machine.
FAST = 0.01


def wait_until(predicate: Callable[[], Any], timeout: float = 15.0, every: float = 0.01) -> Any:
    """The first true value of `predicate`, asked for again and again; AssertionError if there is none in time."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        assert time.monotonic() < deadline, f"not within {timeout} s; last: {value!r}"
        time.sleep(every)
    return value


def fields(reply: Any) -> dict[str, Any]:
    """A map, RESP2 or RESP3, with text as keys."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name.decode(): value for name, value in pairs}


def deaf(server: Server) -> float:
    """Seconds for which the server has counted itself deaf since it was started. On a busy machine it stands still for
    moments, and what falls due is that much later: bounds on lateness allow for how much this has grown."""
    return sum(int(value) for name, value in server.info().items() if "_deaf_ms_" in name) / 1000


def member(client: Connection, room: Any, id: Any) -> dict[str, Any] | None:
    """PRESENCE.GET, its sessions by id."""
    reply = client("PRESENCE.GET", room, id)
    if reply is None:
        return None
    view = fields(reply)
    sessions = [fields(session) for session in view["sessions"]]
    view["sessions"] = {session.pop("session"): session for session in sessions}
    assert len(view["sessions"]) == len(sessions)
    return view


def room_info(client: Connection, room: Any) -> dict[str, Any]:
    """PRESENCE.INFO."""
    return fields(client("PRESENCE.INFO", room))


def pages(client: Connection, room: Any, *options: Any) -> list[list[dict[str, Any]]]:
    """All pages of PRESENCE.MEMBERS."""
    cursor, found = b"0", []
    while True:
        cursor, _, _, page = client("PRESENCE.MEMBERS", room, "CURSOR", cursor, *options)
        found.append([fields(entry) for entry in page])
        if cursor == b"0":
            return found
        assert len(found) < 100_000, "the list has no end"


def names(client: Connection, room: Any, *options: Any) -> list[bytes]:
    """The ids in PRESENCE.MEMBERS, as listed (default: everybody)."""
    return [entry["member"] for page in pages(client, room, *(options or ("ALL",))) for entry in page]


def digest(client: Connection, *rooms: Any) -> list[Any]:
    """DEBUG DIGEST-VALUE."""
    return client("DEBUG", "DIGEST-VALUE", *rooms)


def rooms_of(server: Server, databases: int = 16) -> list[tuple[int, bytes]]:
    """Every key of the type, with its database."""
    found = []
    with Connection(server.socket) as c:
        for db in range(databases):
            c("SELECT", db)
            cursor = b"0"
            while True:
                cursor, keys = c("SCAN", cursor, "COUNT", 1000, "TYPE", TYPE)
                found += [(db, key) for key in keys]
                if cursor == b"0":
                    break
    return found


def check_sums(server: Server) -> None:
    """What holds at the end of every test: as many rooms as keys, the sums of their figures, nothing lost, no panic."""

    def wrong() -> str:
        info = server.info()
        rooms = rooms_of(server)
        members = sessions = 0
        with Connection(server.socket) as c:
            for db, key in rooms:
                c("SELECT", db)
                members += c("PRESENCE.COUNT", key)
                sessions += c("PRESENCE.COUNT", key, "SESSIONS")
        want = {"rooms": len(rooms), "members": members, "sessions": sessions, "rooms_lost": 0, "rooms_frozen": 0}
        want |= {"backlog_rooms": 0, "backlog_age_ms": 0, "panics": 0}
        return ", ".join(
            f"{name} is {info[f'presence_{name}']}, not {value}"
            for name, value in want.items()
            if info[f"presence_{name}"] != str(value)
        )

    # A room that was freed on another thread is struck off by the next tick; one that moved is found by the next look.
    deadline = time.monotonic() + 10
    while found := wrong():
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def registry_fault(server: Server) -> str:
    """What is wrong with the module's list of rooms, held against the keys: at the end of every test it is nothing."""
    server.resume()
    deadline = time.monotonic() + 10
    while True:
        try:
            info = server.info()
            clustered = server.config.get("cluster-enabled") == "yes"
            keys = len(rooms_of(server, int(server.config.get("cluster-databases", 1)) if clustered else 16))
        except (OSError, ReplyError):
            return ""  # it lets nobody in
        # Where a panic was provoked a room may have been given up.
        if info.get("presence_panics", "1") != "0":
            return ""
        listed, lost = info["presence_rooms"], info["presence_rooms_lost"]
        if (listed, lost) == (str(keys), "0"):
            return ""
        if time.monotonic() > deadline:
            return f"{listed} rooms are on the list, {lost} of them lost; there are {keys}"
        time.sleep(0.02)
