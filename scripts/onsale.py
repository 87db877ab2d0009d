#!/usr/bin/env python3
"""The on-sale: one Redis (or a cluster), gateways, and a day's audience in two minutes.

Starts them, has the generator (onsale/) play the audience and judge what it was told, kills one gateway in the middle, says
each second how it stands, and prints tables at the end: docs/onsale.md says how to read them. Exits with 1 if a promise was
not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests"))

from harness import KINDS, Server  # noqa: E402
from harness.cluster import Cluster, slot_of  # noqa: E402
from harness.gateway import GATEWAY, Gateway  # noqa: E402

GENERATOR = GATEWAY.parent / "presence-onsale"
ROOM = "sale:42"
SECRET = "known to the gateways and to the generator"
CONFIG = {"notify-keyspace-events": "Ed", "client-output-buffer-limit": "pubsub 256mb 64mb 60", "maxclients": "1000"}
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Plan:
    """How large and how long; what is not said follows from the size and the seconds."""

    size: int = 200_000
    seconds: int = 120
    gateways: int = 12
    cluster: bool = False
    server: str = "redis-7.0"
    kill: bool = True
    sockets: int = 0
    friends: int = 0
    late_ms: int = 1_000
    error: float = 1.0
    seed: int = 42

    def __post_init__(self) -> None:
        self.sockets = self.sockets or min(12_500, self.size // 8)
        self.friends = self.friends or min(4_000, self.sockets // 2)

    def words(self) -> list[str]:
        """For the generator. Shorter shows have shorter timeouts, so that silent departures end within them."""
        numbers = {
            "size": self.size,
            "seconds": self.seconds,
            "sockets": self.sockets,
            "friends": self.friends,
            "doors": max(4, self.seconds // 4),
            "timeout": self.seconds * 1000 // 6,
            "grace": self.seconds * 1000 // 6,
            "count-every": max(250, self.seconds * 1000 // 120),
            "late": self.late_ms,
            "seed": self.seed,
        }
        words = ["--error", str(self.error)]
        return words + [word for name, number in numbers.items() for word in (f"--{name}", str(number))]


def cpu(pid: int) -> float:
    """Seconds of processor time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Processor:
    """Who used how much of it between two moments."""

    def __init__(self, servers: list[Server], room: Server, gateways: list[Gateway], generator: int):
        self._servers, self._room, self._gateways, self._generator = servers, room, gateways, generator
        self._last: dict[Gateway, float] = {}
        self._before, self._at = self._now(), time.monotonic()

    def _gateway(self, gateway: Gateway) -> float:
        """After its death what was known last."""
        if gateway.alive:
            self._last[gateway] = cpu(gateway.process.pid)
        return self._last.get(gateway, 0.0)

    def _now(self) -> dict[str, list[float]]:
        return {
            "room": [cpu(self._room.pid)],
            "servers": [cpu(server.pid) for server in self._servers],
            "gateways": [self._gateway(gateway) for gateway in self._gateways],
            "generator": [cpu(self._generator)],
        }

    def percent(self) -> dict[str, list[float]]:
        """Of one processor, since this was made."""
        seconds = max(time.monotonic() - self._at, 0.001)
        now = self._now()
        return {who: [100 * (b - a) / seconds for a, b in zip(self._before[who], now[who])] for who in now}


@dataclass
class Played:
    """What came of it."""

    plan: Plan
    report: dict[str, Any] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    @property
    def broken(self) -> list[str]:
        return list(self.report["broken"])


