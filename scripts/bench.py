"""What a beat costs beside what plain Redis would do instead: one server, one run, the same members, depth and clients.

200,000 members are in one room, in one sorted set, and in one key each with a TTL; redis-benchmark then renews random
ones of them, in rounds that take turns (PRESENCE.BEAT, SET … EX, ZADD, and again), so that a machine that slows down
slows all three down. Medians are compared, in requests a second and in the server's own processor time a request: the
latter is the steadier on a machine that does other things too, and leaves redis-benchmark out.

SET runs in a database of its own that is filled before each round and flushed after it, so that keys which expire in
the meantime are neither missed by it nor a burden on the others. ZADD gets random scores, so that it moves the member
as a heartbeat's growing score does.

The targets (a beat at least 1.5 times as quick as SET … EX and 3 times as quick as ZADD) are for pipelined requests:
without a pipeline all three cost little beside the system calls of receiving and answering. `--check` makes them the
exit status.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "tests"))

from harness import Connection, Server  # noqa: E402
from harness.resp import encode  # noqa: E402

MEMBERS = 200_000
BATCH = 4_000
SET_DB = 1
SET_TARGET, ZADD_TARGET = 1.5, 3.0
SESSION = "s-0123456789"  # 12 bytes
# As long as the module takes: nobody leaves during a benchmark.
STAY = ("TIMEOUT", 86_400_000)


class Depth(NamedTuple):
    """How redis-benchmark asks."""

    pipeline: int
    clients: int
    requests: int


PIPELINED = Depth(100, 8, 500_000)  # deep enough that commands are measured, not system calls
PLAIN = Depth(1, 50, 60_000)


class Rate(NamedTuple):
    """Requests a second, and the server's processor time for one, in µs."""

    rps: float
    cpu_us: float


def cpu_seconds(client: Connection) -> float:
    """User and system time of the server's main thread."""
    fields = dict(line.split(":", 1) for line in client("INFO", "cpu").decode().splitlines() if ":" in line)
    main = [float(v) for k, v in fields.items() if k.endswith("_main_thread")]
    return sum(main or [float(fields["used_cpu_user"]), float(fields["used_cpu_sys"])])


def ask(server: Server, client: Connection, depth: Depth, *command: object, db: int = 0) -> Rate:
    """One round of redis-benchmark; `__rand_int__` in the command becomes 12 random digits below MEMBERS."""
    line = ["redis-benchmark", "-s", server.socket, "--csv", "--dbnum", str(db), "-r", str(MEMBERS)]
    line += ["-n", str(depth.requests), "-P", str(depth.pipeline), "-c", str(depth.clients)]
    before = cpu_seconds(client)
    run = subprocess.run([*line, *map(str, command)], capture_output=True, text=True, check=True)
    spent = cpu_seconds(client) - before
    if "rror" in run.stdout + run.stderr:
        raise SystemExit(f"bench: {command[0]} failed: {(run.stdout + run.stderr).strip()[:300]}")
    return Rate(float(run.stdout.splitlines()[-1].split(",")[-7].strip('"')), spent / depth.requests * 1e6)


def ids(prefix: str = "m:") -> list[str]:
    """The ids that redis-benchmark will make of `m:__rand_int__`."""
    return [f"{prefix}{n:012d}" for n in range(MEMBERS)]


def chunks(names: Sequence[str], size: int = BATCH) -> Iterable[Sequence[str]]:
    return (names[at : at + size] for at in range(0, len(names), size))


def join(client: Connection, room: str, members: Sequence[str], session: str | None = None) -> None:
    """All members into a new room, for a day."""
    client("PRESENCE.CREATE", room, *STAY)
    for some in chunks(members):
        if session is None:
            client("PRESENCE.MBEAT", room, "MEMBERS", *some)
        else:
            client("PRESENCE.MBEAT", room, "SESSIONS", *(word for member in some for word in (member, session)))
    if client("PRESENCE.COUNT", room) != len(members):
        raise SystemExit(f"bench: {room} has {client('PRESENCE.COUNT', room)} members of {len(members)}")


def median(rates: Sequence[Rate]) -> Rate:
    return Rate(statistics.median(r.rps for r in rates), statistics.median(r.cpu_us for r in rates))


