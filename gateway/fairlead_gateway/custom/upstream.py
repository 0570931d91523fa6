"""Upstream of the server `local`, whose tools are Python functions in the gateway's process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.ports import Gauges, Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import RpcError
from fairlead_tools.handlers.calls import THREADS, Handlers
from fairlead_tools.handlers.tools import CustomTools

METHOD: Final = "tools/call"


class LocalUpstream(Upstream):
    """Upstream of the custom tools of one gateway.

    `limit` is the maximum number of calls at once, `threads` the maximum number of blocking functions at once. `clock`
    is the clock of deadlines, in seconds.
    """

    def __init__(
        self, tools: CustomTools, *, limit: int, threads: int = THREADS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.handlers = Handlers(tools, limit=limit, threads=threads, clock=clock)
        self._next_number = itertools.count(1).__next__

    def next_id(self) -> bytes:
        return b"%d" % self._next_number()

    @property
    def modern(self) -> bool:
        return False

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        """Start a call at once. `sink` gets the result by a callback, without an asyncio task per call."""
        if request.method != METHOD:
            sink.take_error(RpcError(jsonrpc.METHOD_NOT_FOUND, f"custom tools do not support {request.method}"))
            return NO_OP_PENDING
        return self.handlers.call(
            request.params, sink, deadline=request.deadline, max_bytes=request.max_bytes, token=request.id
        )

    def gauges(self) -> Gauges:
        return Gauges(busy=len(self.handlers.running))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        await self.handlers.aclose(grace)
