"""A slice of a recorded audience, played fast, against a twin that knows nothing of the module: scripts/replay.py."""

import sys
from copy import deepcopy

import pytest

from harness.server import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))

import replay  # noqa: E402

pytestmark = pytest.mark.alone

# Half an hour in about 18 s: slow enough that most silences are decided, fast enough for a suite.
SPEED, MINUTES = 100, 30


@pytest.mark.config(notify_keyspace_events="Ed")
def test_a_recorded_audience_comes_and_goes_as_the_twin_says(server):
    rows = replay.read(replay.RECORDING, MINUTES)
    played = replay.play(server, rows, SPEED)
    verdict = replay.compare(played)
    print(replay.summary(played, verdict, SPEED))
    if played.amnesties:
        pytest.skip("the machine stood still for a second or more, so that everybody got a fresh timeout")
    assert verdict.deviations == []
    # The slice must have shown something of everything, or the comparison proves little.
    assert sum(map(len, played.beats.values())) == 2 * len(rows)
    assert verdict.decided[()] > 400 and verdict.decided["grace", "offline", "online"] > 100
    assert verdict.events["online"] == verdict.events["offline"] > 500
    assert int(played.info["presence_members"]) == 0

    # And it must not be blind: each kind of fault is told.
    names = [name for name, seen in played.seen.items() if [e.kind for e in seen] == ["online", "grace", "offline"]]
    assert len(names) > 100
    name = names[0]
    for fault in (_lost, _twice, _swapped, _early, _late):
        forged = deepcopy(played)
        forged.seen[name] = fault(forged.seen[name])
        told = replay.compare(forged).deviations
        assert len(told) == 1 and told[0].startswith(name), fault.__name__
    forged = deepcopy(played)
    forged.counts[0] = forged.counts[0]._replace(count=len(rows))
    forged.uniques[replay.ROOM_OF_ALL] += 1
    assert len(replay.compare(forged).deviations) == 2


def _lost(seen):
    return seen[:-1]


def _twice(seen):
    return [*seen, seen[-1]]


def _swapped(seen):
    return [seen[1], seen[0], *seen[2:]]


def _early(seen):
    return [*seen[:-1], seen[-1]._replace(t=seen[-1].t - 0.1)]


def _late(seen):
    return [*seen[:-1], seen[-1]._replace(t=seen[-1].t + 0.5)]
