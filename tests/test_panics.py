"""A panic at any entry from the server leaves the server up. Uses a build of the module that panics on demand."""

import time

import pytest

from harness import MODULE, Watcher
from support import wait_until

INJECTING = MODULE.parent.parent / "debug" / MODULE.name

pytestmark = pytest.mark.warnings_ok


@pytest.fixture
def injecting(make_server):
    if not INJECTING.exists():
        pytest.fail(f"no {INJECTING.name} that panics on demand; `make test` builds it (cargo build --features inject-panics)")
    return make_server(module=INJECTING)


# Entry, and the command that the server answers through it.
ENTRIES = [
    ("(beat)", ["PRESENCE.BEAT", "r", "m"]),
    ("(mbeat)", ["PRESENCE.MBEAT", "r", "MEMBERS", "m"]),
    ("(bye)", ["PRESENCE.BYE", "r", "other"]),
    ("(share)", ["PRESENCE.SHARE", "r", "m", "friends"]),
    ("(count)", ["PRESENCE.COUNT", "r"]),
    ("(mcount)", ["PRESENCE.MCOUNT", "r"]),
    ("(unique)", ["PRESENCE.UNIQUE", "r"]),
    ("(friends)", ["PRESENCE.FRIENDS", "r", "v", "m"]),
    ("(friends_from)", ["PRESENCE.FRIENDSFROM", "r", "v", "set"]),
    ("(get)", ["PRESENCE.GET", "r", "m"]),
    ("(members)", ["PRESENCE.MEMBERS", "r"]),
    ("(create)", ["PRESENCE.CREATE", "new"]),
    ("(alter)", ["PRESENCE.ALTER", "r", "FEED", "5"]),
    ("(info)", ["PRESENCE.INFO", "r"]),
    ("(apply)", ["PRESENCE.APPLY", "r", "x"]),
    ("reading a set", ["PRESENCE.FRIENDSFROM", "r", "v", "set"]),
    ("CONFIG GET", ["CONFIG", "GET", "presence.timeout"]),
    ("CONFIG SET", ["CONFIG", "SET", "presence.recent", "7000"]),
    ("INFO", ["INFO", "presence"]),
    ("copying a room", ["COPY", "r", "copied"]),
    ("saving a room", ["DUMP", "r"]),
    ("measuring a room", ["MEMORY", "USAGE", "r"]),
    ("the digest of a room", ["DEBUG", "DIGEST-VALUE", "r"]),
    ("a keyspace notification", ["RENAME", "string", "renamed"]),
    ("weighing a room", ["UNLINK", "doomed"]),
    ("freeing a room", ["DEL", "doomed"]),
]

# Some servers first ask these where their keys are; the panic then ends that question, and the command runs.
ASKED_FOR_KEYS = ("(unique)", "(friends_from)")


def test_every_entry_contains_its_panic(injecting):
    client = injecting.client()
    for entry, command in ENTRIES:
        client("PRESENCE.MBEAT", "r", "MEMBERS", "m", "n")
        client("PRESENCE.BEAT", "doomed", "m")
        client("SADD", "set", "m")
        client("SET", "string", "x")
        assert client("PRESENCE.PANIC", entry) == "OK"
        answer = client.call(*command)
        if entry.startswith("(") and entry not in ASKED_FOR_KEYS:
            assert "internal error" in str(answer), (entry, answer)
        wait_until(lambda: "panic: injected" in "\n".join(injecting.log().splitlines()[-50:]))
        assert client("PING") == "PONG", entry
        # The next call of the same kind works, unless it took its key away.
        if entry.startswith("("):
            assert "internal error" not in str(client.call(*command)), entry
    counted = int(injecting.info("presence")["presence_panics"])
    assert counted == len(ENTRIES)


