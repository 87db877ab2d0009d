"""Fills servers with members, sets and keys, many at a time."""

from __future__ import annotations

from typing import Callable, Iterable

from harness import Connection
from harness.resp import encode
from measure import STAY

BATCH = 2_000
SESSION = "s-0123456789"  # 12 bytes


def member(n: int) -> str:
    """The id that redis-benchmark makes of `m:__rand_int__`."""
    return f"m:{n:012d}"


def send_all(client: Connection, commands: Iterable[bytes], at_once: int = 64) -> None:
    """Encoded commands, some on the way at a time."""
    waiting = 0
    for command in commands:
        client.send_raw(command)
        waiting += 1
        if waiting == at_once:
            client.read()
            waiting -= 1
    for _ in range(waiting):
        client.read()


def _chunks(count: int, size: int = BATCH) -> Iterable[range]:
    return (range(at, min(at + size, count)) for at in range(0, count, size))


def fill_room(client: Connection, room: str, count: int, session: str | None = None, name: Callable[[int], str] = member) -> None:
    """Members into a new room, for a day."""
    client("PRESENCE.CREATE", room, *STAY)
    join_room(client, room, count, session, name)


def join_room(client: Connection, room: str, count: int, session: str | None = None, name: Callable[[int], str] = member) -> None:
    """Members into a room."""
    if session is None:
        send_all(client, (encode(("PRESENCE.MBEAT", room, "MEMBERS", *map(name, some))) for some in _chunks(count)))
    else:
        batches = ((word for n in some for word in (name(n), session)) for some in _chunks(count))
        send_all(client, (encode(("PRESENCE.MBEAT", room, "SESSIONS", *batch)) for batch in batches))
    if client("PRESENCE.COUNT", room) != count:
        raise SystemExit(f"bench: {room} has {client('PRESENCE.COUNT', room)} members of {count}")


def fill_zset(client: Connection, key: str, count: int, name: Callable[[int], str] = member) -> None:
    """A sorted set by moment of the last beat."""
    batches = ((word for n in some for word in (n, name(n))) for some in _chunks(count))
    send_all(client, (encode(("ZADD", key, *batch)) for batch in batches))


def fill_keys(client: Connection, count: int, ttl: int, name: Callable[[int], str] = lambda n: f"k:{n:012d}") -> None:
    """A key with a TTL, in seconds, for each."""
    for some in _chunks(count, 10_000):
        client.send_raw(b"".join(encode(("SET", name(n), "v", "EX", ttl)) for n in some))
        for _ in some:
            client.read()
