"""Decides which measured figures the status of each server shows. Pure; owned by the timekeeper.

Each change of a status is a write to the API server. A status is therefore changed at most once per `interval_s`
seconds, and only if a figure changed by more than a tenth, or if another tool is the slowest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fairlead_api.documents.state import ToolState
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import LatencySummary
from fairlead_operator.latency.difference import CHANGE_SHARE

SETTLE_S: Final = 5.0
"""Seconds until a server's first figures are shown, because its tools are measured one after the other."""


class StatusLatencies:
    """Latency figures for statuses of servers. `now` parameters are seconds of the same clock."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._shown_summaries: dict[ServerKey, LatencySummary] = {}
        self._shown_at: dict[ServerKey, float] = {}
        self._pending: dict[ServerKey, LatencySummary] = {}

    def offer(self, server: ServerKey, slowest: ToolState | None, now: float) -> None:
        """Record the published state of a server's slowest tool; None if no tool is measured."""
        self._shown_at.setdefault(server, now - self._interval_s + min(SETTLE_S, self._interval_s))
        summary = _summary(slowest)
        if _differ(self._shown_summaries.get(server, LatencySummary()), summary):
            self._pending[server] = summary
        else:
            self._pending.pop(server, None)

    def due_servers(self, now: float) -> list[ServerKey]:
        """Servers whose status has to show new figures now."""
        due_keys = [key for key in self._pending if now - self._shown_at[key] >= self._interval_s]
        for key in due_keys:
            self._shown_summaries[key] = self._pending.pop(key)
            self._shown_at[key] = now
        return due_keys

    def summary(self, server: ServerKey) -> LatencySummary | None:
        """Summary for the server's status; None if the status should not change."""
        return self._shown_summaries.get(server)

    def forget(self, existing_keys: Collection[ServerKey]) -> None:
        """Forget all servers that no longer exist."""
        for key in self._shown_at.keys() - set(existing_keys):
            self._shown_summaries.pop(key, None)
            self._pending.pop(key, None)
            del self._shown_at[key]


def _summary(slowest: ToolState | None) -> LatencySummary:
    """The figures of a server's slowest tool as its status shows them; empty if no tool is measured."""
    if slowest is None or slowest.quantiles is None:
        return LatencySummary()
    figures = slowest.quantiles
    return LatencySummary(slowest_tool=slowest.name, p50_ms=round(figures.p50_ms), p95_ms=round(figures.p95_ms))


def _differ(summary: LatencySummary, other_summary: LatencySummary) -> bool:
    """Whether two summaries name different tools, or a figure differs by more than `CHANGE_SHARE`."""
    if summary.slowest_tool != other_summary.slowest_tool:
        return True
    pairs = ((summary.p50_ms, other_summary.p50_ms), (summary.p95_ms, other_summary.p95_ms))
    return any(abs((new or 0) - (old or 0)) > CHANGE_SHARE * max(old or 0, 1) for old, new in pairs)
