"""INFO presence, PRESENCE.INFO, MEMORY USAGE: figures that an operator can rely on, and the advice."""

import time

import pytest

from support import check_sums, room_info, wait_until


@pytest.fixture(autouse=True)
def sums(server):
    yield
    check_sums(server)


def figures(server, *fields):
    info = server.info()
    return tuple(int(info[f"presence_{field}"]) for field in fields)


def used_memory(client):
    lines = client("INFO", "memory").decode().splitlines()
    return int(dict(line.split(":", 1) for line in lines if ":" in line)["used_memory"])


def test_a_fresh_server_has_done_nothing(server):
    info = server.info()
    zero = {name for name, value in info.items() if value == "0"}
    # A tick may have been late on a busy machine, and the event loop turns by itself.
    busy = {f"presence_loop_{name}" for name in ("turns", "p99_us", "p999_us", "max_us", "long_turns")}
    busy |= {"presence_tick_ms", "presence_late_ticks", "presence_watchdog_ticks", "presence_amnesties_loading"}
    assert set(info) - zero <= busy
    assert "presence_rooms:0" in server.client()("INFO", "everything").decode()
    assert "presence_rooms" not in server.client()("INFO").decode(), "modules are not in the default sections"


def test_every_change_is_counted_once(server, client, watcher):
    client("PRESENCE.CREATE", "r", "GRACE", 5000)
    for id in ("asha", "bela", "chen"):
        assert client("PRESENCE.BEAT", "r", id, "SESSION", "s") == 1
    assert client("PRESENCE.MBEAT", "r", "SESSIONS", "asha", "s", "dana", "s") == 1
    assert figures(server, "beats", "comings", "members", "sessions", "rooms") == (5, 4, 4, 4, 1)
    assert client("PRESENCE.BEAT", "r", "asha", "SESSION", "t", "STATUS", "x") == 0
    assert client("PRESENCE.BYE", "r", "bela") == 1 and client("PRESENCE.BYE", "r", "bela") == 0
    assert client("PRESENCE.BEAT", "r", "bela", "SESSION", "s") == -1
    assert figures(server, "beats", "beats_refused", "goings_goodbye", "members", "sessions") == (6, 1, 1, 3, 4)
    client("PRESENCE.BYE", "r", "chen", "SOFT")
    assert client("PRESENCE.BEAT", "r", "chen", "SESSION", "s") == 0
    assert figures(server, "suppressed_flickers", "goings_timeout") == (1, 0)
    client("PRESENCE.BEAT", "r", "dana", "SESSION", "s", "TIMEOUT", 100, "GRACE", 0)
    watcher.wait("offline", "r:dana")
    assert figures(server, "goings_timeout", "goings_goodbye", "comings", "members") == (1, 1, 4, 2)
    told = len(watcher.of("online", "offline", "update"))
    watcher.sync()
    assert figures(server, "announcements") == (told,)
    client("CONFIG", "RESETSTAT"), client("DEL", "r")
    wait_until(lambda: figures(server, "rooms", "members", "sessions", "memory") == (0, 0, 0, 0))


def test_lateness_is_measured(server, client):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 200, "GRACE", 0)
    client("PRESENCE.MBEAT", "r", "MEMBERS", *range(500))
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 0)
    median, p99, most = figures(server, "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms")
    assert 0 <= median <= p99 <= most < 2000


def test_a_backlog_ends_with_its_room(server, client):
    client("CONFIG", "SET", "presence.tick-budget-us", 50)
    client("PRESENCE.CREATE", "r", "TIMEOUT", 300, "GRACE", 0)
    for start in range(0, 20_000, 4000):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *range(start, start + 4000))
    wait_until(lambda: figures(server, "backlog_rooms") == (1,), every=0.001)
    assert client("UNLINK", "r") == 1
    wait_until(lambda: figures(server, "rooms", "backlog_rooms", "backlog_age_ms") == (0, 0, 0))


def test_deafness_shows_with_its_cause(server, client):
    client("PRESENCE.BEAT", "r", "asha")
    client("DEBUG", "SLEEP", 1.2)
    wait_until(lambda: figures(server, "amnesties_stall", "deaf") == (1, 0))
    assert figures(server, "deaf_ms_stall")[0] >= 1000 and figures(server, "deaf_ms_paused", "deaf_ms_refusing") == (0, 0)
    client("CLIENT", "PAUSE", 1300, "WRITE")
    wait_until(lambda: figures(server, "deaf") == (1,))
    skipped = figures(server, "skipped_ticks")
    wait_until(lambda: figures(server, "amnesties_paused", "deaf") == (1, 0))
    assert figures(server, "deaf_ms_paused")[0] >= 1000 and figures(server, "skipped_ticks") > skipped
    client("CONFIG", "SET", "presence.timeout", 31000)
    wait_until(lambda: figures(server, "amnesties_settings") == (1,))


# -- memory -----------------------------------------------------------------------------------------------------------


