"""Whether a tool has two speeds, as one with a cache has: then a median says nothing about the slow one. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

FEWEST_SAMPLES: Final = 30
SMALLEST_SHARE: Final = 0.05
FEWEST_IN_HEAP: Final = 3
TIMES_APART: Final = 3.0
VARIANCE_EXPLAINED: Final = 0.85


def is_bimodal(durations_ms: Sequence[float]) -> bool:
    """Whether sorted durations form two heaps.

    On a logarithmic scale, split at the widest gap that leaves 5 % (and three) on each side: two heaps when their means
    are three times apart and the split explains 85 % of the variance.
    """
    count = len(durations_ms)
    if count < FEWEST_SAMPLES:
        return False
    logs = [math.log(max(duration, 0.001)) for duration in durations_ms]
    least = max(FEWEST_IN_HEAP, math.ceil(SMALLEST_SHARE * count))
    split = max(range(least, count - least + 1), key=lambda at: logs[at] - logs[at - 1])
    low, high = _mean(logs[:split]), _mean(logs[split:])
    if high - low < math.log(TIMES_APART):
        return False
    middle = _mean(logs)
    total = sum((value - middle) ** 2 for value in logs)
    between = split * (low - middle) ** 2 + (count - split) * (high - middle) ** 2
    return between >= VARIANCE_EXPLAINED * total


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
