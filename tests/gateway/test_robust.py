"""A gateway under abuse, behind slow phones, before a Redis that comes and goes; and what it tells its operators."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import ConnectionClosed

from harness import Watcher
from phones import Phone, token
from support import wait_until

ROOM = "gig:42"


def get(gateway, path):
    try:
        with urllib.request.urlopen(f"{gateway.url}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metric(gateway, name):
    """Its value; None if there is none."""
    _, text = get(gateway, "/metrics")
    found = [line.split(" ")[1] for line in text.splitlines() if line.split(" ")[0] == name]
    return float(found[0]) if found else None


def test_a_flood_of_messages_ends_the_connection(server, make_gateway, dial):
    phone = dial(make_gateway(server, "--max-rate", "2"), "asha", ROOM)
    phone.hears("welcome")
    try:
        for _ in range(1000):
            phone.socket.send('{"type":"beat"}')
    except ConnectionClosed:
        pass
    assert phone.hears("error")["code"] == "rate" and phone.ends() == 1008


def test_a_message_that_is_too_long_ends_the_connection(server, make_gateway, dial):
    phone = dial(make_gateway(server, "--max-message", "1000"), "asha", ROOM)
    phone.hears("welcome")
    phone.say("watch", members=["x" * 2000])
    assert phone.ends() in (1009, 1006)


def test_connections_of_one_user_are_limited(server, make_gateway, dial):
    gateway = make_gateway(server, "--max-per-user", "2")
    phones = [dial(gateway, "asha", ROOM) for _ in range(2)]
    for phone in phones:
        phone.hears("welcome")
    third = dial(gateway, "asha", ROOM)
    assert third.hears("error")["code"] == "too_many_connections" and third.ends() == 1008
    phones[0].say("bye")
    phones[0].ends()
    dial(gateway, "asha", ROOM).hears("welcome")


def test_a_full_gateway_sends_away(server, make_gateway, dial):
    gateway = make_gateway(server, "--max-connections", "1")
    dial(gateway, "asha", ROOM).hears("welcome")
    assert dial(gateway, "bo", ROOM).ends() == 1013


def test_a_phone_that_does_not_read_is_disconnected_and_nobody_waits_for_it(server, make_gateway, dial):
    gateway, client = make_gateway(server), server.client()
    client("SADD", "friends:asha", "bo")
    client("SADD", "friends:carl", "bo")
    slow, quick = Phone(gateway, reads=False), dial(gateway, "carl", ROOM)
    slow.say("hello", token=token("asha"), room=ROOM)
    for phone in (slow, quick):
        phone.say("watch", members=["bo"])
    quick.hears("member", member="bo")
    channel = dict(zip(*[iter(client("PRESENCE.CHANNELS", ROOM, "bo"))] * 2))[b"member"]
    wait_until(lambda: client("PUBSUB", "NUMSUB", channel)[1] == 1)
    wait_until(lambda: metric(gateway, "presence_gateway_connections") == 2)
    changes = 0

    def more():
        nonlocal changes
        for _ in range(100):
            changes += 1
            client("PRESENCE.BEAT", ROOM, "bo", "SHARE", "friends", "STATUS", f"row {changes}")
        # Nobody else waits: the quick one has heard of it at once.
        quick.hears("member", member="bo", status=f"row {changes}")
        return metric(gateway, "presence_gateway_slow_disconnects_total") == 1

    wait_until(more, timeout=60.0)
    assert not quick.ended
    slow.cut()


def test_redis_restarts_and_no_phone_notices(server, make_gateway, dial):
    client = server.client()
    client("PRESENCE.CREATE", ROOM, "TIMEOUT", 5000, "GRACE", 2000)
    client("SADD", "friends:bo", "asha")
    gateway = make_gateway(server)
    phones = [dial(gateway, user, ROOM, share="friends").beats(0.5) for user in ("asha", "bo")]
    for phone in phones:
        phone.hears("welcome")
    phones[1].say("watch", members=["asha"])
    phones[1].hears("member", member="asha", state="online")
    client("SAVE")
    server.restart()
    assert wait_until(lambda: get(gateway, "/health")[0] == 200)
    with Watcher(server) as watcher:
        dina = dial(gateway, "dina", ROOM, share="friends")
        dina.hears("welcome")
        # It knows of what happens after the restart, and has told nothing false about it.
        server.client()("PRESENCE.BEAT", ROOM, "asha", "STATUS", "still here")
        phones[1].hears("member", member="asha", state="online", status="still here", timeout=20)
        assert set(phones[1].dots("asha")) == {"online"} and not any(phone.ended for phone in phones)
        assert watcher.kinds(f"{ROOM}:bo") == []


def test_without_redis_a_gateway_waits_and_phones_with_it(server, make_gateway, dial):
    gateway = make_gateway(server)
    wait_until(lambda: get(gateway, "/health")[0] == 200)
    server.kill()
    wait_until(lambda: get(gateway, "/health")[0] == 503)
    assert "presence_gateway_connections" in get(gateway, "/metrics")[1]
    phone = dial(gateway, "asha", ROOM)
    server.start()
    phone.hears("welcome", timeout=20)


def test_a_redis_that_stood_still_loses_nobody(server, make_gateway, dial):
    server.client()("PRESENCE.CREATE", ROOM, "TIMEOUT", 1000, "GRACE", 500)
    with Watcher(server) as watcher:
        phone = dial(make_gateway(server), "asha", ROOM).beats(0.2)
        phone.hears("welcome")
        server.pause()
        try:
            # Longer than timeout, grace, and the gateway's patience with an answer.
            dial(make_gateway(server), "bo", ROOM)
            assert not phone.ended
            wait_paused(3.5)
        finally:
            server.resume()
        watcher.wait("online", f"{ROOM}:bo")
        watcher.sync()
        assert watcher.kinds(f"{ROOM}:asha") == ["online"]


def wait_paused(seconds):
    # There is no event in a server that stands still: its time has to pass.
    time.sleep(seconds)


def test_a_failover_is_followed(make_server, make_gateway, dial):
    first, second = (make_server(port=0) for _ in range(2))
    second.client()("REPLICAOF", "127.0.0.1", first.port)
    client = first.client()
    client("PRESENCE.CREATE", ROOM, "TIMEOUT", 5000, "GRACE", 2000)
    wait_until(lambda: second.info("replication")["master_link_status"] == "up")
    gateway = make_gateway([second, first])
    client("SADD", "friends:bo", "asha")
    phones = [dial(gateway, user, ROOM, share="friends").beats(0.5) for user in ("asha", "bo")]
    for phone in phones:
        phone.hears("welcome")
    phones[1].say("watch", members=["asha"])
    phones[1].hears("member", member="asha", state="online")
    wait_until(lambda: second.client()("PRESENCE.COUNT", ROOM) == 2)
    first.close()
    with Watcher(second) as watcher:
        second.client()("REPLICAOF", "NO", "ONE")
        wait_until(lambda: get(gateway, "/health")[0] == 200)
        before = int(second.info()["presence_beats"])
        wait_until(lambda: int(second.info()["presence_beats"]) >= before + 4)
        phones[0].say("bye")
        phones[1].hears("member", member="asha", state="recent")
        assert phones[1].dots("asha") == ["online", "recent"]
        assert watcher.kinds(f"{ROOM}:bo") == []


def test_a_demoted_primary_is_left(make_server, make_gateway, dial):
    first, second = (make_server(port=0) for _ in range(2))
    second.client()("REPLICAOF", "127.0.0.1", first.port)
    wait_until(lambda: second.info("replication")["master_link_status"] == "up")
    gateway = make_gateway([first, second])
    phone = dial(gateway, "asha", ROOM).beats(0.1)
    phone.hears("welcome")
    wait_until(lambda: second.client()("PRESENCE.COUNT", ROOM) == 1)
    first.client()("FAILOVER")
    wait_until(lambda: second.info("replication")["role"] == "master")
    wait_until(lambda: int(second.info()["presence_beats"]) > 0)
    assert not phone.ended


def test_a_gateway_that_goes_down_sends_its_phones_elsewhere(server, make_gateway, dial):
    gateway = make_gateway(server, "--flush-ms", "10000")
    quick = make_gateway(server)
    phone = dial(quick, "asha", ROOM)
    phone.hears("welcome")
    late = dial(gateway, "bo", ROOM)
    wait_until(lambda: metric(gateway, "presence_gateway_connections") == 1)
    with Watcher(server) as watcher:
        assert gateway.stop() == 0 and late.ends() == 1012
        # What it had heard went out, and it said no goodbye for anybody.
        watcher.wait("online", f"{ROOM}:bo")
        assert quick.stop() == 0 and phone.ends() == 1012
        watcher.sync()
        assert watcher.kinds() == ["online"]


def test_metrics_are_of_the_gateway_and_of_the_module(server, make_gateway, dial):
    gateway = make_gateway(server)
    phone = dial(gateway, "asha", ROOM)
    phone.hears("welcome")
    phone.say("beat")
    wait_until(lambda: metric(gateway, "presence_gateway_beats_total") == 1)
    assert metric(gateway, "presence_gateway_connections") == 1 and metric(gateway, "presence_gateway_hellos_total") == 1
    assert metric(gateway, "presence_members") == 1 and metric(gateway, "presence_rooms") == 1
    _, text = get(gateway, "/metrics")
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1


def test_tokens_for_anybody_are_served_in_the_demo_only(server, make_gateway, dial):
    def ask(gateway, **wanted):
        request = urllib.request.Request(f"{gateway.url}/demo/token", json.dumps(wanted).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["token"]

    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(make_gateway(server), user="asha")
    gateway = make_gateway(server, "--demo")
    wait_until(lambda: get(gateway, "/health")[0] == 200)
    asha, bo = dial(gateway), dial(gateway)
    asha.say("hello", token=ask(gateway, user="asha", friends=["bo"]), room=ROOM, share="friends")
    bo.say("hello", token=ask(gateway, user="bo"), room=ROOM)
    asha.hears("welcome")
    bo.say("watch", members=["asha"])
    bo.hears("member", member="asha", state="online")


def test_the_crowd_of_a_load_test_takes_the_way_of_phones(server, make_gateway):
    from websockets.sync.client import connect

    gateway = make_gateway(server, "--crowd")
    with connect(f"ws://127.0.0.1:{gateway.port}/crowd") as crowd:
        say = lambda **words: crowd.send(json.dumps(words))
        say(type="enter", room=ROOM, viewers=[[n, f"u{n}"] for n in range(100)])
        welcomed = set()
        while len(welcomed) < 100:
            message = json.loads(crowd.recv(10))
            assert message["type"] == "welcome"
            welcomed |= set(message["viewers"])
        assert server.client()("PRESENCE.COUNT", ROOM) == 100
        say(type="beat", viewers=list(range(100)))
        wait_until(lambda: metric(gateway, "presence_gateway_beats_total") == 100)
        say(type="bye", viewers=list(range(10)))
        say(type="lose", viewers=list(range(10, 20)))
        wait_until(lambda: server.client()("PRESENCE.COUNT", ROOM) == 90)
        wait_until(lambda: metric(gateway, "presence_gateway_connections") == 80)
    wait_until(lambda: metric(gateway, "presence_gateway_connections") == 0)
    assert server.client()("PRESENCE.COUNT", ROOM) == 90
