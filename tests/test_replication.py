"""A primary, its replica and its log: what they are told, and what becomes of it when the primary is lost."""

import random
import time

import pytest

from harness import Watcher
from support import check_sums, digest, member, names, room_info, wait_until

# Nothing but what the test does moves the replication offset.
QUIET = {"repl-ping-replica-period": "3600"}
T_AND_G = 0.7
QUICK = ("TIMEOUT", 400, "GRACE", 300)


def replication(server):
    return server.info("replication")


@pytest.fixture
def pair(make_server):
    """A primary and its replica, in step; options as for Server, of both or of one."""

    def make(config=None, of_primary=None, of_replica=None):
        config = QUIET | (config or {})
        primary = make_server(port=0, config=config | (of_primary or {}))
        replica = make_server(port=0, config=config | (of_replica or {}) | {"replicaof": f"127.0.0.1 {primary.port}"})
        in_step(primary, replica)
        return primary, replica

    return make


def offsets(primary, replica):
    return replication(primary)["master_repl_offset"], replication(replica).get("slave_repl_offset")


def in_step(primary, replica):
    """Waits until the replica has all that the primary has told it."""
    wait_until(lambda: replication(replica).get("master_link_status") == "up", timeout=30, every=0.05)
    # The stream begins with the replica's first answer, up to a second later: this moves it, and nothing else.
    primary.client()("PUBLISH", "in", "step")
    wait_until(lambda: len(set(offsets(primary, replica))) == 1)


def equal(primary, replica):
    """Waits until both hold the same."""
    one, two = primary.client(), replica.client()
    wait_until(lambda: len(set(offsets(primary, replica))) == 1 and one("DEBUG", "DIGEST") == two("DEBUG", "DIGEST"))


def promote(replica):
    replica.client()("REPLICAOF", "NO", "ONE")


def log_size(server):
    return sum(path.stat().st_size for path in server.dir.glob("appendonly*/*"))


# -- what it costs ----------------------------------------------------------------------------------------------------


def test_a_steady_crowd_costs_no_stream_and_no_log(pair):
    primary, replica = pair({"appendonly": "yes", "appendfsync": "always"})
    client = primary.client()
    ids = [f"m{n}" for n in range(100)]
    client("PRESENCE.MBEAT", "r", "MEMBERS", *ids)
    client("PRESENCE.BEAT", "r", "asha", "SESSION", "s", "STATUS", "x", "DATA", "y", "SHARE", "everyone")
    in_step(primary, replica)

    def cost():
        return replication(primary)["master_repl_offset"], log_size(primary), changes(primary)

    with Watcher(primary, patterns=["*"]) as watcher:
        before = cost()
        for _ in range(5):
            assert client("PRESENCE.MBEAT", "r", "MEMBERS", *ids) == 0
            assert set(client.pipeline([("PRESENCE.BEAT", "r", id) for id in ids])) == {0}
            beat = ("PRESENCE.BEAT", "r", "asha", "SESSION", "s", "STATUS", "x", "DATA", "y", "SHARE", "everyone")
            assert set(client.pipeline([("PRESENCE.BEAT", "r", "asha", "SESSION", "s"), beat] * 50)) == {0}
        assert cost() == before
        watcher.sync()
        assert watcher.of("presence.online", "presence.update") == []
    assert client("PRESENCE.BYE", "r", "asha") == 1
    after = cost()
    assert all(int(now) > int(was) for now, was in zip(after, before))


def changes(server):
    return server.info("persistence")["rdb_changes_since_last_save"]


