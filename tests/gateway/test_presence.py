"""What phones do at a gateway, as Redis and other phones see it."""

from __future__ import annotations

import json

import pytest

from harness import Watcher
from phones import token
from support import fields, member, wait_until

ROOM = "gig:42"
# Long enough that nobody is lost by a machine that hesitates, short enough to wait for.
QUICK = ("TIMEOUT", 1500, "GRACE", 1500)


def count(server):
    return server.client()("PRESENCE.COUNT", ROOM)


def befriend(server, user, *friends):
    server.client()("SADD", f"friends:{user}", *friends)


@pytest.mark.parametrize("bad", ["nonsense", token("asha", secret="another"), token("asha", expires=-60), token("")])
def test_without_a_valid_token_nobody_is_present(server, make_gateway, dial, bad):
    phone = dial(make_gateway(server))
    phone.say("hello", token=bad, room=ROOM)
    assert phone.hears("error")["code"] == "token" and phone.ends() == 1008
    assert count(server) == 0


def test_a_token_holds_for_its_rooms_only(server, make_gateway, dial):
    gateway = make_gateway(server)
    for room, allowed in [(ROOM, True), ("chat:1", True), ("gig:421", False), (None, True)]:
        phone = dial(gateway)
        phone.say("hello", token=token("asha", rooms=[ROOM, "chat:*"]), room=room)
        if allowed:
            phone.hears("welcome")
        else:
            assert phone.hears("error")["code"] == "room" and phone.ends() == 1008


@pytest.mark.parametrize("words", ["no json", '{"type":"dance"}', '{"type":"beat"}', '{"no":"type"}'])
def test_who_does_not_say_hello_first_is_told_so(server, make_gateway, dial, words):
    phone = dial(make_gateway(server))
    phone.socket.send(words)
    phone.hears("error")
    assert phone.ends() == 1008


def test_a_hello_makes_present_and_welcomes_with_the_pace_of_the_room(server, make_gateway, dial):
    server.client()("PRESENCE.CREATE", ROOM, "TIMEOUT", 6000)
    phone = dial(make_gateway(server), "asha", ROOM, share="friends", status="row 4")
    welcome = phone.hears("welcome")
    assert welcome["beat"] == 2000
    seen = member(server.client(), ROOM, "asha")
    assert seen["share"] == b"friends" and seen["status"] == b"row 4"
    assert [session.decode() for session in seen["sessions"]] == [welcome["session"]]


def test_beats_of_a_quick_phone_keep_it_and_silence_loses_it(server, make_gateway, dial):
    server.client()("PRESENCE.CREATE", ROOM, *QUICK)
    with Watcher(server) as watcher:
        gateway = make_gateway(server)
        alive, dead = dial(gateway, "asha", ROOM).beats(0.3), dial(gateway, "bo", ROOM)
        dead.hears("welcome")
        watcher.wait("offline", f"{ROOM}:bo")
        assert watcher.kinds(f"{ROOM}:asha") == ["online"] and not alive.ended


def test_beats_go_in_batches(server, make_gateway, dial):
    gateway = make_gateway(server, "--flush-ms", "300")
    phones = [dial(gateway, f"u{n}", ROOM) for n in range(50)]
    for phone in phones:
        phone.hears("welcome")
    client = server.client()
    client("CONFIG", "RESETSTAT")
    before = int(server.info()["presence_beats"])
    for phone in phones:
        phone.say("beat")
    wait_until(lambda: int(server.info()["presence_beats"]) >= before + 50)
    stats = {name.lower(): value for name, value in server.info("commandstats").items()}
    assert int(stats["cmdstat_presence.mbeat"].split("calls=")[1].split(",")[0]) <= 10, stats


def test_a_goodbye_is_immediate_a_reload_is_waited_for_and_a_cut_is_a_silence(server, make_gateway, dial):
    server.client()("PRESENCE.CREATE", ROOM, "TIMEOUT", 60_000, "GRACE", 60_000)
    gateway, client = make_gateway(server), server.client()
    with Watcher(server) as watcher:
        ends = {
            "said": lambda phone: phone.say("bye"),
            "closed": lambda phone: phone.close(1000),
            "soft": lambda phone: phone.say("bye", soft=True),
            "away": lambda phone: phone.close(1001),
            "cut": lambda phone: phone.cut(),
        }
        for user, end in ends.items():
            phone = dial(gateway, user, ROOM)
            phone.hears("welcome")
            end(phone)
        watcher.wait("offline", f"{ROOM}:said")
        watcher.wait("offline", f"{ROOM}:closed")
        watcher.wait("grace", f"{ROOM}:soft")
        watcher.wait("grace", f"{ROOM}:away")
        # Whoever comes after it has been told after it.
        dial(gateway, "later", ROOM).hears("welcome")
        assert watcher.kinds(f"{ROOM}:cut") == ["online"]
        assert {user: member(client, ROOM, user)["state"] for user in ("soft", "away", "cut")} == {
            "soft": b"grace",
            "away": b"grace",
            "cut": b"online",
        }


def test_said_goodbye_is_answered_by_the_close(server, make_gateway, dial):
    phone = dial(make_gateway(server), "asha", ROOM)
    phone.hears("welcome")
    phone.say("bye")
    assert phone.ends() == 1000


