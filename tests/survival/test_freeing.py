"""Rooms are freed on other threads, any number at once, while the tick, commands and reads work on others.

PRESENCE_MINUTES says for how long; else it is two at full length, and a few seconds in the short form.
"""

import os
import random
import threading
import time

import pytest

from harness import Connection, Err
from harness.resp import encode
from support import FULL, check_sums, rooms_of, wait_until

SECONDS = 60 * float(os.environ.get("PRESENCE_MINUTES") or (2 if FULL else 0.05))
LAZY = ("user-del", "user-flush", "server-del", "expire", "eviction")
# A value of fewer members than this is freed where it stands, unless a whole database goes.
LARGE = 4096
ROOMS = [f"large{n}" for n in range(3)] + [f"small{n}" for n in range(12)]
MEMBERS = [f"member{n}" for n in range(LARGE)]


def config(kind):
    settings = {f"lazyfree-lazy-{what}": "yes" for what in LAZY} | {"replica-lazy-flush": "yes", "io-threads": "4"}
    settings |= {"presence.timeout": "100", "presence.grace": "0", "presence.recent": "100", "presence.uniques-days": "0"}
    if kind.startswith("valkey"):
        # Else the other threads only help when there is much to do.
        settings |= {"io-threads-always-active": "yes"} if kind != "valkey-8.1" else {"events-per-io-thread": "0"}
    return settings


class Load:
    """Threads that do the same thing again and again until the end; what broke one of them breaks the test."""

    def __init__(self):
        self.stop = threading.Event()
        self.failures = []
        self.turns = {}
        self._threads = []

    def add(self, work, *args):
        def run():
            try:
                turn = work(*args)
                while not self.stop.is_set():
                    turn()
                    self.turns[work.__name__] = self.turns.get(work.__name__, 0) + 1
            except BaseException as failure:  # told by the test
                self.failures.append(failure)
                self.stop.set()

        self._threads.append(threading.Thread(target=run, daemon=True))

    def run(self, seconds, enough):
        """For so long, and on a slow machine until it was enough."""
        for thread in self._threads:
            thread.start()
        self.stop.wait(seconds)
        deadline = time.monotonic() + 60
        while not self.stop.is_set() and not enough() and time.monotonic() < deadline:
            self.stop.wait(0.2)
        self.stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "the server does not answer"
        assert self.failures == []


def beating(server, seed):
    """Ten connections at a time: beats of some members of each room, so that others are always falling due."""
    chance, connections = random.Random(seed), [Connection(server.socket) for _ in range(10)]
    batches = [("PRESENCE.MBEAT", room, "MEMBERS", *MEMBERS) for room in ROOMS if room.startswith("large")]
    for room in ROOMS:
        batches += [("PRESENCE.MBEAT", room, "MEMBERS", *chance.sample(MEMBERS, 20)) for _ in range(4)]
        batches += [("PRESENCE.BEAT", room, f"m{n}", "SESSION", f"s{n}", "STATUS", "x", "DATA", "y" * 30) for n in range(4)]
        batches += [("PRESENCE.BYE", room, f"m{n}") for n in range(2)]
    encoded = [encode(batch) for batch in batches]

    def turn():
        sent = []
        for connection in connections:
            some = chance.choices(encoded, k=8)
            connection.send_raw(b"".join(some))
            sent.append(len(some))
        for connection, count in zip(connections, sent):
            for _ in range(count):
                reply = connection.read()
                # A SET may have taken the key.
                assert not isinstance(reply, Err) or reply.code == "WRONGTYPE", reply

    return turn


def reading(server, seed):
    chance, connection = random.Random(seed), Connection(server.socket)

    def turn():
        room = chance.choice(ROOMS)
        connection.pipeline(
            [
                ("PRESENCE.COUNT", room),
                ("PRESENCE.MEMBERS", room, "ALL", "COUNT", 100),
                ("PRESENCE.FRIENDS", room, "v", *MEMBERS[:20]),
                ("PRESENCE.MCOUNT", *ROOMS),
                ("MEMORY", "USAGE", room),
                ("DEBUG", "DIGEST-VALUE", room),
                ("INFO", "presence"),
            ]
        )

    return turn


def freeing(server, seed):
    """Ends rooms in every way there is."""
    chance, connection = random.Random(seed), Connection(server.socket)
    dumps = []

    def restore(room):
        # Of a room that exists, if there is one.
        if dumps and chance.random() < 0.8:
            return connection.call("RESTORE", room, 0, chance.choice(dumps), "REPLACE")
        if isinstance(dump := connection.call("DUMP", room), bytes):
            dumps[:] = [*dumps[-3:], dump]

    ways = [
        lambda room: connection.call("FLUSHALL"),
        lambda room: connection.call("FLUSHALL", "SYNC"),
        lambda room: connection.call("FLUSHALL", "ASYNC"),
        lambda room: connection.call("FLUSHDB"),
        lambda room: connection.call("FLUSHDB", "ASYNC"),
        lambda room: connection.call("UNLINK", room),
        lambda room: connection.call("UNLINK", *ROOMS),
        lambda room: connection.call("DEL", room),
        lambda room: connection.call("DEL", *ROOMS),
        lambda room: (connection.call("SET", room, "x"), connection.call("DEL", room)),
        lambda room: connection.call("RENAME", room, chance.choice(ROOMS)),
        lambda room: connection.call("COPY", room, chance.choice(ROOMS), "REPLACE"),
        lambda room: connection.call("PEXPIRE", room, 1),
        lambda room: connection.call("SWAPDB", 0, 1),
        lambda room: connection.call("MOVE", room, 1),
        restore,
        restore,
    ]

    def turn():
        chance.choice(ways)(chance.choice(ROOMS))
        # Let something grow in between.
        time.sleep(chance.choice([0, 0, 0.001, 0.001, 0.01, 0.05, 0.2]))

    return turn


@pytest.mark.alone
@pytest.mark.timeout(SECONDS + 240)
def test_rooms_are_freed_on_other_threads_under_load(make_server, kind):
    server = make_server(config=config(kind))
    load = Load()
    for seed in range(4):
        load.add(beating, server, seed)
    for seed in range(2):
        load.add(reading, server, 10 + seed)
        load.add(freeing, server, 20 + seed)
    freed = lambda: int(server.info("memory")["lazyfreed_objects"])
    gone = lambda: int(server.info()["presence_goings_timeout"])
    done = lambda: all(load.turns.get(work.__name__) for work in (beating, reading, freeing))
    load.run(SECONDS, lambda: freed() > 20 and gone() > 100 and done())
    client = server.client()
    print(f"{kind}: {load.turns}, {freed()} objects freed aside, {gone()} gone by timeout")
    assert freed() > 20 and gone() > 100 and done()

    # Some that stay, one of them renamed, so that the sums are of something; the others run out.
    kept = [f"kept{n}" for n in range(20)]
    for room in kept:
        client("PRESENCE.MBEAT", room, "MEMBERS", "a", "b"), client("PRESENCE.BEAT", room, "a", "TIMEOUT", 600_000)
    client("RENAME", kept[0], "named")
    wait_until(lambda: sorted(rooms_of(server)) == sorted((0, room.encode()) for room in [*kept[1:], "named"]), timeout=30)
    wait_until(lambda: server.info()["presence_rooms"] == "20")
    check_sums(server)
