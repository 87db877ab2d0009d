"""The short form of the benchmarks of stops, lateness, idling and persistence: they measure what they say. No speed is asserted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "bench"))

import measure  # noqa: E402, F401  (first: it brings the harness to the others)
import lateness  # noqa: E402
import outside  # noqa: E402
import persistence  # noqa: E402
import requests  # noqa: E402
import stops  # noqa: E402

pytestmark = pytest.mark.alone
SHORT = requests.Scale(short=True)


def table(found):
    """Lines by what they tell of; every figure is a number that can be."""
    lines = {line.what: line for line in found}
    assert len(lines) == len(found) and all(line.figure for line in found)
    assert all(line.ratio > 0 for line in found if line.ratio is not None)
    return lines


def test_stops(kind):
    lines = table(stops.stops(kind, SHORT))
    assert "a process that counts for 1 ms, again and again" in lines
    for what in ("growth to 100,000, 32 a command", "day change at 50,000"):
        for seen in ("PING", "turns", "a command, in all rounds"):
            assert lines[f"{what}: {seen}"].target == 2
    for what in ("50,000 fall silent together", "50,000 fall silent together, all announced", "MEMBERS of 50,000, COUNT 100"):
        # A turn is part of what a ping waits for, and takes some µs at least.
        assert all(0.005 < lines[f"{what}: {seen}"].ratio < 1000 for seen in ("PING", "turns"))


def test_lateness(kind):
    ours, told, theirs = lateness.lateness(kind, SHORT)
    # Within the patience everybody was seen to go, none before its time, and INFO tells about the same.
    assert "not within" not in ours.figure and 0 < ours.ratio < 1000, ours
    assert abs(float(told.figure.split("p99 ")[1].split(" ")[0]) - ours.ratio) < 5 + ours.ratio / 4, (told, ours)
    assert "`expired`" in theirs.what and theirs.target is None


def test_idle(kind):
    [line] = lateness.idle(kind, SHORT)
    assert 0 <= line.ratio < 100 and line.target == 1


def test_persistence(kind):
    lines = table(persistence.persistence(kind, SHORT))
    saves = {"SAVE of 50,000 members", "the same with rdbcompression no"}
    assert saves | {"load of 50,000 members", "load of 50,000", "size of the file"} == set(lines)


def test_a_message_that_is_torn_is_heard_once(server, client):
    with outside.Outside("listen", server.socket, "news") as ears:
        for n in range(2_000):
            client("PUBLISH", "news", f"m{n}" * 20)
    assert [text for _, text in ears.saw] == [f"m{n}" * 20 for n in range(2_000)]
    assert [moment for moment, _ in ears.saw] == sorted(moment for moment, _ in ears.saw)
