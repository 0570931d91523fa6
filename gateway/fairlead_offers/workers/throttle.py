"""Throttle of conversions and of making vectors, so that tool calls do not notice them: they begin at once while no
tools are called, else one after the other, as far apart as their share of the loop's time allows, or of a core's.

Work that another process does comes and goes through the loop all the same, and
takes a core: without this, a client that converts without a pause moves the 99th percentile of everybody's calls by a
quarter.
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

HOLD: Final = 1.0
"""Seconds for which a call that was seen counts as being made: the next one comes soon."""
LOOK: Final = 0.05
"""Seconds between two looks at whether tools are still called."""
LEAST: Final = 0.001
"""Seconds that are worth waiting."""
MAX_WAIT: Final = 30.0
"""Seconds that a request waits for its turn at most; one that would wait longer is refused at once. What waits for one
agent may take half of it."""


def by_process(size: int) -> float:
    """Seconds of the loop for `size` bytes that another process converts: they come, go there and back, and leave."""
    return 3e-4 + 3.6e-9 * size


def in_thread(size: int) -> float:
    """Seconds of the loop for `size` bytes that a thread of this process converts, holding the interpreter."""
    return 3e-4 + 2e-7 * size


class Throttle:
    """Spaces work out while tools are called. Belongs to the loop that it is used on.

    `calls()` is the number of calls being made, `share` the part of the loop's time, or of a core's.
    """

    def __init__(self, calls: Callable[[], int], share: float, counts: ShareCounts | None = None) -> None:
        self._calls = calls
        self._share = share
        self._turns = FairTurns(1, sys.maxsize)
        self._calling_until = 0.0
        self._free_at = 0.0
        self._ahead = Shares("work", int(1000 * MAX_WAIT), counts=counts, parts=2)
        """Milliseconds that what waits will take, in its share of the time."""
        self.waiting = 0
        """Conversions that have not begun."""

    async def turn(self, cost: float) -> None:
        """Come back when what holds the loop, or a core, for `cost` seconds may begin, in a turn of the agent that it
        is for. Raises Overloaded.
        """
        agent, seconds = WORKS_FOR.get(), cost / self._share
        if self._calling() and self._ahead.bound(agent, int(1000 * max(self._left(), 0))):
            raise Overloaded("too many conversions wait while tools are called")
        weight = int(1000 * seconds) + 1
        self.waiting += 1
        self._ahead.add(agent, weight)
        try:
            async with self._turns.turn():
                while self._calling() and (left := self._left()) > LEAST:  # noqa: ASYNC110 - calls end untold
                    await asyncio.sleep(min(left, LOOK))
                self._free_at = _now() + seconds
        finally:
            self._ahead.give_back(agent, weight)
            self.waiting -= 1

    def _left(self) -> float:
        return self._free_at - _now()

    def _calling(self) -> bool:
        now = _now()
        if self._calls():
            self._calling_until = now + HOLD
        return now < self._calling_until


def _now() -> float:
    return asyncio.get_running_loop().time()
