"""Channel that falls back from Streamable HTTP to HTTP+SSE (MCP 2025-11-25, Transports, "Backwards Compatibility")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_mcp.channel import LineChannel
from fairlead_mcp.eras import Negotiated
from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.http.channel import HttpChannel

REFUSED: Final = (400, 404, 405)
"""Statuses of a refused `initialize` after which HTTP+SSE is tried."""
ASK_SECONDS: Final = 5.0
"""Limit for opening the event stream and the handshake over it."""


class OlderChannel:
    """Channel over Streamable HTTP, or over HTTP+SSE if the server refuses `initialize` by POST and answers a GET with
    an event stream. `events` makes the channel for HTTP+SSE.
    """

    def __init__(self, channel: HttpChannel, events: Callable[[], LineChannel], clock: Callable[[], float]) -> None:
        self._http = channel
        self._events = events
        self._clock = clock
        self._older: LineChannel | None = None
        self._connecting = asyncio.Lock()

    @property
    def negotiated(self) -> Negotiated | None:
        return self._http.negotiated if self._older is None else self._older.negotiated

    @property
    def redirected(self) -> bool:
        """Whether the server redirected to the same URL with a trailing slash, or without it."""
        return self._http.redirected

    @property
    def speaks_sse(self) -> bool:
        """Whether the server speaks HTTP+SSE."""
        return self._older is not None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about workarounds that the transport applies to reach the server."""
        if self._older is None:
            return self._http.remarks
        return ('the server speaks HTTP+SSE of 2024-11-05: set "type": "sse" to save a failed attempt at each start',)

    async def connect(self, deadline: float) -> Negotiated:
        """Negotiate on the first call. Raises McpError; if the server speaks neither transport, the error is the
        server's answer to `initialize`.
        """
        async with self._connecting:
            if self._older is not None:
                return await self._older.connect(deadline)
            try:
                return await self._http.connect(deadline)
            except HttpRefused as refused:
                if refused.status not in REFUSED:
                    raise
                self._older = await self._over_events(deadline, refused)
                agreed = self._older.negotiated
                assert agreed is not None
                return agreed

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, declares: str = "") -> Raw:
        if self.negotiated is None:
            await self.connect(deadline)
        return await (self._older or self._http).request(method, params, deadline=deadline, declares=declares)

    async def listen(self, deadline: float) -> None:
        if self.negotiated is None:
            await self.connect(deadline)
        await (self._older or self._http).listen(deadline)

    async def aclose(self) -> None:
        await self._http.aclose()
        if self._older is not None:
            await self._older.aclose()

    async def _over_events(self, deadline: float, refused: HttpRefused) -> LineChannel:
        channel = self._events()
        try:
            async with asyncio.timeout(min(deadline - self._clock(), ASK_SECONDS)):
                await channel.connect(deadline)
            return channel
        except (McpError, TimeoutError):
            await channel.aclose()
            raise refused from None
        except BaseException:
            await channel.aclose()
            raise
