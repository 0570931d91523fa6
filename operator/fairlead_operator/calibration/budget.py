"""Limits the probes of a tool to a twentieth of the time, so that probing does not load the server. Pure.

A probe that took 3 s is followed by 57 s without a probe. Short probes may exceed their share by up to a second of
probing, so that a few probes in quick succession suffice to measure a fast tool and to bring it back to its tier. A
server's budget outlives its probe schedule: reconnecting or changing the spec does not reset the budget.
"""

from __future__ import annotations

import math
from typing import Final

SHARE: Final = 0.05
"""Share of the time during which a probe of a tool may be running."""
MAX_EXCESS_S: Final = 1.0
"""Seconds of probing by which a tool may exceed its share. The next probe counts too; it is assumed to take as long as
the last one.
"""


class ProbeBudget:
    """Budgets of one server's tools. All times are in seconds, of the same clock."""

    def __init__(self) -> None:
        self._balanced_at: dict[str, float] = {}
        """Time at which each tool's previous probes will have taken exactly their share."""
        self._last_durations: dict[str, float] = {}
        """Duration of each tool's last probe in seconds."""
        self._running_tools: set[str] = set()

    def begin(self, tool: str) -> None:
        """Record the beginning of a probe; the tool has no budget until `spend` is called."""
        self._running_tools.add(tool)

    def spend(self, tool: str, began: float, seconds: float) -> None:
        """Charge a probe that ended or was cancelled after `seconds`."""
        balanced_at = max(began, self._balanced_at.get(tool, began)) + seconds / SHARE
        self._running_tools.discard(tool)
        self._balanced_at = {name: time_s for name, time_s in self._balanced_at.items() if time_s > began}
        self._last_durations = {
            name: duration for name, duration in self._last_durations.items() if name in self._balanced_at
        }
        self._balanced_at[tool], self._last_durations[tool] = balanced_at, seconds

    def free_at(self, tool: str) -> float:
        """Earliest time of the tool's next probe."""
        if tool in self._running_tools:
            return math.inf
        if tool not in self._balanced_at:
            return 0.0
        return self._balanced_at[tool] - max(0.0, MAX_EXCESS_S - self._last_durations[tool]) / SHARE

    def is_settled(self, now: float) -> bool:
        """Whether no probe is running and no tool has exceeded its share, so that this object may be dropped."""
        return not self._running_tools and all(balanced_at <= now for balanced_at in self._balanced_at.values())
