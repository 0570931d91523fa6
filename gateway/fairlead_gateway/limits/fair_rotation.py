"""Semaphore that serves waiting work in rotation of agents.

An agent with hundreds of waiting pieces of work delays every other agent by at most one piece.
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
"""Agent for which an asyncio task and its child tasks work; empty for the gateway itself."""


class FairTurns:
    """Semaphore with `slots` slots, for which at most `max_waiting` pieces of work wait.

    When `max_waiting` pieces wait and a further piece arrives, the last piece of the agent with the most waiting pieces
    is refused. Work that is `patient` is never refused; patient work and other work get slots alternately. An instance
    belongs to the event loop in which it is used first.
    """

    def __init__(self, slots: int, max_waiting: int, counts: ShareCounts | None = None) -> None:
        self._free_slots = slots
        self._max_waiting = max_waiting
        self._counts = counts or ShareCounts()
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._patient: FairQueue[asyncio.Future[None]] = FairQueue()
        self._patient_is_next = False

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait for a slot."""
        return len(self._waiting) + len(self._patient)

    @contextlib.asynccontextmanager
    async def turn(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Wait for a slot for the agent of the current task, and hold it in the context. Raises ShareTaken."""
        if self._free_slots and not self.waiting:
            self._free_slots -= 1
        else:
            await self._wait_in(self._patient if patient else self._waiting)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait_in(self, queue: FairQueue[asyncio.Future[None]]) -> None:
        agent, waiter = WORKS_FOR.get(), asyncio.get_running_loop().create_future()
        if queue is self._waiting and len(queue) >= self._max_waiting:
            self._give_way(agent)
        queue.add(agent, waiter, float("inf"))
        try:
            await waiter
        except asyncio.CancelledError:
            queue.remove(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pass_on()  # the task got a slot, but was cancelled before it could use the slot
            raise

    def _give_way(self, agent: str) -> None:
        """Refuse the last piece of the agent with the most waiting pieces, and raise ShareTaken if that agent is
        `agent`.
        """
        evicted_waiter = self._waiting.give_way(agent)
        if evicted_waiter is None:
            self._counts.count("work", "agent")
            raise ShareTaken("agent", self._max_waiting)
        self._counts.count("work", "gave_way")
        if not evicted_waiter.done():
            evicted_waiter.set_exception(ShareTaken("agent", self._max_waiting))

    def _pass_on(self) -> None:
        """Give a slot to the next waiting work, or free it."""
        self._patient_is_next = not self._patient_is_next
        queues = (self._patient, self._waiting) if self._patient_is_next else (self._waiting, self._patient)
        for queue in queues:
            while queue.ring:
                waiter = queue.next()
                if not waiter.done():  # a waiter that is done belongs to a task that was just cancelled
                    waiter.set_result(None)
                    return
        self._free_slots += 1
