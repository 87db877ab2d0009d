"""Requests a second: beats, batches and reads, each beside what a user would run instead and beside what costs least."""

from __future__ import annotations

from filling import SESSION, fill_keys, fill_room, fill_zset, join_room
from harness import Server
from measure import STAY, Found, Load, Rate, ask, compare, say, take_turns

MILLION = 1_000_000
DIGITS = "m:__rand_int__"
SET_DB = 1


class Scale:
    """How large: the real thing, or what CI has time for."""

    def __init__(self, short: bool):
        self.short = short
        self.rounds = 1 if short else 5
        self.crowd = 100_000 if short else 10 * MILLION
        self.many = 50_000 if short else MILLION
        self.room = 20_000 if short else 200_000
        self.share = 20 if short else 1


def batches(server: Server, scale: Scale) -> list[Found]:
    """MBEAT of 32 beside ZADD of 32."""
    say(f"batches: {scale.crowd:,} members")
    size, load = 32, Load(16, 4, 200_000 // scale.share)
    slow = Load(16, 4, 30_000 // scale.share)
    found = []
    with server.client() as client:
        fill_room(client, "crowd", scale.crowd)
        fill_zset(client, "z", scale.many)
        pairs = [word for _ in range(size) for word in ("__rand_int__", DIGITS)]

        def beside(kind: str, room: str, members: int, item: list[str], no_op: float, zadd: float) -> list[Found]:
            words = [room, kind, *item * size]
            rates = take_turns(
                scale.rounds,
                {
                    "MBEAT": lambda: ask(server, load, "PRESENCE.MBEAT", *words, random=members),
                    "no-op": lambda: ask(server, load, "NOOP", *words, random=members),
                    f"ZADD of {size}": lambda: ask(server, slow, "ZADD", "z", *pairs, random=scale.many),
                },
            )
            return compare(f"MBEAT {kind}", "MBEAT", rates, {"no-op": no_op, f"ZADD of {size}": zadd}, size)

        found += beside("MEMBERS", "crowd", scale.crowd, [DIGITS], 0.25, 10)
        client("UNLINK", "crowd")
        fill_room(client, "named", scale.many, SESSION)
        found += beside("SESSIONS", "named", scale.many, [DIGITS, SESSION], 0.2, 4)
        client("FLUSHALL", "SYNC")
    return found


def beats(server: Server, scale: Scale) -> list[Found]:
    """BEAT, deep in a pipeline, beside a module's no-op, SET EX and ZADD."""
    say(f"beats: {scale.room:,} members")
    load = Load(100, 8, 500_000 // scale.share)
    with server.client() as client, server.client(db=SET_DB) as other:
        fill_room(client, "room", scale.room)
        fill_zset(client, "z", scale.room)
        client("PFADD", "day", "x")

        def one(*command: object, db: int = 0) -> Rate:
            return ask(server, load, *command, random=scale.room, db=db)

        def set_ex() -> Rate:
            # Filled each time, so that keys which expire in between are neither missed nor a burden on the others.
            fill_keys(other, scale.room, 30)
            rate = one("SET", "k:__rand_int__", "v", "EX", 30, db=SET_DB)
            other("FLUSHDB", "SYNC")
            return rate

        rates = take_turns(
            scale.rounds,
            {
                "BEAT": lambda: one("PRESENCE.BEAT", "room", DIGITS),
                "no-op": lambda: one("NOOP", "room", DIGITS),
                "SET EX 30": set_ex,
                "ZADD": lambda: one("ZADD", "z", "__rand_int__", DIGITS),
                "PFADD": lambda: one("PFADD", "day", DIGITS),
            },
        )
        trio = [rates[name] for name in ("ZADD", "SET EX 30", "PFADD")]
        rates["ZADD + SET EX + PFADD"] = [
            Rate(1 / sum(1 / r.rps for r in three), sum(r.cpu_us for r in three)) for three in zip(*trio)
        ]
        client("FLUSHALL", "SYNC")
    return compare(
        "BEAT", "BEAT", rates, {"no-op": 0.6, "SET EX 30": 1.7, "ZADD": 3.5, "ZADD + SET EX + PFADD": 6}
    )


def reads(server: Server, scale: Scale) -> list[Found]:
    """COUNT beside PING and ZCOUNT, FRIENDS of 200 beside EXISTS."""
    say(f"reads: {scale.many:,} members")
    load = Load(100, 8, 500_000 // scale.share)
    found = []
    friends = 200
    with server.client() as client:
        # A room of friends, in which nobody hides: with everybody hidden FRIENDS would have less to say.
        client("PRESENCE.CREATE", "room", *STAY, "SHARE", "friends")
        join_room(client, "room", scale.many)
        fill_zset(client, "z", scale.many)
        rates = take_turns(
            scale.rounds,
            {
                "COUNT": lambda: ask(server, load, "PRESENCE.COUNT", "room"),
                "PING": lambda: ask(server, load, "PING"),
                # From a moment that moves on, as "now less the timeout" does: the same path each time would stay in the caches.
                "ZCOUNT": lambda: ask(server, load, "ZCOUNT", "z", "__rand_int__", "+inf", random=scale.many // 100),
            },
        )
        found += compare("COUNT", "COUNT", rates, {"PING": 0.5, "ZCOUNT": 2})
        client("UNLINK", "z")
        fill_keys(client, scale.many, 86_400)
        few = Load(4, 4, 20_000 // scale.share)
        rates = take_turns(
            scale.rounds,
            {
                "FRIENDS": lambda: ask(
                    server, few, "PRESENCE.FRIENDS", "room", "viewer", *[DIGITS] * friends, random=scale.many
                ),
                "EXISTS": lambda: ask(server, few, "EXISTS", *["k:__rand_int__"] * friends, random=scale.many),
            },
        )
        found += compare(f"FRIENDS of {friends}", "FRIENDS", rates, {"EXISTS": 3}, friends)
        client("FLUSHALL", "SYNC")
    return found
