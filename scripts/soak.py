#!/usr/bin/env python3
"""Churn at a steady size, for long: members beat, leave by silence and by goodbye, and others come in their place.

A hall and many smaller rooms, with and without named sessions, with feeds and counts that are heard. Each member beats
every five seconds (every second in short runs) and lives for some of these, ten on average. What must hold: nobody who beats
is taken for gone; comings less goings are those present, by INFO, by the replies and by the rooms; every feed is
without a gap; memory and lateness stay as they are, and ticks are on time. A line each half minute, and one at the end.
Exits with 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from harness import KINDS, Connection, Server  # noqa: E402
from harness.resp import encode  # noqa: E402

STEP_S = 0.01
SAY_S = 30
TICKS_A_SECOND = 500
# Of all members: those in the hall, those who come with a session, those who say goodbye.
IN_HALL, NAMED, POLITE = 0.6, 0.3, 0.5
ROOM = 400
MEAN_LIFE = 10
# How much more memory a member may take at the end than in the beginning, and at any time than at another.
DRIFT, BOUNDS = 0.03, 0.25
# What lateness is promised for far larger crowds, in ms.
LATENESS_MS = 10
# Late ticks of a hundred, beside twice those of a process that only sleeps: the machine makes some late by itself.
LATE_TICKS = 0.5
# Until goings are as many as comings, histories are full, and chunks as mixed as they will be: four lives, in intervals.
WARM = 40
# By how much the server may be behind the clock that goes here.
SLACK_S = 1.0


class Sample(NamedTuple):
    at: float
    present: int
    used: int
    late_p99: int
    late_max: int
    late_ticks: int
    turn_max_us: int


class Soaked(NamedTuple):
    """What came of it. `wrong`: sums that do not agree, which is a fault. `unsteady`: what was not as steady or quick as
    promised, for which the machine may be to blame."""

    line: str
    wrong: list[str]
    unsteady: list[str]
    comings: int
    messages: int
    # The machine stood still, or the load was so late that it may have made who beat go.
    overtaxed: bool


class Member:
    """One life: who, where, by which session, until when; whether there was a beat yet."""

    __slots__ = ("id", "room", "session", "until", "here")

    def __init__(self, id: int, room: str, session: str | None, until: float):
        self.id, self.room, self.session, self.until, self.here = id, room, session, until, False


class Ear(threading.Thread):
    """Hears the feeds of all rooms and their counts, and whether anything is missing in a feed."""

    def __init__(self, server: Server, rooms: list[str]):
        super().__init__(daemon=True)
        self.connection, self.ended = server._connect(), threading.Event()
        self.messages, self.gaps = 0, 0
        self.seqs: dict[bytes, int] = {}
        replies = [self.connection("PRESENCE.CHANNELS", room) for room in rooms]
        for names in (dict(zip(reply[::2], reply[1::2])) for reply in replies):
            self.connection("SUBSCRIBE", names[b"count"]), self.connection("SUBSCRIBE", names[b"feed"])

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                _, channel, payload = self.connection.read(timeout=0.5)
            except TimeoutError:
                continue
            self.messages += 1
            if b".feed:" in channel:
                message = json.loads(payload)
                self.gaps += message["from"] != self.seqs.get(channel, 0) + 1
                self.seqs[channel] = message["seq"]

    def end(self) -> None:
        self.ended.set()
        self.join()
        self.connection.close()


class Metronome:
    """A process that wakes up as often as the module ticks, and does nothing: how often the machine is late by itself."""

    CODE = """if True:
        import select, sys, time
        ticks = late = 0
        while True:
            began = time.monotonic()
            if select.select([sys.stdin], [], [], 0.002)[0]:
                break
            ticks, late = ticks + 1, late + (time.monotonic() - began > 0.004)
        print(100 * late / ticks)
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self) -> float:
        """Late ones of a hundred."""
        return float(self.process.communicate()[0])


