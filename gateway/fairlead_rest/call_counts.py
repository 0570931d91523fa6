"""Counts of tool calls and of failed calls by tool, since the start of this process."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_gateway.calls.path.dispatch import CALL
from fairlead_gateway.telemetry import OTHER, Histogram, MetricsRegistry

ToolLabels = tuple[str, str]
"""The server's name of a tool, and `namespace/name` of the server."""


class CallCount(msgspec.Struct, frozen=True):
    """Calls of one tool by all callers, since the start of the answering process."""

    calls: int = 0
    """Number of answered calls, including failed ones."""
    errors: int = 0
    """Number of calls whose result reports an error of the tool, or that were answered with an error."""


NEVER_CALLED: Final = CallCount()


class CallCounts:
    """Counts of the calls of all tools of a gateway, from its metrics. They should be read in the worker thread, as
    reading takes long with many tools.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self.origin = secrets.token_hex(16)
        """Opaque id of this process, by which counts of different replicas and restarts can be distinguished."""

    def read(self) -> CallCountReading:
        """Read the current counts of all tools."""
        registry = self._registry
        counts: dict[ToolLabels, CallCount] = {}
        for (method, tool, server, error_type), series in registry.histograms():
            if method == CALL and (tool, server) != (OTHER, OTHER):
                old_count, count = counts.get((tool, server), NEVER_CALLED), series.count
                errors = old_count.errors + (count if error_type else 0)
                counts[tool, server] = CallCount(old_count.calls + count, errors)
        return CallCountReading(counts, is_complete=registry.overflowed == 0)

    def durations(self, tool: str, server: str) -> Histogram:
        """Durations of all calls of one tool, with any outcome."""
        total = Histogram()
        for (method, name, server_label, _), series in self._registry.histograms():
            if (method, name, server_label) == (CALL, tool, server):
                total.buckets = [sum(pair) for pair in zip(total.buckets, series.buckets, strict=True)]
                total.total += series.total
        return total


class CallCountReading:
    """Counts at one point in time. `is_complete` says whether each called tool has its own count. With too many tools,
    the metrics count the remaining tools together.
    """

    def __init__(self, counts: Mapping[ToolLabels, CallCount], *, is_complete: bool) -> None:
        self._counts = counts
        self._is_complete = is_complete

    @property
    def by_tool(self) -> Mapping[ToolLabels, CallCount]:
        """Counts by tool, without tools that were not called or do not have their own count."""
        return self._counts

    @property
    def is_complete(self) -> bool:
        """Whether each called tool has its own count."""
        return self._is_complete

    def of(self, tool: str, server: str) -> CallCount | None:
        """Count of one tool; None if the tool may be counted together with others."""
        return self._counts.get((tool, server), NEVER_CALLED if self._is_complete else None)
