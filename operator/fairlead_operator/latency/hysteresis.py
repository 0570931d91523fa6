"""Gate that decides when a hidden tool may be shown again. Pure. A tool has one gate per tier for its latency (`score`)
and one for its health (`reliability`).

Samples may still arrive while the tool is hidden, from probes, or from calls through slower tiers. The first time, good
samples bring the tool back at once. If it is hidden again within ten minutes of its return (a relapse), good samples
count only after a minute; further relapses prolong this time to two, four … ten minutes. Without samples, the tool is
shown for a trial after half a minute without a bad sample; relapses prolong this time to one, two … ten minutes. Any
bad call of the trial hides the tool again.
"""

from __future__ import annotations

from typing import Final

STEADY_S: Final = 600.0
"""Seconds after a tool's return from which earlier hides no longer count."""
LONGEST_S: Final = 600.0
"""Maximum seconds until good samples count, and until a trial."""
HOLD_S: Final = 60.0
"""Seconds until good samples count after the first relapse; doubled by each further relapse."""
TRIAL_AFTER_S: Final = 30.0
"""Seconds without a bad sample until a trial; doubled by each relapse."""
TRIAL_CALLS: Final = 3
"""Number of calls of a trial for health."""


class Gate:
    """State of one gate: shown or hidden. Times are seconds of any one clock."""

    __slots__ = ("hidden_at", "refuted_at", "relapses", "shown", "shown_at", "trial")

    def __init__(self) -> None:
        self.shown = True
        self.shown_at = -STEADY_S * 2
        self.hidden_at = 0.0
        self.refuted_at = 0.0
        """Time when the tool was hidden, or of the last bad sample since then."""
        self.relapses = 0
        """Number of hides in a row, each within `STEADY_S` of the last return."""
        self.trial = 0
        """Remaining calls of a trial; any bad one hides at once."""

    def hide(self, now: float) -> None:
        """Hide the tool. The time since its last return decides how long it stays hidden."""
        self.relapses = 0 if now - self.shown_at > STEADY_S else self.relapses + 1
        self.keep_hidden(now)

    def keep_hidden(self, now: float) -> None:
        """Hide the tool from `now` on, without counting a relapse."""
        self.shown = False
        self.hidden_at = now
        self.refuted_at = now
        self.trial = 0

    def refute(self, now: float) -> None:
        """Note a bad sample, which postpones the trial of a hidden tool."""
        self.refuted_at = now

    def show(self, now: float, *, trial: int = 0) -> None:
        """Show the tool; any bad call among its first `trial` calls hides it again."""
        self.shown = True
        self.shown_at = now
        self.trial = trial

    def count_call(self, *, bad: bool) -> bool:
        """Count a call; return whether it was a bad call of a trial."""
        if not self.trial:
            return False
        self.trial -= 1
        return bad

    def evidence_counts(self, now: float) -> bool:
        """Whether good samples may bring the tool back now."""
        hold = 0.0 if self.relapses == 0 else min(LONGEST_S, HOLD_S * 2.0 ** (self.relapses - 1))
        return now - self.hidden_at >= hold

    def trial_in(self, now: float) -> float:
        """Seconds until a trial is due; 0 or less: now."""
        return min(LONGEST_S, TRIAL_AFTER_S * 2.0**self.relapses) - (now - self.refuted_at)
