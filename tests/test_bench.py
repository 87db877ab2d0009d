"""`make bench`: what it makes of what was found, and that the rivals do what they stand for. No speed is asserted."""

import math
import sys
import time
from datetime import datetime, timezone
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from harness import Watcher
from harness.server import PROJECT

sys.path.append(str(PROJECT / "scripts/bench"))

import measure  # noqa: E402
import picture  # noqa: E402
import report  # noqa: E402
import rivals  # noqa: E402
import ways  # noqa: E402
from measure import Found, Rate  # noqa: E402
from parts import PARTS  # noqa: E402
from pour import pour, streams  # noqa: E402

MET = Found("BEAT", "1 M/s", "no-op: 2 M/s", 0.7, 0.6, spread="0.68–0.71")
MISSED = Found("BEAT", "1 M/s", "ZADD: 0.5 M/s", 2.0, 3.5)
SLOW = Found("stop", "3 ms", "", 3.0, 2, most=True, unit=" ms")
PLAIN = Found("memory", "49 bytes")
OURS = rivals.Beside(
    "PRESENCE.BEAT", "", Rate(1.2e6, 0.8), (1.1e6, 1.3e6), Rate(9e5, 1), Rate(2e4, 50), 49.4,
    rivals.Late(0.0027, 0.004, 0.005, 300, 300, 10),
)
KEYS = OURS._replace(way="key each", counts=None, beats=Rate(4e5, 2), memory=123.2, late=rivals.Late(math.inf, math.inf, math.inf, 4, 300, 10))
HASH = rivals.Beside("hash field each", "no such fields")


def run_of(*found, error="", short=False):
    when = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)
    outcomes = {
        ("redis-7.0", "beats"): report.Outcome([f for f in found if isinstance(f, Found)], error, 3.0, when, "abc1234", 5),
        ("redis-7.0", "rivals"): report.Outcome([f for f in found if not isinstance(f, Found)], "", 3.0, when, "abc1234", 5),
    }
    return report.Run({"processor": "2 cores"}, {"redis-7.0": "Redis 7.0.15"}, short, outcomes)


def test_what_redis_benchmark_says():
    head = '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"'
    line = '"EVAL return {1,2} 0","76923.08","0.331","0.168","0.327","0.391","0.463","0.639"'
    assert measure.requests_per_second(f"{head}\n{line}\n") == 76923.08


def test_ratios_are_of_medians_and_the_spread_of_single_rounds():
    rates = {"BEAT": [Rate(100, 1), Rate(300, 1), Rate(200, 1)], "ZADD": [Rate(100, 2), Rate(100, 2), Rate(50, 2)]}
    (found,) = measure.compare("BEAT", "BEAT", rates, {"ZADD": 3})
    assert (found.ratio, found.spread, found.met) == (2.0, "1.00–4.00", False)


def test_met_from_below_and_from_above():
    assert [f.met for f in (MET, MISSED, SLOW, SLOW._replace(ratio=2.0), PLAIN)] == [True, False, False, True, None]


def test_the_page_tells_what_is_missed_and_why(monkeypatch):
    monkeypatch.setattr(report, "REMARKS", {("BEAT", "ZADD"): "The zset is in the cache."})
    page = report.markdown(run_of(MET, MISSED, SLOW, PLAIN, OURS, KEYS, HASH))
    assert "| Redis 7.0.15 | beats | BEAT | 1 M/s | no-op: 2 M/s | 0.7 × | 0.68–0.71 | ≥ 0.6 × | met |" in page
    assert "| 2 × |  | ≥ 3.5 × | NOT MET |" in page and "| 3 ms |  | ≤ 2 ms | NOT MET |" in page
    assert "**BEAT beside ZADD**: 2 × on Redis 7.0.15 (≥ 3.5 ×). The zset is in the cache." in page
    assert "**stop**: 3 ms on Redis 7.0.15 (≤ 2 ms). What limits it is not found out yet." in page
    assert "1 of 3 targets are met" in page
    assert "not measured: no such fields" in page and "> 10 s" in page and "| 4 of 300 |" in page
    assert "abc1234" in page and "2026-11-30" in page


def test_what_has_a_form_of_its_own_is_a_table():
    class Point(NamedTuple):
        kind: str
        members: int
        beats: float
        batch_items: float | None

    page = report.markdown(run_of(Point("redis-7.0", 10_000, 1_234_567.8, None)))
    assert "## Rivals\n\n| server | members | beats | batch items |" in page
    assert "| Redis 7.0.15 | 10,000 | 1,234,568 | – |" in page


def test_a_part_that_broke_is_told_and_the_rest_is_there():
    for made in (report.text, report.markdown):
        page = made(run_of(OURS, error="RuntimeError: no such command"))
        assert "beats on Redis 7.0.15: RuntimeError: no such command" in page and "1.2 M/s" in page
    assert "FAILED" not in report.text(run_of(MET))


