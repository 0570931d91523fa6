"""A server whose process or connection all clients share, but for tools that it knows only by a client's capabilities.

What all share is told of no capability. A legacy server that lists some of its tools only to clients which declared
one gets a process or connection for each such client instead.
"""

from __future__ import annotations

import asyncio

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest


class GatedUpstream(Upstream):
    """`shared` takes all requests but those of gated tools, which `own` makes in a session of the client's own."""

    def __init__(self, shared: Upstream, own: Upstream) -> None:
        self._shared = shared
        self._own = own

    @property
    def modern(self) -> bool:
        return self._shared.modern

    def next_id(self) -> bytes:
        return self._shared.next_id()

    def modern_for(self, client: ClientPeer | None) -> bool | None:
        return self._shared.modern_for(client)

    async def negotiate(self, client: ClientPeer | None, deadline: float) -> bool:
        return await self._shared.negotiate(client, deadline)

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        apart = request.gated and not self._shared.modern
        return (self._own if apart else self._shared).send(request, sink)

    def end_session(self, session: bytes) -> None:
        self._own.end_session(session)

    def gauges(self) -> Gauges:
        return self._shared.gauges()

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await asyncio.gather(self._own.aclose(grace), self._shared.aclose(grace, replaced=replaced))
