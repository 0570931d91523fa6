"""Has calls look at deadlines that move, by one timer for all of them: one for each costs a call 2 µs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

LOOK_SECONDS: Final = 0.01
"""Between two looks, at least."""
CALL_ENDED: Final = float("inf")


class WatchedCall(Protocol):
    """Call whose deadline moves, and whose upstream would wait for the last one."""

    def check_deadline(self, now: float) -> float:
        """Time of the next look, in seconds of the clock as `now`; NOT_AGAIN for a call that has ended."""
        ...


class WatchedCalls:
    """Calls that are looked at when their deadlines come. `clock`: seconds. Belongs to the loop that runs."""

    __slots__ = ("_at", "_calls", "_clock", "_timer")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: set[WatchedCall] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._at = CALL_ENDED
        """Time of the next look."""

    def add(self, call: WatchedCall, deadline: float) -> None:
        """Look at a call when its deadline comes, and whenever it says then."""
        self._calls.add(call)
        if deadline < self._at:
            self._look_at(deadline)

    def discard(self, call: WatchedCall) -> None:
        """Look at a call no more."""
        self._calls.discard(call)

    def _look_at(self, time: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = time
        seconds = max(time - self._clock(), LOOK_SECONDS)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        self._at = CALL_ENDED
        now = self._clock()
        first = min([call.check_deadline(now) for call in [*self._calls]], default=CALL_ENDED)
        if first < self._at:
            self._look_at(first)
