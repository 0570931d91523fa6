"""One tool in one tier: counts late calls and decides whether the tier shows it.

Pure; owned by `tool_record.ToolRecord`.
"""

from __future__ import annotations

from typing import Final

from fairlead_api.documents.rules import Tier
from fairlead_operator.latency.hysteresis import Gate
from fairlead_operator.latency.thresholds import DETECTORS, Detector, run_needed
from fairlead_operator.latency.window import Window

MEASURED: Final = ("recent", "window")
"""Causes for hiding a tool that was measured."""

Definition = tuple[int | None, str, int, str, float | None]


def definition(tier: Tier) -> Definition:
    """Members of a tier that decide about tools; its subjects and conversations are left out."""
    return tier.max_latency_ms, tier.quantile, tier.min_samples, tier.unmeasured, tier.hysteresis


class TierScore:
    """The score of one tool in one tier that has a limit."""

    __slots__ = (
        "_alarm",
        "_lowest",
        "_quantile",
        "_since",
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
        """`points`: where its score goes on, 0 for a tool that is to be judged by its window; None for a tool of which
        nothing is known yet.
        """
        assert tier.max_latency_ms is not None
        self.tier = tier.name
        self.rule = tier
        self.definition = definition(tier)
        self.limit_ms = float(tier.max_latency_ms)
        self.late_from_ms = tier.max_latency_ms * (1 + (tier.hysteresis or 0.0))
        """A call counts as late above this."""
        self.min_samples = tier.min_samples
        self._quantile = tier.quantile
        self.detector: Detector = DETECTORS["p95" if bimodal else tier.quantile]
        self.gate = Gate()
        self.cause = "recent"
        """Why it is hidden: `recent`, `window`, `declared` or `unmeasured`."""
        self.points = self._lowest = self.detector.start if points is None else points
        self._since = 0
        self._alarm = False
        self._was_late = False
        self.run = 0
        """Samples in time, in a row, up to now."""

    def begin_hidden(self, now: float, cause: str) -> None:
        """Hidden from the start: by what is declared, because nothing is known, or as it was before a restart."""
        self.gate.keep_hidden(now)
        self.cause = cause

    @property
    def waits(self) -> bool:
        """Whether time alone may bring it back."""
        return not self.gate.shown and self.cause in MEASURED

    def observe(self, *, late: bool, proves: bool = True) -> None:
        """Take one sample. `proves`: in time, it speaks for bringing a hidden tool back."""
        detector = self.detector
        self.points = self.points + detector.late if late else max(0, self.points - detector.in_time)
        self._since += 1
        if self.points <= self._lowest:
            self._lowest = self.points
            self._since = 0
        self._alarm |= self.points >= detector.cap
        self._alarm |= self.gate.count_call(bad=late)
        self._was_late |= late
        if late:
            self.run = 0
        elif proves or self.gate.shown:
            self.run += 1

    def judge(self, *, bimodal: bool) -> None:
        """A tool with two speeds is judged by p95, whatever the tier says: its median speaks of the fast one alone."""
        detector = DETECTORS["p95" if bimodal else self._quantile]
        if detector is not self.detector:
            self.detector = detector
            self._restart(0)

    def decide(self, now: float, window: Window, *, trials: bool) -> bool:
        """Whether the tier shows the tool from now on; may cut the window to the samples that led to the decision.

        `trials`: no probe speaks for it while it is hidden, so it is tried out after a while without a late call.
        """
        if self._was_late:
            self.gate.refute(now)
        if self.gate.shown:
            self._perhaps_hide(now, window)
        elif self._proven(now, window):
            self._show(now, window, keep=self.run)
        elif trials and self.cause in MEASURED and self.gate.trial_in(now) <= 0:
            self._show(now, window, keep=0, trial=self.samples_needed(window))
        self._alarm = self._was_late = False
        return self.gate.shown

    def late(self, window: Window) -> int:
        """Late calls in the window."""
        return window.late(self.late_from_ms)

    def samples_needed(self, window: Window) -> int:
        """Samples in time in a row that bring it back, in all, or that it shows on trial."""
        before = len(window) - self.run
        needed = run_needed(self.late(window) / before if before > 0 else 1.0, self.gate.relapses)
        return needed if self.cause in MEASURED else max(needed, self.min_samples)

    def _proven(self, now: float, window: Window) -> bool:
        return self.run >= self.samples_needed(window) and self.gate.evidence_counts(now)

    def _perhaps_hide(self, now: float, window: Window) -> None:
        too_many = len(window) >= self.min_samples and self.late(window) >= self.detector.late_allowed(len(window))
        if not self._alarm and not too_many:
            return
        self.cause = "recent" if self._alarm else "window"
        if self._alarm:
            window.keep_last(self._since)
        self.gate.hide(now)
        self.run = 0

    def _show(self, now: float, window: Window, *, keep: int, trial: int = 0) -> None:
        self.gate.show(now, trial=trial)
        window.keep_last(keep)
        self._restart(self.detector.again)

    def _restart(self, points: int) -> None:
        self.points = self._lowest = points
        self._since = 0