class Crowd:
    """The members, and what they do. Time is in seconds from the beginning."""

    def __init__(self, client: Connection, size: int, interval: float):
        self.client, self.interval, self.chance = client, interval, random.Random(1)
        self.rooms = ["hall", *(f"room{n}" for n in range(max(1, round(size * (1 - IN_HALL) / ROOM))))]
        self.timeout, self.grace, self.recent = 3 * interval, interval, 2 * interval
        times = {"TIMEOUT": self.timeout, "GRACE": self.grace, "RECENT": self.recent, "COUNTEVERY": interval / 5}
        settings = [word for name, seconds in times.items() for word in (name, int(seconds * 1000))]
        for room in self.rooms:
            # The uniques of a small room grow all day long, which is no fault and no steady size either.
            uniques = 2 if room == "hall" else 0
            client("PRESENCE.CREATE", room, *settings, "SHARE", "everyone", "FEED", 300, "UNIQUES", uniques)
        self.made = self.live = self.came = self.left = self.false = 0
        self.silent: deque[tuple[float, int]] = deque()
        self.turns: list[list[Member]] = [[] for _ in range(round(interval / STEP_S))]
        for n in range(size):
            self.turns[n % len(self.turns)].append(self.newcomer(0.0))

    def newcomer(self, now: float) -> Member:
        self.made += 1
        room = "hall" if self.chance.random() < IN_HALL else self.chance.choice(self.rooms[1:])
        session = f"s{self.made}" if self.chance.random() < NAMED else None
        return Member(self.made, room, session, now + self.interval * self.chance.expovariate(1 / MEAN_LIFE))

    def step(self, number: int, now: float) -> None:
        """Those whose turn it is beat. Some have left instead, and others come for them."""
        turn = self.turns[number % len(self.turns)]
        goodbyes: list[bytes] = []
        beats: dict[tuple[str, bool, bool], list[Any]] = defaultdict(list)
        quiet = 0
        for place, member in enumerate(turn):
            if member.here and now >= member.until:
                if self.chance.random() < POLITE:
                    session = ("SESSION", member.session) if member.session else ()
                    goodbyes.append(encode(("PRESENCE.BYE", member.room, member.id, *session)))
                else:
                    quiet += 1
                self.live -= 1
                member = turn[place] = self.newcomer(now)
            words = beats[member.room, member.session is not None, member.here]
            words += (member.id, member.session) if member.session else (member.id,)
            self.live += not member.here
            member.here = True
        # They beat for the last time an interval ago.
        self.silent.append((now - self.interval, quiet))
        for (room, named, _), words in beats.items():
            goodbyes.append(encode(("PRESENCE.MBEAT", room, "SESSIONS" if named else "MEMBERS", *words)))
        self.client.send_raw(b"".join(goodbyes))
        self.left += sum(self.client.read() for _ in goodbyes[: len(goodbyes) - len(beats)])
        for (_, named, here), words in beats.items():
            came = self.client.read()
            self.came += came
            # Nobody who beats in time is new, and nobody who is new was here.
            self.false += abs(came - (0 if here else len(words) // (2 if named else 1)))

    def limbo(self, now: float) -> int:
        """How many of those who fell silent may still be present."""
        while self.silent and self.silent[0][0] + self.timeout + self.grace + SLACK_S < now:
            self.silent.popleft()
        return sum(quiet for _, quiet in self.silent)


def soak(kind: str, seconds: float, size: int, interval: float, said: bool = True) -> Soaked:
    """One server, for so long."""
    wrong: list[str] = []
    unsteady: list[str] = []
    samples: list[Sample] = []
    # Nobody who hears a feed is too slow to be told all of it.
    config = {"notify-keyspace-events": "", "client-output-buffer-limit": "pubsub 0 0 0"}
    with Server(kind, config=config) as server, server.client() as client:
        crowd = Crowd(client, size, interval)
        ear = Ear(server, crowd.rooms)
        ear.start()
        metronome = Metronome()
        began = time.monotonic()
        number, now, behind, seen, told = 0, 0.0, 0.0, 0.0, 0.0
        while now < seconds:
            crowd.step(number, now)
            number += 1
            if now - seen >= 1 and number > len(crowd.turns):
                seen = now
                samples.append(look(server, now))
                if not crowd.live <= samples[-1].present <= crowd.live + crowd.limbo(now):
                    wrong.append(f"at {now:.0f} s {samples[-1].present} are present, not {crowd.live} to {crowd.live + crowd.limbo(now)}")
                if said and now - told >= SAY_S:
                    told = now
                    print(f"{now:6.0f} s  {words_of(samples[-1])}  {ear.messages:,} messages", flush=True)
            ahead = began + number * STEP_S - time.monotonic()
            behind = max(behind, -ahead)
            time.sleep(max(0.0, ahead))
            now = time.monotonic() - began
        machine = metronome.end()
        wrong += sums(server, client, crowd)
        steady = [sample for sample in samples if sample.at > min(WARM * interval, seconds / 2)]
        # From here on silence, until everybody is gone.
        deadline = time.monotonic() + crowd.timeout + crowd.grace + 10 * SLACK_S
        while (left := int(server.info()["presence_members"])) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            wrong.append(f"{left} are present still, long after the last beat")
        wrong += sums(server, client, crowd)
        stalls = int(server.info()["presence_amnesties_stall"])
        time.sleep(0.5)
        ear.end()
    if ear.gaps:
        wrong.append(f"{ear.gaps} gaps in feeds")
    if crowd.false:
        wrong.append(f"{crowd.false} who beat were taken for gone, or the other way round")
    late = late_ticks(steady)
    unsteady += judge(steady)
    if late > 2 * machine + LATE_TICKS:
        unsteady.append(f"{late:.2f} % of the ticks were late; the machine itself was in {machine:.2f} %")
    held = [sample.used / sample.present for sample in steady]
    rate = crowd.came / seconds
    line = (
        f"{kind}: {seconds:.0f} s, {size:,} members beating every {interval:g} s, {crowd.came:,} comings ({rate:,.0f} a second),"
        f" {min(held):.1f} to {max(held):.1f} bytes of memory a member; {words_of(steady[-1])}, which is {late:.2f} %"
        f" (of a process that only sleeps: {machine:.2f} %); {ear.messages:,} messages heard;"
        f" the load {behind * 1000:.0f} ms late at most"
    )
    return Soaked(line, wrong, unsteady, crowd.came, ear.messages, stalls > 0 or behind > interval)


def look(server: Server, now: float) -> Sample:
    info = server.info() | server.info("memory")
    figures = ("members", "lateness_p99_ms", "lateness_max_ms", "late_ticks", "loop_max_us")
    present, p99, most, late, turn = (int(info[f"presence_{name}"]) for name in figures)
    return Sample(now, present, int(info["used_memory"]), p99, most, late, turn)


def words_of(sample: Sample) -> str:
    return (
        f"{sample.present:,} present, {sample.used / 2**20:.2f} MiB, lateness p99 {sample.late_p99} ms (most {sample.late_max}),"
        f" {sample.late_ticks} late ticks, longest turn {sample.turn_max_us / 1000:.1f} ms"
    )


def sums(server: Server, client: Connection, crowd: Crowd) -> list[str]:
    """Comings less goings are those present, whoever is asked."""
    info = {name: int(value) for name, value in server.info().items() if value.isdigit()}
    comings, goodbyes = info["presence_comings"], info["presence_goings_goodbye"]
    rooms = sum(client("PRESENCE.MCOUNT", *crowd.rooms))
    found = {
        "comings, by INFO and by the replies": (comings, crowd.came),
        "goodbyes, by INFO and by the replies": (goodbyes, crowd.left),
        "members by INFO, and comings less goings": (info["presence_members"], comings - goodbyes - info["presence_goings_timeout"]),
    }
    wrong = [f"{what}: {one} and {other}" for what, (one, other) in found.items() if one != other]
    # Some may go between the one question and the other.
    if not rooms <= info["presence_members"] <= rooms + max(100, crowd.made // 100):
        wrong.append(f"members by INFO {info['presence_members']}, in all rooms {rooms}")
    return wrong


def judge(steady: list[Sample]) -> list[str]:
    """Whether memory and lateness stayed as they were, and ticks on time."""
    unsteady = []
    held = [sample.used / sample.present for sample in steady]
    quarter = max(1, len(held) // 4)
    first, last = statistics.median(held[:quarter]), statistics.median(held[-quarter:])
    if last > first * (1 + DRIFT):
        unsteady.append(f"memory a member grew from {first:.1f} to {last:.1f} bytes")
    if max(held) > min(held) * (1 + BOUNDS):
        unsteady.append(f"memory a member was between {min(held):.1f} and {max(held):.1f} bytes")
    if steady[-1].late_p99 > LATENESS_MS:
        unsteady.append(f"a going of a hundred was {steady[-1].late_p99} ms late or more")
    if steady[-1].late_p99 > steady[quarter - 1].late_p99 + 2:
        unsteady.append(f"lateness grew from {steady[quarter - 1].late_p99} to {steady[-1].late_p99} ms")
    return unsteady


def late_ticks(steady: list[Sample]) -> float:
    """Late ticks of a hundred, as there is always somebody due."""
    seconds = max(steady[-1].at - steady[0].at, 1)
    return (steady[-1].late_ticks - steady[0].late_ticks) / seconds / TICKS_A_SECOND * 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--server", choices=KINDS, default="redis-7.0")
    options = parser.parse_args()
    soaked = soak(options.server, options.minutes * 60, options.members, 5 if options.minutes >= 1 else 1)
    print(soaked.line)
    if soaked.overtaxed:
        print("the machine stood still for a second or more, or the load came too late: what follows may be due to that")
    for trouble in soaked.wrong + soaked.unsteady:
        print(f"NO: {trouble}")
    return 1 if soaked.wrong or soaked.unsteady else 0


if __name__ == "__main__":
    sys.exit(main())
