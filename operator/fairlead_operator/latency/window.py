"""The last 100 durations of one tool in one environment, and the quantiles of those that succeeded.

Running and failed attempts are in the window only if they are late, because decisions about tiers count late attempts.

Pure; owned by `tool_record.ToolRecord`.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right, insort

from fairlead_api.documents.state import Quantiles
from fairlead_operator.latency.thresholds import WINDOW


class Window:
    """The last durations, in order of arrival and sorted.

    Both lists are arrays of doubles; with one object per duration, ten thousand active tools would take a hundred
    megabytes.
    """

    __slots__ = ("_dropped_count", "_durations", "_sorted_durations", "_unsuccessful")

    def __init__(self) -> None:
        self._durations = array("d")
        self._sorted_durations = array("d")
        self._unsuccessful = bytearray()
        """1 for each duration of an attempt that has not succeeded, else 0."""
        self._dropped_count = 0
        """Number of dropped entries, which is the number of the oldest remaining entry."""

    def __len__(self) -> int:
        return len(self._sorted_durations)

    def add(self, duration_ms: float, *, successful: bool = True) -> int:
        """Append a duration, and drop the oldest if there are more than 100; return the number of the entry."""
        if len(self._durations) == WINDOW:
            self._sorted_durations.remove(self._durations.pop(0))
            del self._unsuccessful[0]
            self._dropped_count += 1
        self._durations.append(duration_ms)
        self._unsuccessful.append(not successful)
        insort(self._sorted_durations, duration_ms)
        return self._dropped_count + len(self._durations) - 1

    def lengthen(self, entry: int, duration_ms: float, *, successful: bool = True) -> None:
        """Update the duration of a running attempt; no-op if its entry was dropped."""
        index = entry - self._dropped_count
        if index >= 0:
            self._sorted_durations.remove(self._durations[index])
            insort(self._sorted_durations, duration_ms)
            self._durations[index] = duration_ms
            self._unsuccessful[index] = not successful

    def count_late(self, limit_ms: float) -> int:
        """Number of durations above the limit."""
        return len(self._sorted_durations) - bisect_right(self._sorted_durations, limit_ms)

    def keep_last(self, samples: int) -> None:
        """Keep only the last `samples` durations."""
        excess = max(0, len(self._durations) - samples)
        del self._durations[:excess]
        del self._unsuccessful[:excess]
        self._dropped_count += excess
        self._sorted_durations = array("d", sorted(self._durations))

    def quantile(self, share: float) -> float:
        """Quantile of all durations by nearest rank, in milliseconds. The window must not be empty."""
        return _nearest_rank(self._sorted_durations, share)

    def quantiles(self) -> Quantiles | None:
        """Quantiles of the successful attempts, for publication; None without any."""
        durations = self._sorted_durations
        if any(self._unsuccessful):
            pairs = zip(self._durations, self._unsuccessful, strict=True)
            durations = array("d", sorted(duration for duration, unsuccessful in pairs if not unsuccessful))
        if not durations:
            return None
        p50, p90, p95, p99 = (round(_nearest_rank(durations, share), 1) for share in (0.5, 0.9, 0.95, 0.99))
        return Quantiles(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, samples=len(durations))

    def durations(self) -> tuple[float, ...]:
        """All durations in milliseconds, sorted."""
        return tuple(self._sorted_durations)

    @classmethod
    def from_figures(cls, figures: Quantiles) -> Window:
        """A window with these published figures, for a restarted operator.

        Each duration between two published quantiles is set to the upper one, so that the window never looks faster
        than it was.
        """
        window = cls()
        count = min(figures.samples, WINDOW)
        steps = ((0.5, figures.p50_ms), (0.9, figures.p90_ms), (0.95, figures.p95_ms), (1.0, figures.p99_ms))
        for rank in range(1, count + 1):
            window.add(next(value for share, value in steps if rank <= math.ceil(share * count - 1e-9)))
        return window


def _nearest_rank(durations: array[float], share: float) -> float:
    """Quantile of sorted durations, of which there is at least one."""
    return durations[max(0, math.ceil(share * len(durations) - 1e-9) - 1)]