def test_a_reload_is_no_news_for_friends(server, make_gateway, dial):
    befriend(server, "bo", "asha")
    gateway = make_gateway(server)
    first = dial(gateway, "asha", ROOM, share="friends")
    first.hears("welcome")
    watching = dial(gateway, "bo", ROOM)
    watching.say("watch", members=["asha"])
    watching.hears("member", member="asha", state="online")
    first.close(1001)
    dial(gateway, "asha", ROOM, share="friends").hears("welcome")
    first = dial(gateway, "asha", ROOM, share="friends")
    first.hears("welcome")
    first.cut()
    # What a friend hears after all this is the next thing of all.
    befriend(server, "bo", "carl")
    dial(gateway, "carl", ROOM, share="friends").hears("welcome")
    watching.say("watch", members=["carl"])
    watching.hears("member", member="carl", state="online")
    assert watching.dots("asha") == ["online"]


def test_closing_one_of_two_tabs_changes_nothing(server, make_gateway, dial):
    gateway = make_gateway(server)
    one, two = dial(gateway, "asha", ROOM), dial(gateway, "asha", ROOM)
    one.hears("welcome"), two.hears("welcome")
    with Watcher(server) as watcher:
        one.say("bye")
        assert one.ends() == 1000
        wait_until(lambda: server.client()("PRESENCE.COUNT", ROOM, "SESSIONS") == 1)
        assert count(server) == 1 and watcher.kinds(f"{ROOM}:asha") == []


def test_dots_of_friends_and_nothing_of_strangers(server, make_gateway, dial):
    befriend(server, "asha", "bo", "dina")
    gateway = make_gateway(server)
    asha = dial(gateway, "asha", ROOM)
    asha.say("watch", members=["bo", "carl", "dina"])
    for user in ("bo", "carl", "dina"):
        asha.hears("member", member=user, state="offline")
    bo = dial(gateway, "bo", ROOM, share="friends", status="row 4")
    dial(gateway, "carl", ROOM, share="everyone").hears("welcome")
    dial(gateway, "dina", ROOM, share="nobody").hears("welcome")
    assert asha.hears("member", member="bo", state="online")["status"] == "row 4"
    bo.say("share", share="nobody")
    asha.hears("member", member="bo", state="recent")
    bo.say("share", share="friends")
    asha.hears("member", member="bo", state="online", count=2)
    bo.say("bye")
    asha.hears("member", member="bo", state="recent", count=2)
    assert (asha.dots("carl"), asha.dots("dina")) == (["offline"], ["offline"])
    assert server.client()("PUBSUB", "NUMSUB", *channels(server, "carl"))[1] == 0


def channels(server, user):
    return [fields(server.client()("PRESENCE.CHANNELS", ROOM, user))["member"]]


def test_only_who_is_on_a_screen_is_subscribed_to(server, make_gateway, dial):
    befriend(server, "asha", "bo")
    befriend(server, "carl", "bo")
    gateway = make_gateway(server)
    listening = lambda: server.client()("PUBSUB", "NUMSUB", *channels(server, "bo"))[1]
    asha, carl = dial(gateway, "asha", ROOM), dial(gateway, "carl", ROOM)
    for phone in (asha, carl):
        phone.say("watch", members=["bo"])
        phone.hears("member", member="bo")
    wait_until(lambda: listening() == 1)
    asha.say("unwatch", members=["bo"])
    dial(gateway, "bo", ROOM, share="friends")
    carl.hears("member", member="bo", state="online")
    assert asha.dots("bo") == ["offline"] and listening() == 1
    carl.cut()
    wait_until(lambda: listening() == 0)


def test_badges_are_told_once_to_each_who_looks(server, make_gateway, dial):
    server.client()("PRESENCE.CREATE", ROOM, "COUNTEVERY", 50)
    gateway = make_gateway(server)
    looking = [dial(gateway, f"viewer{n}") for n in range(3)]
    for phone in looking:
        phone.say("watch_room", room=ROOM)
        assert phone.hears("count", room=ROOM)["badge"] == "0"
    fans = [f"fan{n}" for n in range(2341)]
    server.client()("PRESENCE.MBEAT", ROOM, "MEMBERS", *fans)
    for phone in looking:
        phone.hears("count", room=ROOM, badge="2.3k")
    server.client()("DEL", ROOM)
    assert looking[0].hears("count", room=ROOM, gone=True)["badge"] == "0"


def test_a_member_that_the_service_sent_away_comes_back_while_its_phone_beats(server, make_gateway, dial):
    phone = dial(make_gateway(server), "asha", ROOM, share="friends").beats(0.1)
    session = phone.hears("welcome")["session"]
    server.client()("PRESENCE.BYE", ROOM, "asha")
    again = phone.hears("welcome", count=2)["session"]
    assert again != session and member(server.client(), ROOM, "asha")["share"] == b"friends"


def test_a_full_room_says_so_and_takes_who_goes_on_beating(server, make_gateway, dial):
    server.client()("CONFIG", "SET", "presence.max-members", 1)
    gateway = make_gateway(server)
    first = dial(gateway, "asha", ROOM)
    first.hears("welcome")
    second = dial(gateway, "bo", ROOM).beats(0.1)
    assert "full" in second.hears("refused")["reason"]
    first.say("bye")
    second.hears("welcome")


def test_unknown_fields_are_ignored(server, make_gateway, dial):
    phone = dial(make_gateway(server))
    phone.socket.send(json.dumps({"type": "hello", "token": token("asha"), "room": ROOM, "future": [1]}))
    phone.hears("welcome")
