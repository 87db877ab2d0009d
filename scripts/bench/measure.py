"""How everything here is measured: redis-benchmark against one server, kinds of request in turn, medians, and ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests"))

from harness import Connection, Server  # noqa: E402

NOOP = Path(__file__).resolve().parent / "noop.c"
# As long as the module takes: nobody leaves during a benchmark.
STAY = ("TIMEOUT", 86_400_000)
SETTINGS = {"appendonly": "no", "notify-keyspace-events": "", "maxmemory": "0"}


class Load(NamedTuple):
    """How redis-benchmark asks: requests on the way at once on each of the connections, and how many in all."""

    pipeline: int
    clients: int
    requests: int


class Rate(NamedTuple):
    """Requests a second, and processor time of the server's main thread for one, in µs."""

    rps: float
    cpu_us: float


class Found(NamedTuple):
    """One line of the result. `ratio` is held against `target`, from below or (`most`) from above."""

    what: str
    figure: str
    against: str = ""
    ratio: float | None = None
    target: float | None = None
    most: bool = False
    spread: str = ""
    unit: str = " ×"

    @property
    def met(self) -> bool | None:
        if self.ratio is None or self.target is None:
            return None
        return self.ratio <= self.target if self.most else self.ratio >= self.target


def say(text: str) -> None:
    """Progress, where a person waits for it."""
    print(f"  {text}", file=sys.stderr, flush=True)


@contextmanager
def noop_module(folder: Path) -> Iterator[Path]:
    """The module that does nothing, built."""
    library = folder / "noop.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, NOOP], check=True)
    yield library


def info(client: Connection, section: str) -> dict[str, str]:
    """A section of INFO."""
    return dict(line.split(":", 1) for line in client("INFO", section).decode().splitlines() if ":" in line)


def used_memory(client: Connection) -> int:
    """Bytes that the server has allocated."""
    return int(info(client, "memory")["used_memory"])


def cpu_seconds(client: Connection) -> float:
    """User and system time of the server's main thread."""
    fields = info(client, "cpu")
    # Valkey 9 has used_active_time_main_thread beside these.
    return sum(float(fields[f"used_cpu_{kind}_main_thread"]) for kind in ("user", "sys"))


def requests_per_second(output: str) -> float:
    """What redis-benchmark --csv says of one command. Its name comes first, and may hold commas."""
    return float(output.splitlines()[-1].split(",")[-7].strip('"'))


def ask(server: Server, load: Load, *command: Any, random: int = 1, db: int = 0) -> Rate:
    """One round of redis-benchmark; each `__rand_int__` in the command becomes 12 random digits below `random`."""
    line = ["redis-benchmark", "-s", server.socket, "--csv", "--dbnum", str(db), "-r", str(random)]
    line += ["-n", str(load.requests), "-P", str(load.pipeline), "-c", str(load.clients)]
    with server.client() as client:
        before = cpu_seconds(client)
        run = subprocess.run([*line, *map(str, command)], capture_output=True, text=True, check=True)
        spent = cpu_seconds(client) - before
    if "rror" in run.stdout + run.stderr:
        raise SystemExit(f"bench: {command[0]} failed: {(run.stdout + run.stderr).strip()[:300]}")
    return Rate(requests_per_second(run.stdout), spent / load.requests * 1e6)


def take_turns(rounds: int, kinds: Mapping[str, Callable[[], Rate]]) -> dict[str, list[Rate]]:
    """Rounds of each kind, one after the other and again, so that a machine that slows down slows all of them down."""
    rates: dict[str, list[Rate]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, once in kinds.items():
            rates[name].append(once())
    return rates


def median(rates: Sequence[Rate]) -> Rate:
    return Rate(statistics.median(r.rps for r in rates), statistics.median(r.cpu_us for r in rates))


def per_second(rps: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rps >= size:
            return f"{rps / size:.3g} {unit}/s"
    return f"{rps:.3g} /s"


def compare(what: str, ours: str, rates: Mapping[str, Sequence[Rate]], targets: Mapping[str, float | None], items: int = 1) -> list[Found]:
    """Ours beside each of the others by requests a second; the spread is that of the ratios of the single rounds."""
    mine = median(rates[ours])
    found = []
    for name, target in targets.items():
        theirs = median(rates[name])
        ratios = [a.rps / b.rps for a, b in zip(rates[ours], rates[name])]
        found.append(
            Found(
                what,
                f"{per_second(mine.rps * items)}, {mine.cpu_us / items:.2f} µs",
                f"{name}: {per_second(theirs.rps * items)}, {theirs.cpu_us / items:.2f} µs",
                mine.rps / theirs.rps,
                target,
                spread=f"{min(ratios):.2f}–{max(ratios):.2f}",
            )
        )
    return found
