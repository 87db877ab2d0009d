"""Plays a recorded audience against a live server and compares what it announces with a twin written independently of it.

The recording (tests/data/web-audience.tsv) is played `--speed` times as fast as it was, with timeout and grace scaled
alike: 20 s and 10 s become 100 ms and 50 ms at speed 200, and a second of the recording becomes a slice of 5 ms. (20 s,
because its visitors come in bursts of a minute: a longer timeout would see them only come and go, without a flicker.)
Each row is a beat twice: of the room `site`, by one MBEAT a slice as a gateway sends it, and of its page's room, by BEAT.

The twin knows of each beat only when it was sent and when its reply had come; the server took it somewhere between. So
the silence between two beats lies between two bounds. Where both lead to the same events, exactly these must have been
announced, once each and in this order. Where they lead to different ones, either is accepted, and counted as undecided.
Each event must have come no earlier than the first moment at which it can have been due (less one millisecond, the
unit of all deadlines), and no later than the last one plus `BOUND_S` plus the delay that this very run measured: twice
(once for the server, once for this process, which wait one after the other) the longest that the sender, or a thread
that does nothing else, was kept waiting beyond the moment for which it had asked to be woken; and the time in which the
server says that it could not hear. Whatever the machine does, half of all offline events must keep the promised 10 ms.
Replies and COUNT are compared too.

Daily uniques go by the server's wall clock, so they cannot be replayed day by day: all four recorded days fall on today.
What is compared is the number of distinct members of each room (today and yesterday, should midnight pass) with the
exact set: equal up to 1,024, within four standard errors of the estimator (0.81 %) above.

Exit status: 0 as the twin says; 1 with deviations; 2 if the machine stood still for so long that the run proves nothing.
"""

from __future__ import annotations

import argparse
import bisect
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "tests"))

from harness import Connection, Server  # noqa: E402

RECORDING = PROJECT / "tests/data/web-audience.tsv"
SPEED = 200
TIMEOUT_S, GRACE_S = 20.0, 10.0
# The smallest timeout that the module takes, in ms.
LEAST_TIMEOUT = 100
# A second of the recording at SPEED.
SLICE_S = 0.005
# How late an announcement may come on a machine that keeps nobody waiting: twice the promised 10 ms (which 99 % keep).
BOUND_S = 0.020
PROMISE_S = 0.010
# Deadlines are whole milliseconds.
EARLY_S = 0.001
EXACT_UNIQUES, STANDARD_ERROR = 1024, 0.0081
COUNT_EVERY_S = 0.1
ROOM_OF_ALL = "site"


class Row(NamedTuple):
    """One beat of the recording: seconds since its start, as recorded."""

    t: float
    page: str
    member: str


class Beat(NamedTuple):
    """One beat as it was played: the server took it between `sent` and `replied`."""

    sent: float
    replied: float
    reply: int


class Seen(NamedTuple):
    """One announcement, by arrival."""

    t: float
    kind: str


class Reading(NamedTuple):
    """One COUNT of the room of all."""

    sent: float
    replied: float
    count: int


def read(path: Path, minutes: float | None = None, skip: float = 0) -> list[Row]:
    """The rows of `minutes` minutes of the recording, from minute `skip` on."""
    rows = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        t_ms, _day, page, member, *_ = line.split("\t")
        t = int(t_ms) / 1000 - skip * 60
        if t >= 0 and (minutes is None or t < minutes * 60):
            rows.append(Row(t, page, member))
    return rows


class Listener:
    """Records the presence keyspace events of database 0 by name, with their times of arrival."""

    KINDS = ("online", "grace", "back", "offline")

    def __init__(self, server: Server):
        self._mark = b"replay:end"
        self._chunks: list[tuple[float, bytes]] = []
        self._publisher = server.client()
        self._connection = server.client()
        channels = [f"__keyevent@0__:presence.{kind}" for kind in self.KINDS]
        for channel in [*channels, self._mark]:
            self._connection("SUBSCRIBE", channel)
        self._connection.socket.settimeout(None)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        """Only takes down what arrives: parsing would delay the next arrival."""
        tail = b""
        while data := self._connection.socket.recv(1 << 18):
            self._chunks.append((time.monotonic(), data))
            tail = (tail + data)[-200:]
            if self._mark in tail:
                self._done.set()
                return

    def finish(self) -> dict[str, list[Seen]]:
        """All that was announced so far, by name, in order."""
        self._publisher("PUBLISH", self._mark, "x")
        if not self._done.wait(30):
            raise RuntimeError("the subscriber heard nothing for 30 s")
        self._thread.join()
        seen: dict[str, list[Seen]] = defaultdict(list)
        stream = b"".join(data for _, data in self._chunks)
        ends, total = [], 0
        for _, data in self._chunks:
            total += len(data)
            ends.append(total)
        for end, (channel, name) in messages(stream):
            if channel != self._mark:
                t = self._chunks[bisect.bisect_left(ends, end)][0]
                seen[name.decode()].append(Seen(t, channel.decode().rsplit(".", 1)[1]))
        return seen


