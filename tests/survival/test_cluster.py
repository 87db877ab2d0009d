"""A cluster in which slots move, primaries die and replicas take over: nobody who goes on beating is accused, nobody is lost."""

import random
import time

import pytest

from harness import Err, ReplyError
from harness.cluster import Crowd, Watch, slot_of
from scene import GRACE, LEAVE, TIMEOUT, Scene, name_in, shard_slots, spread
from support import deaf, digest, fields, member, room_info, wait_until

pytestmark = [pytest.mark.survival, pytest.mark.timeout(240)]

# -- slots move -------------------------------------------------------------------------------------------------------


def test_resharding_under_load(cluster):
    low = name_in(range(40), 10, "low")
    scene = Scene(cluster, low + spread(12))
    scene.fall_silent(low[:5])
    cluster.reshard(cluster.primaries[0], cluster.primaries[1], 40)
    scene.say_goodbye(low)
    assert all(cluster.owner(slot_of(room)) is cluster.primaries[1] for room in low)
    scene.fall_silent([room for room in scene.rooms if room not in low[:5]])
    cluster.reshard(cluster.primaries[1], cluster.primaries[2], 40)
    scene.say_goodbye([room for room in scene.rooms if room not in low])
    scene.end()


def test_slots_moved_by_hand_to_and_fro(cluster):
    rooms = spread()
    scene = Scene(cluster, rooms)
    chance = random.Random(3)
    for turn in range(3):
        for room in rooms:
            source = cluster.owner(slot_of(room))
            to = chance.choice([p for p in cluster.primaries if p is not source])
            assert cluster.move_slot(slot_of(room), to) == 1
        if turn == 0:
            scene.fall_silent()
        if turn == 1:
            scene.say_goodbye()
    assert sum(scene.client.redirections.values()) > 0
    scene.end()


def test_a_move_that_is_held_open(cluster):
    """The room is at the target, the slot is not: beats come there by ASK, nobody is judged until the slot is assigned."""
    room = name_in(shard_slots(0))[0]
    source, to, slot = cluster.primaries[0], cluster.primaries[1], slot_of(room)
    client = cluster.client()
    client("PRESENCE.MBEAT", room, "MEMBERS", "stays", "leaves")
    cluster.wait_equal()
    with Watch(cluster) as watch, Crowd(cluster, {room: ["stays"]}) as crowd:
        to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        source.call("MIGRATE", *to.address, "", 0, 5000, "KEYS", room)
        held = time.monotonic() + 3 * (TIMEOUT + GRACE)
        wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "1")
        wait_until(lambda: time.monotonic() >= held)
        watch.sync()
        assert watch.told("offline") == {}
        assert client("PRESENCE.COUNT", room) == 2 and client.redirections["ASK"] > 0
        assigned, deaf_before = time.monotonic(), deaf(to.server)
        for node in (to, source, cluster.primaries[2]):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        wait_until(lambda: watch.told("offline"))
        moment = watch.of("offline")[0][1] - assigned
        assert TIMEOUT + GRACE - 0.2 <= moment <= TIMEOUT + GRACE + 0.5 + deaf(to.server) - deaf_before, moment
        cluster.wait_ok()
        watch.sync()
        assert set(watch.told("offline")) == {f"{room}:leaves"} and watch.doubles("offline") == []
        assert {node.shard for node in watch.told("offline")[f"{room}:leaves"]} == {1}
        assert crowd.odd == []


