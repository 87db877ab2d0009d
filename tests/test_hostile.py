"""Whatever comes from outside, the server lives, answers, and has logged no panic."""

import random

import pytest

from harness import Connection, Err
from support import check_sums, digest, member, names, wait_until

# Ids that have broken parsers, formats and protocols before.
NASTY = [
    b"%n%s%x",
    b"\0",
    b"a\0b",
    b"\r\n+OK\r\n",
    b"\n",
    b" ",
    b"\xff\xfe",
    b"\xc3\x28",
    b":",
    b"{a}b",
    b"}{",
    b'"\\',
    b"*?[a-z]",
    b"\x1b[31m",
    "ñ".encode(),
    b"\0" * 256,
    b"%" * 256,
    bytes(range(256)),
]
WORDS = b"""SESSION SHARE STATUS DATA TIMEOUT GRACE nobody friends everyone EACH MEMBERS SESSIONS SOFT BADGE DAY DAYS WITH
CURSOR COUNT ALL RECENT UNIQUES FEED COUNTEVERY INTERVALOVER DEFAULT session all 20260101 20261301""".split()
NUMBERS = [b"0", b"1", b"-1", b"100", b"99", b"400", b"86400000", b"9223372036854775807", b"-9223372036854775808", b"1e9"]


@pytest.fixture(autouse=True)
def unharmed(server):
    yield
    info = server.info()
    assert info["presence_panics"] == "0" and "panic" not in server.log().lower()
    check_sums(server)


def commands(client):
    return client("COMMAND", "LIST", "FILTERBY", "MODULE", "presence")


def argument(random):
    """Anything."""
    kind = random.random()
    if kind < 0.3:
        return random.choice(WORDS)
    if kind < 0.45:
        return random.choice(NUMBERS)
    if kind < 0.6:
        return random.choice(NASTY)
    if kind < 0.8:
        return random.choice([b"r", b"q", b"asha", b"bela", b"s1", b"string", b"set"])
    return random.randbytes(random.choice([0, 1, 2, 8, 64, 65, 128, 129, 255, 256, 257, 1024, 1025, 5000]))


@pytest.mark.warnings_ok
@pytest.mark.parametrize("seed", range(3))
def test_random_arguments(server, client, seed):
    chance = random.Random(seed)
    client("SET", "string", "x"), client("SADD", "set", *NASTY, "asha", "bela")
    known = commands(client)
    replies = errors = 0
    for _ in range(10):
        batch = [[chance.choice(known), *(argument(chance) for _ in range(chance.randrange(9)))] for _ in range(400)]
        # One in three is a beat of a sane key, so that there is something to hit.
        batch += [[b"PRESENCE.BEAT", chance.choice([b"r", b"q"]), chance.choice(NASTY)] for _ in range(100)]
        chance.shuffle(batch)
        answers = client.pipeline(batch)
        replies += len(answers)
        errors += sum(isinstance(answer, Err) for answer in answers)
        assert client("PING") == "PONG"
    assert replies == 5000 and 1000 < errors < 4500
    assert client("GET", "string") == b"x" and client("SCARD", "set") == len(NASTY) + 2
    for room in (b"r", b"q"):
        assert len(names(client, room)) == len(set(names(client, room))) == client("PRESENCE.COUNT", room)


@pytest.mark.parametrize("resp", [2, 3])
def test_ids_are_bytes(server, watcher, resp):
    client = server.client(resp=resp)
    for room in (b"r", *NASTY):
        for id in NASTY:
            assert client("PRESENCE.BEAT", room, id, "SESSION", id[:128], "DATA", id, "SHARE", "everyone") == 1
        assert sorted(names(client, room)) == sorted(NASTY)
        for id in NASTY:
            view = member(client, room, id)
            assert view["data"] == id and list(view["sessions"]) == [id[:128]]
        assert client("PRESENCE.FRIENDS", room, "v", *NASTY) == [b"online"] * len(NASTY)
    watcher.sync()
    expected = sorted(room + b":" + id for room in (b"r", *NASTY) for id in NASTY)
    assert sorted(event.name for event in watcher.of("online")) == expected
    before = digest(client, *NASTY)
    client("DEBUG", "RELOAD")
    assert digest(client, *NASTY) == before
    assert client("PRESENCE.BYE", NASTY[0], NASTY[1]) == 1


def test_the_log_never_holds_what_clients_sent(server, client):
    client("PRESENCE.BEAT", b"%n%n%n%s", b"%n%s%s")
    client.call("PRESENCE.BEAT", "r", "a", b"%n%s%s%x")
    client.call("PRESENCE.APPLY", "r", b"%n%s%s%x")
    client.call("PRESENCE.ALTER", b"%s%n", "TIMEOUT", b"%n%s%s%x")
    assert "%n" not in server.log()
    assert client("PRESENCE.COUNT", b"%n%n%n%s") == 1


