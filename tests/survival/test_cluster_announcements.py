"""Announcements in a cluster of three primaries and three replicas: each message exactly once where it should be heard."""

import json
import time

import pytest

from harness import Connection, Err, Watcher, migration
from harness.cluster import Cluster, slot_of
from scene import name_in, shard_slots
from support import fields, wait_until

pytestmark = [pytest.mark.survival, pytest.mark.timeout(240)]

CONFIG = {"presence.timeout": "60000", "presence.count-every": "200", "presence.feed": "100", "presence.share-default": "everyone"}
# A subscriber that has to find its way first is in time for what is told at the room's moment.
SLOWLY = ("COUNTEVERY", 5000)
ODD = [b"{a}r", b"a}b", b"{}x", b"{", b"}", b"{{}}", b"\xff\0\n{", b"\xff}", b"{gig:1}", b"a b", b"{user}:{room}"]


@pytest.fixture
def cluster(make_server):
    return Cluster(make_server, CONFIG)


def channels(client, room, *member):
    return fields(client("PRESENCE.CHANNELS", room, *member, key=room))


def shown(channel):
    return channel.decode("utf-8", "backslashreplace")


def test_sharded_messages_are_heard_once_by_the_shard_of_the_room(cluster):
    client = cluster.client()
    rooms = ODD + [name.encode() for shard in range(3) for name in name_in(shard_slots(shard), 2)]
    names = {room: channels(client, room, b"m\xff:1") for room in rooms}
    ears = []
    for node in cluster.nodes:
        mine = []
        for room in rooms:
            assert names[room]["verb"] == b"SSUBSCRIBE"
            for kind in ("count", "feed", "member"):
                channel = names[room][kind]
                assert slot_of(channel) == slot_of(room), "all channels are in the room's slot"
                with Connection(node.server.socket) as c:
                    reply = c.call("SSUBSCRIBE", channel)
                if isinstance(reply, Err):
                    assert reply.code == "MOVED" and cluster.owner(slot_of(room)).shard != node.shard
                else:
                    mine.append(channel)
        ears.append((node, mine, Watcher(node.server, ("presence.*",), shard_channels=mine)))
    for room in rooms:
        client("PRESENCE.BEAT", room, b"m\xff:1", "STATUS", "x", key=room)
        client("PRESENCE.BEAT", room, "other", key=room)
        client("PRESENCE.BYE", room, b"m\xff:1", key=room)
    expected = {}
    for room in rooms:
        expected[shown(names[room]["member"])] = ["online", "offline"]
        expected[shown(names[room]["feed"])] = [(1, 1), (2, 2), (3, 3)]
    for node, mine, watcher in ears:
        for room in rooms:
            if names[room]["count"] in mine:
                watcher.wait(shown(names[room]["feed"]), count=3)
        watcher.hold_until(time.monotonic() + 0.5)
        for channel in map(shown, mine):
            heard = [json.loads(event.name) for event in watcher.of(channel)]
            if channel.startswith("presence.member"):
                assert [m["event"] for m in heard] == expected[channel], (node, channel)
            elif channel.startswith("presence.feed"):
                assert [(m["from"], m["seq"]) for m in heard] == expected[channel], (node, channel)
            else:
                # The end is the beginning's number, so nothing more is told.
                assert [m["count"] for m in heard] == [1], (node, channel)
        assert {event.kind for event in watcher.events} == set(map(shown, mine)), "and nothing as a classic message"
        watcher.close()
    assert sum(len(mine) for _, mine, _ in ears) == 2 * 3 * len(rooms), "by the primary and the replica of the shard"


def test_classic_messages_are_heard_once_on_every_node(cluster):
    client = cluster.client()
    for node in cluster.nodes:
        node.call("CONFIG", "SET", "presence.pubsub", "classic")
    rooms = ODD + [name.encode() for shard in range(3) for name in name_in(shard_slots(shard), 1)]
    names = {room: channels(client, room, "asha") for room in rooms}
    watchers = [Watcher(node.server, ("presence.*",)) for node in cluster.nodes]
    for room in rooms:
        client("PRESENCE.BEAT", room, "asha", key=room)
        client("PRESENCE.BYE", room, "asha", key=room)
    want = sorted(
        (shown(names[room][kind]), n) for room in rooms for kind in ("count", "feed", "member") for n in range(2)
    )
    for watcher in watchers:
        wait_until(lambda: len(watcher.events) >= len(want), timeout=30)
        watcher.hold_until(time.monotonic() + 0.5)
        heard = sorted(event.kind for event in watcher.events)
        assert heard == sorted(kind for kind, _ in want)
        watcher.close()


