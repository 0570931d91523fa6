"""A server that is reached over a stream of messages: on stdio behind a listener, or behind HTTP+SSE.

Made by `upstream.registry`, called by `calls.dispatch`. All calls of this gateway share one connection, so a server on
stdio has one process per gateway; it opens with the first call and closes when none came for a while. Log messages do
not say which request they belong to, so they are passed on only where the connection is one client's own.
"""

from __future__ import annotations

import asyncio
import itertools

from msgspec import Raw

from fairlead_gateway.upstream.base import Gauges, Order
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_gateway.upstream.lines import OwnLog, ask_over, call_over
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import McpError, PoolFull
from fairlead_mcp.link import Link
from fairlead_mcp.masking import Mask


class LinkUpstream:
    """See the module. `modern` is what its catalog says, and holds until the connection says otherwise; `own` has the
    connection be that of one client.
    """

    def __init__(self, link: Link, *, modern: bool, limit: int, own: bool = False, mask: Mask | None = None) -> None:
        self._link = link
        self._mask = mask or Mask(None)
        self._modern = modern
        self._limit = limit
        self._count = itertools.count(1).__next__
        self._busy = 0
        self._quiet = asyncio.Event()
        self._own = OwnLog() if own else None
        if self._own is not None:
            link.on_notification = self._own.said

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
        except McpError as error:
            raise self._mask.error(error)  # noqa: B904 - it is the same one
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
        try:
            if self._own is not None:
                return await self._own.ask(self._link, inquiry, lambda: self._link.opened)
            return await ask_over(self._link, inquiry)
        except McpError as error:
            raise self._mask.error(error)  # noqa: B904 - it is the same one
        finally:
            self._busy -= 1
            if self._busy == 0:
                self._quiet.set()

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
