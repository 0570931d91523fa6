"""What a batch of calls costs whoever waits for it: the longest of parallel ones, the sum of those in sequence, and
what list scheduling makes of a limit in between.

Pure module, used by the REST plane before a batch (from what is known of its tools) and beside `batch`, which starts
calls in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def makespan(durations: Sequence[float], at_once: int) -> float:
    """When the last of the calls ends, if each takes its duration, they begin in their order, and at most `at_once`
    run at a time. In the unit of the durations; 0 for none.
    """
    if at_once >= len(durations):
        return max(durations, default=0.0)
    ends: list[float] = [0.0] * at_once
    for duration in durations:
        heapq.heappush(ends, heapq.heappop(ends) + duration)
    return max(ends)
