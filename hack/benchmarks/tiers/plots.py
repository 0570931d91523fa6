"""Draws a trace as SVG, without a library: every call of the misbehaving tools, without tiers and with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Final

from tiers.replay import Outcomes
from tiers.traces import CALLS, LIMIT_MS, PER_SECOND, Trace

WIDTH: Final = 860
PANEL: Final = 170
LEFT: Final = 60
TOP: Final = 34
LOW_MS: Final = 20.0
HIGH_MS: Final = 5000.0
MARKS_MS: Final = (50, 200, 500, 2000)
SECONDS: Final = CALLS / PER_SECOND


def draw(trace: Trace, runs: Mapping[str, Outcomes]) -> str:
    """Draw one named panel per run: durations in milliseconds over seconds."""
    height = TOP + len(runs) * (PANEL + TOP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'{head} font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(trace.name)}</text>',
    ]
    for index, (name, outcomes) in enumerate(runs.items()):
        parts += _panel(name, outcomes, TOP + index * (PANEL + TOP), trace)
    return "\n".join([*parts, "</svg>", ""])


def _panel(name: str, outcomes: Outcomes, top: float, trace: Trace) -> list[str]:
    bottom = top + PANEL
    late = sum(late for _, _, late in outcomes.timeline)
    label = f"{name}: {late} of {len(outcomes.timeline)} calls of the tools that misbehave are late"
    parts = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 20}" height="{PANEL}" fill="#f6f7f8"/>',
        f'<text x="{LEFT}" y="{bottom + 14}" fill="#444">{escape(label)}</text>',
        *(_shade(begin, end, top) for begin, end in _hidden(outcomes)),
    ]
    for mark in MARKS_MS:
        y = _y(mark, bottom)
        style = 'stroke="#c33" stroke-dasharray="5 3"' if mark == LIMIT_MS else 'stroke="#ddd"'
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" {style}/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{mark} ms</text>')
    for moment in (trace.change, trace.heal):
        if moment is not None:
            x = _x(moment)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="#555"/>')
    for fill, wanted in (("#2a6f97", False), ("#c33", True)):
        dots = (f"M{_x(at):.1f} {_y(ms, bottom):.1f}h0" for at, ms, was_late in outcomes.timeline if was_late is wanted)
        parts.append(f'<path d="{"".join(dots)}" stroke="{fill}" stroke-width="2.4" stroke-linecap="round"/>')
    return parts


def _hidden(outcomes: Outcomes) -> list[tuple[float, float]]:
    """Periods in which a tool was hidden."""
    begun: dict[str, float] = {}
    spans = []
    for at, tool, hidden in outcomes.hidden:
        if hidden:
            begun[tool] = at
        elif tool in begun:
            spans.append((begun.pop(tool), at))
    return spans + [(at, SECONDS) for at in begun.values()]


def _shade(begin: float, end: float, top: float) -> str:
    width = max(0.5, _x(end) - _x(begin))
    return (
        f'<rect x="{_x(begin):.1f}" y="{top}" width="{width:.1f}" height="{PANEL}" fill="#f4b942" fill-opacity="0.18">'
        "<title>hidden</title></rect>"
    )


def _x(at: float) -> float:
    return LEFT + min(at, SECONDS) / SECONDS * (WIDTH - LEFT - 20)


def _y(ms: float, bottom: float) -> float:
    share = math.log(min(max(ms, LOW_MS), HIGH_MS) / LOW_MS) / math.log(HIGH_MS / LOW_MS)
    return bottom - share * PANEL
