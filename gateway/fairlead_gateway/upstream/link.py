"""A server that is reached over a stream of messages: on stdio behind a listener, or behind HTTP+SSE.

All calls of this gateway share one connection, so a server on stdio has one process per gateway; it opens with the
first call and closes after a while without calls. Log messages do not say which request they belong to, so they are
passed on only where the connection is one client's own.
"""

from __future__ import annotations

from msgspec import Raw

from fairlead_gateway.core.ports import Gauges
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_gateway.upstream.shared_stream import ClientStream, StreamUpstream
from fairlead_mcp.eras import Negotiated
from fairlead_mcp.errors import McpError
from fairlead_mcp.masking import Mask
from fairlead_mcp.stream_client import StreamClient


class LinkUpstream(StreamUpstream):
    """Upstream of one link; `mask` hides its credential in errors."""

    def __init__(
        self, link: StreamClient, traits: ServerTraits, *, own: ClientStream | None = None, mask: Mask | None = None
    ) -> None:
        super().__init__(link.name, traits, own)
        self._link = link
        self._mask = mask or Mask(None)

    def negotiated(self) -> Negotiated | None:
        return self._link.negotiated

    def stream(self) -> StreamClient:
        return self._link

    async def request(self, request: UpstreamRequest, sink: ResponseSink) -> Raw:
        try:
            return await super().request(request, sink)
        except McpError as error:
            raise self._mask.error(error)  # noqa: B904 - it is the same one

    def gauges(self) -> Gauges:
        busy = self.limit.busy
        return Gauges(busy=busy, idle=int(busy == 0 and self._link.negotiated is not None))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.limit.quiet(grace)
        await self._link.aclose()
