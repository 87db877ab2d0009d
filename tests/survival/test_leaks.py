"""Members, sessions, burials, rooms and days come and go in great numbers, and leave no memory behind: a million of each
at full length, else a fiftieth of that."""

import pytest

from crowds import Shim, moment
from harness import Connection
from support import FULL, check_sums, wait_until

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900 if FULL else 120)]

BATCH = 1000
COUNT = 1_000_000 if FULL else 20_000


# What the server itself keeps for every slow command and for each command's latency would look like a leak.
QUIET = {"slowlog-log-slower-than": "-1", "latency-tracking": "no"}


def used(server):
    return int(server.info("memory")["used_memory"])


def settled(server):
    """used_memory at its lowest over half a second, without clients: their buffers would be in it."""
    with Connection(server.socket) as client:
        client("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return min(used(server) for _ in range(10) if moment(0.05) is None)


def flat(server, before, within=64_000):
    """Nearly no more bytes are used than before: `within` is what is kept ready for the next command, and the server's own.
    So in the short form these tests see a leak of one allocation for each member, session, room or day, and at full
    length of one in a hundred."""
    check_sums(server)
    try:
        wait_until(lambda: settled(server) <= before + within, timeout=5, every=0.2)
    except AssertionError:
        pytest.fail(f"{before} bytes before, {settled(server)} after")
    print(f"{server.kind}: {before} bytes before, {settled(server)} after")


def churn(client, room, ids, sessions=None):
    """All come by one MBEAT and go by one BYE each."""
    if sessions:
        words = [word for id in ids for word in (id, sessions)]
        assert client("PRESENCE.MBEAT", room, "SESSIONS", *words) == len(ids)
    else:
        assert client("PRESENCE.MBEAT", room, "MEMBERS", *ids) == len(ids)
    assert set(client.pipeline([("PRESENCE.BYE", room, id) for id in ids])) == {1}


def test_members_leave_nothing(make_server):
    """In one room that stays; then the room itself."""
    server = make_server(config={**QUIET, "presence.uniques-days": "0"})
    client = server.client()
    client("PRESENCE.CREATE", "r", "RECENT", 0)
    batch = lambda turn: [f"member-{turn}-{n}" for n in range(BATCH)]
    churn(client, "r", batch(-1))
    before = settled(server)
    client = server.client()
    for turn in range(COUNT // BATCH):
        churn(client, "r", batch(turn))
    flat(server, before)
    client = server.client()
    assert client("MEMORY", "USAGE", "r") < 64 * 1024
    client("DEL", "r")
    flat(server, before)


def test_sessions_and_burials_leave_nothing(make_server):
    """Sessions of 1,000 members, each of which is buried; the burials lapse."""
    server = make_server(config={**QUIET, "presence.uniques-days": "0", "presence.recent": "0"})
    client = server.client()
    ids = [f"m{n}" for n in range(BATCH)]

    def turns(count):
        client("PRESENCE.CREATE", "r", "TIMEOUT", 200, "GRACE", 100)
        for turn in range(count):
            words = [word for id in ids for word in (id, f"session-{turn}")]
            client("PRESENCE.MBEAT", "r", "SESSIONS", *words)
            replies = client.pipeline([("PRESENCE.BYE", "r", id, "SESSION", f"session-{turn}") for id in ids])
            # Who is not quick enough has gone by silence.
            assert set(replies) <= {0, 1}
        assert client("PRESENCE.BEAT", "r", "m0", "SESSION", f"session-{count - 1}") == -1, "buried"
        wait_until(lambda: client("PRESENCE.BEAT", "r", "m0", "SESSION", f"session-{count - 1}") == 1)
        client("PRESENCE.BYE", "r", "m0"), client("PRESENCE.ALTER", "r", "TIMEOUT", 100, "GRACE", 0)
        wait_until(lambda: client("PRESENCE.COUNT", "r", "SESSIONS") == 0)

    turns(1)
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 0)
    moment(0.5)
    before = settled(server)
    client = server.client()
    client("DEL", "r")
    turns(COUNT // BATCH)
    moment(0.5)
    flat(server, before)
    client = server.client()
    client("DEL", "r")
    flat(server, before)


def test_rooms_leave_nothing(make_server):
    """Rooms with two members each: gone by goodbyes, by silence, by UNLINK and by FLUSHALL."""
    quick = {"presence.recent": "0", "presence.timeout": "100", "presence.grace": "0"}
    server = make_server(config={**QUIET, **quick, "presence.uniques-days": "0"})
    client = server.client()

    def turn(number, ending):
        rooms = [f"room-{number}-{n}" for n in range(5 * BATCH)]
        long = ("TIMEOUT", 60000) if ending != "silence" else ()
        assert set(client.pipeline([("PRESENCE.BEAT", room, id, *long) for room in rooms for id in "ab"])) == {1}
        if ending == "goodbye":
            assert set(client.pipeline([("PRESENCE.BYE", room, id) for room in rooms for id in "ab"])) == {1}
        elif ending == "del":
            client("UNLINK", *rooms)
        elif ending == "flush":
            client("FLUSHALL")
        wait_until(lambda: client("DBSIZE") == 0, timeout=30)
        wait_until(lambda: server.info()["presence_rooms"] == "0")

    endings = ("goodbye", "silence", "del", "flush")
    for number, ending in enumerate(endings):
        turn(number, ending)
    before = settled(server)
    client = server.client()
    for number in range(COUNT // BATCH // 5):
        turn(number + 4, endings[number % 4])
    flat(server, before)


def test_days_leave_nothing(tmp_path, monkeypatch, make_server):
    """Days of 2,000 members each, of which two are kept."""
    shim = Shim(tmp_path, monkeypatch.setenv)
    server = make_server(config=QUIET)
    client = server.client()
    client("PRESENCE.CREATE", "r", "RECENT", 0, "UNIQUES", 2, "TIMEOUT", 60000)
    client("PRESENCE.BEAT", "r", "stays", "TIMEOUT", 3600000)

    def day(number):
        shim.set(number * 86400)
        wait_until(lambda: client("PRESENCE.UNIQUE", "r") == 0)
        for half in range(2):
            churn(client, "r", [f"d{number}-{half}-{n}" for n in range(BATCH)])
        assert 1900 < client("PRESENCE.UNIQUE", "r") < 2100

    for number in range(1, 4):
        day(number)
    of_room, before = client("MEMORY", "USAGE", "r"), settled(server)
    client = server.client()
    for number in range(4, 4 + COUNT // BATCH // 2):
        day(number)
    # The day before yesterday goes with a tick.
    wait_until(lambda: client("MEMORY", "USAGE", "r") <= of_room * 1.1)
    flat(server, before)


def test_days_of_many_rooms_leave_nothing(tmp_path, monkeypatch, make_server):
    """1,000 rooms that are there for the sake of their days alone: each day of each comes and goes."""
    shim = Shim(tmp_path, monkeypatch.setenv)
    server = make_server(config={**QUIET, "presence.recent": "0", "presence.uniques-days": "2"})
    client = server.client()
    rooms = [f"room-{n}" for n in range(BATCH)]

    def day(number):
        shim.set(number * 86400)
        wait_until(lambda: client("PRESENCE.UNIQUE", rooms[-1]) == 0)
        assert set(client.pipeline([("PRESENCE.BEAT", room, f"d{number}") for room in rooms])) == {1}
        assert set(client.pipeline([("PRESENCE.BYE", room, f"d{number}") for room in rooms])) == {1}
        assert client("PRESENCE.UNIQUE", rooms[-1]) == 1

    for number in range(1, 5):
        day(number)
    before = settled(server)
    client = server.client()
    for number in range(5, 5 + COUNT // BATCH):
        day(number)
    assert client("PRESENCE.UNIQUE", rooms[0], "DAYS", 2) == 2 and client("DBSIZE") == BATCH
    flat(server, before)
    client = server.client()
    shim.set((5 + COUNT // BATCH + 2) * 86400)
    wait_until(lambda: client("DBSIZE") == 0, timeout=30)
    flat(server, before)
