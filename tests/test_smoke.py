"""A first slice through everything: a beat, a silence, and what is heard of it."""

import time

NAME = b"event42:asha"


def beat(client, *options):
    """One beat of asha; the reply, and the moments before and after it."""
    before = time.monotonic()
    reply = client("PRESENCE.BEAT", "event42", "asha", *options)
    return reply, before, time.monotonic()


def test_silence_alone_takes_a_member_offline(client, watcher):
    reply, before, after = beat(client, "TIMEOUT", 300, "GRACE", 200)
    assert reply == 1
    assert client("PRESENCE.COUNT", "event42") == 1

    # No further traffic: nobody reads, nobody beats.
    offline = watcher.wait("offline", NAME)
    online, grace = watcher.wait("online", NAME), watcher.wait("grace", NAME)
    watcher.sync()
    assert watcher.kinds() == ["online", "grace", "offline"]
    assert {e.name for e in watcher.events} == {NAME} and {e.db for e in watcher.events} == {0}

    # Never early; the upper bounds leave room for a busy machine.
    assert before <= online.t <= after + 1.0
    assert before + 0.3 <= grace.t <= after + 1.3
    assert before + 0.5 <= offline.t <= after + 1.5
    assert client("PRESENCE.COUNT", "event42") == 0


def test_grace_hides_a_tunnel(client, watcher):
    _, before, _ = beat(client, "TIMEOUT", 300, "GRACE", 600)
    assert watcher.wait("grace", NAME).t >= before + 0.3
    watcher.hold_until(before + 0.4)

    reply, again, _ = beat(client, "TIMEOUT", 5000)
    assert reply == 0
    watcher.wait("back", NAME)

    # Past the moment when the silence would have become an absence.
    watcher.hold_until(before + 1.0)
    assert watcher.kinds() == ["online", "grace", "back"]
    assert watcher.of("back")[0].t >= again
    assert client("PRESENCE.COUNT", "event42") == 1


def test_a_goodbye_is_heard_at_once(client, watcher):
    beat(client)
    before = time.monotonic()
    assert client("PRESENCE.BYE", "event42", "asha") == 1
    offline = watcher.wait("offline", NAME)
    watcher.sync()
    assert watcher.kinds() == ["online", "offline"]
    assert before <= offline.t <= before + 1.0
    assert client("PRESENCE.COUNT", "event42") == 0
