"""The clients' RoomViews on real servers, through random traffic and lines that lose, delay and break: whenever a reader is
level with the node that it reads, its list is that node's. PRESENCE_SEED repeats a run's decisions, not its timing."""

import os
import random
import time
from collections import Counter

import pytest

from harness import Connection, Err
from readers import LANGUAGES, reader
from support import FULL, fields, wait_until

ROOM = "room"
SETTINGS = ("timeout", 150, "grace", 100, "recent", 200, "feed", 25, "interval-over", 10, "count-every", 100, "share-default", "everyone")
IDS = [b"ann", b"bob", b"cid", "zoë".encode(), b"\xff\0bin"]
CROWD = [f"c{n}" for n in range(12)]
STEPS = 2000 if FULL else 300


class Line:
    """A subscription to the room's feed on one server. What comes is kept here until it is delivered."""

    def __init__(self, server):
        self.server = server
        self.client = server.client()
        told = fields(self.client("PRESENCE.CHANNELS", ROOM))
        self._subscriber = Connection(server.socket, resp=3)
        for channel in (told["feed"], b"mark"):
            self._subscriber.send(told["verb"].decode(), channel)
            self._subscriber.read_push()
        self.waiting = []

    def pump(self):
        """Takes in all that was published so far."""
        self.client("PUBLISH", "mark", "")
        while (push := self._subscriber.read_push())[1] != b"mark":
            self.waiting.append(push[2])

    def close(self):
        self._subscriber.close()
        self.client.close()