def test_transactions_and_scripts(client, server):
    client("MULTI")
    for command in ("PRESENCE.BEAT r asha", "PRESENCE.COUNT r"):
        assert client.call(*command.split()) == "QUEUED"
    assert client.call("PRESENCE.BEAT", "r", "") == "QUEUED"
    online, count, error = client("EXEC")
    assert (online, count) == (1, 1) and isinstance(error, Err)
    client("MULTI")
    assert isinstance(client.call("PRESENCE.BEAT", "r"), Err), "a wrong arity is seen when it is queued"
    assert client.call("EXEC").code == "EXECABORT"

    script = "local n = redis.call('PRESENCE.BEAT', KEYS[1], ARGV[1]) return {n, redis.call('PRESENCE.COUNT', KEYS[1])}"
    assert client("EVAL", script, 1, "r", "bela") == [1, 2]
    for command in commands(client):
        for form in (("r",), ("r", "asha"), ("r", "asha", b"\xff"), ("string",)):
            reply = client.call("EVAL", "return redis.pcall(unpack(ARGV))", 1, "r", command, *form)
            assert reply is None or isinstance(reply, (int, list, bytes, str))
    assert client.call("EVAL", "return redis.call('PRESENCE.BEAT', KEYS[1], '')", 1, "r").code == "ERR"
    many = "for n = 1, 5000 do redis.call('PRESENCE.BEAT', KEYS[1], n) end return redis.call('PRESENCE.COUNT', KEYS[1])"
    assert client("EVAL", many, 1, "crowd") == 5000


def test_wrong_types_both_ways(client):
    others = {
        "string": ("SET", "string", "x"),
        "list": ("RPUSH", "list", "x"),
        "hash": ("HSET", "hash", "f", "x"),
        "set": ("SADD", "set", "x"),
        "zset": ("ZADD", "zset", 1, "x"),
        "stream": ("XADD", "stream", "*", "f", "x"),
    }
    for command in others.values():
        client(*command)
    client("PRESENCE.BEAT", "r", "asha")
    before = client("DEBUG", "DIGEST")
    for key in others:
        for command in (
            ("BEAT", key, "m"),
            ("BEAT", key, "m", "STATUS", "x"),
            ("MBEAT", key, "MEMBERS", "m"),
            ("BYE", key, "m"),
            ("SHARE", key, "m", "friends"),
            ("COUNT", key),
            ("MCOUNT", "r", key),
            ("FRIENDS", key, "v", "m"),
            ("FRIENDSFROM", key, "v", "set"),
            ("UNIQUE", key),
            ("UNIQUE", "r", "WITH", key),
            ("GET", key, "m"),
            ("MEMBERS", key),
            ("CREATE", key),
            ("ALTER", key, "TIMEOUT", 1000),
            ("INFO", key),
            ("APPLY", key, "x"),
        ):
            assert client.call(f"PRESENCE.{command[0]}", *command[1:]).code == "WRONGTYPE", command
    for key in ("string", "list", "hash", "zset", "stream", "r"):
        assert client.call("PRESENCE.FRIENDSFROM", "r", "v", key).code == "WRONGTYPE"
    for command in (
        "GET r",
        "APPEND r x",
        "INCR r",
        "LPUSH r x",
        "SADD r x",
        "SMEMBERS r",
        "HGETALL r",
        "ZADD r 1 x",
        "XADD r * f x",
        "PFADD r x",
        "SINTERCARD 2 set r",
        "SORT r",
    ):
        assert client.call(*command.split()).code == "WRONGTYPE", command
    assert client("DEBUG", "DIGEST") == before
    for command in ("OBJECT ENCODING r", "MEMORY USAGE r", "TYPE r", "DEBUG OBJECT r", "OBJECT REFCOUNT r", "TOUCH r"):
        assert client(*command.split())


def test_huge_arguments(client, server):
    client("PRESENCE.BEAT", "r", "asha", "SHARE", "everyone")
    before = digest(client, "r")
    huge = b"x" * 10_000_000
    for command in (
        ("BEAT", "r", huge),
        ("BEAT", "r", "asha", "SESSION", huge),
        ("BEAT", "r", "asha", "STATUS", huge),
        ("BEAT", "r", "asha", "DATA", huge),
        ("BEAT", "r", "asha", "TIMEOUT", b"9" * 100_000),
        ("BEAT", "r", "asha", huge),
        ("MBEAT", "r", "MEMBERS", *range(100_000)),
        ("MBEAT", "r", "MEMBERS", *range(4095), huge),
        ("FRIENDS", "r", "v", *range(100_000)),
        ("UNIQUE", "r", "DAY", b"9" * 100_000),
        ("MEMBERS", "r", "CURSOR", b"9" * 100_000),
        ("ALTER", "r", *["TIMEOUT", 1000] * 10_000),
        ("APPLY", "r", huge),
        ("GET", "r", huge),
        ("SHARE", "r", "asha", huge),
        ("COUNT", "r", *["BADGE"] * 10_000),
    ):
        reply = client.call(f"PRESENCE.{command[0]}", *command[1:])
        assert isinstance(reply, Err) and len(reply) < 300, command[0]
    assert digest(client, "r") == before
    assert client("PRESENCE.MCOUNT", *["r"] * 20_000) == [1] * 20_000
    assert client("PRESENCE.UNIQUE", "r", "WITH", *["r", "none"] * 10_000) == 1
    # A key may be of any length.
    assert client("PRESENCE.BEAT", huge, "asha") == 1 and client("DEL", huge) == 1


def test_clients_that_break_off(server, client):
    for n in range(100):
        with Connection(server.socket) as other:
            other.send("PRESENCE.MBEAT", "r", "MEMBERS", *range(500))
            if n % 2:
                other.send_raw(b"*3\r\n$13\r\nPRESENCE.BEAT\r\n$1\r\nr\r\n$100\r\nhalf of")
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 500)
