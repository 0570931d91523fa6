"""Counts of tool calls and of those that failed, by tool, since this process started."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_gateway.calls.path.dispatch import CALL
from fairlead_gateway.telemetry import OTHER, Histogram, MetricsRegistry

ToolLabels = tuple[str, str]
"""Name of a tool as its server calls it, and `namespace/name` of the server."""


class CallCount(msgspec.Struct, frozen=True):
    """Calls of one tool since the start of the process that answers, by all callers."""

    calls: int = 0
    """Calls that were answered, failed ones too."""
    errors: int = 0
    """Those whose result says that the tool failed, and those that were answered with an error."""


NEVER_CALLED: Final = CallCount()


class CallCounts:
    """Counts of the calls of a gateway's tools. Read in a thread."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self.origin = secrets.token_hex(16)
        """Opaque id of this process, by which counts of two replicas, or of two runs, are told apart."""

    def read(self) -> CallCountReading:
        """All counts as of now."""
        registry = self._registry
        counts: dict[ToolLabels, CallCount] = {}
        for (method, tool, server, error_type), series in registry.histograms():
            if method == CALL and (tool, server) != (OTHER, OTHER):
                before, count = counts.get((tool, server), NEVER_CALLED), series.count
                errors = before.errors + (count if error_type else 0)
                counts[tool, server] = CallCount(before.calls + count, errors)
        return CallCountReading(counts, whole=registry.overflowed == 0)

    def durations(self, tool: str, server: str) -> Histogram:
        """Durations of all calls of one tool, by whatever end."""
        summed = Histogram()
        for (method, name, server_label, _), series in self._registry.histograms():
            if (method, name, server_label) == (CALL, tool, server):
                summed.buckets = [mine + more for mine, more in zip(summed.buckets, series.buckets, strict=True)]
                summed.total += series.total
        return summed


class CallCountReading:
    """Counts at one moment. `whole`: every tool that was called has its own."""

    def __init__(self, counts: Mapping[ToolLabels, CallCount], *, whole: bool) -> None:
        self._counts = counts
        self._whole = whole

    @property
    def called(self) -> Mapping[ToolLabels, CallCount]:
        """Counts of the tools that were called, and have one of their own."""
        return self._counts

    @property
    def whole(self) -> bool:
        """Whether every tool that was called is among them."""
        return self._whole

    def of(self, tool: str, server: str) -> CallCount | None:
        """Count of one tool; None where it was not counted on its own, for want of room."""
        return self._counts.get((tool, server), NEVER_CALLED if self._whole else None)