class Play:
    """One run: the servers, the reader, and what happened so far."""

    def __init__(self, language, servers):
        self.seed = int(os.environ.get("PRESENCE_SEED") or random.randrange(1 << 32))
        print("PRESENCE_SEED", self.seed)  # shown on failure
        self.random = random.Random(self.seed)
        self.servers = list(servers)  # the primary first
        self.client = servers[0].client()
        self.reader = reader(language, ROOM)
        self.done = Counter()
        self.log = []
        self.line = None
        self.connect()

    # -- traffic ----------------------------------------------------------------------------------------------------

    def beat(self):
        share = self.random.choice(["nobody", "friends", "everyone", "everyone", None, None, None, None])
        options = ["SHARE", share] if share else []
        if self.random.random() < 0.4:
            options += ["STATUS", self.random.choice(["", "away", "busy"])]
        if self.random.random() < 0.2:
            options += ["DATA", self.random.choice([b"", b"d", b"\x80"])]
        if self.random.random() < 0.3:
            options += ["TIMEOUT", 60000]
        session = self.random.choice(["", "s1", "s2"])
        self.client.call("PRESENCE.BEAT", ROOM, self.random.choice(IDS), "SESSION", session, *options)

    def bye(self):
        session = ["SESSION", self.random.choice(["", "s1", "s2"])] if self.random.random() < 0.5 else []
        self.client("PRESENCE.BYE", ROOM, self.random.choice(IDS), *session)

    def share(self):
        self.client("PRESENCE.SHARE", ROOM, self.random.choice(IDS), self.random.choice(["nobody", "friends", "everyone"]))

    def crowd(self):
        """Interval mode, until they go."""
        self.client("PRESENCE.MBEAT", ROOM, "MEMBERS", *CROWD)

    def silence(self):
        time.sleep(self.random.random() * 0.12)

    # -- what befalls a room ----------------------------------------------------------------------------------------

    def delete(self):
        self.client("DEL", ROOM)

    def away(self):
        self.client.call("RENAME", ROOM, "away")

    def back(self):
        self.client.call("RENAME", "away", ROOM)

    def copy(self):
        self.client.call("COPY", "away", ROOM, "REPLACE")

    def restore(self):
        if (payload := self.client("DUMP", ROOM)) is not None:
            self.client("RESTORE", ROOM, 0, payload, "REPLACE")

    def reload(self):
        self.client("DEBUG", "RELOAD")

    def failover(self):
        """Both change their parts, told to or because the primary seems dead."""
        old, new = self.servers
        # One that is in the middle of a sync has nothing to be promoted with.
        wait_until(lambda: new.info("replication").get("master_link_status") == "up", timeout=30)
        if self.random.random() < 0.5:
            self.client("FAILOVER")
            wait_until(lambda: new.info("replication")["role"] == "master", timeout=30)
        else:
            new.client()("REPLICAOF", "NO", "ONE")
            for _ in range(self.random.randrange(4)):
                self.act(rare=0)  # on the old one still, to be undone
            old.client()("REPLICAOF", "127.0.0.1", new.port)
        wait_until(lambda: old.info("replication").get("master_link_status") == "up", timeout=30)
        self.servers = [new, old]
        self.client = new.client()
        if not self.client("EXISTS", ROOM):
            # The old one may have had it. That a sync took it away is no event: only what happens next is heard.
            self.client("PRESENCE.BEAT", ROOM, "ann")

    def act(self, rare=0.06):
        """Something happens, rarely something unusual."""
        if self.random.random() < rare:
            actions = [self.crowd, self.delete, self.away, self.back, self.copy, self.restore, self.reload]
            actions += [self.failover] * 2 * (len(self.servers) - 1)
        else:
            actions = [self.beat] * 6 + [self.bye, self.share] + [self.silence] * 3
        action = self.random.choice(actions)
        self.note(action.__name__)
        action()

    # -- the reader's side ------------------------------------------------------------------------------------------

    def note(self, what):
        self.done[what] += 1
        self.log.append(what)

    def connect(self):
        if self.line:
            self.line.close()
        self.line = Line(self.random.choice(self.servers))
        self.note("connect")
        self.reader.catch_up()

    def deliver(self, share, lost=0.1):
        """The first of what waits, in order; some are lost on the way."""
        self.line.pump()
        for _ in range(round(len(self.line.waiting) * share)):
            message = self.line.waiting.pop(0)
            if self.random.random() < lost:
                self.note("lost")
                continue
            self.note("heard")
            self.log.append(message)
            self.reader.hear(message)

    def call(self, *words, calm=False):
        """A command of the reader, in small pages; the world goes on in the middle of it."""
        what = words[0].removeprefix("PRESENCE.")
        words = [*words[:-1], 3] if what == "MEMBERS" else [*words, "COUNT", 4]
        for moment in ("before", "after"):
            if not calm and self.random.random() < 0.3:
                self.act(rare=0)
                self.deliver(self.random.random())
            if moment == "before":
                reply = self.line.client.call(*words)
        self.note(what)
        self.log.append((words, reply))
        if isinstance(reply, Err):
            self.note("RESYNC")
            raise RuntimeError(reply)
        return reply

    def check(self):
        """Level: equal. One reply of the server tells which change it is at, and its list."""
        shown = self.reader.shown()
        _, epoch, seq, page = self.line.client("PRESENCE.MEMBERS", ROOM, "COUNT", 1000)
        if shown.needs or (shown.epoch, shown.seq) != (epoch.decode(), seq):
            return False
        if shown.list is None:
            self.done["level without names"] += 1
            return True
        there = {}
        for entry in map(fields, page):
            id, status, data = (decoded(entry[name]) for name in ("member", "status", "data"))
            there[id] = status, data
        assert shown.list == there, "level, and not equal"
        self.done["level"] += 1
        return True

    def state(self):
        """For whoever looks for the fault."""
        there = [[server.port, server.client().call("PRESENCE.MEMBERS", ROOM)] for server in self.servers]
        return f"{self.log[-60:]}\nit shows {self.reader.shown()}, reads {self.line.server.port}; the primary first: {there}"

    def step(self):
        self.act()
        if self.random.random() < 0.03:
            self.connect()
        self.deliver(self.random.choice([0, 0.5, 1, 1, 1]))
        if self.random.random() < 0.8:
            self.reader.read(self.call)
        self.check()

    def settle(self, names=None):
        """Nothing is lost any more: the reader comes level by what it hears, and knows the names if the room tells them."""

        def level():
            self.deliver(1, lost=0)
            self.reader.read(lambda *words: self.call(*words, calm=True))
            if not self.check():
                return False
            there = self.reader.shown().list
            return there is not None and (names is None or set(there) == names) or self.line.client("PRESENCE.COUNT", ROOM) > 8

        wait_until(level, timeout=30)

    def heal(self):
        """Up to date, it hears of whatever befalls the room."""
        self.deliver(1, lost=0)
        self.reader.catch_up()
        self.reader.read(lambda *words: self.call(*words, calm=True))
        self.act(rare=1)
        if self.log[-1] == "reload":
            # Loading begins an epoch and announces nothing until something changes.
            self.client("PRESENCE.BEAT", ROOM, f"new{self.done['settled']}")
        self.settle()
        self.note("settled")

    def end(self):
        """Whatever was lost, the next change heals it; so it does when the history does not reach back, and in a crowd."""
        self.client("DEL", ROOM)
        self.client("PRESENCE.CREATE", ROOM, "TIMEOUT", 60000)
        self.client("PRESENCE.BEAT", ROOM, "last")
        self.settle({"last"})
        resyncs = self.done["RESYNC"]
        for n in range(40):
            self.client("PRESENCE.BEAT", ROOM, "last", "STATUS", n)
        self.deliver(1, lost=1)
        self.client("PRESENCE.BEAT", ROOM, "latest")
        self.settle({"last", "latest"})
        assert self.done["RESYNC"] == resyncs + 1
        self.crowd()
        self.settle()
        assert self.reader.shown().list is None
        self.client("DEL", ROOM)
        self.settle(set())


def decoded(value):
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("nodes", [1, 2], ids=["alone", "with a replica"])
@pytest.mark.timeout(600)
def test_a_reader_that_is_level_knows_the_list(make_server, nodes, language):
    servers = [make_server(port=0, args=SETTINGS)]
    for _ in range(nodes - 1):
        servers.append(make_server(port=0, args=SETTINGS, config={"replicaof": f"127.0.0.1 {servers[0].port}"}))
        wait_until(lambda: servers[-1].info("replication").get("master_link_status") == "up", timeout=30)
    play = Play(language, servers)
    try:
        for _ in range(STEPS):
            play.step()
            if play.random.random() < 0.04:
                play.heal()
        play.end()
    except BaseException:
        print(play.state())
        raise
    finally:
        play.reader.close()
        play.line.close()
        print(dict(play.done))
    # It was a test of something.
    assert play.done["level"] > 50 and play.done["lost"] > 3 and play.done["connect"] > 2 and play.done["settled"] > 2