def play(plan: Plan, said: bool = True) -> Played:
    """Everything, from the first server to the last table."""
    if not GENERATOR.exists():
        raise RuntimeError(f"{GENERATOR} is missing; `cargo build -p presence-onsale` makes it")
    # Thousands of sockets in the generator and in the gateways, which inherit it.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        servers: list[Server] = []

        def start(config: dict[str, str] | None = None, **options: Any) -> Server:
            servers.append(stack.enter_context(Server(plan.server, config=CONFIG | (config or {}), **options)))
            return servers[-1]

        if plan.cluster:
            cluster = Cluster(start)
            room = cluster.owner(slot_of(ROOM)).server
        else:
            room = start(port=0)
        options = ["--crowd", *(["--cluster"] if plan.cluster else [])]
        gateways = []
        for _ in range(plan.gateways):
            gateways.append(Gateway(servers, options, SECRET))
            stack.callback(gateways[-1].close)
        command = [str(GENERATOR), *plan.words(), "--room", ROOM, "--redis", f"redis://127.0.0.1:{room.port}"]
        command += ["--gateways", ",".join(f"127.0.0.1:{gateway.port}" for gateway in gateways)]
        if plan.cluster:
            command += ["--cluster", ",".join(f"redis://127.0.0.1:{server.port}" for server in servers)]
        generator = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"GATEWAY_SECRET": SECRET}, text=True)
        stack.callback(lambda: (generator.kill(), generator.wait()))
        played = Played(plan)
        watch(played, generator, servers, room, gateways, said)
        if generator.wait() == 2 or not played.report:
            raise RuntimeError("the generator gave up\n" + "\n".join(gateway.log()[-500:] for gateway in gateways))
        for gateway in gateways[int(plan.kill) :]:
            if not gateway.alive or gateway.stop():
                raise RuntimeError(f"a gateway ended by itself, or with an error\n{gateway.log()}")
        return played


def watch(
    played: Played,
    generator: subprocess.Popen[str],
    servers: list[Server],
    room: Server,
    gateways: list[Gateway],
    said: bool,
) -> None:
    """Hears the generator until its end, and does what is to be done from outside."""
    whole = second = Processor(servers, room, gateways, generator.pid)
    beats = 0
    assert generator.stdout is not None
    for text in generator.stdout:
        message = json.loads(text)
        kind = message["type"]
        if kind == "second":
            line = message["line"]
            if said:
                print(line_of(line, line["tally"]["beats"] - beats, second.percent()), flush=True)
                second = Processor(servers, room, gateways, generator.pid)
            beats = line["tally"]["beats"]
        elif kind == "opened":
            whole, beats = Processor(servers, room, gateways, generator.pid), 0
            say(said, "the doors are open, the room is full: from here on it is judged")
        elif kind == "half" and played.plan.kill:
            whole.percent()  # what it used until now
            gateways[0].process.kill()
            say(said, f"one of {len(gateways)} gateways is killed")
        elif kind == "closed":
            played.processor = whole.percent()
        elif kind == "report":
            played.report = message["report"]


def say(said: bool, text: str) -> None:
    if said:
        print(f"-- {text}", flush=True)


