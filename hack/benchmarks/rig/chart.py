"""Draws a bar chart as SVG. It needs no library, because a bar is one rectangle and two texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from rig.harness import Sample, number

LABELS, WIDTH, MARGIN, STEP = 190, 430, 24, 30


@dataclass(frozen=True)
class Bar:
    """Bar of one target, with a line over its end for the range of the sample."""

    name: str
    sample: Sample
    ratio: float | None = None
    """Ratio to nginx in the same rounds; None if there is none."""


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw bars from top to bottom on a logarithmic scale, for targets that differ by factors up to a thousand."""
    values = [value for bar in rows for value in (bar.sample.low, bar.sample.high) if value > 0] or [1.0]
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)

    def x(value: float) -> float:
        return LABELS + WIDTH * (math.log10(max(value, 10**low)) - low) / (high - low)

    height = 2 * MARGIN + STEP * len(rows) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + WIDTH + 170}" height="{height}">',
        "<style>text { font: 13px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{MARGIN / 2:g}" y="{MARGIN - 6}" style="font-weight: bold">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        lines.append(f'<path d="M{at:.1f} {MARGIN + 4}V{height - MARGIN - 12}" stroke="#dddddd"/>')
        lines.append(f'<text x="{at:.1f}" y="{height - MARGIN + 4}" text-anchor="middle">{10**power:,}</text>')
    for row, bar in enumerate(rows):
        lines += _bar(bar, MARGIN + 10 + row * STEP, x)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _bar(bar: Bar, top: int, x: Callable[[float], float]) -> list[str]:
    end, low, high = x(bar.sample.median), x(bar.sample.low), x(bar.sample.high)
    color = "#1f6feb" if bar.name == "fairlead" else "#8c959f"
    ratio = "" if bar.ratio is None else f" ({number(bar.ratio)} × nginx)"
    return [
        f'<text x="{LABELS - 8}" y="{top + 15}" text-anchor="end">{escape(bar.name)}</text>',
        f'<rect x="{LABELS}" y="{top}" width="{max(end - LABELS, 1):.1f}" height="20" fill="{color}"/>',
        f'<path d="M{low:.1f} {top + 10}H{high:.1f}" stroke="#000000"/>',
        f'<text x="{max(end, high) + 6:.1f}" y="{top + 15}">{number(bar.sample.median)}{ratio}</text>',
    ]