def compare(server: Server, client: Connection, filling: bytes, depth: Depth, rounds: int) -> tuple[float, float]:
    """Prints the three side by side; returns how many times as quick as SET and ZADD a beat is, by requests a second."""
    rates: dict[str, list[Rate]] = {"BEAT": [], "SET": [], "ZADD": []}
    other = server.client(db=SET_DB)
    for number in range(rounds):
        print(f"\rround {number + 1} of {rounds} ", end="", file=sys.stderr, flush=True)
        rates["BEAT"].append(ask(server, client, depth, "PRESENCE.BEAT", "room", "m:__rand_int__"))
        other.send_raw(filling)
        left = len(b"+OK\r\n") * MEMBERS
        while left:
            left -= len(other.socket.recv(min(left, 1 << 18)))
        rates["SET"].append(ask(server, client, depth, "SET", "k:__rand_int__", "v", "EX", 30, db=SET_DB))
        other("FLUSHDB", "SYNC")
        rates["ZADD"].append(ask(server, client, depth, "ZADD", "z", "__rand_int__", "m:__rand_int__"))
    print("\r" + " " * 20 + "\r", end="", file=sys.stderr)
    other.close()
    middle = {name: median(some) for name, some in rates.items()}
    beat = middle["BEAT"]
    print(f"\n{depth.clients} clients, {depth.pipeline} requests at once, {rounds} rounds of {depth.requests:,} each; medians")
    for name, label in (("BEAT", "PRESENCE.BEAT room m"), ("SET", "SET k v EX 30"), ("ZADD", "ZADD z score m")):
        rate = middle[name]
        spread = f"{min(r.rps for r in rates[name]) / 1000:,.0f}k to {max(r.rps for r in rates[name]) / 1000:,.0f}k"
        line = f"  {label:22} {rate.rps / 1000:7,.0f}k/s ({spread})  {rate.cpu_us:6.2f} µs of the server's"
        if name != "BEAT":
            line += f"   BEAT is {beat.rps / rate.rps:.2f} times as quick ({rate.cpu_us / beat.cpu_us:.2f} by processor time)"
        print(line, flush=True)
    return beat.rps / middle["SET"].rps, beat.rps / middle["ZADD"].rps


def others(server: Server, client: Connection, rounds: int) -> None:
    """Beats of other kinds, for which plain Redis has no single command."""
    join(client, "named", ids(), SESSION)
    named = median(
        [ask(server, client, PIPELINED, "PRESENCE.BEAT", "named", "m:__rand_int__", "SESSION", SESSION) for _ in range(rounds)]
    )
    print(f"\n  BEAT with SESSION      {named.rps / 1000:7,.0f}k/s, {named.cpu_us:.2f} µs of the server's")
    size = 500
    batch = ["PRESENCE.MBEAT", "room", "MEMBERS", *["m:__rand_int__"] * size]
    rates = median([ask(server, client, Depth(4, 4, 4_000), *batch) for _ in range(rounds)])
    each = rates.cpu_us / size
    print(
        f"  MBEAT of {size}           {rates.rps * size / 1e6:7.2f}M members/s as fast as redis-benchmark makes them up, "
        f"{each:.2f} µs of the server's each ({1 / each:.2f}M/s)"
    )


def memory(client: Connection) -> None:
    """What a member costs, by used_memory, with all that the room has besides (the day's uniques: up to 14 KB)."""

    def used() -> int:
        fields = dict(line.split(":", 1) for line in client("INFO", "memory").decode().splitlines() if ":" in line)
        return int(fields["used_memory"])

    members = ids("")
    print()
    for label, session in (("no session named", None), ("one named session of 12 bytes", SESSION)):
        before = used()
        join(client, "measured", members, session)
        each = (used() - before) / MEMBERS
        print(f"  memory: {each:.1f} bytes a member with an id of 12 bytes, {label} ({each - 12:.1f} beside the id)")
        client("DEL", "measured")


def main() -> int:
    options = argparse.ArgumentParser(description="A beat beside SET … EX and ZADD.")
    options.add_argument("--check", action="store_true", help="fail if the ratios are below the targets")
    options.add_argument("--rounds", type=int, default=5, help="rounds of each kind (%(default)s)")
    options.add_argument("--server", default="redis-7.0", help="kind of server, as in tests/harness (%(default)s)")
    chosen = options.parse_args()
    if shutil.which("redis-benchmark") is None:
        raise SystemExit("bench: redis-benchmark is missing; `scripts/install.sh run` brings it")
    settings = {"appendonly": "no", "notify-keyspace-events": "", "maxmemory": "0"}
    with Server(chosen.server, config=settings) as server:
        client = server.client()
        memory(client)
        members = ids()
        join(client, "room", members)
        for some in chunks(members):
            client("ZADD", "z", *(word for n, member in enumerate(some) for word in (n, member)))
        filling = b"".join(encode(("SET", f"k:{n:012d}", "v", "EX", 30)) for n in range(MEMBERS))
        to_set, to_zadd = compare(server, client, filling, PIPELINED, chosen.rounds)
        compare(server, client, filling, PLAIN, chosen.rounds)
        others(server, client, chosen.rounds)
    met = to_set >= SET_TARGET and to_zadd >= ZADD_TARGET
    print(
        f"\nPipelined, a beat is {to_set:.2f} times as quick as SET … EX (target {SET_TARGET}) "
        f"and {to_zadd:.2f} times as quick as ZADD (target {ZADD_TARGET}): {'met' if met else 'NOT MET'}"
    )
    return 1 if chosen.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
