"""Shown or hidden, and when something hidden may come back. Pure; used alike for speed (`score`) and `reliability`.

What can be watched while it is hidden (by probes, or by calls through slower tiers) comes back by evidence, at once the
first time; hidden again within ten minutes of its return, it waits a minute, two, four … ten first. What cannot be
watched is shown for a trial after half a minute, one, two … ten in which nothing speaks against it: any bad call among
the first ones hides it again.
"""

from __future__ import annotations

from typing import Final

STEADY_S: Final = 600.0
"""Shown for this long, earlier hides are forgotten."""
LONGEST_S: Final = 600.0
HOLD_S: Final = 60.0
TRIAL_AFTER_S: Final = 30.0
TRIAL_CALLS: Final = 3
"""Calls of a trial that proves nothing but that the tool answers."""


class Gate:
    """Whether one thing is shown. Times are seconds of any one clock."""

    __slots__ = ("hidden_at", "refuted_at", "relapses", "shown", "shown_at", "trial")

    def __init__(self) -> None:
        self.shown = True
        self.shown_at = -STEADY_S * 2
        self.hidden_at = 0.0
        self.refuted_at = 0.0
        """When it was hidden, or when something last spoke against it since then."""
        self.relapses = 0
        """How often it was hidden again, soon after it was shown."""
        self.trial = 0
        """Calls left of a trial; any bad one among them hides at once."""

    def hide(self, now: float) -> None:
        """Take it out; how soon after its last return decides how long it stays out."""
        self.relapses = 0 if now - self.shown_at > STEADY_S else self.relapses + 1
        self.keep_hidden(now)

    def keep_hidden(self, now: float) -> None:
        """Hidden from `now` on, without counting as a relapse."""
        self.shown = False
        self.hidden_at = now
        self.refuted_at = now
        self.trial = 0

    def refute(self, now: float) -> None:
        """Something speaks against it: if it is hidden, its trial has to wait again."""
        self.refuted_at = now

    def show(self, now: float, *, trial: int = 0) -> None:
        """Let it back in; any bad call among the first `trial` ones hides it again."""
        self.shown = True
        self.shown_at = now
        self.trial = trial

    def count_call(self, *, bad: bool) -> bool:
        """Count a call; whether it was a bad one of a trial."""
        if not self.trial:
            return False
        self.trial -= 1
        return bad

    def evidence_counts(self, now: float) -> bool:
        """Whether good samples may bring it back by now."""
        hold = 0.0 if self.relapses == 0 else min(LONGEST_S, HOLD_S * 2.0 ** (self.relapses - 1))
        return now - self.hidden_at >= hold

    def trial_in(self, now: float) -> float:
        """Seconds until a trial is due; 0 or less: now."""
        return min(LONGEST_S, TRIAL_AFTER_S * 2.0**self.relapses) - (now - self.refuted_at)
