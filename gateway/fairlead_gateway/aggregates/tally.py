"""Histogram of the durations of successful attempts to call one tool. Pure module.

`reports.samples` has a histogram per tool, and `GET /v1/aggregates` returns them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from fairlead_gateway.telemetry import BOUNDS

BOUNDS_MS: Final = tuple(round(bound * 1000) for bound in BOUNDS)
"""Upper bounds in milliseconds of all buckets except the last, equal to the bounds of
`mcp.server.operation.duration`.
"""


class Tally:
    """Histogram: counts per bucket, and the sum of durations in whole microseconds, so that merging is exact."""

    __slots__ = ("buckets", "definition", "total_us")

    def __init__(self, definition: str) -> None:
        self.definition = definition
        """Hash of the definition that the server sent; a changed definition counts as another tool."""
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        self.total_us = 0

    def observe(self, milliseconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_MS, milliseconds)] += 1
        self.total_us += round(milliseconds * 1000)
