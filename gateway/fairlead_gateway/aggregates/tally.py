"""How long the successful attempts of one definition took, since it was taken into service. Pure module.

Held by the meter of a tool (`reports.samples`), read by `GET /v1/aggregates`.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from fairlead_gateway.telemetry import BOUNDS

BOUNDS_MS: Final = tuple(round(bound * 1000) for bound in BOUNDS)
"""Upper bounds of all buckets but the last, in milliseconds: those of `mcp.server.operation.duration`."""


class Tally:
    """Counts per bucket, and the sum of what was counted in whole microseconds, so that sums of sums are exact."""

    __slots__ = ("buckets", "definition", "total_us")

    def __init__(self, definition: str) -> None:
        self.definition = definition
        """Hash of what the server sent; another definition is another tool."""
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        self.total_us = 0

    def observe(self, milliseconds: float) -> None:
        self.buckets[bisect_left(BOUNDS_MS, milliseconds)] += 1
        self.total_us += round(milliseconds * 1000)
