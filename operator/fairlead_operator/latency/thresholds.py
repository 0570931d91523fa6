"""The figures by which late calls turn into a decision, one set per quantile. Pure; read by `score` and `window`.

"p95 within the limit" says that at most 5 of 100 calls may be late, so late calls are counted and no estimated
quantile is ever compared with the limit: a plain p95 of the last 100 would sooner or later hide a steady tool at 0.9 of
the limit.

Two tests, either of which hides a tool:

- *recent*: a bounded score that climbs with each late call and falls with each one in time (a CUSUM of Bernoulli
  trials). For p95 the steps 6 : 1 are the log likelihood ratio of "30 % late" against "5 % late".
- *window*: too many late calls among the last 100 to be chance (binomial, 1.4e-4 for p95).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

WINDOW: Final = 100
"""Samples that a window holds."""
RUN: Final = 5
"""Samples in time, in a row, that bring back a tool which was late with every call."""
LONGEST_RUN: Final = 30
DOUBT: Final = 0.01
"""Chance that a tool still as late as when it was hidden shows a run long enough to come back."""


@dataclass(frozen=True, slots=True)
class Detector:
    """How late calls are weighed for one quantile."""

    quantile: str
    share: float
    """Share of calls that may be late."""
    late: int
    """Points added by a late call."""
    in_time: int
    """Points taken away by a call in time, never below 0."""
    cap: int
    """Hidden from this score on."""
    start: int
    """Score of a tool of which nothing is known."""
    again: int
    """Score of one that was just shown again."""
    most_late: int
    """Late calls among the last 100 from which on the tool is hidden."""

    def late_allowed(self, samples: int) -> int:
        """The number of late calls among `samples` (1 to 100) from which on the tool is hidden."""
        return _limits(self.share, self.most_late)[min(samples, WINDOW)]


# A start is the cap less three late calls, except for p50, which knows no hurry. With two, one steady tool in a
# thousand with its p95 at 0.8 of the limit was hidden by the late calls that chance put first; with three, one in ten
# thousand. A tool that was late before needs two.
DETECTORS: Final = {
    "p50": Detector("p50", 0.50, late=2, in_time=3, cap=36, start=0, again=0, most_late=69),
    "p90": Detector("p90", 0.10, late=3, in_time=1, cap=21, start=12, again=15, most_late=23),
    "p95": Detector("p95", 0.05, late=6, in_time=1, cap=30, start=12, again=18, most_late=15),
    "p99": Detector("p99", 0.01, late=24, in_time=1, cap=96, start=24, again=48, most_late=7),
}


def run_needed(late_share: float, relapses: int = 0) -> int:
    """Samples in time, in a row, after which a hidden tool comes back (5 to 30).

    `late_share` (0 to 1) is the part of calls that were late while it was hidden: the rarer they were, the longer a run
    of good ones has to be before it says anything. It is taken from the calls since the change, of which more are late
    than of those to come, so each of the `relapses` after such a run doubles it.
    """
    run = RUN if late_share >= 1 else math.ceil(math.log(DOUBT) / math.log(1 - max(late_share, 0.01)))
    return min(LONGEST_RUN, max(RUN, run) << min(relapses, 3))


@cache
def _limits(share: float, most_late: int) -> tuple[int, ...]:
    """Index n: the smallest count of late calls in n that is as unlikely as `most_late` in 100."""
    alpha = _tail(WINDOW, share, most_late) * 1.0001
    limits = [1]
    for n in range(1, WINDOW + 1):
        count = limits[-1]
        while _tail(n, share, count) > alpha:
            count += 1
        limits.append(count)
    return tuple(limits)


def _tail(n: int, p: float, count: int) -> float:
    """Chance of at least `count` successes in `n` trials."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count, n + 1))