def test_a_copy_waits_and_is_replaced(cluster):
    """MIGRATE COPY leaves two rooms. The copy, of a slot that is elsewhere, is silent; REPLACE puts the newer one there."""
    room = name_in(shard_slots(0))[0]
    source, to, slot = cluster.primaries[0], cluster.primaries[1], slot_of(room)
    scene = Scene(cluster, [room])
    move = lambda *how: source.call("MIGRATE", *to.address, room, 0, 5000, *how)
    to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
    assert move("COPY") == "OK"
    assert source.call("EXISTS", room) == 1
    wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "1")
    scene.say_goodbye()
    scene.pass_time(TIMEOUT + GRACE + 1)
    scene.watch.sync()
    assert {node.shard for node, *_ in scene.watch.of("offline")} == {source.shard}
    with pytest.raises(ReplyError, match="BUSYKEY"):
        move()
    assert move("REPLACE") == "OK"
    for node in (to, source, cluster.primaries[2]):
        node.call("CLUSTER", "SETSLOT", slot, "NODE", to.id)
    wait_until(lambda: to.server.info()["presence_rooms_frozen"] == "0")
    assert to.server.info()["presence_rooms"] == "1" and source.server.info()["presence_rooms"] == "0"
    scene.fall_silent()
    scene.end()


def test_a_crowded_room_moves_under_load(cluster):
    """10,000 members in one MIGRATE, while some beat: it is the same room, and who falls silent goes at the new owner."""
    room = name_in(shard_slots(0))[0]
    source, to, client = cluster.primaries[0], cluster.primaries[1], cluster.client()
    owner = source.server.client()
    for n in range(10_000):
        owner.send("PRESENCE.BEAT", room, f"m{n}", "TIMEOUT", 60000)
    assert [owner.read() for _ in range(10_000)] == [1] * 10_000
    client("PRESENCE.MBEAT", room, "MEMBERS", "stays", "leaves")
    before = digest(owner, room)
    with Watch(cluster) as watch, Crowd(cluster, {room: ["stays", "leaves"]}, every=0.1) as beating:
        assert cluster.move_slot(slot_of(room), to) == 1
        assert digest(to.server.client(), room) == before
        beating.leave(room, "leaves")
        wait_until(lambda: watch.told("offline"))
        cluster.wait_ok()
        watch.sync()
        assert set(watch.told("offline")) == {f"{room}:leaves"} and watch.doubles("offline") == []
        assert {node.shard for node in watch.told("offline")[f"{room}:leaves"]} == {to.shard}
        assert client("PRESENCE.COUNT", room) == 10_001 and beating.odd == []


# -- primaries change -------------------------------------------------------------------------------------------------


def test_a_primary_is_killed_and_its_replica_promoted(cluster):
    scene = Scene(cluster, spread())
    lost, heir = cluster.primaries[0], cluster.replicas[0]
    of_lost = [room for room in scene.rooms if slot_of(room) in shard_slots(0)]
    silent = time.monotonic()
    scene.fall_silent()
    cluster.kill(lost)
    cluster.wait(heir.is_primary, "the promotion")
    promoted = time.monotonic()
    cluster.wait_ok()
    scene.say_goodbye()
    cluster.restart(lost)
    scene.watch.add(lost)
    cluster.wait_ok()
    wait_until(lambda: all(f"{room}:silent{n}" in scene.watch.told("offline") for room in scene.rooms for n in range(LEAVE)))
    for _, moment, _, name in scene.watch.of("offline"):
        room, id = name.rsplit(":", 1)
        if id.startswith("silent") and room in of_lost:
            assert promoted + TIMEOUT + GRACE - 0.5 <= moment <= promoted + TIMEOUT + GRACE + 2.5, moment - promoted
        elif id.startswith("silent"):
            assert silent + TIMEOUT + GRACE - 0.5 <= moment, "the others go on as if nothing was"
    assert heir.server.info()["presence_amnesties_promotion"] == "1"
    scene.end()


def test_handing_over_to_and_fro(cluster):
    scene = Scene(cluster, spread())
    for turn in range(6):
        shard = turn % 3
        pair = [cluster.primaries[shard], cluster.replicas[shard]]
        replica = pair[0] if pair[1].is_primary() else pair[1]
        if turn == 2:
            scene.fall_silent()
        cluster.fail_over(replica, *(["FORCE"] if turn == 5 else []))
        if turn == 3:
            scene.say_goodbye()
    scene.end()


