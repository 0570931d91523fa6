"""Ends what nobody has used for a while, by one timer for all of it.

A timer for each use would be made and cancelled with every call, which costs a call 2 µs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class IdleTimes(Generic[Thing]):
    """Calls `ended` with each thing that has been idle for so many seconds, and forgets it. Things are keys of a
    dictionary. Belongs to the loop that runs when the first of them becomes idle, until it is closed.
    """

    __slots__ = ("_ended", "_loop", "_seconds", "_since", "_timer")

    def __init__(self, seconds: float, ended: Callable[[Thing], None]) -> None:
        self._seconds = seconds
        self._ended = ended
        self._since: dict[Thing, float] = {}
        """The loop's time at which each became idle, in this order."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def mark_idle(self, thing: Thing) -> None:
        """It is idle from now on."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self.mark_used(thing)
        self._since[thing] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def mark_used(self, thing: Thing) -> None:
        """It is used again, or gone."""
        if thing in self._since:  # compiled, half of what `pop` takes
            del self._since[thing]

    def close(self) -> None:
        """Forget everything; nothing is ended."""
        self._loop = None
        self._since.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now = loop.time()
        while self._since:
            thing, since = next(iter(self._since.items()))
            if since + self._seconds > now:
                if self._timer is None:
                    self._timer = loop.call_at(since + self._seconds, self._look)
                return
            del self._since[thing]
            self._ended(thing)
