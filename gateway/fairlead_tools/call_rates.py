"""Calls and errors per minute, from the counts of two readings. Pure module."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

WINDOW: Final = 60.0
"""Seconds that a rate is measured over; with rarer readings, the time between the last two."""
SPACING: Final = 5.0
"""Least seconds between kept readings, the newest excepted: a window of ten thousand tools stays small."""
MOST_ORIGINS: Final = 32
"""Replicas behind one address whose counts are kept."""


class CallTotal(Protocol):
    """Calls since the start of a gateway's process."""

    @property
    def calls(self) -> int: ...
    @property
    def errors(self) -> int: ...


class TotalledTool(Protocol):
    """A tool with its count; None where it has none of its own."""

    @property
    def name(self) -> str: ...
    @property
    def count(self) -> CallTotal | None: ...


class CountReading(Protocol):
    """Counts of a gateway's tools at one moment."""

    @property
    def at(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    @property
    def origin(self) -> str:
        """Opaque id of the process that counted."""
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
    """Rates of all tools by name, as readings arrive.

    Counts of different processes are never subtracted. Behind an address with several replicas, rates of those that
    answered in the last minute are added up.
    """

    def __init__(self, absent: CallTotal | None = None) -> None:
        """`absent` is the count of a tool that a reading lacks, where readings have called tools alone."""
        self._absent = absent
        self._origins: dict[str, deque[_Counts]] = {}

    def take(self, reading: CountReading) -> dict[str, CallRate]:
        """Rates after one more reading. A tool that was read a single time has none."""
        now = reading.at
        counts = {tool.name: tool.count for tool in reading.tools if tool.count is not None}
        held = self._origins.pop(reading.origin, deque())
        if len(held) > 1 and now - held[-2].at < SPACING:
            held.pop()
        held.append(_Counts(now, counts))
        while len(held) > 2 and held[1].at <= now - WINDOW:
            held.popleft()
        recent = {origin: each for origin, each in self._origins.items() if each[-1].at > now - WINDOW}
        recent[reading.origin] = held
        self._origins = dict([*recent.items()][-MOST_ORIGINS:])
        return self._sum()

    @property
    def replicas(self) -> int:
        """Processes that answered in the last minute."""
        return len(self._origins)

    @property
    def spans_time(self) -> bool:
        """Whether some process was read twice, so that there are rates."""
        return any(held[-1].at > held[0].at for held in self._origins.values())

    def _sum(self) -> dict[str, CallRate]:
        sums: dict[str, CallRate] = {}
        for held in self._origins.values():
            for name, rate in _rates(held, self._absent):
                before = sums.get(name)
                both = rate if before is None else CallRate(before.calls + rate.calls, before.errors + rate.errors)
                sums[name] = both
        return sums


def _rates(held: deque[_Counts], absent: CallTotal | None) -> Iterator[tuple[str, CallRate]]:
    last = held[-1]
    for name, count in last.tools.items():
        first = next((counts for counts in held if absent is not None or name in counts.tools), last)
        minutes = (last.at - first.at) / 60
        if minutes > 0:
            before = first.tools.get(name) or absent or count
            calls, errors = count.calls - before.calls, count.errors - before.errors
            yield name, CallRate(max(0, calls) / minutes, max(0, errors) / minutes)