def test_only_what_others_see_touches_watchers_of_the_key(server, client, watcher):
    client("PRESENCE.CREATE", "r", *QUICK), client("PRESENCE.BEAT", "r", "asha"), client("PRESENCE.BEAT", "r", "bela")
    other = server.client()
    tracker = server.client(resp=3)
    tracker("CLIENT", "TRACKING", "ON")
    assert tracker("PRESENCE.COUNT", "r") == 2
    client("WATCH", "r")
    assert set(other.pipeline([("PRESENCE.BEAT", "r", "asha")] * 100)) == {0}
    client("MULTI"), client("PING")
    assert client("EXEC") == ["PONG"], "beats change nothing that anybody sees"
    tracker("PING")
    assert not tracker.pushes
    client("WATCH", "r")
    wait_until(lambda: other("PRESENCE.BEAT", "r", "asha") == 0 and watcher.of("offline"), every=0.05)
    client("MULTI"), client("PING")
    assert client("EXEC") is None, "bela went"
    assert tracker.wait_push(lambda push: push[0] == b"invalidate")[1] == [b"r"]


def test_a_room_that_ends_by_itself_is_told_once(server, client):
    """To who watches it, to who caches what was read of it, and to who listens."""
    client("CONFIG", "SET", "presence.recent", 0, "presence.uniques-days", 0)
    other, tracker = server.client(), server.client(resp=3)
    tracker("CLIENT", "TRACKING", "ON")
    client("PRESENCE.BEAT", "r", "asha", "TIMEOUT", 1000, "GRACE", 0)
    assert tracker("PRESENCE.COUNT", "r") == 1
    assert set(other.pipeline([("PRESENCE.BEAT", "r", "asha")] * 100)) == {0}
    tracker("PING")
    assert not tracker.pushes, "a hundred beats, no invalidation"
    client("WATCH", "r")
    with Watcher(server, patterns=["__keyevent@*__:*"]) as events:
        events.wait("del", "r")
        client("MULTI"), client("PING")
        assert client("EXEC") is None
        assert tracker.wait_push(lambda push: push[0] == b"invalidate")[1] == [b"r"]
        tracker("PING")
        assert not tracker.pushes, "one for the end"
        events.sync()
        assert events.kinds()[-2:] == ["offline", "del"] and len(events.of("del")) == 1


# -- what the replica knows -------------------------------------------------------------------------------------------


def traffic(client, chance, steps, rooms=4, moves=True):
    """Random operations on a few rooms, also with whole keys if `moves`; some members stay for a minute."""
    for _ in range(steps):
        room, id, session = f"r{chance.randrange(rooms)}", f"m{chance.randrange(20)}", f"s{chance.randrange(3)}"
        share = chance.choice(["nobody", "friends", "everyone"])
        roll = chance.random() * (1 if moves else 0.84)
        if roll < 0.45:
            options = [("SESSION", session), ("SHARE", share), ("STATUS", chance.choice("abc"))]
            options += [("DATA", chance.randbytes(3)), ("TIMEOUT", 60000), ("GRACE", chance.choice([0, 50]))]
            client("PRESENCE.BEAT", room, id, *(w for option in options if chance.random() < 0.4 for w in option))
        elif roll < 0.6:
            of = chance.choice([(), ("SOFT",), ("SESSION", session), ("SESSION", session, "SOFT")])
            client("PRESENCE.BYE", room, id, *of)
        elif roll < 0.7:
            client("PRESENCE.SHARE", room, id, share)
        elif roll < 0.8:
            client("PRESENCE.MBEAT", room, "EACH", "SESSIONS", *(w for n in range(5) for w in (f"m{n}", session)))
        elif roll < 0.84:
            client.call("PRESENCE.ALTER", room, "GRACE", chance.choice([50, 100]), "UNIQUES", chance.randrange(3))
        elif roll < 0.87:
            client("DEL", room)
        elif roll < 0.90:
            client.call("RENAME", room, f"r{chance.randrange(4)}")
        elif roll < 0.93:
            client.call("COPY", room, f"r{chance.randrange(4)}", "REPLACE")
        elif roll < 0.94:
            client("SWAPDB", 0, 1)
        elif roll < 0.96:
            client.call("MOVE", room, 1)
        else:
            client("PRESENCE.BEAT", room, f"once{chance.randrange(1000)}", "TIMEOUT", 100, "GRACE", 0)


