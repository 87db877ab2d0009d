"""Slots that go over all at once, with all their rooms: the target knows the rooms for long before it is theirs to judge."""

import time

import pytest

from harness import migration
from harness.cluster import Cluster, Crowd, Watch, slot_of
from harness.migration import Migration
from scene import CONFIG, GRACE, LEAVE, STAY, TIMEOUT, Scene, agree, name_in, shard_slots, spread
from support import digest, names, wait_until

pytestmark = [pytest.mark.survival, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def able(kind):
    if kind not in migration.KINDS:
        pytest.skip("no migration of slots")


def low(count):
    """Rooms in the first 40 slots."""
    return name_in(range(40), count, "low")


def only_own(scene, shards):
    """The events so far came from nodes of these shards only."""
    scene.watch.sync()
    return [event for event in scene.watch.of() if event[0].shard not in shards] == []


def test_slots_migrated_under_load(cluster):
    rooms = low(10)
    scene = Scene(cluster, rooms + spread(12))
    for turn in range(4):
        source, to = cluster.primaries[turn % 3], cluster.primaries[(turn + 1) % 3]
        if turn == 1:
            scene.fall_silent()
        move = Migration(cluster, 0, 39, to)
        if turn == 2:
            scene.say_goodbye()
        move.wait()
        assert move.source is source
    assert all(cluster.owner(slot_of(room)) is cluster.primaries[1] for room in rooms)
    scene.end()
    if cluster.nodes[0].server.kind.startswith("redis"):
        # Subscribed to what it must not, the module would make this an active trim, key by key.
        logs = [node.server.log() for node in cluster.primaries]
        assert any("Background trim started" in log for log in logs)
        assert not any("Active trim" in log for log in logs)


def test_the_target_is_silent_until_the_slot_is_its_own(cluster):
    """Beats go to the source, to the target everybody is silent: neither it nor its replica may say a word."""
    source, to = cluster.primaries[0], cluster.primaries[1]
    rooms = low(5)
    scene = Scene(cluster, rooms)
    with Migration(cluster, 0, 39, to, hold=5) as move:
        # Some leave in the middle, by goodbye and by silence; one comes.
        scene.say_goodbye()
        scene.fall_silent()
        scene.client("PRESENCE.BEAT", rooms[0], "late", "TIMEOUT", 60000)
        scene.pass_time(3 * (TIMEOUT + GRACE))
        wait_until(lambda: len(scene.watch.told("offline")) == 5 * 2 * LEAVE)
        assert only_own(scene, {source.shard}) and scene.watch.doubles("offline") == []
        assert to.server.info()["presence_rooms_frozen"] == "5"
        move.release()
        move.wait()
    assert scene.client("PRESENCE.BYE", rooms[0], "late") == 1
    scene.pass_time(2 * TIMEOUT + GRACE)
    scene.watch.sync()
    assert len(scene.watch.told("offline")) == 5 * 2 * LEAVE + 1 and scene.watch.doubles("offline") == []
    assert scene.crowd.odd == [] and set(scene.watch.told("online")) == {f"{rooms[0]}:late"}
    assert all(to.call("PRESENCE.COUNT", room) == STAY for room in rooms)
    scene.crowd.__exit__()
    for node in cluster.nodes:
        agree(node)
    scene.watch.close()


def test_a_replica_that_comes_back_in_the_middle_is_silent_too(cluster):
    """It has missed that slots are on their way; with its primary's data it learns of them."""
    source, to, late = cluster.primaries[0], cluster.primaries[1], cluster.replicas[1]
    rooms = low(5)
    scene = Scene(cluster, rooms)
    cluster.kill(late)
    with Migration(cluster, 0, 39, to, hold=5) as move:
        cluster.restart(late)
        scene.watch.add(late)
        wait_until(lambda: late.server.info("replication").get("master_link_status") == "up")
        wait_until(lambda: late.server.info()["presence_rooms"] == "5")
        scene.say_goodbye()
        scene.fall_silent()
        wait_until(lambda: len(scene.watch.told("offline")) == 5 * 2 * LEAVE)
        assert only_own(scene, {source.shard})
        move.release()
        move.wait()
    scene.end()


@pytest.mark.parametrize("held", [0.3, 0.55, 0.9])
def test_takeover_gives_one_fresh_timeout(cluster, held):
    """Taken over just before the target's view of everybody would be due: each has a whole timeout from then on."""
    to = cluster.primaries[1]
    room = low(1)[0]
    client = cluster.client()
    client("PRESENCE.MBEAT", room, "MEMBERS", *range(10))
    with Watch(cluster) as watch:
        with Crowd(cluster, {room: [str(n) for n in range(10)]}, every=0.1):
            move = Migration(cluster, 0, 39, to, hold=1)
            until = time.monotonic() + held * (TIMEOUT + GRACE)
            wait_until(lambda: time.monotonic() >= until, every=0.002)
        # From the last beats to the end of the handover is heard silence at the source.
        with move:
            move.release()
            move.wait()
        taken = time.monotonic()
        wait_until(lambda: len(set(watch.told("offline"))) == 10, every=0.02)
        watch.sync()
        first = watch.of("offline")[0][1] - taken
        assert TIMEOUT + GRACE - 0.3 <= first <= TIMEOUT + GRACE + 0.5, first
        assert watch.doubles("offline") == [] and {e[0].shard for e in watch.of("offline")} == {to.shard}


def test_a_cancelled_migration_leaves_nothing(cluster):
    source, to = cluster.primaries[0], cluster.primaries[1]
    scene = Scene(cluster, low(5))
    with Migration(cluster, 0, 39, to, hold=5) as move:
        scene.fall_silent()
        scene.pass_time(TIMEOUT + GRACE + 0.5)
        move.cancel()
        move.wait("cancelled")
        move.release()
    for node in (to, cluster.partner(to)):
        wait_until(lambda: node.server.info()["presence_rooms"] == "0")
    assert only_own(scene, {source.shard})
    # Nothing of the first attempt is in the way of a second.
    again = Migration(cluster, 0, 39, to)
    scene.say_goodbye()
    again.wait()
    scene.end()


def test_a_room_is_the_same_afterwards(cluster):
    """Sessions, statuses, shares, settings, burials, days: what is replicated is equal at the target and at its replica."""
    source, to = cluster.primaries[0], cluster.primaries[1]
    rooms = low(3)
    client = source.server.client()
    for number, room in enumerate(rooms):
        client("PRESENCE.CREATE", room, "TIMEOUT", 60000, "GRACE", 1000 + number, "RECENT", 60000)
        client("PRESENCE.MBEAT", room, "MEMBERS", *range(number * 1000), "gone", "here")
        client("PRESENCE.BEAT", room, "here", "SESSION", "a", "SHARE", "friends", "STATUS", "busy", "DATA", b"\x00\xff" * 99)
        client("PRESENCE.BEAT", room, "here", "SESSION", "b", "TIMEOUT", 90000)
        client("PRESENCE.BYE", room, "gone")
    before = digest(client, *rooms)
    assert len(set(before)) == 3
    move = Migration(cluster, 0, 39, to)
    move.wait()
    cluster.wait_equal()
    assert digest(to.server.client(), *rooms) == before
    for node in cluster.nodes:
        agree(node)


@pytest.mark.alone
def test_many_rooms_are_the_targets_at_once(cluster, kind):
    """40,000 rooms that wait cost the target's own rooms nothing, and none waits for its next turn to be looked at."""
    if kind != "valkey-9.1":
        pytest.skip("it would take hours to hold")
    source, to = cluster.primaries[0], cluster.primaries[1]
    count, slots = 40_000, low(40)
    client, own = source.server.client(), to.server.client()
    for n in range(count):
        client.send("PRESENCE.BEAT", f"{{{slots[n % 40]}}}{n}", "m", "TIMEOUT", 600_000)
        if n % 1000 == 999:
            assert {client.read() for _ in range(1000)} == {1}
    with Watch(cluster) as watch, Migration(cluster, 0, 39, to, hold=count) as move:
        wait_until(lambda: to.server.info()["presence_rooms_frozen"] == str(count))
        room = name_in(shard_slots(1))[0]
        for turn in range(3):
            own("PRESENCE.BEAT", room, "x", "TIMEOUT", 300, "GRACE", 0)
            left = time.monotonic()
            moments = wait_until(lambda: [t for node, t, *_ in watch.of("offline") if node is to][turn:])
            assert 0.25 <= moments[0] - left <= 0.5, moments[0] - left
        assert to.server.info()["presence_rooms_frozen"] == str(count)
        move.release()
        move.wait()
        taken = time.monotonic()
        wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "0", every=0.02)
        # By turns it would be 1.35 s.
        assert time.monotonic() - taken <= 0.9
        watch.sync()
        assert set(watch.told("offline")) == {f"{room}:x"}


