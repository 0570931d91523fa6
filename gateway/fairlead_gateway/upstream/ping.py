"""Liveness check of a server: `ping`, or `server/discover` in the modern era, which has no `ping`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.ports import Upstream
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.sending import result_of
from fairlead_mcp import eras
from fairlead_mcp.errors import ConnectFailed, McpError

PING_SECONDS: Final = 5.0
MAX_BYTES: Final = 1 << 20
"""Limit on the bytes of an answer; the answer to `server/discover` contains the server's instructions."""


class Pinger:
    """Pings one server in a background task. `clock` is the clock of deadlines, in seconds."""

    def __init__(
        self, upstream: Callable[[], Upstream], client: eras.Client, clock: Callable[[], float], seconds: float
    ) -> None:
        self._upstream = upstream
        self._client = client
        self._clock = clock
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def __call__(self, on_outcome: Callable[[Exception | None], None]) -> None:
        """Start a ping. `on_outcome` is called once, with the error, or with None if the server answered."""
        self._task = asyncio.get_running_loop().create_task(self._ask(on_outcome), name="ping")

    async def _ask(self, on_outcome: Callable[[Exception | None], None]) -> None:
        outcome: Exception | None = ConnectFailed("the ping was cancelled", reason="Closed")
        deadline = self._clock() + self._seconds
        try:
            upstream = self._upstream()
            modern = upstream.modern
            method, params = ("server/discover", eras.modern_params(None, self._client)) if modern else ("ping", b"{}")
            await result_of(upstream, UpstreamRequest(upstream.next_id(), method, params, deadline, MAX_BYTES))
            outcome = None
        except McpError as error:
            outcome = error
        finally:
            on_outcome(outcome)
