"""Rows of `fairlead top`: statistics of servers and tools, with sorting and filtering. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead_api.documents.servers import READY
from fairlead_cli.top.reading import GatewayReading, MeasuredTool, WatchedServer
from fairlead_cli.top.sort_key import SortKey
from fairlead_tools.call_rates import CallRate


@dataclass(frozen=True)
class CallStatistics:
    """Call counts, rates and latencies of a server or a tool; None if unknown."""

    calls: int | None = None
    """Calls since the start of the gateway process."""
    errors: int | None = None
    calls_per_minute: float | None = None
    errors_per_minute: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None


@dataclass(frozen=True)
class WatchedRow:
    """One server or tool."""

    name: str
    figures: CallStatistics


@dataclass(frozen=True)
class WatchedServerRow(WatchedRow):
    """One server. Calls are summed over its tools; latencies are the latencies of its slowest tool."""

    state: str
    cause: str
    tools: int | None
    restarts: int | None


@dataclass(frozen=True)
class WatchedToolRow(WatchedRow):
    """One tool."""

    server: str
    tier: str | None


Row = TypeVar("Row", bound=WatchedRow)


@dataclass(frozen=True)
class WatchedRows:
    """All rows of one reading."""

    servers: tuple[WatchedServerRow, ...]
    tools: tuple[WatchedToolRow, ...]

    @property
    def total(self) -> CallStatistics:
        """Sums over all tools."""
        return _sum_statistics([row.figures for row in self.tools])

    def arrange(self, key: SortKey, words: str = "") -> WatchedRows:
        """The rows whose names contain `words`, in the order of `key`. If a server's name or state matches, its tools
        are included.
        """
        names = {row.name for row in self.servers if _matches(words, row.name, row.state, row.cause)}
        tools = [row for row in self.tools if _matches(words, row.name) or row.server in names]
        names |= {row.server for row in tools}
        servers = [row for row in self.servers if row.name in names]
        return WatchedRows(arrange(servers, key), arrange(tools, key))


def rows_of(reading: GatewayReading, rates: Mapping[str, CallRate]) -> WatchedRows:
    """The rows of a reading."""
    tools = tuple(
        WatchedToolRow(tool.name, _figures(tool, rates.get(tool.name)), tool.server, tool.tier)
        for tool in reading.tools
    )
    figures_by_server: dict[str, list[CallStatistics]] = {}
    for row in tools:
        figures_by_server.setdefault(row.server, []).append(row.figures)
    servers = tuple(_server(server, figures_by_server.get(server.server, [])) for server in reading.servers)
    return WatchedRows(servers, tools)


def arrange(rows: Iterable[Row], key: SortKey) -> tuple[Row, ...]:
    """Rows in the order of `key`. Equal rows, and rows without a value, are ordered by name."""
    return tuple(sorted(rows, key=lambda row: (*_ORDER[key](row.figures), row.name)))


def not_ready_total(servers: Sequence[WatchedServerRow]) -> int:
    """Number of servers that are not ready."""
    return sum(row.state != READY for row in servers)


def _figures(tool: MeasuredTool, rate: CallRate | None) -> CallStatistics:
    count = tool.count
    return CallStatistics(
        calls=None if count is None else count.calls,
        errors=None if count is None else count.errors,
        calls_per_minute=None if rate is None else rate.calls,
        errors_per_minute=None if rate is None else rate.errors,
        p50_ms=tool.p50_ms,
        p95_ms=tool.p95_ms,
    )


def _server(server: WatchedServer, tools: Sequence[CallStatistics]) -> WatchedServerRow:
    return WatchedServerRow(
        server.server,
        _sum_statistics(tools),
        server.state,
        server.cause or server.reason,
        server.tools,
        server.restarts,
    )


def _sum_statistics(tools: Sequence[CallStatistics]) -> CallStatistics:
    return CallStatistics(
        calls=_sum(tool.calls for tool in tools),
        errors=_sum(tool.errors for tool in tools),
        calls_per_minute=_sum(tool.calls_per_minute for tool in tools),
        errors_per_minute=_sum(tool.errors_per_minute for tool in tools),
        p50_ms=max((tool.p50_ms for tool in tools if tool.p50_ms is not None), default=None),
        p95_ms=max((tool.p95_ms for tool in tools if tool.p95_ms is not None), default=None),
    )


def _sum(values: Iterable[Any]) -> Any:
    """Sum of the known values; None if none is known."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _matches(words: str, *texts: str) -> bool:
    return any(words.casefold() in text.casefold() for text in texts)


def _descending(*values: float | None) -> tuple[float, ...]:
    """Sort key that puts the largest value first, and None last."""
    return tuple(1.0 if value is None else -value for value in values)


_ORDER: Mapping[SortKey, Callable[[CallStatistics], tuple[float, ...]]] = {
    SortKey.calls: lambda figures: _descending(figures.calls_per_minute, figures.calls),
    SortKey.errors: lambda figures: _descending(figures.errors_per_minute, figures.errors),
    SortKey.latency: lambda figures: _descending(figures.p95_ms, figures.p50_ms),
    SortKey.name: lambda figures: (),
}
