"""Beats a second, memory a member and lateness of departures as one picture: a row for each way, a column for each."""

from __future__ import annotations

import math
from html import escape
from typing import Callable, NamedTuple, Sequence

from measure import per_second
from rivals import Beside

WIDTH, LEFT, COLUMN, BAR, ROW, TOP = 900, 150, 250, 165, 30, 92
LEAST_S = 0.001  # where the scale of lateness begins
STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .head { font-weight: 600 }
    .note { font-size: 12px; fill: #59636e }
    .ours { font-weight: 600 }
    .ground { fill: #ffffff }
    rect.other { fill: #afb8c1 }
    rect.ours { fill: #0969da }
    rect.endless { fill-opacity: 0.45 }
    line { stroke: #d1d9e0 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .note { fill: #9198a1 }
      .ground { fill: #0d1117 }
      rect.other { fill: #57606a }
      rect.ours { fill: #4493f8 }
      line { stroke: #3d444d }
    }"""


class Bar(NamedTuple):
    """How much of the column's width it fills, and what stands beside it; `endless` if it goes on who knows how far."""

    part: float
    label: str
    endless: bool = False


class Column(NamedTuple):
    head: str
    note: str
    bars: Sequence[Bar | None]


def picture(server: str, ways: Sequence[Beside]) -> str:
    """The ways that know of departures."""
    shown = [way for way in ways if way.beats and way.late]
    columns = [
        Column("Beats a second", "more is better", _scaled([w.beats.rps for w in shown], per_second)),
        Column("Bytes a member", "less is better", _scaled([w.memory or 0 for w in shown], lambda v: f"{v:.0f}")),
        Column("Told of a departure after, p99", "less is better; logarithmic", _late(shown)),
    ]
    height = TOP + ROW * len(shown) + 16
    told = "; ".join(
        f"{way.way}: {', '.join(f'{column.head.lower()} {bar.label}' for column in columns if (bar := column.bars[row]))}"
        for row, way in enumerate(shown)
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
        ' aria-labelledby="title desc">',
        f'  <title id="title">Presence beside what is run instead, on {escape(server)}</title>',
        f'  <desc id="desc">{escape(told)}.</desc>',
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="ground" width="{WIDTH}" height="{height}"/>',
        _text(16, 28, f"Presence beside what is run instead: {server}, one process", "title"),
    ]
    lines += [_text(16, TOP + ROW * row + 20, way.way, "ours" if row == 0 else "") for row, way in enumerate(shown)]
    for place, column in enumerate(columns):
        left = LEFT + COLUMN * place
        lines += [_text(left, 58, column.head, "head"), _text(left, 75, column.note, "note")]
        lines.append(f'  <line x1="{left}" y1="{TOP}" x2="{left}" y2="{TOP + ROW * len(shown)}"/>')
        for row, bar in enumerate(column.bars):
            if bar is not None:
                lines += _drawn(left, TOP + ROW * row, bar, "ours" if row == 0 else "other")
    return "\n".join([*lines, "</svg>"]) + "\n"


def _scaled(values: Sequence[float], label: Callable[[float], str]) -> list[Bar]:
    most = max(values) or 1
    return [Bar(value / most, label(value)) for value in values]


def _late(ways: Sequence[Beside]) -> list[Bar | None]:
    most = max((late.p99 if late.p99 < math.inf else late.waited) for way in ways if (late := way.late))
    bars: list[Bar | None] = []
    for way in ways:
        if (late := way.late) is None:
            bars.append(None)
        elif late.p99 == math.inf:
            bars.append(Bar(1, f"> {late.waited:g} s", endless=True))
        else:
            label = f"{late.p99:.2f} s" if late.p99 >= 0.1 else f"{late.p99 * 1000:.1f} ms"
            bars.append(Bar(max(0.0, math.log(late.p99 / LEAST_S) / math.log(most / LEAST_S)), label))
    return bars


def _drawn(left: int, top: int, bar: Bar, kind: str) -> list[str]:
    width = max(2.0, BAR * bar.part)
    kind += " endless" if bar.endless else ""
    return [
        f'  <rect class="{kind}" x="{left}" y="{top + 6}" width="{width:.1f}" height="{ROW - 12}"/>',
        _text(left + width + 6, top + 20, bar.label, "ours" if kind.startswith("ours") else ""),
    ]


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'  <text x="{x:g}" y="{y:g}"{styled}>{escape(words)}</text>'
