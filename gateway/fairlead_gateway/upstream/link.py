"""A server that is reached over a stream of messages: on stdio behind a listener, or behind HTTP+SSE.

Made by `upstream.registry`, called by `calls.dispatch`. All calls of this gateway share one connection, so a server on
stdio has one process per gateway; it opens with the first call and closes when none came for a while. Log messages do
not say which request they belong to, so they are passed on only where the connection is one client's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from msgspec import Raw

from fairlead_gateway.upstream.base import Gauges, Order
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.levels import Levels
from fairlead_gateway.upstream.lines import ask_over, call_over
from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import McpError, PoolFull
from fairlead_mcp.link import Link


class LinkUpstream:
    """See the module. `modern` is what its catalog says, and holds until the connection says otherwise; `own` has the
    connection be that of one client.
    """

    def __init__(self, link: Link, *, modern: bool, limit: int, own: bool = False) -> None:
        self._link = link
        self._modern = modern
        self._limit = limit
        self._count = itertools.count(1).__next__
        self._busy = 0
        self._quiet = asyncio.Event()
        self._own = own
        self._working: list[Inquiry] = []
        self._levels = Levels(shared=False)
        self._levels_of = 0
        """Number of the connection that they were set in."""
        if own:
            link.on_notification = self._said

    @property
    def modern(self) -> bool:
        agreed = self._link.negotiated
        return self._modern if agreed is None else agreed.era is Era.MODERN

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    async def call(self, order: Order) -> Raw:
        if self._busy >= self._limit:
            raise PoolFull(f"{self._limit} calls to {self._link.name} are running already")
        self._busy += 1
        try:
            return await call_over(self._link, order)
        finally:
            self._busy -= 1
            if self._busy == 0:
                self._quiet.set()

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return self.modern

    async def ask(self, inquiry: Inquiry) -> Raw:
        if self._busy >= self._limit:
            raise PoolFull(f"{self._limit} requests to {self._link.name} are running already")
        self._busy += 1
        self._working.append(inquiry)
        try:
            if self._own and inquiry.level is not None:
                await self._set_level(inquiry.level, inquiry.deadline)
            return await ask_over(self._link, inquiry)
        finally:
            self._working = [other for other in self._working if other is not inquiry]
            self._busy -= 1
            if self._busy == 0:
                self._quiet.set()

    async def _set_level(self, level: str, deadline: float) -> None:
        agreed = await self._link.ready(deadline)
        if agreed.era is Era.MODERN or not agreed.offers("logging"):
            return
        if self._levels_of != self._link.opened:
            self._levels, self._levels_of = Levels(shared=False), self._link.opened
        due = self._levels.due(None, level, self._link.clock())
        if due is not None:
            with contextlib.suppress(McpError):  # the request that follows meets the same trouble, if it lasts
                params = jsonrpc.encode({"level": due})
                await self._link.request("logging/setLevel", params, deadline=deadline)

    def _said(self, method: str, line: bytes) -> None:
        if method == "notifications/message" and self._working:
            notify = self._working[-1].notify
            if notify is not None:
                with contextlib.suppress(*jsonrpc.UNREADABLE):
                    notify(jsonrpc.decode_message(line))

    def gauges(self) -> Gauges:
        return Gauges(busy=self._busy, idle=int(self._busy == 0 and self._link.negotiated is not None))

    async def aclose(self, grace: float) -> None:
        if self._busy and grace > 0:
            self._quiet.clear()
            try:
                async with asyncio.timeout(grace):
                    await self._quiet.wait()
            except TimeoutError:
                pass
        await self._link.aclose()
