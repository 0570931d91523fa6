"""Turns of work: a few pieces at once, those that wait in rotation of their agents, so that one with hundreds of pieces
delays others by one piece.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Final

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.limits.shares import FairQueue, ShareTaken

WORKS_FOR: Final[ContextVar[str]] = ContextVar("works_for", default="")
"""Agent that a task works for, and tasks that it begins; empty for the gateway itself."""


class FairTurns:
    """Semaphore of `places`, for which no more than `most` pieces of work wait: beyond that the last one of the agent
    that has most of them is refused. Work that is `patient` is never refused; it and all other work get every second
    turn. Belongs to the loop of its first use.
    """

    def __init__(self, places: int, most: int, counts: ShareCounts | None = None) -> None:
        self._free = places
        self._most = most
        self._counts = counts or ShareCounts()
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._patient: FairQueue[asyncio.Future[None]] = FairQueue()
        self._patients_turn = False

    @property
    def waiting(self) -> int:
        """Pieces of work that wait for their turn."""
        return len(self._waiting) + len(self._patient)

    @contextlib.asynccontextmanager
    async def turn(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Wait for a turn of the agent that the task works for, and take it. Raises ShareTaken."""
        if self._free and not self.waiting:
            self._free -= 1
        else:
            await self._wait_in(self._patient if patient else self._waiting)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait_in(self, queue: FairQueue[asyncio.Future[None]]) -> None:
        agent, waiter = WORKS_FOR.get(), asyncio.get_running_loop().create_future()
        if queue is self._waiting and len(queue) >= self._most:
            self._give_way(agent)
        queue.add(agent, waiter, float("inf"))
        try:
            await waiter
        except asyncio.CancelledError:
            queue.remove(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on()  # it had its turn, and was cancelled before it could take it
            raise

    def _give_way(self, agent: str) -> None:
        """Raises ShareTaken where no other agent has more that waits."""
        last = self._waiting.give_way(agent)
        if last is None:
            self._counts.count("work", "agent")
            raise ShareTaken("agent", self._most)
        self._counts.count("work", "gave_way")
        if not last.done():
            last.set_exception(ShareTaken("agent", self._most))

    def _pass_on(self) -> None:
        """Give a turn to who waits, or back."""
        self._patients_turn = not self._patients_turn
        queues = (self._patient, self._waiting) if self._patients_turn else (self._waiting, self._patient)
        for queue in queues:
            while queue.ring:
                waiter = queue.next()
                if not waiter.done():  # else its task was cancelled just now
                    waiter.set_result(None)
                    return
        self._free += 1