def test_memory_usage_tells_what_the_server_spends(server, client):
    client("CONFIG", "SET", "presence.uniques-days", 0)
    # Buffers for batches of this size are kept.
    client("PRESENCE.MBEAT", "warm", "MEMBERS", *(f"member{n:06}" for n in range(4000))), client("DEL", "warm")
    before = used_memory(client)
    for start in range(0, 100_000, 4000):
        client("PRESENCE.MBEAT", "r", "MEMBERS", *(f"member{n:06}" for n in range(start, start + 4000)))
    client("PING")
    spent, told = used_memory(client) - before, client("MEMORY", "USAGE", "r")
    assert 0.85 * spent < told < 1.15 * spent
    # 40 bytes and the id's 12 for each at the promised sizes; a table that has just grown may hold half as much again.
    assert told < 100_000 * 52 * 1.5
    assert abs(figures(server, "memory")[0] - told) < 1000
    client("PRESENCE.MBEAT", "r", "SESSIONS", *(word for n in range(4000) for word in (f"member{n:06}", f"session{n}")))
    assert client("MEMORY", "USAGE", "r") > told
    client("UNLINK", "r")
    wait_until(lambda: used_memory(client) < before + 0.05 * spent)


def test_a_room_of_two_costs_little(client):
    """All that the server spends, key and all, with the day's uniques and whenever the two came."""
    batch = [("PRESENCE.MBEAT", f"room:{n:06}", "MEMBERS", f"asha{n:06}", f"bela{n:06}") for n in range(4000)]
    client.pipeline([*batch[:100], *(("DEL", room) for _, room, *_ in batch[:100])])
    before = used_memory(client)
    for start in range(0, len(batch), 100):
        assert client.pipeline(batch[start : start + 100]) == [2] * 100
    assert client("MEMORY", "USAGE", "room:000007") <= 512
    assert (used_memory(client) - before) / len(batch) <= 512


def test_a_train_of_flickers_leaves_nothing_behind(client):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 200, "GRACE", 200, "RECENT", 0)
    client("PRESENCE.BEAT", "r", "asha", "TIMEOUT", 60000)
    before = client("MEMORY", "USAGE", "r")
    for n in range(200):
        client("PRESENCE.BEAT", "r", "asha", "SESSION", n), client("PRESENCE.BYE", "r", "asha", "SESSION", n)
    assert client("PRESENCE.COUNT", "r", "SESSIONS") == 1
    # A bucket more or less; 200 sessions or goodbyes would be far more.
    wait_until(lambda: client("MEMORY", "USAGE", "r") <= before + 64)


# -- the room's own figures and the advice ----------------------------------------------------------------------------


def beat_every(client, interval, times, room="r"):
    """Beats at this interval in s, by the clock of the test."""
    start = time.monotonic()
    for n in range(times):
        until = start + n * interval
        wait_until(lambda: time.monotonic() >= until, every=0.002)
        client("PRESENCE.BEAT", room, "asha")


def advice_lines(server):
    return [line for line in server.log().splitlines() if "advice for room" in line]


def test_a_timeout_too_short_for_the_beats_is_advised_against(server, client):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 600, "GRACE", 300)
    beat_every(client, 0.4, 5)
    info = room_info(client, "r")
    assert 380 <= info["beat-interval"] <= 600 and info["advised-timeout"] == 2 * info["beat-interval"]
    assert str(info["advised-timeout"]).encode() in info["advice"] and b"TIMEOUT" in info["advice"]
    wait_until(lambda: advice_lines(server))
    beat_every(client, 0.4, 3)
    wait_until(lambda: client("PRESENCE.COUNT", "r") == 0)
    assert len(advice_lines(server)) == 1, "once an hour"
    client("PRESENCE.ALTER", "r", "TIMEOUT", 2000)
    info = room_info(client, "r")
    assert info["advice"] == b"" and info["advised-timeout"] == 0


def test_a_sound_timeout_is_not(server, client):
    client("PRESENCE.CREATE", "r", "TIMEOUT", 5000)
    beat_every(client, 0.1, 8)
    info = room_info(client, "r")
    assert 95 <= info["beat-interval"] < 1000 and info["advice"] == b"" and advice_lines(server) == []


def test_the_room_tells_its_figures(client):
    for n in range(5):
        client("PRESENCE.BEAT", "r", n, "SESSION", "a"), client("PRESENCE.BEAT", "r", n, "SESSION", "b")
    client("PRESENCE.BEAT", "r", 5, "SHARE", "friends"), client("PRESENCE.BYE", "r", 5)
    info = room_info(client, "r")
    assert (info["members"], info["sessions"], info["records"], info["unique-days"], info["exists"]) == (5, 10, 6, 1, 1)
    assert info["seq"] == 7 and len(info["epoch"]) == 16 and 0 < info["memory"] <= client("MEMORY", "USAGE", "r")
    assert room_info(client, "none")["exists"] == 0
