"""Computes the timeline of a call, which a template draws as SVG: a row per phase, in order of time. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_console.formats import milliseconds

WIDTH: Final = 640
ROW: Final = 24
"""Height of a row."""
_LEFT: Final = 190
"""Width of the column with the names of phases."""
_TOP: Final = 18
_MIN_WIDTH: Final = 1.5
"""Width of the shortest bar."""
_TICKS: Final = 4


class TimelineBar(msgspec.Struct, frozen=True):
    """Bar of one phase, with its position in the picture."""

    kind: str
    label: str
    duration: str
    x: float
    y: int
    width: float
    failed: bool


class TimelineTick(msgspec.Struct, frozen=True):
    """Vertical line with a time."""

    x: float
    label: str
    anchor: str
    """SVG `text-anchor` of the label."""


class TimelinePicture(msgspec.Struct, frozen=True):
    """Positions of all parts of a picture of `WIDTH` by `height`."""

    bars: tuple[TimelineBar, ...]
    ticks: tuple[TimelineTick, ...]
    height: int
    summary: str
    """Text alternative of the picture."""


class TimelinePhase(msgspec.Struct, frozen=True):
    """Phase to draw; times are in milliseconds."""

    kind: str
    """Name of the phase in the REST API, such as `attempt`, which selects the color."""
    label: str
    """Label of the row."""
    start: float
    """Start of the phase, relative to the start of the call."""
    duration: float
    failed: bool = False


def timeline_picture(phases: Sequence[TimelinePhase], total_ms: float) -> TimelinePicture:
    """Make the picture of the phases of a call that took `total_ms` milliseconds."""
    scale = (WIDTH - _LEFT) / max(total_ms, 1e-6)
    bars = []
    for row, phase in enumerate(phases):
        x = _LEFT + max(0.0, phase.start) * scale
        width = max(_MIN_WIDTH, min(phase.duration * scale, WIDTH - x))
        x = min(x, WIDTH - width)
        bars.append(
            TimelineBar(phase.kind, phase.label, milliseconds(phase.duration), x, _TOP + row * ROW, width, phase.failed)
        )
    ticks = tuple(
        TimelineTick(
            _LEFT + (WIDTH - _LEFT) * step / _TICKS,
            milliseconds(total_ms * step / _TICKS),
            "start" if step == 0 else "end" if step == _TICKS else "middle",
        )
        for step in range(0, _TICKS + 1, 2)
    )
    summary = "; ".join(f"{bar.label} {bar.duration}{', failed' if bar.failed else ''}" for bar in bars)
    return TimelinePicture(tuple(bars), ticks, _TOP + ROW * len(bars), f"{milliseconds(total_ms)} in total: {summary}")
