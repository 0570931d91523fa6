"""Score of one tool in one tier: counts late calls, and decides by them whether the tier shows the tool. `thresholds`
explains which numbers of late calls hide a tool, `hysteresis` when it returns.

Pure; owned by `tool_record.ToolRecord`.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.hysteresis import Gate
from fairlead_operator.latency.thresholds import DETECTORS, Detector, run_needed
from fairlead_operator.latency.window import Window

MEASURED: Final = ("recent", "window")
"""Causes of a tool that is hidden because of measurements."""

Definition = tuple[int | None, str, int, str, float | None]


def definition(tier: Tier) -> Definition:
    """The members of a tier that decisions about tools depend on."""
    return tier.max_latency_ms, tier.quantile, tier.min_samples, tier.unmeasured, tier.hysteresis


class TierScore:
    """Score of one tool in one tier with a latency limit."""

    __slots__ = (
        "_alarm",
        "_lowest_points",
        "_quantile",
        "_samples_since_lowest",
        "_was_late",
        "cause",
        "definition",
        "detector",
        "gate",
        "late_from_ms",
        "limit_ms",
        "min_samples",
        "points",
        "rule",
        "run",
        "tier",
    )

    def __init__(self, tier: Tier, *, points: int | None = None, bimodal: bool = False) -> None:
        """`points` is the score to continue from: 0 for a tool with enough samples in its window, and None for a new
        tool, which begins with the detector's `start`.
        """
        assert tier.max_latency_ms is not None
        self.tier = tier.name
        self.rule = tier
        self.definition = definition(tier)
        self.limit_ms = float(tier.max_latency_ms)
        self.late_from_ms = tier.max_latency_ms * (1 + (tier.hysteresis or 0.0))
        """Milliseconds above which a call counts as late: the tier's limit plus its hysteresis."""
        self.min_samples = tier.min_samples
        self._quantile = tier.quantile
        self.detector: Detector = DETECTORS["p95" if bimodal else tier.quantile]
        self.gate = Gate()
        self.cause = "recent"
        """Why the tool is hidden: `recent`, `window`, `declared` or `unmeasured`."""
        self.points = self._lowest_points = self.detector.start if points is None else points
        """Score that grows with late calls, and its lowest value so far."""
        self._samples_since_lowest = 0
        """Number of samples since the score was lowest. They led to the present score."""
        self._alarm = False
        """Whether the score reached its cap, or a call of a trial was late, since the last decision."""
        self._was_late = False
        """Whether a call was late since the last decision."""
        self.run = 0
        """Number of samples in time since the last late sample."""

    def hide_initially(self, now: float, cause: str) -> None:
        """Hide the tool from the start, because of its declaration, without measurements, or as before a restart."""
        self.gate.keep_hidden(now)
        self.cause = cause

    @property
    def returns_with_time(self) -> bool:
        """Whether the tool is hidden and the passage of time alone may bring it back."""
        return not self.gate.shown and self.cause in MEASURED

    def observe(self, *, late: bool, counts_for_return: bool = True) -> None:
        """Count one sample. `counts_for_return`: whether a sample in time may bring back a hidden tool."""
        detector = self.detector
        self.points = self.points + detector.late_points if late else max(0, self.points - detector.in_time_points)
        self._samples_since_lowest += 1
        if self.points <= self._lowest_points:
            self._lowest_points = self.points
            self._samples_since_lowest = 0
        self._alarm |= self.points >= detector.cap
        self._alarm |= self.gate.count_call(bad=late)
        self._was_late |= late
        if late:
            self.run = 0
        elif counts_for_return or self.gate.shown:
            self.run += 1

    def use_bimodality(self, *, bimodal: bool) -> None:
        """Set whether durations are bimodal; if so, p95 decides instead of the tier's quantile, because the median
        would only reflect fast calls.
        """
        detector = DETECTORS["p95" if bimodal else self._quantile]
        if detector is not self.detector:
            self.detector = detector
            self._restart(0)

    def decide(self, now: float, window: Window, *, trials: bool) -> bool:
        """Whether the tier shows the tool from now on. May cut the window to the samples that led to the decision.

        `trials`: whether a hidden tool returns by trial after some time without late calls, because no probes measure
        it.
        """
        if self._was_late:
            self.gate.note_bad_sample(now)
        if self.gate.shown:
            self._hide_if_late(now, window)
        elif self._may_return(now, window):
            self._show(now, window, keep=self.run)
        elif trials and self.cause in MEASURED and self.gate.trial_in(now) <= 0:
            self._show(now, window, keep=0, trial=self.samples_needed(window))
        self._alarm = self._was_late = False
        return self.gate.shown

    def count_late(self, window: Window) -> int:
        """Number of late calls in the window."""
        return window.count_late(self.late_from_ms)

    def samples_needed(self, window: Window) -> int:
        """Number of consecutive samples in time that bring back a hidden tool. A trial has the same number of calls."""
        earlier_samples = len(window) - self.run
        run = run_needed(self.count_late(window) / earlier_samples if earlier_samples > 0 else 1.0, self.gate.relapses)
        return run if self.cause in MEASURED else max(run, self.min_samples)

    def _may_return(self, now: float, window: Window) -> bool:
        return self.run >= self.samples_needed(window) and self.gate.evidence_counts(now)

    def _hide_if_late(self, now: float, window: Window) -> None:
        has_too_many_late = len(window) >= self.min_samples and self.count_late(
            window
        ) >= self.detector.late_calls_to_hide(len(window))
        if not self._alarm and not has_too_many_late:
            return
        self.cause = "recent" if self._alarm else "window"
        if self._alarm:
            window.keep_last(self._samples_since_lowest)
        self.gate.hide(now)
        self.run = 0

    def _show(self, now: float, window: Window, *, keep: int, trial: int = 0) -> None:
        """Show the tool, and drop all samples before the last `keep` ones."""
        self.gate.show(now, trial=trial)
        window.keep_last(keep)
        self._restart(self.detector.after_return)

    def _restart(self, points: int) -> None:
        """Continue from this score, without the history of the previous score."""
        self.points = self._lowest_points = points
        self._samples_since_lowest = 0
