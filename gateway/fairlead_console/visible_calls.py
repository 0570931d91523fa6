"""Statistics of calls per tool and server, restricted to the tools that one principal may see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead_console.score_cache import ScoreCache, ScoreIndex
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_rest.call_counts import NEVER_CALLED, CallCount, CallCountReading, CallCounts, ToolLabels
from fairlead_rest.resources.scores import Score
from fairlead_tools.call_rates import CallRate, CallRates, CountReading

NO_RATE: Final = CallRate(0, 0)


class CallSums(msgspec.Struct, frozen=True):
    """Call statistics of a tool, a server or all servers. Members are None if unknown."""

    calls: int | None = None
    errors: int | None = None
    per_minute: float | None = None
    errors_per_minute: float | None = None
    p50_ms: float | None = None
    """Median of the tool with the highest 95th percentile."""
    p95_ms: float | None = None
    """95th percentile of the same tool."""

    @property
    def error_share(self) -> float | None:
        """Percentage of failed calls."""
        return None if not self.calls or self.errors is None else 100 * self.errors / self.calls


class VisibleCalls:
    """Call statistics of the tools that one principal may see, at one moment. The time to compute them depends only on
    the number of tools that were called.
    """

    def __init__(
        self, index: ScoreIndex, counts: CallCountReading, rates: dict[str, CallRate], *, spans_time: bool
    ) -> None:
        """`index` has the scores of the visible tools, `counts` the calls since the start of the process, and `rates`
        the calls per minute, by `_name` of a tool. `spans_time` says whether enough time has passed to compute rates;
        otherwise the rates of the statistics are None.
        """
        self.index = index
        self._counts = counts
        self._rates = rates
        self._spans_time = spans_time
        self._called_tools: dict[str, list[tuple[CallCount, CallRate]]] = {}
        for labels, count in counts.by_tool.items():
            if labels in index.visible:  # a visible server may have hidden tools
                self._called_tools.setdefault(labels[1], []).append((count, rates.get(_name(labels), NO_RATE)))

    def of_tool(self, score: Score) -> CallSums:
        """Return the statistics of one tool."""
        labels = self.index.labels[score.name]
        count = self._counts.of(*labels)
        if count is None:
            return CallSums(p50_ms=_median(score), p95_ms=score.p95_ms)
        return self._sums([(count, self._rates.get(_name(labels), NO_RATE))], score)

    def of_server(self, server: str) -> CallSums:
        """Return the statistics of a server's visible tools; empty if there are none. `server` is `namespace/name`."""
        if server not in self.index.by_server:
            return CallSums()
        return self._sums(self._called_tools.get(server, []), self.index.slowest.get(server))

    def of_all(self) -> CallSums:
        """Return the statistics of all visible servers together."""
        scores = [score for tools in self._called_tools.values() for score in tools]
        return self._sums(scores, max(self.index.slowest.values(), key=lambda score: score.p95_ms or 0.0, default=None))

    def _sums(self, scores: list[tuple[CallCount, CallRate]], slowest: Score | None) -> CallSums:
        is_counted = bool(scores) or self._counts.is_complete
        return CallSums(
            calls=sum(count.calls for count, _ in scores) if is_counted else None,
            errors=sum(count.errors for count, _ in scores) if is_counted else None,
            per_minute=sum(rate.calls for _, rate in scores) if is_counted and self._spans_time else None,
            errors_per_minute=sum(rate.errors for _, rate in scores) if is_counted and self._spans_time else None,
            p50_ms=None if slowest is None else _median(slowest),
            p95_ms=None if slowest is None else slowest.p95_ms,
        )


class VisibleCallReader:
    """Reads statistics for pages. Each gateway has one instance, which is for the worker thread."""

    def __init__(self, calls: CallCounts, clock: Callable[[], float] = time.monotonic) -> None:
        self.scores = ScoreCache()
        self._calls = calls
        self._clock = clock
        self._rates = CallRates(absent=NEVER_CALLED)

    def read(self, catalog: SubjectCatalog) -> VisibleCalls:
        """Return the current statistics of the tools that a principal sees."""
        index, counts = self.scores.of(catalog), self._calls.read()
        tools = [_CountedTool(_name(labels), count) for labels, count in counts.by_tool.items()]
        reading: CountReading = _CalledTools(self._clock(), self._calls.origin, tools)
        rates = self._rates.take(reading)
        return VisibleCalls(index, counts, rates, spans_time=self._rates.spans_time)


class _CountedTool(msgspec.Struct, frozen=True):
    name: str
    count: CallCount


class _CalledTools(msgspec.Struct, frozen=True):
    at: float
    origin: str
    tools: Iterable[_CountedTool]


def _name(labels: ToolLabels) -> str:
    tool, server = labels
    return f"{server} {tool}"


def _median(score: Score) -> float | None:
    return score.median_ms if score.p95_ms is not None else None