SHORT = {"presence.timeout": "150", "presence.grace": "100", "presence.recent": "200"}


def test_a_replica_short_of_memory_obeys_all_the_same(pair):
    primary, replica = pair(SHORT, of_replica={"maxmemory": "1", "replica-ignore-maxmemory": "no"})
    # One room: what the server replicates as a transaction, such a replica refuses whatever it is.
    traffic(primary.client(), random.Random(5), 800, rooms=1, moves=False)
    equal(primary, replica)
    assert replica.client()("PRESENCE.COUNT", "r0") > 0


def test_random_traffic_leaves_all_copies_equal(pair, kind):
    primary, replica = pair(SHORT | {"appendonly": "yes"})
    client, chance = primary.client(), random.Random(11)
    for _ in range(6):
        # Of Valkey 8.1 see test_moving_a_key_leaves_the_client_where_it_was.
        traffic(client, chance, 400, moves=kind != "valkey-8.1")
        equal(primary, replica)
    for server in (primary, replica):
        check_sums(server)
    # Those who stay a minute are left; nothing changes any more.
    offset = lambda: replication(primary)["master_repl_offset"]
    wait_until(lambda: offset() == after(0.6, offset))
    equal(primary, replica)
    now = client("DEBUG", "DIGEST")
    assert client("DBSIZE") > 0
    promote(replica)
    replica.restart(kill=True), primary.restart(kill=True)
    assert primary.client()("DEBUG", "DIGEST") == replica.client()("DEBUG", "DIGEST") == now, "what the logs tell"


def after(seconds, what):
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until)
    return what()


def test_rooms_of_several_databases_stay_apart(pair):
    """One tick has something to do in each of them; the client stays where it is."""
    databases = (0, 5, 15)
    primary, replica = pair({"appendonly": "yes", "appendfsync": "always"})
    clients = {db: primary.client(db=db) for db in databases}
    with Watcher(replica) as watcher:
        for db, client in clients.items():
            client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 0)
            client("PRESENCE.MBEAT", "r", "MEMBERS", f"only{db}", *(f"m{n}" for n in range(20)))
            client("PRESENCE.BEAT", "r", f"stays{db}", "TIMEOUT", 60000), client("PRESENCE.BEAT", "q", f"q{db}", "GRACE", 0)
        assert [clients[db]("PRESENCE.BYE", "q", f"q{db}") for db in databases] == [1, 1, 1]
        for db, client in clients.items():
            wait_until(lambda: client("PRESENCE.COUNT", "r") == 1)
            assert f" db={db} " in client("CLIENT", "INFO").decode()
        equal(primary, replica)
        watcher.sync()
        gone = {(event.db, event.name) for event in watcher.of("offline") if event.name.startswith(b"r:")}
        assert gone == {(db, f"r:{id}".encode()) for db in databases for id in (f"only{db}", *(f"m{n}" for n in range(20)))}
    now = primary.client()("DEBUG", "DIGEST")
    promote(replica)
    replica.restart(kill=True), primary.restart(kill=True)
    assert primary.client()("DEBUG", "DIGEST") == replica.client()("DEBUG", "DIGEST") == now, "what the logs tell"
    for db in databases:
        assert names(primary.client(db=db), "r") == [f"stays{db}".encode()]


def test_a_replica_expires_nobody_by_itself(pair):
    primary, replica = pair(of_replica={"appendonly": "yes", "appendfsync": "always"})
    client = primary.client()
    client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 0), client("PRESENCE.MBEAT", "r", "MEMBERS", *range(20))
    in_step(primary, replica)
    with Watcher(replica) as watcher:
        # Since its full sync the replica writes its log anew.
        wait_until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0")
        primary.pause()
        log = log_size(replica)
        watcher.hold_until(time.monotonic() + 3 * T_AND_G)
        assert log_size(replica) == log
        there = replica.client()
        assert watcher.events == [] and there("PRESENCE.COUNT", "r") == 20
        assert set(there("PRESENCE.FRIENDS", "r", 3, 3)) == {b"online"}
        primary.resume()
        watcher.wait("offline", count=20)
        watcher.sync()
        assert sorted(event.name for event in watcher.events) == sorted(b"r:%d" % n for n in range(20))
    in_step(primary, replica)
    assert replica.client()("PRESENCE.COUNT", "r") == 0


