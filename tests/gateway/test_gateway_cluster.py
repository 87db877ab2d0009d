"""A gateway before a cluster: sharded channels, slots that move, primaries that die."""

from __future__ import annotations

import pytest

from harness.cluster import CONFIG, Cluster, Watch, slot_of
from support import wait_until

# A failover has to fit in: several node timeouts, and a busy machine.
SETTINGS = ("TIMEOUT", 20_000, "GRACE", 10_000, "COUNTEVERY", 100)


@pytest.fixture
def cluster(make_server):
    return Cluster(make_server, CONFIG)


def rooms(cluster):
    """A room on each shard."""
    found = {}
    for number in range(1000):
        room = f"gig:{number}"
        found.setdefault(cluster.owner(slot_of(room)).shard, room)
    return found


def show(cluster, room, status):
    """Changes what asha shows in a room."""
    with_client(cluster, lambda c: c("PRESENCE.BEAT", room, "asha", "SESSION", "another", "STATUS", status, key=room))


def with_client(cluster, act):
    client = cluster.client()
    try:
        return act(client)
    finally:
        client.close()


def test_a_gateway_follows_a_cluster(cluster, make_gateway, dial):
    places = rooms(cluster)
    for room in places.values():
        with_client(cluster, lambda c: c("PRESENCE.CREATE", room, *SETTINGS, key=room))
    with_client(cluster, lambda c: c("SADD", "friends:bo", "asha", key="friends:bo"))
    gateway = make_gateway([cluster.primaries[0].server, cluster.replicas[1].server], "--cluster")
    watching = {}
    with Watch(cluster) as watch:
        for room in places.values():
            dial(gateway, "asha", room, share="friends").beats(0.5).hears("welcome", timeout=20)
            bo = watching[room] = dial(gateway, "bo", room).beats(0.5)
            bo.hears("welcome")
            bo.say("watch", members=["asha"])
            bo.say("watch_room", room=room)
            bo.hears("member", member="asha", state="online")
            bo.hears("count", room=room, badge="2")

        def all_hear(status):
            for room, bo in watching.items():
                show(cluster, room, status)
                bo.hears("member", member="asha", status=status, timeout=40)

        all_hear("before")

        moved = places[0]
        cluster.move_slot(slot_of(moved), cluster.primaries[1])
        # What the gateway was not told while it moved, it reads when it is subscribed again.
        all_hear("after the slot moved")

        victim = cluster.primaries[2]
        victim.server.close()
        wait_until(lambda: cluster.replicas[2].is_primary(), timeout=40)
        all_hear("after the failover")

        for room in places.values():
            with_client(cluster, lambda c: c("PRESENCE.BEAT", room, "carl", key=room))
            watching[room].hears("count", room=room, badge="3", timeout=40)
        assert not any(bo.ended for bo in watching.values())
        assert all(set(bo.dots("asha")) == {"online"} for bo in watching.values())
        gone = [name for _, _, _, name in watch.of("offline") if not name.endswith("carl")]
        assert gone == []
