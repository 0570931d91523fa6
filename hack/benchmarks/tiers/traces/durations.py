"""Durations of tool calls as functions of time and random draws. Durations in milliseconds, times in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol


class Duration(Protocol):
    """One tool's behavior."""

    def draw(self, at: float, spread: float, side: float) -> tuple[float, bool]:
        """Duration of a call at `at`, and whether it is answered at all."""
        ...

    def late(self, at: float, limit_ms: float) -> float:
        """Exact share of calls at that time that take longer than the limit."""
        ...


class LogNormal:
    """Log-normal, around a median that may change with time."""

    def __init__(self, median: float | Callable[[float], float], sigma: float) -> None:
        self._median = median if callable(median) else (lambda at: median)
        self._sigma = sigma

    def draw(self, at: float, spread: float, side: float) -> tuple[float, bool]:
        """See Duration."""
        return self._median(at) * math.exp(self._sigma * spread), True

    def late(self, at: float, limit_ms: float) -> float:
        """See Duration."""
        return 0.5 * math.erfc(math.log(limit_ms / self._median(at)) / self._sigma / math.sqrt(2))


class Mix:
    """A cache that hits (50 ms) with probability `hit`, or misses (900 ms)."""

    def __init__(self, hit: float) -> None:
        self._hit = hit

    def draw(self, at: float, spread: float, side: float) -> tuple[float, bool]:
        """See Duration."""
        return (50 if side < self._hit else 900) * math.exp(0.15 * spread), True

    def late(self, at: float, limit_ms: float) -> float:
        """See Duration."""
        return 1 - self._hit


class Silence:
    """Never answers; the client gives up after two seconds."""

    def draw(self, at: float, spread: float, side: float) -> tuple[float, bool]:
        """See Duration."""
        return 2000.0, False

    def late(self, at: float, limit_ms: float) -> float:
        """See Duration."""
        return 1.0


class Phases:
    """Consecutive behaviors as `(from, behavior)`, the first from 0."""

    def __init__(self, *phases: tuple[float, Duration]) -> None:
        self._phases = phases

    def draw(self, at: float, spread: float, side: float) -> tuple[float, bool]:
        """See Duration."""
        return self._at(at).draw(at, spread, side)

    def late(self, at: float, limit_ms: float) -> float:
        """See Duration."""
        return self._at(at).late(at, limit_ms)

    def _at(self, at: float) -> Duration:
        return next(behavior for begin, behavior in reversed(self._phases) if at >= begin)


def fixed_ratio(ratio: float, limit_ms: float, sigma: float = 0.5) -> LogNormal:
    """Log-normal with a p95 of `ratio` times the limit."""
    return LogNormal(ratio * limit_ms / math.exp(1.6449 * sigma), sigma)


def ramp(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """`low` until `begin`, `high` from `end` on, linear between them."""
    return lambda at: low + (high - low) * min(1.0, max(0.0, (at - begin) / (end - begin)))
