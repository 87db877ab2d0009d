"""Where the time of a request goes: instructions by valgrind's callgrind, which no noise of the machine changes, and
shares of the server's time by perf, where that is there and allowed.

A server with the module holds `--members` members in one room; redis-benchmark asks for random ones of them. Instructions
are counted for one item (a beat, a member of a batch) and summed up by what they belong to.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

BENCH = Path(__file__).resolve().parent / "bench"
sys.path[:0] = [str(BENCH), str(BENCH.parents[1] / "tests")]

from filling import fill_room  # noqa: E402
from harness import MODULE, Connection, Server  # noqa: E402
from measure import SETTINGS, noop_module  # noqa: E402

DIGITS = "m:__rand_int__"
# What is asked, and how many items of it one request has.
ASKED = {
    "no-op": (("NOOP", "room", DIGITS), 1),
    "beat": (("PRESENCE.BEAT", "room", DIGITS), 1),
    "mbeat": (("PRESENCE.MBEAT", "room", "MEMBERS", *[DIGITS] * 32), 32),
    "count": (("PRESENCE.COUNT", "room"), 1),
    "friends": (("PRESENCE.FRIENDS", "room", "viewer", *[DIGITS] * 200), 200),
}
# The first that is found in the name of a function or its file tells what its time is for.
PARTS = (
    ("hash of the id", r"siphasher|Table::hash"),
    ("lookup", r"presence_engine::table|memchr::|memcmp"),
    ("room", r"presence_engine::"),
    ("module", r"presence::|libpresence"),
    ("allocator", r"jemalloc|malloc|cfree|_int_free"),
    ("clock", r"gettime|gettimeofday|Monotonic"),
    ("kernel", r"\[k\]"),
    ("server", r""),
)


def part_of(name: str) -> str:
    return next(part for part, words in PARTS if re.search(words, name))


def benchmark(socket: str, what: str, members: int, items: int) -> None:
    command, size = ASKED[what]
    line = ["redis-benchmark", "-s", socket, "-q", "-r", str(members), "-n", str(max(items // size, 100))]
    subprocess.run([*line, "-P", "16", "-c", "8", *command], stdout=subprocess.DEVNULL, check=True)


def show(title: str, shares: Counter[str], unit: str) -> None:
    print(f"\n{title}")
    for part, share in shares.most_common():
        print(f"  {share:8,.1f} {unit}  {part}")
    print(f"  {sum(shares.values()):8,.1f} {unit}  in all", flush=True)


def instructions(what: str, members: int) -> None:
    """Under callgrind, which sees every instruction and takes fifty times as long."""
    with tempfile.TemporaryDirectory(prefix="pr-") as base, noop_module(Path(base)) as noop:
        socket, out = f"{base}/s", f"{base}/out"
        load = ["--loadmodule", noop, "--loadmodule", MODULE]
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--instr-atstart=no"]
        server = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", base]
        process = subprocess.Popen([*valgrind, *server, *load], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client = connect(socket, process)
            fill_room(client, "room", members)
            items = 50_000
            control = ["callgrind_control", "-i"]
            subprocess.run([*control, "on", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            benchmark(socket, what, members, items)
            subprocess.run([*control, "off", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            client.close()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        annotated = subprocess.run(
            ["callgrind_annotate", "--threshold=100", "--auto=no", out], capture_output=True, text=True, check=True
        ).stdout
    shares: Counter[str] = Counter()
    for line in annotated.splitlines():
        if (found := re.match(r"\s*([\d,]+) \([^)]*%\)\s+(\S+:.*)", line)) and "PROGRAM TOTALS" not in line:
            shares[part_of(found[2])] += int(found[1].replace(",", "")) / items
    show(f"{what}: instructions for one item, {members:,} members", shares, "instructions")


def connect(socket: str, process: subprocess.Popen[bytes]) -> Connection:
    deadline = time.monotonic() + 60
    while True:
        try:
            return Connection(socket)
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("profile: the server under valgrind does not start") from None
            time.sleep(0.1)


def shares_of_time(what: str, kind: str, members: int, items: int) -> None:
    """By samples of the server's main thread while it is asked."""
    with tempfile.TemporaryDirectory(prefix="pr-") as base, noop_module(Path(base)) as noop:
        with Server(kind, config=SETTINGS | {"loadmodule": str(noop)}) as server:
            with server.client() as client:
                fill_room(client, "room", members)
            data = f"{base}/data"
            record = ["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", "2000", "-p", str(server.pid)]
            sampler = subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            benchmark(server.socket, what, members, items)
            sampler.send_signal(signal.SIGINT)
            sampler.wait(60)
        report = ["perf", "report", "-i", data, "--no-children", "--stdio", "-g", "none"]
        told = subprocess.run(report, capture_output=True, text=True).stdout
    shares: Counter[str] = Counter()
    for line in told.splitlines():
        if found := re.match(r"\s*([\d.]+)%\s+(.*)", line):
            shares[part_of(found[2])] += float(found[1])
    if not shares:
        print("\nprofile: perf tells nothing here; it may need permission (kernel.perf_event_paranoid)")
        return
    show(f"{what}: shares of the server's time, {members:,} members, {kind}", shares, "%")


def main() -> None:
    options = argparse.ArgumentParser(description="Where the time of a request goes.")
    options.add_argument("what", nargs="*", default=["beat", "mbeat"], help=f"of {', '.join(ASKED)} (beat mbeat)")
    options.add_argument("--members", type=int, default=1_000_000, help="for perf (%(default)s); callgrind takes 20,000")
    options.add_argument("--server", default="redis-7.0", help="kind of server for perf (%(default)s)")
    chosen = options.parse_args()
    if unknown := set(chosen.what) - set(ASKED):
        options.error(f"unknown: {', '.join(sorted(unknown))}")
    for tool in ("valgrind", "perf"):
        if shutil.which(tool) is None:
            print(f"profile: {tool} is missing; on Debian it is in the package {'linux-perf' if tool == 'perf' else tool}")
    for what in chosen.what:
        if shutil.which("valgrind"):
            instructions(what, 20_000)
        if shutil.which("perf"):
            shares_of_time(what, chosen.server, chosen.members, 3_000_000)


if __name__ == "__main__":
    main()