def test_restore_of_a_room_whose_load_panics_is_an_error(injecting):
    client = injecting.client()
    client("PRESENCE.BEAT", "r", "m")
    dump = client("DUMP", "r")
    client("PRESENCE.PANIC", "loading a room")
    assert "Bad data format" in str(client.call("RESTORE", "copy", 0, dump))
    assert client("RESTORE", "copy", 0, dump) == "OK"
    assert client("PRESENCE.COUNT", "copy") == 1


@pytest.mark.parametrize("entry", ["the timer", "a server event", "a turn of the event loop", "what silence brought about"])
def test_silence_is_noticed_in_spite_of_a_panic(injecting, entry):
    """The timer is started anew by the watchdog; a room that was given up is tried again."""
    client = injecting.client()
    with Watcher(injecting) as watcher:
        client("PRESENCE.PANIC", entry)
        client("PRESENCE.BEAT", "r", "m", "TIMEOUT", 300, "GRACE", 100)
        watcher.wait("offline", b"r:m", timeout=10)
    assert int(injecting.info("presence")["presence_panics"]) == 1
    assert client("EXISTS", "r") in (0, 1)


def test_a_rewrite_that_panics_ends_in_the_child(injecting):
    client = injecting.client()
    client("CONFIG", "SET", "aof-use-rdb-preamble", "no")
    client("PRESENCE.BEAT", "r", "m")
    client("PRESENCE.PANIC", "rewriting a room")
    client("BGREWRITEAOF")
    wait_until(lambda: "panic: injected" in injecting.log())
    wait_until(lambda: injecting.info("persistence")["aof_rewrite_in_progress"] in (0, "0"))
    assert client("PRESENCE.COUNT", "r") == 1


# -- a panic that waits shows whether the server enters at all ---------------------------------------------------------


def panics(server):
    return int(server.info()["presence_panics"])


def test_commands_do_not_enter_the_module(injecting):
    """Of the server events only those with the same number everywhere: Valkey's number 20 comes with each command."""
    client = injecting.client()
    client("CONFIG", "SET", "hz", 1)
    script = "for n = 1, 10000 do redis.call('INCR', KEYS[1]) end"

    def quiet():
        """Between two rounds of the server's own periodic work, a second apart."""
        client("PRESENCE.PANIC", "a server event")
        before = panics(injecting)
        wait_until(lambda: panics(injecting) > before, every=0.002)
        client("PRESENCE.PANIC", "a server event")
        began = time.monotonic()
        assert set(client.pipeline([("PING",)] * 2000)) == {"PONG"}
        client("EVAL", script, 1, "counter")
        after = panics(injecting)
        return time.monotonic() - began < 0.8, after - before - 1

    # On a machine that was too slow it says nothing.
    results = [quiet() for _ in range(3)]
    assert 0 in [entered for in_time, entered in results if in_time] or not any(in_time for in_time, _ in results), results


def test_only_generic_notifications_enter_the_module(injecting):
    """Whoever takes KEY_TRIMMED, LOADED or all of them pays for each, and makes the server trim slots key by key."""
    client = injecting.client()
    client("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    # To set a time is generic; to run out is not.
    client("SET", "string", "x"), client("PRESENCE.BEAT", "r", "m"), client("PSETEX", "brief", 50, "x")
    client("PRESENCE.PANIC", "a keyspace notification")
    for command in ("SET s x", "GET none", "GET string", "HSET h f x", "RPUSH l x", "SADD set x", "ZADD z 1 x", "XADD st * f x"):
        client(*command.split())
    client("PRESENCE.BEAT", "r", "n", "TIMEOUT", 100, "GRACE", 0)
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 1 and not client("EXISTS", "brief"))
    client("DEBUG", "RELOAD")
    client("CONFIG", "SET", "maxmemory", 1), client.call("SET", "one", "more")
    wait_until(lambda: client("DBSIZE") == 0 or client.call("SET", "one", "more"))
    client("CONFIG", "SET", "maxmemory", 0)
    assert panics(injecting) == 0
    client("SET", "string", "x"), client("RENAME", "string", "renamed")
    assert panics(injecting) == 1
