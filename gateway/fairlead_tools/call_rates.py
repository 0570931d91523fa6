"""Calls and errors per minute, computed from readings of counters. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

WINDOW: Final = 60.0
"""Seconds over which a rate is measured. If the time between two readings is longer, the rate covers the time between
the last two readings."""
SPACING: Final = 5.0
"""Minimum seconds between stored readings, except for the newest reading. This limits memory if there are many
tools.
"""
MOST_ORIGINS: Final = 32
"""Maximum number of replicas behind one address whose counters are stored."""


class CallTotal(Protocol):
    """Counters of calls and errors since the start of a gateway's process."""

    @property
    def calls(self) -> int: ...
    @property
    def errors(self) -> int: ...


class TotalledTool(Protocol):
    """Tool with its counters; `count` is None if the gateway does not count the tool separately."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> CallTotal | None: ...


class CountReading(Protocol):
    """Counters of a gateway's tools at one moment."""

    @property
    def at(self) -> float:
        """Monotonic time in seconds."""
        ...

    @property
    def origin(self) -> str:
        """Opaque ID of the process that counts."""
        ...

    @property
    def tools(self) -> Iterable[TotalledTool]: ...


@dataclass(frozen=True)
class CallRate:
    """Calls and errors per minute."""

    calls: float
    errors: float


@dataclass(frozen=True)
class _Counts:
    at: float
    tools: Mapping[str, CallTotal]


class CallRates:
    """Computes the rates of all tools as readings arrive.

    Rates are computed per process. If an address has several replicas, the rates of the replicas that answered in the
    last minute are added up.
    """

    def __init__(self, absent: CallTotal | None = None) -> None:
        """`absent` is the count of a tool that is missing in a reading. It is needed if readings have only tools that
        were called."""
        self._absent = absent
        self._origins: dict[str, deque[_Counts]] = {}

    def take(self, reading: CountReading) -> dict[str, CallRate]:
        """Add a reading, and return the rates by name of the tool, for tools with at least two readings."""
        now = reading.at
        counts = {tool.name: tool.count for tool in reading.tools if tool.count is not None}
        readings = self._origins.pop(reading.origin, deque())
        if len(readings) > 1 and now - readings[-2].at < SPACING:
            readings.pop()
        readings.append(_Counts(now, counts))
        while len(readings) > 2 and readings[1].at <= now - WINDOW:
            readings.popleft()
        recent_origins = {
            origin: origin_readings
            for origin, origin_readings in self._origins.items()
            if origin_readings[-1].at > now - WINDOW
        }
        recent_origins[reading.origin] = readings
        self._origins = dict([*recent_origins.items()][-MOST_ORIGINS:])
        return self._sum()

    @property
    def replicas(self) -> int:
        """Number of processes with a reading in the last minute."""
        return len(self._origins)

    @property
    def spans_time(self) -> bool:
        """Whether any process has two readings, so that its rates can be computed."""
        return any(readings[-1].at > readings[0].at for readings in self._origins.values())

    def _sum(self) -> dict[str, CallRate]:
        sums: dict[str, CallRate] = {}
        for readings in self._origins.values():
            for name, rate in _rates(readings, self._absent):
                old_rate = sums.get(name)
                total_rate = (
                    rate if old_rate is None else CallRate(old_rate.calls + rate.calls, old_rate.errors + rate.errors)
                )
                sums[name] = total_rate
        return sums


def _rates(readings: deque[_Counts], absent: CallTotal | None) -> Iterator[tuple[str, CallRate]]:
    last_counts = readings[-1]
    for name, count in last_counts.tools.items():
        first_counts = next((counts for counts in readings if absent is not None or name in counts.tools), last_counts)
        minutes = (last_counts.at - first_counts.at) / 60
        if minutes > 0:
            old_count = first_counts.tools.get(name) or absent or count
            calls, errors = count.calls - old_count.calls, count.errors - old_count.errors
            yield name, CallRate(max(0, calls) / minutes, max(0, errors) / minutes)
