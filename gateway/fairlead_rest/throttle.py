"""Throttle of conversions and of making vectors, so that tool calls do not notice them: they begin at once while no
tools are called, else one after the other, as far apart as their share of the loop's time allows, or of a core's.

Work that another process does comes and goes through the loop all the same, and
takes a core: without this, a client that converts without a pause moves the 99th percentile of everybody's calls by a
quarter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_rest.process import Overloaded

HOLD: Final = 1.0
"""Seconds for which a call that was seen counts as being made: the next one comes soon."""
LOOK: Final = 0.05
"""Seconds between two looks at whether tools are still called."""
LEAST: Final = 0.001
"""Seconds that are worth waiting."""
MAX_WAIT: Final = 30.0
"""Seconds that a request waits for its turn at most; one that would wait longer is refused at once."""


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

    def __init__(self, calls: Callable[[], int], share: float) -> None:
        self._calls = calls
        self._share = share
        self._order = asyncio.Lock()
        self._calling_until = 0.0
        self._free_at = 0.0
        self._ahead = 0.0
        """Seconds that what waits will take, in its share of the time."""
        self.waiting = 0
        """Conversions that have not begun."""

    async def turn(self, cost: float) -> None:
        """Come back when what holds the loop, or a core, for `cost` seconds may begin. Raises Overloaded."""
        seconds = cost / self._share
        if self._calling() and self._left() + self._ahead > MAX_WAIT:
            raise Overloaded("too many conversions wait while tools are called")
        self.waiting += 1
        self._ahead += seconds
        try:
            async with self._order:
                while self._calling() and (left := self._left()) > LEAST:  # noqa: ASYNC110 - calls end untold
                    await asyncio.sleep(min(left, LOOK))
                self._free_at = _now() + seconds
        finally:
            self._ahead -= seconds
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
