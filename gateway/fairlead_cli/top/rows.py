"""Rows of `fairlead top`: figures of servers and tools, sorted and filtered. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fairlead_api.documents.servers import READY
from fairlead_cli.top.reading import GatewayReading, MeasuredTool, WatchedServer
from fairlead_cli.top.sort_key import SortKey
from fairlead_tools.call_rates import CallRate


@dataclass(frozen=True)
class CallFigures:
    """Numbers of calls; None for what is not known."""

    calls: int | None = None
    """Since the start of the gateway's process."""
    errors: int | None = None
    calls_per_minute: float | None = None
    errors_per_minute: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None


@dataclass(frozen=True)
class WatchedRow:
    """One server or tool."""

    name: str
    figures: CallFigures


@dataclass(frozen=True)
class WatchedServerRow(WatchedRow):
    """One server. Calls are the sum of its tools, latencies those of its slowest."""

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
    def total(self) -> CallFigures:
        """Sums over all tools."""
        return _together([row.figures for row in self.tools])

    def arrange(self, key: SortKey, words: str = "") -> WatchedRows:
        """The rows whose names hold `words`, in the order of `key`. A server's name, or its state, brings its tools
        along.
        """
        names = {row.name for row in self.servers if _holds(words, row.name, row.state, row.cause)}
        tools = [row for row in self.tools if _holds(words, row.name) or row.server in names]
        names |= {row.server for row in tools}
        servers = [row for row in self.servers if row.name in names]
        return WatchedRows(arrange(servers, key), arrange(tools, key))


def rows_of(reading: GatewayReading, rates: Mapping[str, CallRate]) -> WatchedRows:
    """The rows of a reading."""
    tools = tuple(
        WatchedToolRow(tool.name, _figures(tool, rates.get(tool.name)), tool.server, tool.tier)
        for tool in reading.tools
    )
    of_servers: dict[str, list[CallFigures]] = {}
    for row in tools:
        of_servers.setdefault(row.server, []).append(row.figures)
    servers = tuple(_server(server, of_servers.get(server.server, [])) for server in reading.servers)
    return WatchedRows(servers, tools)


def arrange(rows: Iterable[Row], key: SortKey) -> tuple[Row, ...]:
    """Rows in the order of `key`; equal ones, and those without a figure, by name."""
    return tuple(sorted(rows, key=lambda row: (*_ORDER[key](row.figures), row.name)))


def not_ready_total(servers: Sequence[WatchedServerRow]) -> int:
    """How many servers are not ready."""
    return sum(row.state != READY for row in servers)


def _figures(tool: MeasuredTool, rate: CallRate | None) -> CallFigures:
    count = tool.count
    return CallFigures(
        calls=None if count is None else count.calls,
        errors=None if count is None else count.errors,
        calls_per_minute=None if rate is None else rate.calls,
        errors_per_minute=None if rate is None else rate.errors,
        p50_ms=tool.p50_ms,
        p95_ms=tool.p95_ms,
    )


def _server(server: WatchedServer, tools: Sequence[CallFigures]) -> WatchedServerRow:
    return WatchedServerRow(
        server.server, _together(tools), server.state, server.cause or server.reason, server.tools, server.restarts
    )


def _together(tools: Sequence[CallFigures]) -> CallFigures:
    return CallFigures(
        calls=_sum(tool.calls for tool in tools),
        errors=_sum(tool.errors for tool in tools),
        calls_per_minute=_sum(tool.calls_per_minute for tool in tools),
        errors_per_minute=_sum(tool.errors_per_minute for tool in tools),
        p50_ms=max((tool.p50_ms for tool in tools if tool.p50_ms is not None), default=None),
        p95_ms=max((tool.p95_ms for tool in tools if tool.p95_ms is not None), default=None),
    )


def _sum(values: Iterable[Any]) -> Any:
    """The sum of what is known; None where nothing is."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def _holds(words: str, *texts: str) -> bool:
    return any(words.casefold() in text.casefold() for text in texts)


def _first(*values: float | None) -> tuple[float, ...]:
    """Sort key that puts the largest first, and None last."""
    return tuple(1.0 if value is None else -value for value in values)


_ORDER: Mapping[SortKey, Callable[[CallFigures], tuple[float, ...]]] = {
    SortKey.calls: lambda figures: _first(figures.calls_per_minute, figures.calls),
    SortKey.errors: lambda figures: _first(figures.errors_per_minute, figures.errors),
    SortKey.latency: lambda figures: _first(figures.p95_ms, figures.p50_ms),
    SortKey.name: lambda figures: (),
}
