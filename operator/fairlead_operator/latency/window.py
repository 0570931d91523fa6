"""The last 100 durations of one tool in one environment, and their quantiles.

Pure; owned by `tool_record.ToolRecord`.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right, insort

from fairlead_api.documents.state import Quantiles
from fairlead_operator.latency.thresholds import WINDOW


class Window:
    """Durations in the order in which they became known, and sorted.

    Both as plain doubles: with an object for each, ten thousand tools that are called held a hundred megabytes.
    """

    __slots__ = ("_durations", "_fallen", "_sorted")

    def __init__(self) -> None:
        self._durations = array("d")
        self._sorted = array("d")
        self._fallen = 0
        """How many have fallen out; the number of the oldest that is left."""

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, duration_ms: float) -> int:
        """Append; the oldest of more than 100 falls out. The answer is the number of the entry."""
        if len(self._durations) == WINDOW:
            self._sorted.remove(self._durations.pop(0))
            self._fallen += 1
        self._durations.append(duration_ms)
        insort(self._sorted, duration_ms)
        return self._fallen + len(self._durations) - 1

    def lengthen(self, entry: int, duration_ms: float) -> None:
        """Correct what was known of a running attempt; without effect once it has fallen out or was cut off."""
        index = entry - self._fallen
        if index >= 0:
            self._sorted.remove(self._durations[index])
            insort(self._sorted, duration_ms)
            self._durations[index] = duration_ms

    def late(self, limit_ms: float) -> int:
        """How many took longer than the limit."""
        return len(self._sorted) - bisect_right(self._sorted, limit_ms)

    def keep_last(self, samples: int) -> None:
        """Forget all but the last ones."""
        cut = max(0, len(self._durations) - samples)
        del self._durations[:cut]
        self._fallen += cut
        self._sorted = array("d", sorted(self._durations))

    def quantile(self, share: float) -> float:
        """Nearest rank, in milliseconds. The window must not be empty."""
        return self._sorted[max(0, math.ceil(share * len(self._sorted) - 1e-9) - 1)]

    def quantiles(self) -> Quantiles | None:
        """The published figures; None of an empty window."""
        if not self._sorted:
            return None
        p50, p90, p95, p99 = (round(self.quantile(share), 1) for share in (0.5, 0.9, 0.95, 0.99))
        return Quantiles(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, samples=len(self))

    def durations(self) -> tuple[float, ...]:
        """Sorted, in milliseconds."""
        return tuple(self._sorted)

    @classmethod
    def from_figures(cls, figures: Quantiles) -> Window:
        """A window with these figures, for an operator that starts again.

        Between two published quantiles every duration is taken for the upper one, so the window never looks faster
        than it was.
        """
        window = cls()
        count = min(figures.samples, WINDOW)
        steps = ((0.5, figures.p50_ms), (0.9, figures.p90_ms), (0.95, figures.p95_ms), (1.0, figures.p99_ms))
        for rank in range(1, count + 1):
            window.add(next(value for share, value in steps if rank <= math.ceil(share * count - 1e-9)))
        return window