# -- nobody is served -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("down", [0.8, 3.0])
def test_nobody_is_accused_while_the_cluster_is_down(cluster, down):
    """Two of three primaries die. For less than a member's time or for long: nobody leaves before a fresh timeout."""
    third = name_in(shard_slots(2), 10)
    client = cluster.client()
    for room in third:
        client("PRESENCE.MBEAT", room, "MEMBERS", *range(10))
    cluster.wait_equal()
    lost, last = cluster.primaries[:2], cluster.primaries[2]
    connection = last.server.client()
    with Watch(cluster) as watch:
        for node in [*lost, *cluster.replicas[:2]]:
            cluster.kill(node)
        beat = lambda: [connection.call("PRESENCE.MBEAT", room, "MEMBERS", *range(10)) for room in third]
        last_beat = time.monotonic()

        def refused():
            nonlocal last_beat
            before = time.monotonic()
            replies = beat()
            if any(isinstance(reply, Err) for reply in replies):
                return True
            last_beat = before
            return False

        wait_until(refused, every=0.01)
        refused_since = time.monotonic()
        until = refused_since + down * (TIMEOUT + GRACE)
        wait_until(lambda: time.monotonic() >= until)
        watch_of_last = lambda: [event for event in watch.of("offline") if event[0].shard == last.shard]
        assert watch_of_last() == []
        cluster.restart(*lost)
        cluster.wait(lambda: last.state() == "ok", "the cluster to serve again")
        served, deaf_before = time.monotonic(), deaf(last.server)
        wait_until(lambda: len({name for _, _, _, name in watch_of_last()}) == 100)
        first = watch_of_last()[0][1]
        late = 1.0 + deaf(last.server) - deaf_before
        assert served + TIMEOUT + GRACE - 0.5 <= first <= served + TIMEOUT + GRACE + late, (first - served, first - last_beat)
        assert int(last.server.info()["presence_deaf_ms_refusing"]) >= 1000 * down * (TIMEOUT + GRACE) - 500
    cluster.restart(*cluster.replicas[:2])
    cluster.wait_ok()


def test_who_beats_through_a_cluster_that_is_down_never_left(cluster):
    """Two of three primaries die, with their replicas, for three timeouts. Beats are refused everywhere, and tried again."""
    rooms = name_in(shard_slots(2), 10)
    scene = Scene(cluster, rooms)
    scene.fall_silent(rooms[:3])
    lost, last = cluster.primaries[:2], cluster.primaries[2]
    for node in [*lost, *cluster.replicas[:2]]:
        cluster.kill(node)
    cluster.wait(lambda: last.state() == "fail", "the cluster to be down")
    told = set(scene.watch.told("offline"))
    scene.pass_time(3 * TIMEOUT)
    assert set(scene.watch.told("offline")) == told, "while nobody could be heard"
    back = lost + cluster.replicas[:2]
    cluster.restart(*back)
    for node in back:
        scene.watch.add(node)
    cluster.wait(lambda: last.state() == "ok", "the cluster to serve again")
    served = time.monotonic()
    early = {f"{room}:{id}" for room in rooms[:3] for id in scene.silent[room]}
    wait_until(lambda: early <= set(scene.watch.told("offline")))
    assert time.monotonic() - served <= 2 * TIMEOUT + GRACE + 1.0
    scene.fall_silent(rooms[3:])
    scene.say_goodbye()
    scene.end()


# -- cases from the field ---------------------------------------------------------------------------------------------