def test_a_replica_takes_no_writes_and_answers_reads(pair):
    primary, replica = pair()
    client, there = primary.client(), replica.client()
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone"), client("SADD", "set", "asha")
    in_step(primary, replica)
    before = there("DEBUG", "DIGEST")
    for write in (
        "BEAT r asha",
        "BEAT r bela",
        "MBEAT r MEMBERS asha",
        "BYE r asha",
        "SHARE r asha nobody",
        "CREATE q",
        "ALTER r GRACE 1",
        "APPLY r x",
    ):
        name, *arguments = write.split()
        assert there.call(f"PRESENCE.{name}", *arguments).code == "READONLY", write
    for read in ("COUNT r", "MCOUNT r q", "FRIENDS r v asha", "FRIENDSFROM r v set", "UNIQUE r", "MEMBERS r", "MEMBERS r ALL"):
        name, *arguments = read.split()
        assert there(f"PRESENCE.{name}", *arguments) == client(f"PRESENCE.{name}", *arguments), read
    assert member(there, "r", "asha")["share"] == b"everyone"
    assert room_info(there, "r")["epoch"] == room_info(client, "r")["epoch"]
    assert there("DEBUG", "DIGEST") == before


def test_changes_are_told_once_on_each_server(pair):
    primary, replica = pair()
    client = primary.client()
    client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 0)
    with Watcher(primary) as here, Watcher(replica) as there:
        client("PRESENCE.MBEAT", "r", "MEMBERS", *range(50))
        client("PRESENCE.BEAT", "r", 3, "STATUS", "x"), client("PRESENCE.BEAT", "r", 4, "SHARE", "friends")
        assert client("PRESENCE.BYE", "r", 7) == 1
        here.wait("grace", "r:0"), client("PRESENCE.BEAT", "r", 0, "TIMEOUT", 60000)
        here.wait("offline", count=49)
        in_step(primary, replica)
        here.sync(), there.sync()
        assert {"grace", "back", "online", "offline", "update"} <= set(here.kinds())
        changes = [(event.kind, event.name) for event in here.of("online", "offline", "update")]
        told = [(event.kind, event.name) for event in there.events]
        assert told == changes, "without grace and back, in the same order"
        assert len(set(changes)) == len(changes) == 50 + 49 + 2


def test_what_lapses_at_the_primary_lapses_at_the_replica(pair):
    primary, replica = pair({"presence.uniques-days": "0", "presence.recent": "200"})
    client = primary.client()
    client("PRESENCE.BEAT", "a", "asha", "SHARE", "friends", "SESSION", "s", *QUICK), client("PRESENCE.BYE", "a", "asha")
    client("PRESENCE.BEAT", "b", "bela", *QUICK)
    wait_until(lambda: client("DBSIZE") == 0)
    in_step(primary, replica)
    assert replica.client()("DBSIZE") == 0
    wait_until(lambda: replica.info()["presence_rooms"] == "0")


@pytest.mark.parametrize("load", ["disabled", "swapdb"])
def test_a_full_sync_brings_everything(make_server, load):
    primary = make_server(port=0, config=QUIET)
    client = primary.client()
    client("PRESENCE.CREATE", "r", *QUICK)
    for n in range(4):
        client("PRESENCE.MBEAT", f"r{n}", "MEMBERS", *range(1000))
    replica = make_server(port=0, config=QUIET | {"repl-diskless-load": load})
    replica.client()("PRESENCE.BEAT", "old", "asha", *QUICK), replica.client()("PRESENCE.BEAT", "r0", "old", *QUICK)
    with Watcher(replica) as watcher:
        replica.client()("REPLICAOF", "127.0.0.1", primary.port)
        in_step(primary, replica)
        equal(primary, replica)
        watcher.hold_until(time.monotonic() + T_AND_G)
        assert watcher.events == []
    assert "Skipping diskless-load" not in replica.log()
    check_sums(replica)