def line_of(line: dict[str, Any], beats: int, percent: dict[str, list[float]]) -> str:
    tally = line["tally"]
    count = "" if line["count"] is None else f"  told {line['count']:,} ({100 * line['error']:.2f} %)"
    return (
        f"{line['at']:5.0f} s  {line['there']:,} there{count}  {line['sockets']:,} sockets"
        f"  came {tally['arrivals']:,}  left {tally['goodbyes']:,} + {tally['silent']:,}  tunnels {tally['tunnels']:,}"
        f"  {max(beats, 0):,} beats  {line['messages']:,} messages  {line['false_departures']} false"
        f"  Redis {sum(percent['servers']):.0f} %  gateways {sum(percent['gateways']):.0f} %"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(played: Played) -> str:
    """Everything that came of it, for people and for docs/onsale.md."""
    report, plan = played.report, played.plan
    tally, server, seconds = report["tally"], report["server"], report["seconds"]
    badges, dots, departures = report["badges"], report["dots"], report["departures"]
    rate = lambda number: f"{number / seconds:,.0f}" if number >= 10 * seconds else f"{number / seconds:,.1f}"
    percent = lambda part: f"{100 * part:.2f} %"
    least, most = report["there"]
    head = (
        f"{seconds:.0f} s, {least:,} to {most:,} viewers, {report['sockets']['least']:,} to {report['sockets']['most']:,} of them with a"
        f" WebSocket each, {plan.gateways} gateways, {plan.server}{', cluster of 3 + 3' if plan.cluster else ''}, {os.cpu_count()} processors."
    )
    happened = (
        f"{tally['arrivals']:,} came, {tally['goodbyes']:,} said goodbye, {tally['silent']:,} went without a word, {tally['tunnels']:,} were in a"
        f" tunnel; {tally['cut']:,} lost their gateway"
        + (f", the last of whom was welcomed elsewhere {report['refuge_ms'] / 1000:.1f} s later." if report["refuge_ms"] else ".")
    )
    truth = table(
        ["against the truth", ""],
        [
            ["false departures", f"{departures['wrong']}"],
            ["departures not announced", f"{departures['missing']}"],
            [f"{badges['broadcasts']} broadcast counts: greatest error", percent(badges["error"])],
            ["mean error", percent(badges["mean_error"])],
            [f"greatest error without those who are rightly counted still (at most {badges['ghosts']:,})", percent(badges["unexplained"])],
            ["badges on phones that were no rounding of a count, or old at the end", f"{badges['wrong']}, {badges['stale']}"],
            ["dots wrong, not told, or not right at the end", f"{dots['wrong']}, {dots['missing']}, {dots['stale']}"],
        ],
    )
    channels = table(
        ["messages a second", "published", "to phones"],
        [
            ["count", rate(server["messages_count"]), rate(badges["messages"])],
            ["member", rate(server["messages_member"]), rate(dots["messages"])],
            ["keyspace events of departures", rate(departures["messages"]), ""],
            ["beats, from the viewers", rate(tally["beats"]), ""],
            ["beats, at Redis", rate(server["beats"]), ""],
        ],
    )
    times = {
        "badge, from the broadcast that changed it to the phone": badges["late"],
        "dot of a friend who came, from the welcome": dots["came"],
        "dot of a friend who said goodbye": dots["left"],
        "dot of a friend who went without a word, from when it was due": dots["silent"],
        "first dots of a screen, from the question": dots["first"],
        "event of a goodbye, from the phone to the service": departures["left"],
        "event of a silent departure, from when it was due": departures["silent"],
    }
    late = table(
        ["late, ms", "number", "median", "99 of 100", "most"],
        [[what, f"{s['number']:,}", *(f"{s[n]:,.0f}" for n in ("p50", "p99", "max"))] for what, s in times.items()],
    )
    used = played.processor
    cluster = [["all six nodes", f"{sum(used['servers']):.0f} %"]] if plan.cluster else []
    alive = [percent for percent in used["gateways"][1 if plan.kill else 0 :]]
    processor = table(
        ["of one processor", ""],
        [
            ["Redis" + (", the node that has the room" if plan.cluster else ""), f"{used['room'][0]:.0f} %"],
            *cluster,
            [f"all {plan.gateways} gateways", f"{sum(used['gateways']):.0f} %"],
            ["one of them, least and most", f"{min(alive):.1f} to {max(alive):.1f} %"],
            ["the generator", f"{used['generator'][0]:.0f} %"],
        ],
    )
    deaf = sum(ms for name, ms in server.items() if name.startswith("deaf_ms_"))
    behind = (
        f"The generator itself was {report['behind_ms']:.0f} ms behind at most. Redis stood still for {deaf:,} ms, which is nobody's"
        " silence: silent departures are due so much later."
    )
    return "\n\n".join([head, happened, truth, channels, late, processor, behind])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=200_000, help="viewers")
    parser.add_argument("--seconds", type=int, default=120, help="that are judged; 12 at least")
    parser.add_argument("--gateways", type=int, default=12)
    parser.add_argument("--sockets", type=int, default=0, help="viewers with a WebSocket each")
    parser.add_argument("--friends", type=int, default=0, help="of these, those who watch eight friends")
    parser.add_argument("--cluster", action="store_true", help="three primaries with a replica each")
    parser.add_argument("--server", choices=KINDS, default="redis-7.0")
    parser.add_argument("--late-ms", type=int, default=1_000, help="what 99 of 100 badges and dots may be late")
    parser.add_argument("--error", type=float, default=1.0, help="greatest error of a broadcast count, in percent of the truth")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", type=Path, help="where to put all figures")
    options = vars(parser.parse_args())
    path = options.pop("json")
    played = play(Plan(**options))
    print("\n" + tables(played))
    if path:
        path.write_text(json.dumps({"report": played.report, "processor": played.processor}, indent=1))
    for trouble in played.broken:
        print(f"NO: {trouble}")
    for what in played.report["wrong"] if played.broken else []:
        print(f"    {what}")
    return 1 if played.broken else 0


if __name__ == "__main__":
    sys.exit(main())
