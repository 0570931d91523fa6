"""Thresholds for the number of late calls that hide a tool, one set per quantile. Pure.

A call is late if it takes longer than the tier's limit (with its hysteresis), and in time otherwise. "p95 within the
limit" means that at most 5 of 100 calls may be late, so late calls are counted. The measured p95 is not compared with
the limit, because it varies by chance: sooner or later, the p95 of the last 100 calls would hide a steady tool whose
true p95 is at 0.9 of the limit.

A tool is hidden by either of two tests:

- *recent*: a bounded score that grows with each late call and falls with each call in time (a CUSUM of Bernoulli
  trials). For p95 the steps 6 : 1 are the log likelihood ratio of "30 % late" against "5 % late".
- *window*: more late calls among the last 100 than chance explains (binomial probability 1.4e-4 for p95).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

WINDOW: Final = 100
"""Maximum number of samples in a window."""
RUN: Final = 5
"""Number of consecutive samples in time that bring back a tool whose calls were all late."""
LONGEST_RUN: Final = 30
"""Maximum number of consecutive samples in time that bring back a tool."""
FALSE_RETURN_PROBABILITY: Final = 0.01
"""Probability that a tool that has not improved returns because of a random run of samples in time."""


@dataclass(frozen=True, slots=True)
class Detector:
    """Weights and limits of late calls for one quantile."""

    quantile: str
    share: float
    """Share of calls that may be late."""
    late_points: int
    """Points that a late call adds to the score."""
    in_time_points: int
    """Points that a call in time subtracts; the score never falls below 0."""
    cap: int
    """Smallest score that hides the tool."""
    start: int
    """Initial score of a new tool."""
    after_return: int
    """Score of a tool that has just returned."""
    most_late: int
    """Smallest number of late calls among the last 100 calls that hides the tool."""

    def late_calls_to_hide(self, samples: int) -> int:
        """Smallest number of late calls among `samples` (1 to 100) calls that hides the tool."""
        return _limits(self.share, self.most_late)[min(samples, WINDOW)]


# `start` is `cap` minus the points of three late calls, except for p50, which reacts slowly: three late calls hide a
# new tool. If two sufficed, one in a thousand steady tools with a p95 at 0.8 of the limit would by chance be hidden at
# its first calls; with three, it is one in ten thousand. Two late calls hide a tool that has just returned.
DETECTORS: Final = {
    "p50": Detector("p50", 0.50, late_points=2, in_time_points=3, cap=36, start=0, after_return=0, most_late=69),
    "p90": Detector("p90", 0.10, late_points=3, in_time_points=1, cap=21, start=12, after_return=15, most_late=23),
    "p95": Detector("p95", 0.05, late_points=6, in_time_points=1, cap=30, start=12, after_return=18, most_late=15),
    "p99": Detector("p99", 0.01, late_points=24, in_time_points=1, cap=96, start=24, after_return=48, most_late=7),
}


def run_needed(late_share: float, relapses: int = 0) -> int:
    """Number of consecutive samples in time after which a hidden tool returns (5 to 30).

    `late_share` (0 to 1) is the share of late calls when the tool was hidden: the smaller it is, the longer a run of
    calls in time has to be to show an improvement. The share is measured while the tool is slow and overestimates the
    share of later calls, so the run may be too short. Each of the `relapses` therefore doubles the run.
    """
    run = (
        RUN if late_share >= 1 else math.ceil(math.log(FALSE_RETURN_PROBABILITY) / math.log(1 - max(late_share, 0.01)))
    )
    return min(LONGEST_RUN, max(RUN, run) << min(relapses, 3))


@cache
def _limits(share: float, most_late: int) -> tuple[int, ...]:
    """At index n, the smallest number of late calls in n that is as unlikely as `most_late` in 100."""
    alpha = _tail(WINDOW, share, most_late) * 1.0001
    limits = [1]
    for n in range(1, WINDOW + 1):
        count = limits[-1]
        while _tail(n, share, count) > alpha:
            count += 1
        limits.append(count)
    return tuple(limits)


def _tail(n: int, p: float, count: int) -> float:
    """Binomial probability of at least `count` successes in `n` trials."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count, n + 1))
