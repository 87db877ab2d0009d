"""What was found, as text, as a page of the documentation, and as the README's extract of it."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from measure import PROJECT, Found, per_second
from parts import PARTS
from picture import picture
from remarks import REMARKS
from rivals import Beside
from ways import WAYS

README = PROJECT / "README.md"
BEGIN, END = "<!-- from docs/benchmarks.md, by make bench -->", "<!-- end -->"
EXTRACT = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
FOUND_HEAD = ("server", "part", "what", "ours", "beside", "ratio", "spread", "target", "")
BESIDE_HEAD = (
    "way",
    "beats a second",
    "spread",
    "counts a second",
    "200 friends a second",
    "bytes a member",
    "told of a departure, median",
    "p99",
    "told at all",
)
LACKS = {way.name: way.lacks for way in WAYS}
WORDS_HEAD = ("way", "made of", "a departure is", "what it lacks")


class Outcome(NamedTuple):
    """What one part gave on one server, or why it gave nothing."""

    found: Sequence[Any]  # Found, Beside, or named tuples of the part's own
    error: str
    seconds: float
    when: datetime
    commit: str
    rounds: int


class Run(NamedTuple):
    """All that a page is made of; outcomes by server and part."""

    machine: Mapping[str, str]
    versions: Mapping[str, str]
    short: bool
    outcomes: Mapping[tuple[str, str], Outcome]


# -- what is told ---------------------------------------------------------------------------------------------------------


def founds(run: Run) -> Iterator[tuple[str, str, Found]]:
    """Each line with its server and part, the servers side by side."""
    order = {name: place for place, name in enumerate(PARTS)}
    lines = []
    for (kind, part), outcome in run.outcomes.items():
        lines += [
            (order.get(part, len(order)), place, kind, part, found)
            for place, found in enumerate(outcome.found)
            if isinstance(found, Found)
        ]
    for _, _, kind, part, found in sorted(lines, key=lambda line: line[:2]):
        yield run.versions[kind], part, found


def besides(run: Run) -> dict[str, list[Beside]]:
    """The ways beside ours, by server."""
    by_kind = {
        run.versions[kind]: [found for found in outcome.found if isinstance(found, Beside)]
        for (kind, _), outcome in run.outcomes.items()
    }
    return {kind: ways for kind, ways in by_kind.items() if ways}


def found_row(server: str, part: str, found: Found, short: bool = False) -> tuple[str, ...]:
    ratio = "" if found.ratio is None else f"{plain(float(found.ratio))}{found.unit}"
    target = "" if found.target is None else f"{'≤' if found.most else '≥'} {found.target:g}{found.unit}"
    verdict = "" if short else {True: "met", False: "NOT MET", None: ""}[found.met]
    return (server, part, found.what, found.figure, found.against, ratio, found.spread, target, verdict)


def seconds(value: float, waited: float) -> str:
    if value > 1e6:
        return f"> {waited:g} s"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def beside_row(found: Beside) -> tuple[str, ...]:
    if found.missing or not found.beats:
        return (found.way, f"not measured: {found.missing}", *[""] * (len(BESIDE_HEAD) - 2))
    low, high = found.spread
    late = found.late
    return (
        found.way,
        per_second(found.beats.rps),
        f"{per_second(low)} to {per_second(high)}",
        per_second(found.counts.rps) if found.counts else "–",
        per_second(found.friends.rps) if found.friends else "–",
        "–" if found.memory is None else f"{found.memory:.0f}",
        seconds(late.median, late.waited) if late else "–",
        seconds(late.p99, late.waited) if late else "–",
        f"{late.told} of {late.of}" if late else "–",
    )


def others(run: Run) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """What parts found in a form of their own, named tuples: the part, and its columns and rows over all servers."""
    for part in PARTS:
        found = [
            (run.versions[kind], line)
            for (kind, name), outcome in run.outcomes.items()
            for line in outcome.found
            if name == part and not isinstance(line, (Found, Beside))
        ]
        if found:
            # A field for the server is told by its full name.
            fields = [name for name in found[0][1]._fields if name != "kind"]
            head = ["server", *(name.replace("_", " ") for name in fields)]
            yield part, head, [[server, *(plain(getattr(line, name)) for name in fields)] for server, line in found]


def plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def words_rows(run: Run) -> list[tuple[str, ...]]:
    """What each way is and is not, once."""
    named = {found.way for some in besides(run).values() for found in some}
    return [(way.name, way.made_of, way.departure, way.lacks) for way in WAYS if way.name in named]


def errors(run: Run) -> list[str]:
    return [f"{part} on {run.versions[kind]}: {o.error}" for (kind, part), o in run.outcomes.items() if o.error]


def facts(run: Run) -> list[str]:
    """Where, of what, and when."""
    whens = [outcome.when for outcome in run.outcomes.values()]
    rounds: dict[int, list[str]] = {}
    for (_, part), outcome in run.outcomes.items():
        rounds.setdefault(outcome.rounds, []).append(part)
    usual = max(rounds, key=lambda number: len(rounds[number]), default=0)
    others = "".join(f", {n} of {' and '.join(dict.fromkeys(rounds[n]))}" for n in sorted(rounds) if n != usual)
    commits = sorted({outcome.commit for outcome in run.outcomes.values()})
    days = sorted({when.strftime("%Y-%m-%d") for when in whens})
    return [
        *(f"{name}: {value}" for name, value in run.machine.items()),
        f"servers: {', '.join(run.versions.values())}",
        f"commit: {', '.join(commits)}",
        f"date: {' to '.join(dict.fromkeys((days[0], days[-1]))) if days else ''}",
        f"rounds: {usual}{others}; of them the median counts; spread is from the least to the greatest of them",
    ]


def tally(run: Run) -> str:
    if run.short:
        return "In short form nothing is held against its target"
    judged = [found.met for _, _, found in founds(run) if found.met is not None]
    return f"{sum(judged)} of {len(judged)} targets are met" if judged else "No target was looked at"


# -- on a terminal --------------------------------------------------------------------------------------------------------


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def text(run: Run) -> str:
    blocks = ["\n".join(facts(run))]
    if run.short:
        blocks.append("SHORT: it works; the sizes are small and the times too short for the figures to mean much.")
    if lines := [found_row(*line, run.short) for line in founds(run)]:
        blocks.append(aligned([FOUND_HEAD, *lines]))
    for server, ways in besides(run).items():
        rows = [beside_row(found) for found in ways]
        blocks.append(f"{server}, beside what is run instead\n" + aligned([BESIDE_HEAD, *rows]))
    if words := words_rows(run):
        blocks.append(aligned([(head[0], head[-1]) for head in (WORDS_HEAD, *words)]))
    blocks += [f"{part}\n{aligned([head, *rows])}" for part, head, rows in others(run)]
    took = "\n".join(f"{run.versions[k]}, {part}: {o.seconds:.0f} s" for (k, part), o in run.outcomes.items())
    blocks.append(f"{tally(run)}\n{took}")
    if failed := errors(run):
        blocks.append("FAILED\n" + "\n".join(failed))
    return "\n\n".join(blocks)


# -- as a page ------------------------------------------------------------------------------------------------------------


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def missed(run: Run) -> str:
    """What is not met, each with what limits it: the remark written by hand."""
    by_what: dict[tuple[str, str], list[str]] = {}
    for server, _, found in founds(run):
        if found.met is False and not run.short:
            beside = found.against.partition(":")[0] if ":" in found.against else ""
            ratio, target = found_row(server, "", found)[5:8:2]
            by_what.setdefault((found.what, beside), []).append(f"{ratio} on {server} ({target})")
    items = []
    for (what, beside), where in by_what.items():
        remark = REMARKS.get((what, beside)) or REMARKS.get((what, "")) or "What limits it is not found out yet."
        items.append(f"- **{what}{' beside ' if beside else ''}{beside}**: {', '.join(where)}. {remark}")
    return "\n".join(items) or "Nothing."


def extract(run: Run) -> str:
    """The README's part, of the last of the servers: it has every way."""
    server, ways = list(besides(run).items())[-1]
    rows = []
    for found in ways:
        if found.beats and found.late:
            late = seconds(found.late.p99, found.late.waited)
            rows.append((found.way, per_second(found.beats.rps), f"{found.memory:.0f}", late, LACKS[found.way]))
    head = ("way", "beats a second", "bytes a member", "told of a departure after, p99", "what it lacks")
    members = "200,000 members" if not run.short else "a few members"
    told = (
        "Bytes are for ids of 10 bytes. Told: by an event, or by the sweeper that runs each second; whoever asks for a key or a field\n"
        "with a time to live sees its end at once."
    )
    return f"{server}, one process, {members}:\n\n{markdown_table(head, rows)}\n\n{told} {tally(run)}."


