#!/usr/bin/env python3
"""What servers go through, on real ones: who beats is never announced gone, who left is, and once.

In each scenario 100 members beat, each over a connection of its own, through whatever happens to the servers. 20 others
have fallen silent just before, and 20 have said goodbye. A false departure is a member announced gone, or brought back by
a beat, who had beaten all along; a ghost is one who left and was not announced within 2 x timeout + grace in which the
server could hear (or stayed in the count); a double announcement is the same going told twice by one server, or by two
shards. Exits with 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from scenarios import SCENARIOS, Outcome, Scenario, play

FOUR = "redis-7.0,redis-8.2,valkey-8.1,valkey-9.1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3, help="begin another round while less has passed (default 3)")
    parser.add_argument("--servers", default=FOUR, help=f"which, comma-separated (default {FOUR})")
    parser.add_argument("--only", default="", help="scenarios whose name has this")
    parser.add_argument("--at-once", type=int, default=2, help="how many are played at the same time (default 2)")
    options = parser.parse_args()
    began, failed, played = time.monotonic(), 0, 0
    print(f"{'server':12} {'scenario':26} {'false':>6} {'ghosts':>7} {'double':>7}   ok", flush=True)

    def one(kind: str, scenario: Scenario) -> bool:
        try:
            outcome = play(kind, scenario)
        except Exception as failure:  # whatever it is, the scenario is not proved
            outcome = Outcome(trouble=f"{type(failure).__name__}: {str(failure)[:200]}")
        verdict = "ok" if outcome else f"NO {outcome.trouble}".rstrip()
        figures = f"{outcome.false:6} {outcome.ghosts:7} {outcome.twice:7}"
        print(f"{kind:12} {scenario.name:26} {figures}   {verdict}", flush=True)
        return bool(outcome)

    servers = options.servers.split(",")
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    work = [(kind, scenario) for scenario in chosen for kind in servers if kind in scenario.only or not scenario.only]
    with ThreadPoolExecutor(options.at_once) as pool:
        while not played or time.monotonic() - began < options.minutes * 60:
            # A round that began is played to its end, unless it is a repetition and time is up.
            again = played > 0
            results = pool.map(lambda w: None if again and time.monotonic() - began > options.minutes * 60 else one(*w), work)
            done = [good for good in results if good is not None]
            played += len(done)
            failed += done.count(False)
    print(f"{played} scenarios in {time.monotonic() - began:.0f} s, {failed} not as promised")
    return 1 if failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