def test_rooms_of_several_databases_go_over(make_server, kind):
    """Valkey 9 has them in a cluster: each room arrives, and ends, in its own.

    Changes on the way are made in the last one only. 9.1.2 applies the first change after its snapshot to the database that
    the snapshot ended with, whichever it was made in (the same is seen with INCR), so it would lose one in another.
    """
    if kind != "valkey-9.1":
        pytest.skip("a cluster has one database")
    cluster = Cluster(make_server, CONFIG | {"cluster-databases": 4})
    source, to = cluster.primaries[0], cluster.primaries[1]
    room, dbs = low(1)[0], (0, 3)
    clients = {db: source.server.client(db=db) for db in dbs}
    for db, client in clients.items():
        for id, timeout in (("late", 6000), ("stays", 60000)):
            client("PRESENCE.BEAT", room, f"{id}{db}", "TIMEOUT", timeout)
    for id, timeout in (("early", 2000), ("bye", 60000)):
        clients[3]("PRESENCE.BEAT", room, id, "TIMEOUT", timeout)
    cluster.wait_equal()

    def told(node):
        return {(e.db, e.name.decode()) for other, watcher in watch.watchers if other is node for e in watcher.of("offline")}

    with Watch(cluster) as watch, Migration(cluster, 0, 39, to, hold=2) as move:
        clients[3]("PRESENCE.BYE", room, "bye")
        first = {(3, f"{room}:early"), (3, f"{room}:bye")}
        wait_until(lambda: told(source) == first)
        before = [digest(client, room) for client in clients.values()]
        move.release()
        move.wait()
        there = {db: to.server.client(db=db) for db in dbs}
        assert [digest(client, room) for client in there.values()] == before
        wait_until(lambda: told(to) == {(db, f"{room}:late{db}") for db in dbs})
        assert told(source) == first and told(cluster.partner(to)) == told(to)
        for db, client in there.items():
            assert names(client, room) == [b"stays%d" % db]