def markdown(run: Run) -> str:
    parts = [(f"`{part.name}`", doc(part.name)) for part in PARTS.values()]
    sections = [
        "# Benchmarks",
        "Written by `make bench`; what is written by hand stands in `scripts/bench/remarks.py`, and is kept.",
        "\n".join(f"- {fact}" for fact in facts(run)),
        "![Beats a second, memory a member and lateness of departures, beside what is run instead](benchmarks.svg)",
        "## In short",
        extract(run) if besides(run) else tally(run) + ".",
        "## Held against targets",
        "`M/s` are members or requests a second, as redis-benchmark counts them; `µs` is processor time of the server's main\n"
        "thread for one. A ratio is that of requests a second in one run on one server, or has its own unit.",
        markdown_table(FOUND_HEAD, (found_row(*line, run.short) for line in founds(run))),
        "### Not met",
        missed(run),
        "## Beside what is run instead",
        "Each way as those write it who use it (`scripts/bench/ways.py`), with the same members and the same jobs, poured into the\n"
        "server over four connections as fast as it takes them. Bytes are by `used_memory`, with ids of 10 bytes. Departures: some\n"
        "hundred leave a crowd of this size, one after the other, and whoever is to know of it is told, or sweeps, as that way has it;\n"
        "after the last of them was due, ten seconds were waited.",
        markdown_table(WORDS_HEAD, words_rows(run)),
    ]
    for server, ways in besides(run).items():
        sections += [f"### {server}", markdown_table(BESIDE_HEAD, map(beside_row, ways))]
    for part, head, rows in others(run):
        sections += [f"## {part.capitalize()}", markdown_table(head, rows)]
    if failed := errors(run):
        sections += ["## Failed", "\n".join(f"- {line}" for line in failed)]
    sections += [
        "## Each by itself",
        'All: `make bench`. One part on one server: `make bench-live ARGS="--only beats --servers valkey-9.1"`. `--add` puts what it\n'
        "finds into the results of the run before and writes this page anew. The engine without a server: `make bench-engine`.",
        markdown_table(("part", "measures"), parts),
    ]
    return "\n\n".join(sections) + "\n"


def doc(part: str) -> str:
    try:
        return (PARTS[part].load().__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()
    except Exception as failure:
        return f"({failure})"


def write(run: Run, folder: Path) -> None:
    """The page and its picture; beside the documentation also the README's extract of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmarks.md").write_text(markdown(run))
    if not besides(run):
        return
    (folder / "benchmarks.svg").write_text(picture(*list(besides(run).items())[-1]))
    if folder.resolve() == (PROJECT / "docs").resolve():
        README.write_text(with_extract(README.read_text(), extract(run)))


def with_extract(readme: str, new: str) -> str:
    return EXTRACT.sub(lambda _: f"{BEGIN}\n{new}\n{END}\n", readme)