class Metronome:
    """Measures how long this machine keeps somebody waiting who has asked to be woken, by asking all the time."""

    def __init__(self, period: float = 0.002):
        self.late: list[float] = []
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metronome", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            asked = time.monotonic() + self._period
            time.sleep(self._period)
            self.late.append(time.monotonic() - asked)

    def finish(self) -> list[float]:
        self._stop.set()
        self._thread.join()
        return self.late


def messages(stream: bytes) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """The messages of a RESP2 subscription's bytes, each with the place at which it ends."""
    at = 0

    def line() -> bytes:
        nonlocal at
        end = stream.index(b"\r\n", at)
        text, at = stream[at:end], end + 2
        return text

    def bulk() -> bytes:
        nonlocal at
        length = int(line()[1:])
        text, at = stream[at : at + length], at + length + 2
        return text

    while at < len(stream):
        if line() != b"*3" or bulk() != b"message":
            raise RuntimeError(f"unexpected message before byte {at}")
        message = bulk(), bulk()
        yield at, message


@dataclass
class Played:
    """What happened."""

    timeout: float
    grace: float
    beats: dict[str, list[Beat]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    counts: list[Reading] = field(default_factory=list)
    # How late the sender and the metronome woke up, in s, each time that they slept.
    jitter: list[float] = field(default_factory=list)
    batches: int = 0
    uniques: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def deaf(self) -> float:
        """Seconds in which the server, by its own account, could not hear."""
        return sum(int(v) for k, v in self.info.items() if "deaf_ms_" in k) / 1000

    @property
    def amnesties(self) -> int:
        return sum(int(v) for k, v in self.info.items() if "amnesties_" in k)


def play(
    server: Server,
    rows: Sequence[Row],
    speed: float = SPEED,
    timeout_s: float = TIMEOUT_S,
    grace_s: float = GRACE_S,
    progress: Callable[[str], None] = lambda _: None,
) -> Played:
    """Plays the rows, waits until the last one must have gone, and gathers what the server tells at the end.

    `timeout_s` and `grace_s` are as at the recording's own speed, in s.
    """
    timeout, grace = round(timeout_s * 1000 / speed), round(grace_s * 1000 / speed)
    if timeout < LEAST_TIMEOUT:
        raise SystemExit(f"replay: at speed {speed:g} the timeout would be {timeout} ms; the least is {LEAST_TIMEOUT}")
    played = Played(timeout / 1000, grace / 1000)
    admin, gateway, pages, reader = (server.client() for _ in range(4))
    # Before there is any room, so that nobody gets a fresh timeout for it.
    admin("CONFIG", "SET", "presence.timeout", timeout)
    admin("CONFIG", "SET", "presence.grace", grace)
    admin("CONFIG", "SET", "presence.recent", 0)
    before = server.info()
    listener, metronome = Listener(server), Metronome()

    slices: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        slices[int(row.t / speed / SLICE_S)].append(row)
    start = time.monotonic() + 0.1
    length = (max(slices) + 1) * SLICE_S if slices else 0.0
    next_count = next_word = start
    sent = 0

    def sleep_until(t: float) -> None:
        if (left := t - time.monotonic()) > 0:
            time.sleep(left)
            played.jitter.append(time.monotonic() - t)

    def count(at: float) -> None:
        """Reads the count each COUNT_EVERY_S until `at`."""
        nonlocal next_count
        while next_count < at:
            sleep_until(next_count)
            asked = time.monotonic()
            number = reader("PRESENCE.COUNT", ROOM_OF_ALL)
            played.counts.append(Reading(asked, time.monotonic(), number))
            next_count = max(next_count + COUNT_EVERY_S, time.monotonic())

    for number, batch in sorted(slices.items()):
        due = start + number * SLICE_S
        count(due)
        sleep_until(due)
        asked = time.monotonic()
        replies = gateway("PRESENCE.MBEAT", ROOM_OF_ALL, "EACH", "MEMBERS", *(row.member for row in batch))
        answered = time.monotonic()
        for row, reply in zip(batch, replies, strict=True):
            played.beats[f"{ROOM_OF_ALL}:{row.member}"].append(Beat(asked, answered, reply))
        played.batches += 1
        for row in batch:
            asked = time.monotonic()
            reply = pages("PRESENCE.BEAT", f"page:{row.page}", row.member)
            played.beats[f"page:{row.page}:{row.member}"].append(Beat(asked, time.monotonic(), reply))
        sent += len(batch)
        if asked >= next_word:
            next_word = asked + 1
            crowd = max((reading.count for reading in played.counts), default=0)
            progress(f"{asked - start:5.1f} of {length:.1f} s, {sent:,} of {len(rows):,} rows, at most {crowd} here so far")
    # The last silence, and a little more than any bound.
    count(time.monotonic() + played.timeout + played.grace + 0.5)
    played.seconds = time.monotonic() - start
    played.jitter += metronome.finish()
    played.seen = listener.finish()
    rooms = sorted({name.rsplit(":", 1)[0] for name in played.beats})
    for room in rooms:
        played.left[room] = admin("PRESENCE.COUNT", room)
        played.uniques[room] = admin("PRESENCE.UNIQUE", room, "DAYS", 2)
    played.info = server.info()
    for name, value in before.items():
        if "deaf_ms_" in name or "amnesties_" in name:
            played.info[name] = str(int(played.info[name]) - int(value))
    for connection in (admin, gateway, pages, reader):
        connection.close()
    return played


class Expected(NamedTuple):
    """An event that must come, between these moments."""

    kind: str
    earliest: float
    latest: float


@dataclass
class Verdict:
    """What the comparison found."""

    deviations: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    # Silences between two beats, by what they must have led to; and those that may have led to several things.
    decided: Counter[tuple[str, ...]] = field(default_factory=Counter)
    undecided: int = 0
    counts: int = 0
    tolerance: float = 0.0
    # Of offline events, in s: from when they can have been due at the latest, and at the earliest.
    late_least: list[float] = field(default_factory=list)
    late_most: list[float] = field(default_factory=list)

    def deviate(self, text: str) -> None:
        self.deviations.append(text)


def compare(played: Played) -> Verdict:
    """Holds what was announced against the twin."""
    verdict = Verdict(tolerance=BOUND_S + 2 * max(played.jitter, default=0.0) + played.deaf)
    for name in sorted(played.beats.keys() | played.seen.keys()):
        _compare_name(name, played, verdict)
    _compare_counts(played, verdict)
    if (half := percentile(verdict.late_least, 0.5)) > PROMISE_S:
        verdict.deviate(f"half of all offline events came more than {half * 1000:.1f} ms after they were due")
    for room, left in played.left.items():
        if left:
            verdict.deviate(f"{room}: {left} present long after the last beat")
        exact = len({name for name in played.beats if name.rsplit(":", 1)[0] == room})
        allowed = 0 if exact <= EXACT_UNIQUES else round(4 * STANDARD_ERROR * exact)
        if abs(played.uniques[room] - exact) > allowed:
            verdict.deviate(f"{room}: UNIQUE says {played.uniques[room]}, the exact set has {exact} (allowed ±{allowed})")
    return verdict


def _scripts(gap_least: float, gap_most: float, timeout: float, grace: float, tolerance: float) -> list[tuple[str, ...]]:
    """What may be announced between two beats, the shortest silence first."""
    scripts: list[tuple[str, ...]] = []
    if gap_least < timeout + tolerance:
        scripts.append(())
    if gap_most >= timeout - EARLY_S and gap_least < timeout + grace + tolerance:
        scripts.append(("grace", "back"))
    if gap_most >= timeout + grace - EARLY_S:
        scripts.append(("grace", "offline", "online"))
    return scripts


def _compare_name(name: str, played: Played, verdict: Verdict) -> None:
    beats = played.beats.get(name, [])
    seen = played.seen.get(name, [])
    verdict.events.update(event.kind for event in seen)
    if not beats:
        return verdict.deviate(f"{name}: announced without any beat: {seen}")
    timeout, grace, tolerance = played.timeout, played.grace, verdict.tolerance
    rest = list(seen)

    def take(kind: str, earliest: float, latest: float) -> None:
        """The next event of this name must be this one."""
        if not rest or rest[0].kind != kind:
            raise LookupError(f"expected {kind} at {earliest:.4f}, came {rest[0] if rest else 'nothing'}")
        t = rest.pop(0).t
        if not earliest - EARLY_S <= t <= latest + tolerance:
            raise LookupError(
                f"{kind} at {t:.4f}, {(t - earliest) * 1000:.1f} ms after the earliest and {(t - latest) * 1000:.1f} ms after "
                f"the latest moment of being due (tolerance {tolerance * 1000:.1f} ms)"
            )
        if kind == "offline":
            verdict.late_least.append(t - latest)
            verdict.late_most.append(t - earliest)

    def silence(beat: Beat, kinds: Sequence[str], end: Beat | None) -> None:
        """The events that follow a beat, up to the next one. A beat processed before the due moment was announces none."""
        for kind in kinds:
            if kind == "grace":
                take(kind, beat.sent + timeout, beat.replied + timeout)
            elif kind == "offline":
                take(kind, beat.sent + timeout + grace, beat.replied + timeout + grace)
            elif end is not None:
                take(kind, end.sent, end.replied)

    try:
        take("online", beats[0].sent, beats[0].replied)
        if beats[0].reply != 1:
            raise LookupError(f"the first beat was answered {beats[0].reply}")
        for beat, following in zip(beats, beats[1:]):
            scripts = _scripts(
                following.sent - beat.replied, following.replied - beat.sent, timeout, grace, tolerance
            )
            if len(scripts) == 1:
                verdict.decided[scripts[0]] += 1
            else:
                verdict.undecided += 1
                # Whichever of them is what came: the reply tells whether it went offline, the next event whether it waited.
                scripts = [s for s in scripts if ("online" in s) == (following.reply == 1)] or scripts
                waited = bool(rest) and rest[0].kind == "grace" and rest[0].t < following.sent + timeout - EARLY_S
                scripts = [s for s in scripts if bool(s) == waited] or scripts
            silence(beat, scripts[0], following)
            if following.reply != int("online" in scripts[0]):
                raise LookupError(f"the beat at {following.sent:.4f} was answered {following.reply} after {scripts[0]}")
        silence(beats[-1], ("grace", "offline"), None)
        if rest:
            raise LookupError(f"announced besides: {rest}")
    except LookupError as deviation:
        verdict.deviate(f"{name}: {deviation}")


def _compare_counts(played: Played, verdict: Verdict) -> None:
    """Each COUNT must lie between those who must be present and those who may be."""
    surely: list[tuple[float, int]] = []
    maybe: list[tuple[float, int]] = []
    limit = played.timeout + played.grace
    for name, beats in played.beats.items():
        if not name.startswith(ROOM_OF_ALL + ":"):
            continue
        # From a reply on a member is present until the earliest due moment; from a sending on it may be until the latest.
        for spans, first, last, end in ((surely, 1, 0, limit - EARLY_S), (maybe, 0, 1, limit + verdict.tolerance)):
            begin, until = beats[0][first], beats[0][last] + end
            for beat in beats[1:]:
                if beat[first] >= until:
                    spans += [(begin, 1), (until, -1)]
                    begin = beat[first]
                until = max(until, beat[last] + end)
            spans += [(begin, 1), (until, -1)]
    for reading in played.counts:
        verdict.counts += 1
        # Present throughout the reading, and present at any moment of it.
        least = sum(step for t, step in surely if t <= (reading.sent if step > 0 else reading.replied))
        most = sum(step for t, step in maybe if t <= (reading.replied if step > 0 else reading.sent))
        if not least <= reading.count <= most:
            verdict.deviate(f"COUNT {reading.count} at {reading.sent:.4f}: the twin says {least} to {most}")


def percentile(values: Sequence[float], share: float) -> float:
    """0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def summary(played: Played, verdict: Verdict, speed: float) -> str:
    def three(values: Sequence[float]) -> str:
        p50, p99, most = (1000 * percentile(values, share) for share in (0.5, 0.99, 1))
        return f"p50 {p50:.1f}  p99 {p99:.1f}  max {most:.1f} ms"

    info = played.info
    events = ", ".join(f"{n:,} {kind}" for kind, n in sorted(verdict.events.items()))
    distinct = len({name for name in played.beats if name.startswith(ROOM_OF_ALL + ":")})
    decided = ", ".join(f"{n:,} {'to ' + ', '.join(s) if s else 'silent'}" for s, n in sorted(verdict.decided.items()))
    lines = [
        f"played     {played.seconds:.1f} s at {speed:g} times the speed, timeout {played.timeout * 1000:.0f} ms, "
        f"grace {played.grace * 1000:.0f} ms",
        f"beats      {sum(map(len, played.beats.values())):,}, half of them in {played.batches:,} batches; "
        f"{len(played.left)} rooms, {len(played.beats):,} members of rooms",
        f"events     {events}",
        f"intervals  {decided}; {verdict.undecided:,} undecided by what was measured",
        f"counts     {verdict.counts:,} readings, at most {max((r.count for r in played.counts), default=0)} present",
        f"uniques    {played.uniques.get(ROOM_OF_ALL, 0):,} estimated, {distinct:,} exact in the room {ROOM_OF_ALL}; "
        "all recorded days fall on today",
        f"late       as seen here, from the latest due moment: {three(verdict.late_least)}",
        f"           as seen here, from the earliest:          {three(verdict.late_most)}",
        f"           by INFO presence: p50 {_info(info, 'lateness_p50_ms')}  p99 {_info(info, 'lateness_p99_ms')}  "
        f"max {_info(info, 'lateness_max_ms')} ms",
        f"machine    sleepers woke late by {three(played.jitter)}; the server was deaf for {played.deaf * 1000:.0f} ms",
        f"tolerance  {verdict.tolerance * 1000:.1f} ms: {BOUND_S * 1000:.0f} and what the machine cost",
    ]
    return "\n".join(lines)


def _info(info: dict[str, str], name: str) -> str:
    return next((value for key, value in info.items() if key.endswith(name)), "?")


def main(argv: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description="Plays a recorded audience against a server of its own.")
    options.add_argument("--speed", type=float, default=SPEED, help="times as fast as it was (%(default)s)")
    options.add_argument("--timeout", type=float, default=TIMEOUT_S, help="timeout in s, before it is scaled (%(default)s)")
    options.add_argument("--grace", type=float, default=GRACE_S, help="grace in s, before it is scaled (%(default)s)")
    options.add_argument("--minutes", type=float, help="how much of the recording (all of it: 332 minutes)")
    options.add_argument("--skip", type=float, default=0, help="minutes to leave out at its start")
    options.add_argument("--server", default="redis-7.0", help="kind of server, as in tests/harness (%(default)s)")
    options.add_argument("recording", nargs="?", type=Path, default=RECORDING)
    chosen: Any = options.parse_args(argv)
    rows = read(chosen.recording, chosen.minutes, chosen.skip)
    if not rows:
        print("replay: no rows there", file=sys.stderr)
        return 1
    terminal = sys.stdout.isatty()

    def progress(text: str) -> None:
        print(f"\rreplay: {text}  " if terminal else f"replay: {text}", end="" if terminal else "\n", flush=True)

    with Server(chosen.server, config={"notify-keyspace-events": "Ed"}) as server:
        played = play(server, rows, chosen.speed, chosen.timeout, chosen.grace, progress)
        log = server.warnings()
    if terminal:
        print()
    verdict = compare(played)
    print(summary(played, verdict, chosen.speed))
    for line in log:
        verdict.deviate(f"the module warned: {line}")
    if played.amnesties:
        print(f"replay: the machine stood still for a second or more, {played.amnesties} time(s): this run proves nothing")
        return 2
    for deviation in verdict.deviations[:20]:
        print(f"DEVIATION  {deviation}")
    print(f"replay: {len(verdict.deviations)} deviations" if verdict.deviations else "replay: as the twin says")
    return 1 if verdict.deviations else 0


if __name__ == "__main__":
    sys.exit(main())