# -- nodes die while slots are on their way ---------------------------------------------------------------------------


def test_the_source_dies_in_the_middle(cluster):
    source, to, heir = cluster.primaries[0], cluster.primaries[1], cluster.replicas[0]
    rooms = low(5)
    scene = Scene(cluster, rooms + spread(12))
    with Migration(cluster, 0, 39, to, hold=5) as move:
        scene.say_goodbye(rooms)
        scene.fall_silent(rooms[:2])
        cluster.kill(source)
        cluster.wait(heir.is_primary, "the promotion")
        move.release()
    cluster.wait_ok()
    cluster.restart(source)
    scene.watch.add(source)
    # The target has thrown away what it had. Valkey leaves it at that; Redis tries again, with the heir.
    owner = heir if move.valkey else to
    wait_until(lambda: cluster.owner(slot_of(rooms[0])) is owner, timeout=30)
    scene.fall_silent([room for room in scene.rooms if room not in rooms[:2]])
    scene.say_goodbye([room for room in scene.rooms if room not in rooms])
    scene.end()


def test_the_target_dies_in_the_middle(cluster):
    source, to, heir = cluster.primaries[0], cluster.primaries[1], cluster.replicas[1]
    rooms = low(5)
    scene = Scene(cluster, rooms + spread(12))
    with Migration(cluster, 0, 39, to, hold=5) as move:
        wait_until(lambda: heir.server.info()["presence_rooms"] == to.server.info()["presence_rooms"])
        scene.say_goodbye(rooms)
        scene.fall_silent(rooms[:2])
        cluster.kill(to)
        cluster.wait(heir.is_primary, "the promotion")
        move.release()
    cluster.wait_ok()
    cluster.restart(to)
    scene.watch.add(to)
    assert cluster.owner(slot_of(rooms[0])) is source
    scene.fall_silent([room for room in scene.rooms if room not in rooms[:2]])
    scene.say_goodbye([room for room in scene.rooms if room not in rooms])
    scene.end()
    # The way is free for another attempt, to the heir.
    again = Migration(cluster, 0, 39, heir)
    again.wait()
    assert all(heir.call("PRESENCE.COUNT", room) == STAY for room in rooms)
    for node in cluster.nodes:
        agree(node)


def test_the_target_hands_over_in_the_middle(cluster):
    """The target becomes a replica, and keeps nothing frozen of what it held as a primary."""
    source, to, heir = cluster.primaries[0], cluster.primaries[1], cluster.replicas[1]
    rooms = low(5)
    scene = Scene(cluster, rooms + spread(12))
    with Migration(cluster, 0, 39, to, hold=5) as move:
        wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "5")
        scene.fall_silent(rooms[:2])
        heir.call("CLUSTER", "FAILOVER")
        cluster.wait(heir.is_primary, "the promotion")
        move.release()
    cluster.wait_ok()
    wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "0")
    assert cluster.owner(slot_of(rooms[0])) is source
    scene.fall_silent([room for room in scene.rooms if room not in rooms[:2]])
    scene.say_goodbye()
    scene.end()