def test_nothing_is_judged_in_short_form():
    page = report.text(run_of(MISSED, short=True))
    assert "SHORT" in page and "2 ×" in page and "MET" not in page


def test_the_picture_is_a_picture_with_its_figures_in_words():
    drawn = ElementTree.fromstring(picture.picture("Redis <7.0>", [OURS, KEYS, HASH]))
    title, desc = (drawn.find(f"{{http://www.w3.org/2000/svg}}{name}").text for name in ("title", "desc"))
    assert "Redis <7.0>" in title and "key each: beats a second 400 k/s, bytes a member 123, told of a departure after, p99 > 10 s" in desc
    bars = [r for r in drawn.iter("{http://www.w3.org/2000/svg}rect") if r.get("class") != "ground"]
    assert len(bars) == 6 and all(0 < float(bar.get("width")) <= picture.BAR for bar in bars)


def test_the_readme_has_the_pages_figures():
    page = (PROJECT / "docs/benchmarks.md").read_text()
    (told,) = report.EXTRACT.findall((PROJECT / "README.md").read_text())
    figures = told.removeprefix(report.BEGIN).removesuffix(report.END + "\n").strip()
    assert figures and figures in page
    assert "short" not in page.split("## Held")[0].lower().replace("## in short", ""), "a short run's figures are no documentation"
    drawn = (PROJECT / "docs/benchmarks.svg").read_text()
    for way, beats, memory, late, _ in (line.strip("| ").split(" | ") for line in figures.splitlines()[4:] if line.startswith("|")):
        told = f"{way}: beats a second {beats}, bytes a member {memory}, told of a departure after, p99 {late}"
        assert told.replace(">", "&gt;") in drawn


def test_every_part_is_there():
    for part in PARTS.values():
        assert part.load().__doc__, part


def test_what_is_poured_is_counted_and_an_error_is_one(server):
    rate = pour(server, streams([("INCR", "n")] * 1000), 1000)
    assert rate.rps > 0 and server.client()("GET", "n") == b"1000"
    with pytest.raises(RuntimeError, match="WRONGTYPE"):
        pour(server, streams([("LPUSH", "n", 1)]), 1)


# -- the rival that is a script ----------------------------------------------------------------------------------------------


class Script:
    """The Lua way on a server, and what it has announced."""

    def __init__(self, server):
        self.client, self.way = server.client(), ways.Lua()
        self.watcher = Watcher(server, [self.way.CHANNEL])
        self.way.prepare(self.client)

    def beat(self, member, session="", stay=86_400):
        (command,) = self.way.beat(member, ways.now_ms(), stay, session)
        return self.client(*command)

    def bye(self, member, session=""):
        return self.client(*self.way.run("bye", member, session))

    def sweep(self):
        return self.client(*self.way.run("sweep"))

    def present(self):
        return self.client(*self.way.count(ways.now_ms()))

    def told(self):
        self.watcher.sync()
        return [event.name.decode() for event in self.watcher.of()]


@pytest.fixture
def script(server):
    script = Script(server)
    yield script
    script.watcher.close()


def test_a_script_knows_sessions(script):
    assert [script.beat("asha", "a|1"), script.beat("asha", "b"), script.beat("asha", "b"), script.beat("bo")] == [1, 0, 0, 1]
    assert script.present() == 2
    assert script.client(*script.way.friends(["asha", "carl"])) == [b"2", None]
    assert [script.bye("asha", "b"), script.bye("asha", "b"), script.bye("asha", "a|1")] == [0, 0, 1]
    assert script.present() == 1
    assert script.told() == ["online asha", "online bo", "offline asha"]


def test_a_script_waits_for_the_grace_and_a_beat_in_it_is_no_news(script):
    script.beat("asha", stay=1)
    script.beat("bo", stay=1)
    time.sleep(0.6)
    assert script.beat("bo", stay=60) == 0
    assert script.sweep() == 0 and script.present() == 2
    time.sleep(0.6)
    assert script.sweep() == 1 and script.present() == 1
    assert script.told() == ["online asha", "online bo", "offline asha"]
    assert script.beat("asha") == 1


def test_a_silent_session_ends_and_the_other_keeps_its_member(script):
    script.beat("asha", "phone", stay=1)
    script.beat("asha", "desk", stay=60)
    time.sleep(1.1)
    assert script.sweep() == 0 and script.present() == 1
    assert script.bye("asha", "desk") == 1
    assert script.told() == ["online asha", "offline asha"]


@pytest.mark.parametrize("make", ways.WAYS, ids=lambda way: way.name)
def test_each_way_counts_and_knows_friends(server, client, make):
    way = make()
    if why := way.missing(client):
        pytest.skip(why)
    way.prepare(client)
    for member in ("asha", "bo", "asha"):
        for command in way.beat(member, ways.now_ms()):
            client(*command)
    if count := way.count(ways.now_ms()):
        assert client(*count) == 2
    if friends := way.friends(["bo", "carl"]):
        here, gone = client(*friends)
        assert here not in (None, b"offline") and gone in (None, b"offline")
