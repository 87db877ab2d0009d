"""Ours beside what is run instead: the same members and the same jobs on one server, each way as its users write it."""

from __future__ import annotations

import math
import random
import statistics
import time
from typing import Any, Iterator, NamedTuple, Sequence

from filling import member
from harness import Server
from measure import SETTINGS, Rate, median, say, take_turns, used_memory
from pour import pour, streams
from ways import DAY_S, WAYS, Way, Words, now_ms

FRIENDS = 200
# A member beats every 10 s, so this many beats of 200,000 come in one millisecond.
BEATS_PER_MS = 20
LEAVE_S = 1


class Late(NamedTuple):
    """How long after they were due departures were known, in seconds; infinite where it took longer than was waited."""

    median: float
    p99: float
    most: float
    told: int
    of: int
    waited: float


class Beside(NamedTuple):
    """One way, measured; or why it was not."""

    way: str
    missing: str = ""
    beats: Rate | None = None
    spread: tuple[float, float] = (0.0, 0.0)
    counts: Rate | None = None
    friends: Rate | None = None
    memory: float | None = None
    late: Late | None = None


class Sizes(NamedTuple):
    members: int
    rounds: int
    beats: int
    counts: int
    friends: int
    leavers: int
    spread: float
    patience: float


def sizes(scale: Any) -> Sizes:
    if scale.share > 1:
        return Sizes(scale.room // 4, scale.rounds, 10_000, 10_000, 200, 50, 0.5, 1.0)
    return Sizes(scale.room, scale.rounds, 100_000, 100_000, 2_000, 300, 2.0, 10.0)


def beside(kind: str, scale: Any) -> list[Beside]:
    """Beats, counts, reads of friends, memory and departures: ours, and what is run instead."""
    size = sizes(scale)
    found, ways = [], []
    with Server(kind, config=SETTINGS) as server, server.client() as client:
        for way in (make() for make in WAYS):
            facts = Beside(way.name, way.missing(client))
            found.append(facts)
            if not facts.missing:
                ways.append(way)
        say(f"rivals: memory of {size.members:,} members")
        memory = {way.name: memory_of(server, way, size.members) for way in ways}
        rates = rates_of(server, ways, size)
        late = {way.name: lateness_of(server, way, size) for way in ways}
    return [facts if facts.missing else completed(facts, rates, memory, late) for facts in found]


def completed(facts: Beside, rates: dict[str, dict[str, list[Rate]]], memory: dict[str, float], late: dict[str, Late | None]) -> Beside:
    beats = rates["beat"][facts.way]
    middle = {job: median(by_way[facts.way]) for job, by_way in rates.items() if facts.way in by_way}
    return facts._replace(
        beats=middle["beat"],
        spread=(min(rate.rps for rate in beats), max(rate.rps for rate in beats)),
        counts=middle.get("count"),
        friends=middle.get("friends"),
        memory=memory[facts.way],
        late=late[facts.way],
    )


def fill(server: Server, way: Way, members: Sequence[str]) -> None:
    """Members who stay for a day, by their first beat."""
    now = now_ms()
    pour(server, streams(command for m in members for command in way.beat(m, now)), len(members))


def memory_of(server: Server, way: Way, count: int) -> float:
    """Bytes a member, with ids of 10 bytes, by used_memory."""
    with server.client() as client:
        client("FLUSHALL", "SYNC")
        before = used_memory(client)
        way.prepare(client)
        fill(server, way, [f"m{n:09d}" for n in range(count)])
        time.sleep(0.2)  # in which the server gives back the buffers of who poured
        each = (used_memory(client) - before) / count
        client("FLUSHALL", "SYNC")
    return each


def some_beats(way: Way, size: Sizes) -> Iterator[Words]:
    """Beats of random members, at moments that grow as theirs would."""
    now = now_ms()
    for n in range(size.beats):
        yield from way.beat(member(random.randrange(size.members)), now + n // BEATS_PER_MS)


def rates_of(server: Server, ways: Sequence[Way], size: Sizes) -> dict[str, dict[str, list[Rate]]]:
    """Beats, counts and reads of friends a second, by job and way."""
    everybody = [member(n) for n in range(size.members)]
    with server.client() as client:
        for way in ways:
            way.prepare(client)
            fill(server, way, everybody)
        say(f"rivals: beats at {size.members:,} members")
        by_job = {"beat": {way.name: lambda way=way: pour(server, streams(some_beats(way, size)), size.beats) for way in ways}}
        counting = {way.name: command for way in ways if (command := way.count(now_ms()))}
        reading = {}
        for way in ways:
            if way.friends(everybody[:1]):
                asked = (way.friends(random.sample(everybody, FRIENDS)) for _ in range(size.friends))
                reading[way.name] = streams(asked)
        by_job["count"] = {
            name: lambda ask=streams([command] * size.counts): pour(server, ask, size.counts) for name, command in counting.items()
        }
        by_job["friends"] = {name: lambda ask=ask: pour(server, ask, size.friends) for name, ask in reading.items()}
        rates = {job: take_turns(size.rounds, kinds) for job, kinds in by_job.items()}
        client("FLUSHALL", "SYNC")
    return rates


def lateness_of(server: Server, way: Way, size: Sizes) -> Late | None:
    """Some leave a crowd that stays, one after the other: how long after each was due was it known?"""
    leavers = [f"leaver:{n}" for n in range(size.leavers)]
    due: dict[str, float] = {}
    with server.client() as client:
        client("CONFIG", "SET", "notify-keyspace-events", way.events)
        way.prepare(client)
        fill(server, way, [member(n) for n in range(size.members)])
        with way.listening(server, due) as known:
            if known is None:
                client("FLUSHALL", "SYNC")
                return None
            say(f"rivals: departures, {way.name}")
            for leaver in leavers:
                client.pipeline(way.beat(leaver, now_ms(), LEAVE_S))
                due[leaver] = time.monotonic() + LEAVE_S
                time.sleep(size.spread / size.leavers)
            deadline = time.monotonic() + LEAVE_S + size.patience
            while len(known()) < len(leavers) and time.monotonic() < deadline:
                time.sleep(0.02)
            told = known()
        client("CONFIG", "SET", "notify-keyspace-events", "")
        client("FLUSHALL", "SYNC")
    return summary([told[m] - due[m] if m in told else math.inf for m in leavers], size.patience)


def summary(late: Sequence[float], waited: float) -> Late:
    ordered = sorted(late)
    told = sum(value < math.inf for value in ordered)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return Late(statistics.median_low(ordered), p99, ordered[-1], told, len(ordered), waited)
