"""Throttle for conversions and vectors, so that this work hardly delays tool calls.

While no tools are called, work begins at once. Otherwise work is done one piece at a time, with pauses that limit the
work to a share of the time of the event loop or of a core. Work in another process is throttled too, because its data
passes through the event loop, and the work takes a core. Without the throttle, a client that converts without a pause
raises the p99 of all calls by a quarter.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.fair_rotation import WORKS_FOR, FairTurns
from fairlead_gateway.limits.shares import Shares
from fairlead_offers.workers.process import Overloaded

HOLD_SECONDS: Final = 1.0
"""Seconds after the last call during which tools still count as being called, because another call usually follows
soon."""
CHECK_INTERVAL: Final = 0.05
"""Seconds between two checks of whether tools are still being called."""
MIN_WAIT: Final = 0.001
"""Seconds of waiting below which work begins at once, because a sleep is not worthwhile."""
MAX_WAIT: Final = 30.0
"""Maximum seconds that a request waits. A request that would wait longer is refused at once. The waiting work of one
agent may take half of this time.
"""


def process_cost(size: int) -> float:
    """Estimate the seconds that the event loop takes for `size` bytes that another process converts: to receive the
    bytes, to pass them to the process and back, and to send them.
    """
    return 3e-4 + 3.6e-9 * size


def thread_cost(size: int) -> float:
    """Estimate the seconds for which a thread that converts `size` bytes keeps the event loop from running, because the
    thread holds the interpreter lock.
    """
    return 3e-4 + 2e-7 * size


class Throttle:
    """Limits work to a share of the time while tools are called. Must be used in one event loop only.

    `calls`: returns the number of calls in flight. `share`: fraction of the time of the event loop or of a core, from 0
    to 1.
    """

    def __init__(self, calls: Callable[[], int], share: float, counts: ShareCounts | None = None) -> None:
        self._calls = calls
        self._share = share
        self._turns = FairTurns(1, sys.maxsize)
        self._calling_until = 0.0
        """Time of the event loop until which tools count as being called."""
        self._free_at = 0.0
        """Time of the event loop at which the next piece of work may begin."""
        self._waiting_shares = Shares("work", int(1000 * MAX_WAIT), counts=counts, parts=2)
        """Milliseconds that the waiting work of each agent will take at the throttle's share."""
        self.waiting = 0
        """Number of pieces of work that have not begun."""

    async def turn(self, cost: float) -> None:
        """Wait until work that takes `cost` seconds of the event loop or of a core may begin. Agents take turns. Raises
        Overloaded.
        """
        agent, seconds = WORKS_FOR.get(), cost / self._share
        if self._calling() and self._waiting_shares.bound(agent, int(1000 * max(self._seconds_until_free(), 0))):
            raise Overloaded(
                "too many conversions are waiting, because the gateway serves tool calls first: retry later"
            )
        weight = int(1000 * seconds) + 1
        self.waiting += 1
        self._waiting_shares.add(agent, weight)
        try:
            async with self._turns.turn():
                while self._calling() and (seconds_left := self._seconds_until_free()) > MIN_WAIT:  # noqa: ASYNC110 - no event for the end of calls
                    await asyncio.sleep(min(seconds_left, CHECK_INTERVAL))
                self._free_at = _now() + seconds
        finally:
            self._waiting_shares.give_back(agent, weight)
            self.waiting -= 1

    def _seconds_until_free(self) -> float:
        return self._free_at - _now()

    def _calling(self) -> bool:
        now = _now()
        if self._calls():
            self._calling_until = now + HOLD_SECONDS
        return now < self._calling_until


def _now() -> float:
    return asyncio.get_running_loop().time()
