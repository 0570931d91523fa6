"""Gate that decides when a hidden tool may be shown again. Pure. A tool has one gate per tier for its latency (`score`)
and one for its health (`reliability`).

While a tool is hidden, samples may still arrive from probes, or from calls through slower tiers. After the first time
of hiding, good samples bring the tool back at once. If the tool is hidden again within ten minutes of its return (a
relapse), good samples count only after a minute; further relapses prolong this time to two, four … ten minutes. If no
samples arrive, the tool is shown for a trial half a minute after the last bad sample; relapses prolong this time to
one, two … ten minutes. Any bad call during the trial hides the tool again.
"""

from __future__ import annotations

from typing import Final

STEADY_S: Final = 600.0
"""Seconds for which a tool has to be shown before its earlier relapses no longer count."""
LONGEST_S: Final = 600.0
"""Maximum seconds until good samples count, and until a trial."""
HOLD_S: Final = 60.0
"""Seconds until good samples count after the first relapse; doubled by each further relapse."""
TRIAL_AFTER_S: Final = 30.0
"""Seconds without a bad sample until a trial; doubled by each relapse."""
TRIAL_CALLS: Final = 3
"""Number of calls of a trial for health."""


class Gate:
    """State of one gate: shown or hidden. All times are in seconds, of the same clock."""

    __slots__ = ("bad_at", "hidden_at", "relapses", "shown", "shown_at", "trial")

    def __init__(self) -> None:
        self.shown = True
        self.shown_at = -STEADY_S * 2
        self.hidden_at = 0.0
        self.bad_at = 0.0
        """Time at which the tool was hidden, or time of the last bad sample since then."""
        self.relapses = 0
        """How often the tool was hidden again within `STEADY_S` of its return, without a longer period in between."""
        self.trial = 0
        """Number of remaining calls of a trial; a bad call among them hides the tool at once."""

    def hide(self, now: float) -> None:
        """Hide the tool. The time since its last return decides how long it stays hidden."""
        self.relapses = 0 if now - self.shown_at > STEADY_S else self.relapses + 1
        self.keep_hidden(now)

    def keep_hidden(self, now: float) -> None:
        """Hide the tool from `now` on, without counting a relapse."""
        self.shown = False
        self.hidden_at = now
        self.bad_at = now
        self.trial = 0

    def note_bad_sample(self, now: float) -> None:
        """Record a bad sample, which postpones the trial of a hidden tool."""
        self.bad_at = now

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
        """Seconds until a trial is due; 0 or less if it is due now."""
        return min(LONGEST_S, TRIAL_AFTER_S * 2.0**self.relapses) - (now - self.bad_at)
