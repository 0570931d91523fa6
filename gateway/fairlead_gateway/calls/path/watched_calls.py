"""Enforces the deadlines of calls whose deadline moves with each progress notification.

One timer serves all calls: a timer per call would cost 2 µs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

MIN_CHECK_SECONDS: Final = 0.01
"""Shortest interval between two checks."""
CALL_ENDED: Final = float("inf")
"""Time of the next check of a call that needs no further checks."""


class WatchedCall(Protocol):
    """Call whose deadline progress may extend; its upstream enforces only the latest deadline possible."""

    def check_deadline(self, now: float) -> float:
        """End the call if its deadline has passed. Returns the time of the next check, or CALL_ENDED.

        Times are in seconds of the same clock as `now`.
        """
        ...


class WatchedCalls:
    """Calls whose deadlines a timer of the running event loop checks. `clock` is in seconds."""

    __slots__ = ("_calls", "_clock", "_next_check_at", "_timer")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: set[WatchedCall] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next_check_at = CALL_ENDED
        """Time of the next check, in seconds of `clock`; CALL_ENDED if none is scheduled."""

    def add(self, call: WatchedCall, deadline: float) -> None:
        """Check a call at its deadline, and from then on at the times that its `check_deadline` returns."""
        self._calls.add(call)
        if deadline < self._next_check_at:
            self._schedule(deadline)

    def discard(self, call: WatchedCall) -> None:
        """Stop checking a call."""
        self._calls.discard(call)

    def _schedule(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_check_at = time
        seconds = max(time - self._clock(), MIN_CHECK_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_calls)

    def _check_calls(self) -> None:
        self._timer = None
        self._next_check_at = CALL_ENDED
        now = self._clock()
        next_check_at = min([call.check_deadline(now) for call in [*self._calls]], default=CALL_ENDED)
        if next_check_at < self._next_check_at:
            self._schedule(next_check_at)
