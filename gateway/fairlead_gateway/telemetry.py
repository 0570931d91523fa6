"""Counters and histograms of the gateway, recorded during calls.

This module only records; `metrics` exposes the values. Recording needs no locks and no label look-ups: a call has the
`Recorder` of its tool and adds two numbers. Readers may see one number before the other is added.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fairlead_gateway.core import ports
from fairlead_gateway.core.grant_counts import GrantCounts
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_gateway.core.meta_tools import OWN_TOOLS
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_gateway.core.share_counts import ShareCounts

BOUNDS: Final[tuple[float, ...]] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds of `mcp.server.operation.duration` (OpenTelemetry semantic conventions for MCP)."""
_BOUNDS_NS: Final = [round(bound * 1e9) for bound in BOUNDS]

MAX_LABEL_SETS: Final = 2000
"""Maximum number of combinations of method, tool, server and error type that have a histogram of their own."""
MAX_TIERS: Final = 50
"""Maximum number of tiers with metrics of their own; if there are more tiers, the first ones by name have metrics."""
OTHER: Final = "other"
"""Value of the labels tool and server for calls beyond MAX_LABEL_SETS."""

TOOL_ERROR: Final = "tool_error"
"""`error.type` of a result with `isError`."""


def _bucket_of(nanoseconds: int) -> int:
    """Index of the first bound that is not exceeded. A linear search from below, where most calls end, takes a tenth of
    the time of `bisect` in compiled code.
    """
    index = 0
    for bound in _BOUNDS_NS:
        if nanoseconds <= bound:
            break
        index += 1
    return index


class SpanExemplar(NamedTuple):
    """Span that is the exemplar of a histogram's bucket (OpenMetrics 1.0, exemplars)."""

    trace_id: str
    span_id: str
    seconds: float
    """Observed duration."""
    at: float
    """Seconds since the epoch."""


