"""Upstream of a server over a link: on stdio behind a TCP listener, or with HTTP+SSE.

All calls of a gateway share one connection, so a server on stdio has one process per gateway. The connection opens with
the first call, and closes after a time without calls. Log messages do not name their request, so they are forwarded
only on a connection that belongs to one client.
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
    """Upstream of one link. `mask` hides the credential in errors."""

    def __init__(
        self,
        link: StreamClient,
        traits: ServerTraits,
        *,
        client_stream: ClientStream | None = None,
        mask: Mask | None = None,
    ) -> None:
        super().__init__(link.name, traits, client_stream)
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
            raise self._mask.error(error)  # noqa: B904 - the same error, with the credential masked

    def gauges(self) -> Gauges:
        busy = self.limit.busy
        return Gauges(busy=busy, idle=int(busy == 0 and self._link.negotiated is not None))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.limit.wait_until_idle(grace)
        await self._link.aclose()
