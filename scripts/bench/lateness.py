"""How late is a going told, while a million are present and a hundred thousand beats a second come; and what idling costs."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, Sequence

from filling import fill_keys, fill_room, member
from harness import Connection, Server
from harness.resp import encode
from measure import SETTINGS, Found, cpu_seconds, info, say
from outside import Outside, percentile
from requests import Scale

Words = tuple[Any, ...]
# One step of the load, in s: a batch of beats, and some who will not be heard again.
STEP = 0.005
BATCH = 500
LEAVERS = 5
# Silence after which a leaver is gone: timeout and grace, in ms.
TIMEOUT, GRACE = 1_500, 500
LATE_MS = 10.0


def _load(
    client: Connection, other: Connection, steps: int, batches: Sequence[bytes], replies: int, leave: Callable[[str], Words]
) -> dict[str, float]:
    """Beats at their pace; returns when each leaver was heard last, as the client knows it: when it was sent."""
    sent: dict[str, float] = {}
    began = time.monotonic()
    for step in range(steps):
        time.sleep(max(0.0, began + step * STEP - time.monotonic()))
        names = [f"leaver{step * LEAVERS + n}" for n in range(LEAVERS)]
        client.send_raw(batches[step % len(batches)])
        moment = time.monotonic()
        other.send_raw(b"".join(encode(leave(name)) for name in names))
        sent |= dict.fromkeys(names, moment)
        for _ in names:
            other.read()
        for _ in range(replies):
            client.read()
    return sent


def _beat(name: str) -> Words:
    return ("PRESENCE.BEAT", "room", name, "TIMEOUT", TIMEOUT, "GRACE", GRACE)


def _ttl(name: str) -> Words:
    return ("SET", name, "v", "PX", TIMEOUT + GRACE)


def _judge(
    what: str, sent: dict[str, float], heard: Sequence[tuple[float, str]], patience: float, target: float | None
) -> Found:
    silence = (TIMEOUT + GRACE) / 1e3
    late = [
        (moment - sent[name] - silence) * 1e3 for moment, text in heard if (name := text.rsplit(":", 1)[-1]) in sent
    ]
    p99 = percentile(late, 0.99)
    missing = len(sent) - len(late)
    figure = f"median {percentile(late, 0.5):.1f} ms, p99 {p99:.1f} ms, longest {max(late, default=0):.1f} ms"
    if missing:
        figure += f", {missing} of {len(sent)} not within {patience} s"
    return Found(what, figure, ratio=p99, target=target, most=True, unit=" ms")


def _wait(client: Connection, patience: float, there: Callable[[Connection], bool]) -> None:
    until = time.monotonic() + patience
    while time.monotonic() < until and there(client):
        time.sleep(0.05)


def lateness(kind: str, scale: Scale) -> list[Found]:
    """Events of members who fall silent, and of keys whose time runs out, seen by a subscriber."""
    count = scale.many
    steps = int((1 if scale.short else 20) / STEP)
    # How long events are waited for that do not come, in s.
    patience = 3 if scale.short else 20
    load = f"{count:,} present, {BATCH / STEP:,.0f} beats/s, {LEAVERS / STEP:,.0f} goings/s"
    say(f"lateness: {load}")
    found = []
    with Server(kind, config=SETTINGS | {"notify-keyspace-events": "Ed"}) as server:
        client, other = server.client(), server.client()
        fill_room(client, "room", count)
        batches = [
            encode(("PRESENCE.MBEAT", "room", "MEMBERS", *map(member, range(at, at + BATCH))))
            for at in range(0, count, BATCH)
        ]
        with Outside("listen", server.socket, "__keyevent@0__:presence.offline") as ears:
            sent = _load(client, other, steps, batches, 1, _beat)
            _wait(client, patience, lambda c: c("PRESENCE.COUNT", "room") > count)
        found.append(_judge(f"offline: {load}", sent, ears.saw, patience, LATE_MS))
        figures = info(client, "presence")
        p50, p99, most = (figures[f"presence_lateness_{name}_ms"] for name in ("p50", "p99", "max"))
        found.append(Found("the same by INFO", f"median {p50} ms, p99 {p99} ms, longest {most} ms"))
    with Server(kind, module=False, config=SETTINGS | {"notify-keyspace-events": "Ex"}) as server:
        client, other = server.client(), server.client()
        fill_keys(client, count, 60)
        batches = list(_renewals(count))
        with Outside("listen", server.socket, "__keyevent@0__:expired") as ears:
            sent = _load(client, other, steps, batches, BATCH, _ttl)
            _wait(client, patience, lambda c: c("DBSIZE") > count)
        found.append(_judge(f"`expired` of keys: {load}", sent, ears.saw, patience, None))
    return found


def _renewals(count: int) -> Iterator[bytes]:
    """The same load with a key for each member."""
    for at in range(0, count, BATCH):
        yield b"".join(encode(("SET", f"k:{n:012d}", "v", "EX", 60)) for n in range(at, at + BATCH))


def idle(kind: str, scale: Scale) -> list[Found]:
    """Processor time of a server that is left alone."""
    span = 1 if scale.short else 20
    say(f"idle: {scale.many:,} present, {span} s")
    shares = {}
    for what, module in (("present", True), ("nobody", True), ("without", False)):
        with Server(kind, module=module, config=SETTINGS) as server, server.client() as client:
            if what == "present":
                fill_room(client, "room", scale.many)
            time.sleep(0.5)
            before, began = cpu_seconds(client), time.monotonic()
            time.sleep(span)
            shares[what] = (cpu_seconds(client) - before) / (time.monotonic() - began) * 100
    return [
        Found(
            f"idle, {scale.many:,} present",
            f"{shares['present']:.2f} % of a core",
            f"nobody present: {shares['nobody']:.2f} %, without the module: {shares['without']:.2f} %",
            shares["present"],
            1.0,
            most=True,
            unit=" %",
        )
    ]
