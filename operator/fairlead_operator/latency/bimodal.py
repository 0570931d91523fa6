"""Detects tools with bimodal durations, such as a tool with a cache: their median says nothing about slow calls.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

MIN_SAMPLES: Final = 30
MIN_SHARE: Final = 0.05
MIN_PER_SIDE: Final = 3
MIN_FACTOR: Final = 3.0
MIN_VARIANCE_EXPLAINED: Final = 0.85


def is_bimodal(durations_ms: Sequence[float]) -> bool:
    """Whether sorted durations have two modes; False for fewer than `MIN_SAMPLES` durations.

    On a logarithmic scale, the durations are split at the widest gap that leaves at least 5 % (and three) on each side.
    They are bimodal if the means of the two sides differ by a factor of three, and the split explains 85 % of the
    variance.
    """
    count = len(durations_ms)
    if count < MIN_SAMPLES:
        return False
    logs = [math.log(max(duration, 0.001)) for duration in durations_ms]
    min_per_side = max(MIN_PER_SIDE, math.ceil(MIN_SHARE * count))
    split = max(range(min_per_side, count - min_per_side + 1), key=lambda index: logs[index] - logs[index - 1])
    low, high = _mean(logs[:split]), _mean(logs[split:])
    if high - low < math.log(MIN_FACTOR):
        return False
    middle = _mean(logs)
    total_variance = sum((value - middle) ** 2 for value in logs)
    variance_between = split * (low - middle) ** 2 + (count - split) * (high - middle) ** 2
    return variance_between >= MIN_VARIANCE_EXPLAINED * total_variance


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