def test_a_room_that_moves_is_told_by_who_serves_it_and_gone_by_nobody(cluster):
    client = cluster.client()
    [room] = name_in(shard_slots(0))
    source, to = cluster.primaries[0], cluster.primaries[1]
    client("PRESENCE.CREATE", room, *SLOWLY, key=room)
    for n in range(300):
        client("PRESENCE.BEAT", room, f"m{n}", key=room)
    names = channels(client, room, "m0")
    watch = lambda node: Watcher(node.server, ("presence.*",), shard_channels=[names["count"], names["feed"]])
    before = watch(source)
    epoch = client("PRESENCE.MEMBERS", room)[1]
    assert cluster.move_slot(slot_of(room), to) == 1
    # The server has thrown the former subscribers out; they find the new owner as they find keys.
    after = watch(to)
    after.wait_for(lambda e: json.loads(e.name) == {"count": 300, "badge": "300"})
    resync = json.loads(after.wait_for(lambda e: b'"resync":true' in e.name).name)
    assert resync["epoch"] == client("PRESENCE.MEMBERS", room)[1].decode() != epoch.decode()
    client("PRESENCE.BEAT", room, "new", key=room)
    after.wait_for(lambda e: b'"new"' in e.name)
    time.sleep(0.5)
    assert not any(b"gone" in event.name for event in before.events + after.events)
    client("DEL", room)
    after.wait_for(lambda e: b'"gone":true' in e.name, count=2)
    before.close(), after.close()


def test_a_promoted_replica_tells_what_the_primary_could_not(cluster):
    client = cluster.client()
    [room] = name_in(shard_slots(0))
    client("PRESENCE.CREATE", room, *SLOWLY, key=room)
    client("PRESENCE.MBEAT", room, "MEMBERS", *(f"m{n}" for n in range(10)), key=room)
    cluster.wait_equal()
    names = channels(client, room)
    replica = cluster.replicas[0]
    cluster.kill(cluster.primaries[0])
    cluster.wait(replica.is_primary, "the replica's promotion")
    # Valkey ends subscriptions there, too, when a slot changes hands.
    with Watcher(replica.server, shard_channels=[names["count"], names["feed"]]) as watcher:
        watcher.wait_for(lambda e: json.loads(e.name) == {"count": 10, "badge": "10"}, timeout=30)
        watcher.wait_for(lambda e: b'"resync":true' in e.name)
        assert client("PRESENCE.BYE", room, "m3", key=room) == 1
        watcher.wait_for(lambda e: b'"m3"' in e.name)
    cluster.restart(cluster.primaries[0])
    cluster.wait_ok()


def test_slots_that_go_over_at_once_are_told_by_the_target_afterwards(cluster, kind):
    if kind not in migration.KINDS:
        pytest.skip("this server moves slots key by key")
    client = cluster.client()
    source, to = cluster.primaries[0], cluster.primaries[1]
    [room] = name_in(range(100))
    client("PRESENCE.CREATE", room, *SLOWLY, key=room)
    client("PRESENCE.MBEAT", room, "MEMBERS", "a", "b", key=room)
    names = channels(client, room)
    epoch = client("PRESENCE.MEMBERS", room)[1]
    moving = migration.Migration(cluster, 0, 99, to, hold=1)
    client("PRESENCE.BEAT", room, "c", key=room)
    with Watcher(to.server, ("presence.*",)) as nothing:
        nothing.hold_until(time.monotonic() + 0.5)
        assert nothing.events == []
    moving.release()
    cluster.wait(lambda: cluster.owner(0) is to, "the slots to be the target's")
    with Watcher(to.server, ("presence.*",), shard_channels=[names["count"], names["feed"]]) as watcher:
        watcher.wait_for(lambda e: json.loads(e.name) == {"count": 3, "badge": "3"}, timeout=20)
        resync = json.loads(watcher.wait_for(lambda e: b'"resync":true' in e.name).name)
        assert resync["epoch"] == client("PRESENCE.MEMBERS", room)[1].decode() != epoch.decode()
    assert source.server.alive