def test_the_last_session_rule_across_gateways_and_shards(cluster):
    """F14: two gateways, two rooms on two shards; a member goes when its last session goes, wherever that was heard."""
    a, b = name_in(shard_slots(0))[0], name_in(shard_slots(1))[0]
    one, two = cluster.client(), cluster.client()
    assert one("PRESENCE.BEAT", a, "u", "SESSION", "s1", "TIMEOUT", 60000) == 1
    assert two("PRESENCE.BEAT", a, "u", "SESSION", "s2", "TIMEOUT", 60000) == 0
    assert two("PRESENCE.BEAT", b, "u", "SESSION", "s3") == 1
    cluster.wait_equal()
    with Watch(cluster) as watch:
        assert one("PRESENCE.BYE", a, "u", "SESSION", "s1") == 0
        watch.sync()
        assert watch.told("offline") == {}
        assert two("PRESENCE.BYE", a, "u", "SESSION", "s2") == 1
        assert two("PRESENCE.BEAT", b, "u", "SESSION", "s3") == 0
        assert one("PRESENCE.COUNT", b) == 1
        cluster.kill(cluster.primaries[1])
        cluster.wait(cluster.replicas[1].is_primary, "the promotion")
        promoted = time.monotonic()
        wait_until(lambda: f"{b}:u" in watch.told("offline"))
        moment = next(t for _, t, _, name in watch.of("offline") if name == f"{b}:u")
        assert promoted + TIMEOUT + GRACE - 0.5 <= moment <= promoted + TIMEOUT + GRACE + 1.0, moment - promoted
        watch.sync() if cluster.primaries[1].server.alive else None
        told = watch.told("offline")
        assert set(told) == {f"{a}:u", f"{b}:u"} and watch.doubles("offline") == []
        assert told[f"{b}:u"] == [cluster.replicas[1]]
    cluster.restart(cluster.primaries[1])
    cluster.wait_ok()
    assert two("PRESENCE.COUNT", b) == 0


def test_each_room_keeps_its_own_settings_in_a_move(cluster):
    """F101: 300 rooms of one slot, ten in a MIGRATE; what each had by itself it has afterwards, and no neighbour's."""
    source, to = cluster.primaries[0], cluster.primaries[1]
    tag = name_in(shard_slots(0), prefix="t")[0]
    slot, client = slot_of(tag), source.server.client()
    rooms = [f"{{{tag}}}:{n}" for n in range(300)]
    lasts, told_of = {}, Watch(cluster)
    for n, room in enumerate(rooms):
        if n % 3 == 0:
            lasts[room] = (3000 + n, 500 + n)
            client("PRESENCE.CREATE", room, "TIMEOUT", 3000 + n, "GRACE", 500 + n, "FEED", n)
            client("PRESENCE.BEAT", room, f"u{n}", "SESSION", f"s{n}", "SHARE", "everyone")
        elif n % 3 == 1:
            lasts[room] = (3200 + n, 700 + n)
            own = ("TIMEOUT", 3200 + n, "GRACE", 700 + n, "STATUS", f"status{n}", "DATA", f"data{n}")
            client("PRESENCE.BEAT", room, f"u{n}", "SESSION", f"s{n}", "SHARE", "friends", *own)
        else:
            lasts[room] = (100 + n, 60000 + n)
            client("PRESENCE.BEAT", room, f"u{n}", "SESSION", f"s{n}", "TIMEOUT", 100 + n, "GRACE", 60000 + n)

    def beat():
        for n, room in enumerate(rooms):
            if n % 3 != 2:
                client("PRESENCE.BEAT", room, f"u{n}", "SESSION", f"s{n}")

    with told_of as watch:
        # The last third is in grace by then.
        grace = lambda: beat() or len({name for name in watch.told("grace")}) >= 100
        wait_until(grace)

        def view(connection):
            found = {}
            for n, room in enumerate(rooms):
                one, info = member(connection, room, f"u{n}"), room_info(connection, room)
                sessions = {
                    id: {key: session[key] for key in ("status", "data", "timeout", "grace")}
                    for id, session in one["sessions"].items()
                }
                settings = {key: value for key, value in info.items() if key in ("timeout", "grace", "feed", "recent", "share")}
                found[room] = (one["share"], one["since"], sessions, settings), info["epoch"]
            return found

        before = view(client)
        began = time.monotonic()
        assert cluster.move_slot(slot, to) == 300
        arrived = time.monotonic()
        after = view(to.server.client())
        for room in rooms:
            assert after[room][0] == before[room][0], room
            assert after[room][1] != before[room][1], "another epoch"
        short = {f"{room}:u{n}" for n, room in enumerate(rooms) if n % 3 != 2}
        wait_until(lambda: short <= set(watch.told("offline")))
        watch.sync()
        assert set(watch.told("offline")) == short and watch.doubles("offline") == []
        for node, moment, _, name in watch.of("offline"):
            assert node.shard == 1, "the new owner's shard only"
            own = sum(lasts[name.rsplit(":", 1)[0]]) / 1000
            assert began + own - 0.05 <= moment <= arrived + own + 0.7, (name, moment - arrived, own)
    assert cluster.client()("PRESENCE.COUNT", rooms[2]) == 1


