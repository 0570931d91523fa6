"""A server that is reached over a stream of messages: on stdio behind a listener, or behind HTTP+SSE.

All calls of this gateway share one connection, so a server on stdio has one process per gateway; it opens with the
first call and closes after a while without calls. Log messages do not say which request they belong to, so they are
passed on only where the connection is one client's own.
"""

from __future__ import annotations

import itertools

from msgspec import Raw

from fairlead_gateway.core.ports import Gauges, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import TaskCall
from fairlead_gateway.upstream.concurrency import ConcurrencyLimit
from fairlead_gateway.upstream.shared_stream import ClientStream, request_over
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import McpError
from fairlead_mcp.link import Link
from fairlead_mcp.masking import Mask


class LinkUpstream(Upstream):
    """Upstream of one `Link`. `modern` is the era of its catalog, until the connection negotiates one; `own`:
    capabilities of the one client whose connection it is, None where all clients share it (`upstream.gated`).
    """

    def __init__(
        self, link: Link, *, modern: bool, limit: int, own: ClientStream | None = None, mask: Mask | None = None
    ) -> None:  # fmt: skip
        self._link = link
        self._mask = mask or Mask(None)
        self._modern = modern
        self._limit = ConcurrencyLimit(limit, link.name)
        self._count = itertools.count(1).__next__
        self._own = own

    @property
    def modern(self) -> bool:
        agreed = self._link.negotiated
        return self._modern if agreed is None else agreed.era is Era.MODERN

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> TaskCall:
        return TaskCall(self._requested(request, sink), sink, f"{request.method} {self._link.name}")

    def gauges(self) -> Gauges:
        busy = self._limit.busy
        return Gauges(busy=busy, idle=int(busy == 0 and self._link.negotiated is not None))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self._limit.quiet(grace)
        await self._link.aclose()

    # Inside

    async def _requested(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        with self._limit:
            try:
                if self._own is None:
                    return await request_over(self._link, request, sink)
                return await self._own.request(self._link, request, sink, lambda: self._link.opened)
            except McpError as error:
                raise self._mask.error(error)  # noqa: B904 - it is the same one
