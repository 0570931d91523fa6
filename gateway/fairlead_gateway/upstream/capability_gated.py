"""Upstream of a legacy server with tools that require client capabilities.

All clients share one process or connection, which declares no capabilities. Some tools are offered only to clients with
a capability; a call of such a tool goes to a separate process or connection of its client.
"""

from __future__ import annotations

import asyncio

from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import RelayUpstream


class GatedUpstream(RelayUpstream):
    """Sends calls of tools that require a client capability to `per_client`, in a session of the client's own, and all
    other requests to `shared`. A modern server gets the capabilities with each request, so all its calls go to
    `shared`.
    """

    def __init__(self, shared: Upstream, per_client: Upstream) -> None:
        super().__init__(shared)
        self._per_client = per_client

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        needs_own_session = request.needs_declaring_session and not self.modern
        return (self._per_client if needs_own_session else self.upstream).send(request, sink)

    def end_session(self, session: bytes) -> None:
        self._per_client.end_session(session)
        self.upstream.end_session(session)

    def has_sessions_of(self, person: bytes) -> bool:
        return self._per_client.has_sessions_of(person) or self.upstream.has_sessions_of(person)

    def end_sessions_of(self, person: bytes) -> None:
        self._per_client.end_sessions_of(person)
        self.upstream.end_sessions_of(person)

    def gauges(self) -> Gauges:
        return Gauges(*map(sum, zip(self._per_client.gauges(), self.upstream.gauges(), strict=True)))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await asyncio.gather(self._per_client.aclose(grace), self.upstream.aclose(grace, replaced=replaced))
