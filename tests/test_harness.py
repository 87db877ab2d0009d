"""The harness itself, on servers without the module: what the other tests rest on."""

import time

import pytest

from harness import Err, ReplyError, Verbatim, Watcher


@pytest.fixture
def plain(make_server):
    return make_server(module=False)


def test_replies_of_both_protocols(plain):
    two, three = plain.client(), plain.client(resp=3)
    for c in (two, three):
        assert c("SET", b"k\r\n\0\xff", b"\0v\r\n") == "OK"
        assert c("GET", b"k\r\n\0\xff") == b"\0v\r\n"
        assert c("INCR", "n") >= 1
        assert c("GET", "absent") is None
        assert c.pipeline([("SET", "a", i) for i in range(1000)] + [("GET", "a")])[-1] == b"999"
        error = c.call("NO.SUCH", "x")
        assert isinstance(error, Err) and error.code == "ERR"
        with pytest.raises(ReplyError, match="unknown command"):
            c("NO.SUCH")
    two("HSET", "h", "f", "1")
    assert two("HGETALL", "h") == [b"f", b"1"] and three("HGETALL", "h") == {b"f": b"1"}
    assert two.raw("HGETALL", "h") == b"*2\r\n$1\r\nf\r\n$1\r\n1\r\n"
    assert three.raw("HGETALL", "h") == b"%1\r\n$1\r\nf\r\n$1\r\n1\r\n"
    assert three.raw("GET", "absent") == b"_\r\n"
    two("SADD", "s", "a", "b")
    assert three("SMEMBERS", "s") == {b"a", b"b"}
    two("ZADD", "z", "1.5", "m")
    assert three("ZSCORE", "z", "m") == 1.5
    assert isinstance(three("INFO", "server"), Verbatim)
    assert plain.info("server")["tcp_port"] == "0"


@pytest.mark.parametrize("resp", [2, 3])
def test_a_watcher_hears_in_order_and_knows_when_nothing_came(plain, resp):
    c = plain.client(db=3)
    with Watcher(plain, patterns=["__keyevent@*__:*"], channels=["news"], resp=resp) as watcher:
        watcher.sync()
        assert watcher.events == []
        before = time.monotonic()
        c("SET", "k", "v", "PX", "50")
        c("PUBLISH", "news", b"\xff")
        expired = watcher.wait("expired", name="k")
        assert expired.db == 3 and before + 0.05 <= expired.t <= time.monotonic()
        assert watcher.kinds() == ["set", "expire", "news", "expired"]
        assert watcher.of("news")[0].name == b"\xff"
        with pytest.raises(AssertionError, match="not within"):
            watcher.wait("del", timeout=0.05)


def test_a_server_restarts_on_its_data_and_port(make_server):
    server = make_server(module=False, port=0, config={"appendonly": "yes", "appendfsync": "always"})
    port = server.port
    server.client()("SET", "k", "v")
    for kill in (False, True):
        server.restart(kill=kill)
        assert server.client()("GET", "k") == b"v" and server.port == port
    assert server.info("server")["tcp_port"] == str(port)


def test_a_stopped_server_is_deaf_until_it_goes_on(plain):
    c = plain.client()
    plain.pause()
    c.send("PING")
    with pytest.raises(TimeoutError):
        c.read(0.1)
    plain.resume()
    assert c.read() == "PONG"


def test_a_replica_follows_over_tcp(make_server):
    primary = make_server(module=False, port=0)
    replica = make_server(module=False, port=0, config={"replicaof": f"127.0.0.1 {primary.port}"})
    primary.client()("SET", "k", "v")
    deadline = time.monotonic() + 20
    while replica.client()("GET", "k") != b"v":
        assert time.monotonic() < deadline, replica.log()
        time.sleep(0.02)


def test_a_server_that_cannot_start_shows_its_log(make_server):
    with pytest.raises(RuntimeError, match="(?s)while starting.*no-such-setting"):
        make_server(module=False, config={"no-such-setting": "1"})
