"""A server whose process or connection all clients share, but for tools that it knows only by a client's capabilities.

What all share is told of no capability. A legacy server that lists some of its tools only to clients which declared
one gets a process or connection for each such client instead.
"""

from __future__ import annotations

import asyncio

from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import RelayUpstream


class GatedUpstream(RelayUpstream):
    """`shared` takes all requests but those of gated tools, which `own` makes in a session of the client's own."""

    def __init__(self, shared: Upstream, own: Upstream) -> None:
        super().__init__(shared)
        self._own = own

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        apart = request.gated and not self.modern
        return (self._own if apart else self.upstream).send(request, sink)

    def end_session(self, session: bytes) -> None:
        self._own.end_session(session)

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await asyncio.gather(self._own.aclose(grace), self.upstream.aclose(grace, replaced=replaced))
