"""Template filters that format numbers, sizes and times. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

NOTHING: Final = "–"
"""Shown for an unknown value."""


def milliseconds(value: float | None) -> str:
    """Format a duration in milliseconds: `0.4 ms`, `12 ms`, `1.2 s`, `2 min`."""
    if value is None or value != value:
        return NOTHING
    if value < 10:
        return f"{value:.1f} ms"
    if value < 1000:
        return f"{value:,.0f} ms"
    return f"{value / 1000:.1f} s" if value < 60_000 else f"{value / 60_000:.0f} min"


def count(value: float | None) -> str:
    """Format a number with thousands separators, and one decimal if it is a fraction below 10."""
    if value is None:
        return NOTHING
    return f"{value:,.1f}" if value < 10 and value != int(value) else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Format bytes in B, kB, MB or GB."""
    if value is None:
        return NOTHING
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:,.0f} {unit}"
        value /= 1000
    return f"{value:,.1f} GB"


def clock_time(value: str | None) -> str:
    """Format an RFC 3339 time as date and time of day in UTC."""
    return NOTHING if not value else value[:19].replace("T", " ")


def plural(number: int, singular: str, many: str = "") -> str:
    """Format a number with its noun."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "ms": milliseconds,
    "count": count,
    "size": size,
    "clock_time": clock_time,
    "plural": plural,
}
