"""Calls that are sent a second time when the first is slow to answer; the first answer of the two wins.

Stands in front of an upstream for the idempotent tools of a server that sets `limits.hedgeAfter`; put there by `app`.
Worth it where a server has several pods: a modern server's calls are spread over them, while the calls of a legacy
session all go to one. Dean and Barroso, "The Tail at Scale" (2013), say what to expect of it.
"""

from __future__ import annotations

import asyncio

from msgspec import Raw

from fairlead_gateway.upstream.base import Gauges, Upstream
from fairlead_gateway.upstream.guard import PLAIN, Guard
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.order import Order


class Hedged:
    """See the module. `after` is in seconds; the guard, that of the server, has a place for the second attempt or there
    is none; `tool` is the one that it is for.
    """

    def __init__(self, upstream: Upstream, guard: Guard, after: float, tool: str = "") -> None:
        self._upstream = upstream
        self._guard = guard
        self._after = after
        self._tool = tool

    @property
    def modern(self) -> bool:
        return self._upstream.modern

    def next_id(self) -> bytes:
        return self._upstream.next_id()

    async def call(self, order: Order) -> Raw:
        loop = asyncio.get_running_loop()
        attempts = [loop.create_task(self._upstream.call(order), name="call")]
        try:
            done, _ = await asyncio.wait(attempts, timeout=self._after)
            # the client would hear the progress of both
            if not done and order.notify is None and self._guard.enter_beside():
                attempts.append(loop.create_task(self._beside(order), name="hedge"))
            return await _first(attempts)
        finally:
            for task in attempts:
                task.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)

    async def _beside(self, order: Order) -> Raw:
        guard = self._guard
        heard = guard.heard
        try:
            result = await self._upstream.call(order.again(self._upstream.next_id()))
        except Exception as error:
            guard.leave(PLAIN, error, heard, tool=self._tool)
            raise
        except BaseException:
            guard.leave(PLAIN, None, heard, given_up=True)
            raise
        guard.leave_answered()
        guard.hedges_won += 1
        return result

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return await self._upstream.era(client, deadline)

    async def ask(self, inquiry: Inquiry) -> Raw:
        return await self._upstream.ask(inquiry)

    def gauges(self) -> Gauges:
        return self._upstream.gauges()

    async def aclose(self, grace: float) -> None:
        await self._upstream.aclose(grace)


async def _first(attempts: list[asyncio.Task[Raw]]) -> Raw:
    """The result that comes first; where none does, the error of the first attempt."""
    waiting = set(attempts)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if task.exception() is None:
                return task.result()
    return attempts[0].result()