COMMANDS = [
    # command, its keys as indexes
    ("PRESENCE.BEAT k m SESSION s SHARE everyone STATUS a DATA b TIMEOUT 5000 GRACE 10", [1]),
    ("PRESENCE.MBEAT k MEMBERS m n", [1]),
    ("PRESENCE.MBEAT k EACH SESSIONS m s", [1]),
    ("PRESENCE.BYE k m SESSION s SOFT", [1]),
    ("PRESENCE.SHARE k m friends", [1]),
    ("PRESENCE.COUNT k BADGE", [1]),
    ("PRESENCE.MCOUNT k a b", [1, 2, 3]),
    ("PRESENCE.FRIENDS k v a b", [1]),
    ("PRESENCE.FRIENDSFROM k v a", [1, 3]),
    ("PRESENCE.UNIQUE k", [1]),
    ("PRESENCE.UNIQUE k WITH a b", [1, 3, 4]),
    ("PRESENCE.UNIQUE k DAYS 1 WITH a b", [1, 5, 6]),
    ("PRESENCE.GET k m", [1]),
    ("PRESENCE.MEMBERS k CURSOR 0 COUNT 10 ALL", [1]),
    ("PRESENCE.CREATE k TIMEOUT 5000", [1]),
    ("PRESENCE.ALTER k GRACE DEFAULT", [1]),
    ("PRESENCE.INFO k", [1]),
]


def test_only_declared_keys_only_one_slot(cluster):
    """F104: GETKEYS tells the keys of each form; several slots fail before any effect; an ACL of one key holds."""
    in_other = {"k": name_in(shard_slots(0))[0], "a": name_in(shard_slots(1))[0], "b": name_in(shard_slots(2))[0]}
    tagged = {key: f"{{{in_other['k']}}}{key}" for key in "kab"}
    here = cluster.owner(slot_of(in_other["k"])).server.client()
    client = cluster.client()
    for node in cluster.nodes:
        node.call("ACL", "SETUSER", "one", "on", "nopass", f"~{tagged['k']}", "+@all")
    limited = cluster.owner(slot_of(tagged["k"])).server.client()
    limited("AUTH", "one", "x")
    for line, keys in COMMANDS:
        words = line.split()

        def named(names):
            return [names[word] if index in keys else word for index, word in enumerate(words)]

        one, many = named(tagged), named(in_other)
        assert here("COMMAND", "GETKEYS", *one) == [one[index].encode() for index in keys], line
        before = {node: node.call("DBSIZE") for node in cluster.primaries}
        if len(keys) > 1:
            assert here.call(*many).code == "CROSSSLOT", line
            assert limited.call(*one).code == "NOPERM", line
        elif words[0] != "PRESENCE.CREATE":
            assert not isinstance(limited.call(*one), Err), line
        assert len(keys) == 1 or {node: node.call("DBSIZE") for node in cluster.primaries} == before
        if words[0] == "PRESENCE.CREATE":
            client.call("DEL", one[1])
        reply = client.call(*one)
        assert not isinstance(reply, Err), (line, reply)
        # Elsewhere it is redirected.
        elsewhere = cluster.primaries[1].server.client()
        assert elsewhere.call(*one).code == "MOVED", line
    assert fields(client("PRESENCE.INFO", tagged["k"]))