class Histogram:
    """A histogram: observations per bucket, not cumulative, and their sum in nanoseconds."""

    __slots__ = ("buckets", "exemplars", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0
        self.exemplars: dict[int, SpanExemplar] = {}
        """Last exemplar of each bucket by the index of the bucket."""

    def observe(self, nanoseconds: int) -> None:
        self.buckets[_bucket_of(nanoseconds)] += 1
        self.total += nanoseconds

    def set_exemplar(self, nanoseconds: int, trace_id: str, span_id: str) -> None:
        """Store a span as the exemplar of its duration's bucket."""
        index = _bucket_of(nanoseconds)
        self.exemplars[index] = SpanExemplar(trace_id, span_id, nanoseconds / 1e9, time.time())

    @property
    def count(self) -> int:
        return sum(self.buckets)


class Wait:
    """Durations of calls as agents in one tier perceive them, from the request to its response."""

    __slots__ = ("breaches", "limit_ns", "series")

    def __init__(self) -> None:
        self.limit_ns: float = float("inf")
        """Limit of the tier in nanoseconds; infinite without a limit."""
        self.breaches = 0
        """Number of calls that took longer than the tier's limit."""
        self.series = Histogram()


class Recorder(ports.CallRecorder):
    """Histograms of one method of one tool by outcome, created at the first use."""

    __slots__ = ("_errors", "_method", "_metrics", "_ok", "_server", "_tool")

    def __init__(self, metrics: MetricsRegistry, method: str, tool: str = "", server: str = "") -> None:
        self._metrics = metrics
        self._method = method
        self._tool = tool
        self._server = server
        self._ok: Histogram | None = None
        self._errors: dict[str, Histogram] = {}

    def record(self, nanoseconds: int, error_type: str = "") -> None:
        """Count one operation. `error_type` is a documented code, TOOL_ERROR, or empty for a success."""
        series = (self._errors.get(error_type) if error_type else self._ok) or self._open(error_type)
        series.observe(nanoseconds)

    def set_exemplar(self, nanoseconds: int, error_type: str, trace_id: str, span_id: str) -> None:
        series = self._errors.get(error_type) if error_type else self._ok
        if series is not None:
            series.set_exemplar(nanoseconds, trace_id, span_id)

    def _open(self, error_type: str) -> Histogram:
        series, has_labels = self._metrics.series(self._method, self._tool, self._server, error_type)
        if not has_labels:
            self._metrics.overflowed += 1
        elif error_type:
            self._errors[error_type] = series
        else:
            self._ok = series
        return series


class MetricsRegistry:
    """All histograms and counters of one gateway."""

    def __init__(self, max_label_sets: int = MAX_LABEL_SETS) -> None:
        self._max = max_label_sets
        self._series: dict[tuple[str, str, str, str], Histogram] = {}
        self.overflowed = 0
        """Observations that were counted under OTHER."""
        self.in_flight = 0
        """Calls in flight."""
        self.rejected: dict[int, int] = {}
        """Requests that were rejected before their method was known, by HTTP status."""
        self.waits: dict[str, Wait] = {}
        """Waiting times by tier, of at most MAX_TIERS tiers."""

        self.limited: dict[str, int] = {}
        """Calls that were refused because of a limit, by the scope of the limit: agent, policy, tool or server."""

        self.stored_results = {True: 0, False: 0}
        """Results of `execute_tool`, by whether they were stored."""
        self.shortened_results = {True: 0, False: 0}
        """Results that were shortened to a limit on tokens, by whether the full result was stored."""
        self.tokens_withheld = 0
        """Tokens of shortened results that were not shown."""
        self.meta_calls = dict.fromkeys(sorted(OWN_TOOLS), 0)
        """Calls of the gateway's built-in tools by name."""
        self.search = SearchCounts()
        self.llm = LlmCounts()
        self.console = PageCounts()
        self.shares = ShareCounts()
        self.grants = GrantCounts()

    def count_stored_result(self, *, is_stored: bool) -> None:
        self.stored_results[is_stored] += 1

    def count_shortening(self, *, is_stored: bool, tokens: int, shown_tokens: int) -> None:
        self.shortened_results[is_stored] += 1
        self.tokens_withheld += max(0, tokens - shown_tokens)

    def count_meta_call(self, name: str) -> None:
        self.meta_calls[name] += 1

    def recorder(self, method: str, tool: str = "", server: str = "") -> Recorder:
        """Create a recorder of a tool. All recorders of a tool share histograms, which exist until the gateway ends."""
        return Recorder(self, method, tool, server)

    def series(self, method: str, tool: str, server: str, error_type: str) -> tuple[Histogram, bool]:
        """Histogram of a label set, and True; if there are too many label sets already, the common histogram of the
        tools beyond the limit (OTHER), and False.
        """
        key = (method, tool, server, error_type)
        series = self._series.get(key)
        if series is not None:
            return series, True
        if len(self._series) < self._max:
            return self._series.setdefault(key, Histogram()), True
        other_key = (method, OTHER, OTHER, error_type)
        return self._series.setdefault(other_key, Histogram()), False

    def set_tiers(self, limits: Mapping[str, int | None]) -> None:
        """Set the tiers, with their limits in milliseconds. Existing tiers continue their counts."""
        waits = {}
        for tier in sorted(limits)[:MAX_TIERS]:
            limit_ms = limits[tier]
            wait = waits[tier] = self.waits.get(tier) or Wait()
            wait.limit_ns = float("inf") if limit_ms is None else limit_ms * 1e6
        self.waits = waits

    def count_wait(self, tier: str | None, nanoseconds: int) -> None:
        """Count the time that an agent in a tier waited for a call."""
        wait = self.waits.get(tier) if tier is not None else None
        if wait is not None:
            wait.series.observe(nanoseconds)
            if nanoseconds > wait.limit_ns:
                wait.breaches += 1

    def set_wait_exemplar(self, tier: str | None, nanoseconds: int, trace_id: str, span_id: str) -> None:
        """Store a span as the exemplar of the bucket of a wait that took `nanoseconds` in a tier."""
        wait = self.waits.get(tier) if tier is not None else None
        if wait is not None:
            wait.series.set_exemplar(nanoseconds, trace_id, span_id)

    def reject(self, status: int) -> None:
        self.rejected[status] = self.rejected.get(status, 0) + 1

    def count_limit(self, scope: str) -> None:
        self.limited[scope] = self.limited.get(scope, 0) + 1

    def histograms(self) -> Iterator[tuple[tuple[str, str, str, str], Histogram]]:
        """All label sets (method, tool, server, error type) with their histograms."""
        yield from list(self._series.items())