# -- the primary is lost ----------------------------------------------------------------------------------------------


def test_a_failover_takes_nobody_offline(pair):
    primary, replica = pair()
    client = primary.client()
    client("PRESENCE.CREATE", "r", "TIMEOUT", 600, "GRACE", 300)
    ids = [f"m{n}" for n in range(200)]
    for _ in range(5):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *ids)
    in_step(primary, replica)
    epoch, seq = client("PRESENCE.MEMBERS", "r")[1:3]
    with Watcher(replica) as watcher:
        primary.close()
        killed = time.monotonic()
        # Longer than timeout and grace: to the replica everybody was silent since they came.
        watcher.hold_until(killed + 1.2)
        before = time.monotonic()
        promote(replica)
        there = replica.client()
        assert there("PRESENCE.COUNT", "r") == 200
        assert there("PRESENCE.MEMBERS", "r")[1] != epoch and there("PRESENCE.MEMBERS", "r")[2] >= seq
        assert set(there("PRESENCE.MBEAT", "r", "EACH", "MEMBERS", *ids[:100])) == {0}
        # The others died with the primary.
        beat = ("PRESENCE.MBEAT", "r", "MEMBERS", *ids[:100])
        wait_until(lambda: there(*beat) == 0 and len(watcher.of("offline")) >= 100, every=0.05)
        watcher.sync()
        gone = watcher.of("offline")
        assert sorted(event.name for event in gone) == sorted(f"r:{id}".encode() for id in ids[100:])
        assert min(event.t for event in gone) >= before + 0.9
        assert watcher.of("online") == []
    assert replica.info()["presence_amnesties_promotion"] == "1"
    check_sums(replica)


def test_failovers_to_and_fro(pair):
    primary, replica = pair()
    client = primary.client()
    client("PRESENCE.CREATE", "r", *QUICK, "RECENT", 0)
    for turn in range(6):
        # Some are always falling due while writes are paused for the handover.
        client("PRESENCE.BEAT", "r", "stays", "TIMEOUT", 60000)
        client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"turn{turn}-{n}" for n in range(20)))
        epoch = room_info(client, "r")["epoch"]
        wait_until(lambda: client("PRESENCE.COUNT", "r") > 1 and after(0.2, lambda: True))
        client("FAILOVER")
        wait_until(lambda: replication(replica)["role"] == "master" and replication(primary)["role"] == "slave")
        primary, replica = replica, primary
        in_step(primary, replica)
        client = primary.client()
        assert client("PRESENCE.BEAT", "r", "stays") == 0 and room_info(client, "r")["epoch"] != epoch
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 1)
    equal(primary, replica)
    assert names(client, "r") == [b"stays"] and names(replica.client(), "r") == [b"stays"]
    for server in (primary, replica):
        check_sums(server)


def test_after_a_partition_the_old_primary_forgets_who_joined_there(pair):
    primary, replica = pair()
    client = primary.client()
    client("PRESENCE.CREATE", "r", "TIMEOUT", 60000), client("PRESENCE.BEAT", "r", "both")
    in_step(primary, replica)
    promote(replica)
    client("PRESENCE.BEAT", "r", "lost"), replica.client()("PRESENCE.BEAT", "r", "found")
    with Watcher(primary) as watcher:
        client("REPLICAOF", "127.0.0.1", replica.port)
        in_step(replica, primary)
        watcher.sync()
        assert watcher.events == [], "a full sync announces nothing"
    assert sorted(names(client, "r")) == [b"both", b"found"]
    assert digest(client, "r") == digest(replica.client(), "r")
