"""Computes the positions of the parts of a histogram of durations, which a template draws as SVG. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_console.formats import milliseconds

WIDTH: Final = 640
HEIGHT: Final = 190
_TOP: Final = 56
"""Space above the highest bar for its count and for the labels of two marks."""
_FLOOR: Final = 160
_GAP: Final = 4


class HistogramBar(msgspec.Struct, frozen=True):
    """Bar of one bucket, with its position in the picture."""

    x: float
    y: float
    width: float
    height: float
    label: str
    """Upper bound of the bucket."""
    count: int


class HistogramMark(msgspec.Struct, frozen=True):
    """Vertical line with a label, such as the p95."""

    x: float
    label: str
    anchor: str
    """SVG `text-anchor` of the label: `start`, `middle` or `end`."""


class HistogramPicture(msgspec.Struct, frozen=True):
    """Positions of all parts of a picture of `WIDTH` by `HEIGHT`."""

    bars: tuple[HistogramBar, ...]
    marks: tuple[HistogramMark, ...]
    summary: str
    """Text alternative of the picture."""


def histogram(
    bounds_ms: Sequence[int], buckets: Sequence[int], marks: Sequence[tuple[str, float]]
) -> HistogramPicture | None:
    """Make a picture of the buckets from the first to the last bucket with calls; None if no bucket has calls.

    `marks` are labels with milliseconds.
    """
    filled_buckets = [index for index, count in enumerate(buckets) if count]
    if not filled_buckets:
        return None
    mark_buckets = [_bucket_of(bounds_ms, value) for _, value in marks]
    first, last = (
        max(0, min(filled_buckets + mark_buckets) - 1),
        min(len(buckets) - 1, max(filled_buckets + mark_buckets) + 1),
    )
    width = WIDTH / (last - first + 1)
    highest_count = max(buckets)
    bars = []
    for index in range(first, last + 1):
        height = (_FLOOR - _TOP) * buckets[index] / highest_count
        label = f"≤ {milliseconds(bounds_ms[index])}" if index < len(bounds_ms) else "more"
        bars.append(
            HistogramBar(
                (index - first) * width + _GAP / 2, _FLOOR - height, width - _GAP, height, label, buckets[index]
            )
        )
    drawn_marks = []
    for (mark_label, value), index in zip(marks, mark_buckets, strict=True):
        low = bounds_ms[index - 1] if index else 0
        high = bounds_ms[index] if index < len(bounds_ms) else low * 2
        x = (index - first + min(1.0, (value - low) / max(1, high - low))) * width
        drawn_marks.append(
            HistogramMark(x, f"{mark_label} {milliseconds(value)}", "end" if x > WIDTH * 0.75 else "start")
        )
    summary = "; ".join(f"{bar.count} {bar.label}" for bar in bars if bar.count)
    lines = "; ".join(mark.label for mark in drawn_marks)
    return HistogramPicture(
        tuple(bars), tuple(drawn_marks), f"Calls by duration: {summary}{f'. {lines}' if lines else ''}"
    )


def _bucket_of(bounds_ms: Sequence[int], value: float) -> int:
    return next((index for index, bound in enumerate(bounds_ms) if value <= bound), len(bounds_ms))
