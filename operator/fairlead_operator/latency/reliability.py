"""Health of a tool, as a bounded score of its bad and good calls. Pure; owned by `tool_record.ToolRecord`.

The score is 100 - 5 × points. A bad call adds 5 points, a good call subtracts 1; points are from 0 to 20. A tool is
degraded at score 0, and healthy again from score 25. Four consecutive bad calls therefore degrade a tool, and five
consecutive good calls restore it, however long it was down.

Bad calls are transport errors, time-outs, calls longer than `maxDurationMs`, and internal errors of the server. Results
with `isError`, refused arguments and cancelled calls do not count as failures of the tool.
"""

from __future__ import annotations

from typing import Final

from fairlead_operator.latency.hysteresis import TRIAL_CALLS, Gate

MAX_POINTS: Final = 20
POINTS_PER_BAD_CALL: Final = 5
POINTS_PER_GOOD_CALL: Final = 1
HEALTHY_SCORE: Final = 25


class HealthScore:
    """The health of one tool in one environment."""

    __slots__ = ("_trial_failed", "all_calls", "bad_calls", "gate", "points")

    def __init__(self, *, score: int = 100, degraded: bool = False, now: float = 0.0) -> None:
        """`score` (0 to 100) and `degraded` are the published values before a restart. A degraded tool waits for its
        trial from `now` on.
        """
        self.points = (100 - score) // 5
        self.gate = Gate()
        self.bad_calls = 0
        """Number of bad calls since the score was last 100."""
        self.all_calls = 0
        """Number of all calls since the score was last 100."""
        if degraded:
            self.gate.keep_hidden(now)
        self._trial_failed = False

    @property
    def score(self) -> int:
        """0 (always bad) to 100."""
        return 100 - 5 * self.points

    @property
    def degraded(self) -> bool:
        """Whether the tool is degraded, so that its fastest tier does not show it."""
        return not self.gate.shown

    def observe(self, *, bad: bool) -> None:
        """Count one attempt."""
        if self.points == 0:
            self.bad_calls = self.all_calls = 0
        self.points = (
            min(MAX_POINTS, self.points + POINTS_PER_BAD_CALL) if bad else max(0, self.points - POINTS_PER_GOOD_CALL)
        )
        self.bad_calls += bad
        self.all_calls += 1
        self._trial_failed |= self.gate.count_call(bad=bad)

    def decide(self, now: float, *, probed: bool) -> bool:
        """Whether the tool counts as healthy from now on. `probed`: whether it is probed while it is degraded."""
        if self.gate.shown:
            if self.score == 0 or self._trial_failed:
                self.gate.hide(now)
                self.points = MAX_POINTS
        elif self.score >= HEALTHY_SCORE and self.gate.evidence_counts(now):
            self.gate.show(now)
        elif not probed and self.gate.trial_in(now) <= 0:
            self.gate.show(now, trial=TRIAL_CALLS)
            self.points = (100 - HEALTHY_SCORE) // 5
        self._trial_failed = False
        return self.gate.shown
