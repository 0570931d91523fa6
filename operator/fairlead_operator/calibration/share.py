"""Bound on the time that probes take of a tool: a twentieth, whatever they are made for. Pure.

A probe that took 3 s is followed by 57 s without one. The account is kept per server and tool beside the courses, so
that a server that connects again, or whose spec changes, begins with what its tools were given before.
"""

from __future__ import annotations

import math
from typing import Final

SHARE: Final = 0.05
"""Of a tool's time."""


def free_at(began: float, seconds: float) -> float:
    """When the next probe of a tool may begin, after one that began at `began` and took `seconds`."""
    return began + seconds / SHARE


class Account:
    """When each tool of one server may be probed again. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._free: dict[str, float] = {}

    def begin(self, tool: str) -> None:
        """A probe begins: none may follow before `spend` says what it took."""
        self._free[tool] = math.inf

    def spend(self, tool: str, began: float, seconds: float) -> None:
        """A probe took `seconds`, or was cut off after them."""
        now = began + seconds
        self._free = {known: until for known, until in self._free.items() if until > now}
        self._free[tool] = free_at(began, seconds)

    def free_at(self, tool: str) -> float:
        """When `tool` may be probed next."""
        return self._free.get(tool, 0.0)

    def settled(self, now: float) -> bool:
        """Whether no tool has to wait any more and no probe is under way, so that the account may be forgotten."""
        return all(until <= now for until in self._free.values())
