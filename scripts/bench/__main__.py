"""What the module costs and gives, beside what a server can do at best and beside what is run instead. See docs/benchmarks.md.

Prints a table, and writes it to a folder with a picture. A number fails nothing; a part that breaks is told at the end, and
is the exit status.
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import signal
import sys
import time
import traceback
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Iterator, Sequence

import measure  # first: it puts the tests' harness on the path
import report
from harness import KINDS
from machine import commit, machine, versions
from parts import PARTS
from report import Outcome, Run
from requests import Scale

SERVERS = "redis-7.0,valkey-9.1"
# What one part may take on one server, in seconds, before it is given up.
LIMIT_S = 1_800
LAST = measure.PROJECT / "target/bench.pickle"


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not ready after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(name: str, kind: str, scale: Scale, of: str) -> Outcome:
    """One part on one server, whatever happens to it."""
    started = time.monotonic()
    found, error = [], ""
    try:
        with limited(LIMIT_S):
            found = PARTS[name].run(kind, scale)
    except (Exception, SystemExit) as failure:
        traceback.print_exc()
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return Outcome(found, error, time.monotonic() - started, datetime.now(timezone.utc), of, scale.rounds)


def chosen(text: str, of: Sequence[str], what: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(of):
        raise SystemExit(f"bench: no {what} {', '.join(sorted(unknown))}; there are {', '.join(of)}")
    return names


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default=SERVERS, help="kinds, as in tests/harness (%(default)s)")
    parser.add_argument("--rounds", type=int, help="rounds of each kind of request (5; short: 1)")
    parser.add_argument("--short", action="store_true", help="small sizes: whether it works, not how quick it is")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PARTS", help="of %(default)s")
    parser.add_argument("--add", action="store_true", help="to the results of the run before, which this one replaces in part")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write the page and the picture here (docs, unless short or in part)")
    asked = parser.parse_args(arguments)
    if asked.short and asked.add:
        parser.error("short runs are not kept, so nothing can be added to them")
    return asked


def main() -> int:
    asked = options()
    kinds = chosen(asked.servers, list(KINDS), "server")
    names = chosen(asked.only, list(PARTS), "part")
    if shutil.which("redis-benchmark") is None:
        raise SystemExit("bench: redis-benchmark is missing; `scripts/install.sh run` brings it")
    scale = Scale(asked.short)
    scale.rounds = asked.rounds or scale.rounds
    of, on = commit(), machine()
    outcomes: dict[tuple[str, str], Outcome] = {}
    if asked.add and LAST.exists():
        outcomes = pickle.loads(LAST.read_bytes())
    for kind in kinds:
        for name in names:
            measure.say(f"{kind}: {name}")
            outcomes[kind, name] = outcome(name, kind, scale, of)
            if not asked.short:
                LAST.parent.mkdir(exist_ok=True)
                LAST.write_bytes(pickle.dumps(outcomes))
    places = [(kind, name) for kind in KINDS for name in PARTS]
    outcomes = {place: outcomes[place] for place in places if place in outcomes}
    run = Run(on, versions(list(dict.fromkeys(kind for kind, _ in outcomes))), asked.short, outcomes)
    print(report.text(run))
    everything = all((kind, name) in outcomes for kind in SERVERS.split(",") for name in PARTS)
    if folder := asked.out or (measure.PROJECT / "docs" if everything and not asked.short else None):
        report.write(run, folder)
    return 1 if any(result.error for result in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
