"""Which measured figures the status of each server shows. Pure; owned by the timekeeper.

A status is a write to the API server, so it follows the published figures no more than once per `every` seconds, and
only where they moved by more than a tenth or are another tool's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.documents.state import ToolState
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import LatencySummary
from fairlead_operator.latency.difference import MOVED

SETTLE_S: Final = 5.0
"""Before the first figures of a server are shown: its tools are measured one after the other."""


class Figures:
    """Latency figures for the servers' status. `now` parameters are seconds of any one clock."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._shown: dict[ServerKey, LatencySummary] = {}
        self._at: dict[ServerKey, float] = {}
        self._wanted: dict[ServerKey, LatencySummary] = {}

    def offer(self, server: ServerKey, slowest: ToolState | None, now: float) -> None:
        """Learn the slowest tool of a server, as published; None: none is measured."""
        self._at.setdefault(server, now - self._every + min(SETTLE_S, self._every))
        summary = _summary(slowest)
        if _differ(self._shown.get(server, LatencySummary()), summary):
            self._wanted[server] = summary
        else:
            self._wanted.pop(server, None)

    def due(self, now: float) -> list[ServerKey]:
        """Servers that show other figures from now on."""
        due = [key for key in self._wanted if now - self._at[key] >= self._every]
        for key in due:
            self._shown[key] = self._wanted.pop(key)
            self._at[key] = now
        return due

    def summary(self, server: ServerKey) -> LatencySummary | None:
        """Summary for the server's status; None while nothing new is known."""
        return self._shown.get(server)

    def forget(self, alive: Collection[ServerKey]) -> None:
        """Keep the living only."""
        for key in self._at.keys() - set(alive):
            self._shown.pop(key, None)
            self._wanted.pop(key, None)
            del self._at[key]


def _summary(slowest: ToolState | None) -> LatencySummary:
    if slowest is None or slowest.quantiles is None:
        return LatencySummary()
    figures = slowest.quantiles
    return LatencySummary(slowest_tool=slowest.name, p50_ms=round(figures.p50_ms), p95_ms=round(figures.p95_ms))


def _differ(summary: LatencySummary, other: LatencySummary) -> bool:
    if summary.slowest_tool != other.slowest_tool:
        return True
    pairs = ((summary.p50_ms, other.p50_ms), (summary.p95_ms, other.p95_ms))
    return any(abs((new or 0) - (old or 0)) > MOVED * max(old or 0, 1) for old, new in pairs)
