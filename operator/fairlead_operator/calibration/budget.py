"""Bound on the time that probes take of a tool: a twentieth, whatever they are made for. Pure.

A probe that took 3 s is followed by 57 s without one. Short ones may be up to a second ahead of their share, so that a
fast tool is measured, and returns to its tier, by a few probes in quick succession. The account is kept per server and
tool beside the courses: a server that connects again, or whose spec changes, goes on with what its tools were charged.
"""

from __future__ import annotations

import math
from typing import Final

SHARE: Final = 0.05
"""Part of a tool's time that probes may take."""
AHEAD_S: Final = 1.0
"""Seconds of probing that may be outstanding, the next probe included, which is taken to be as long as the last."""


class ProbeBudget:
    """When each tool of one server may be probed again. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._even: dict[str, float] = {}
        """When all probes of a tool that were made are a twentieth of its time."""
        self._last: dict[str, float] = {}
        self._running: set[str] = set()

    def begin(self, tool: str) -> None:
        """A probe begins: none may follow before `spend` says what it took."""
        self._running.add(tool)

    def spend(self, tool: str, began: float, seconds: float) -> None:
        """A probe took `seconds`, or was cut off after them."""
        even = max(began, self._even.get(tool, began)) + seconds / SHARE
        self._running.discard(tool)
        self._even = {probed: until for probed, until in self._even.items() if until > began}
        self._last = {probed: last for probed, last in self._last.items() if probed in self._even}
        self._even[tool], self._last[tool] = even, seconds

    def free_at(self, tool: str) -> float:
        """When `tool` may be probed next."""
        if tool in self._running:
            return math.inf
        if tool not in self._even:
            return 0.0
        return self._even[tool] - max(0.0, AHEAD_S - self._last[tool]) / SHARE

    def is_settled(self, now: float) -> bool:
        """Whether no tool is charged for anything, and no probe is under way, so that the account may be forgotten."""
        return not self._running and all(even <= now for even in self._even.values())
