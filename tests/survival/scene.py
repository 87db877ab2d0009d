"""Rooms in a cluster whose members beat while something happens to it, and what must be true at the end."""

import time

from harness import Connection
from harness.cluster import SLOTS, Crowd, Watch, slot_of
from support import TYPE, wait_until

TIMEOUT, GRACE = 1.5, 1.0
CONFIG = {"presence.timeout": "1500", "presence.grace": "1000", "presence.recent": "0"}
STAY, LEAVE = 5, 2


def name_in(slots, count=1, prefix="room"):
    """Names of keys whose slots lie in that range, no two in the same slot if there is place."""
    found, taken, number = [], set(), 0
    while len(found) < count:
        name, number = f"{prefix}{number}", number + 1
        slot = slot_of(name)
        if slot in slots and (slot not in taken or len(taken) == len(slots)):
            found.append(name), taken.add(slot)
    return found


def shard_slots(shard):
    return range(SLOTS * shard // 3, SLOTS * (shard + 1) // 3)


def agree(node):
    """What INFO says of the registry is what SCAN finds, and nothing is lost or frozen."""

    def differs():
        info = node.server.info()
        with Connection(node.server.socket) as c:
            cursor, rooms = b"0", 0
            while True:
                cursor, keys = c("SCAN", cursor, "COUNT", 1000, "TYPE", TYPE)
                rooms += len(keys)
                if cursor == b"0":
                    break
        want = {"rooms": rooms, "rooms_lost": 0, "rooms_frozen": 0, "panics": 0}
        return {name: (info[f"presence_{name}"], value) for name, value in want.items() if info[f"presence_{name}"] != str(value)}

    deadline = time.monotonic() + 10
    while wrong := differs():
        assert time.monotonic() < deadline, f"{node}: (INFO, SCAN) {wrong}"
        time.sleep(0.05)


class Scene:
    """Rooms all over the slots, members who stay and beat, members who will leave, and everything that was announced."""

    def __init__(self, cluster, rooms, by=None):
        # `by`: whose announcements count; all nodes' if not said.
        self.cluster, self.client, self.rooms, self.by = cluster, cluster.client(), rooms, by
        self.stay = {room: [f"stay{n}" for n in range(STAY)] for room in rooms}
        self.silent = {room: [f"silent{n}" for n in range(LEAVE)] for room in rooms}
        self.goodbye = {room: [f"goodbye{n}" for n in range(LEAVE)] for room in rooms}
        for room in rooms:
            assert self.client("PRESENCE.MBEAT", room, "MEMBERS", *self.all(room)) == len(self.all(room))
        cluster.wait_equal()
        self.watch = Watch(cluster)
        self.crowd = Crowd(cluster, {room: self.all(room) for room in rooms}).start()

    def all(self, room):
        return self.stay[room] + self.silent[room] + self.goodbye[room]

    def pass_time(self, seconds):
        """Lets the crowd beat for a while."""
        until = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= until, timeout=seconds + 15)

    def fall_silent(self, rooms=None):
        for room in rooms or self.rooms:
            for id in self.silent[room]:
                self.crowd.leave(room, id)

    def say_goodbye(self, rooms=None):
        for room in rooms or self.rooms:
            for id in self.goodbye[room]:
                self.crowd.leave(room, id)
                assert self.client("PRESENCE.BYE", room, id) == 1, (room, id)

    def end(self):
        """Everybody who left is announced once, nobody else ever; counts and uniques are right on whoever serves."""
        left = {f"{room}:{id}" for room in self.rooms for id in self.silent[room] + self.goodbye[room]}
        deadline = time.monotonic() + 3 * (TIMEOUT + GRACE)
        while set(self.watch.told("offline")) != left and time.monotonic() < deadline:
            time.sleep(0.05)
        # Whoever were still to be accused would be by now.
        self.pass_time(2 * TIMEOUT + GRACE)
        self.cluster.wait_ok()
        self.watch.sync()
        told = self.watch.told("offline")
        accused = {name: nodes for name, nodes in told.items() if name not in left}
        first = [(node, moment, name) for node, moment, _, name in self.watch.of("offline") if name not in left][:2]
        beats = {name: [beat for beat in self.crowd.tried[name] if abs(beat[0] - t) < 5] for _, t, name in first}
        assert accused == {}, f"they were beating: {first}; their beats: {beats}"
        assert left - set(told) == set(), "ghosts"
        assert self.watch.doubles("offline", self.by) == []
        assert self.watch.told("online") == {} and self.crowd.odd == []
        assert self.crowd.beats > 10 * STAY * len(self.rooms)
        for room in self.rooms:
            assert self.client("PRESENCE.COUNT", room) == STAY, room
            assert self.client("PRESENCE.UNIQUE", room) == len(self.all(room)), room
            owner = self.cluster.owner(slot_of(room))
            assert owner.call("PRESENCE.COUNT", room) == STAY
        self.crowd.__exit__()
        for node in self.cluster.nodes:
            agree(node)
        self.watch.close()


def spread(count=21):
    return [name for shard in range(3) for name in name_in(shard_slots(shard), count // 3)]
