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
        self._sse_channel: LineChannel | None = None
        self._connecting = asyncio.Lock()

    @property
    def negotiated(self) -> Negotiated | None:
        return self._http.negotiated if self._sse_channel is None else self._sse_channel.negotiated

    @property
    def redirected(self) -> bool:
        """Whether the server redirected to the same URL with a trailing slash, or without it."""
        return self._http.redirected

    @property
    def speaks_sse(self) -> bool:
        """Whether the server speaks HTTP+SSE."""
        return self._sse_channel is not None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about workarounds that the transport applies to reach the server."""
        if self._sse_channel is None:
            return self._http.remarks
        return ('the server speaks HTTP+SSE of 2024-11-05: set "type": "sse" to save a failed attempt at each start',)

    async def connect(self, deadline: float) -> Negotiated:
        """Negotiate on the first call. Raises McpError; if the server speaks neither transport, the error is the
        server's answer to `initialize`.
        """
        async with self._connecting:
            if self._sse_channel is not None:
                return await self._sse_channel.connect(deadline)
            try:
                return await self._http.connect(deadline)
            except HttpRefused as refusal:
                if refusal.status not in REFUSED:
                    raise
                self._sse_channel = await self._open_sse(deadline, refusal)
                negotiated = self._sse_channel.negotiated
                assert negotiated is not None
                return negotiated

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = "") -> Raw:
        if self.negotiated is None:
            await self.connect(deadline)
        return await (self._sse_channel or self._http).request(method, params, deadline=deadline, extension=extension)

    async def listen(self, deadline: float) -> None:
        if self.negotiated is None:
            await self.connect(deadline)
        await (self._sse_channel or self._http).listen(deadline)

    async def aclose(self) -> None:
        await self._http.aclose()
        if self._sse_channel is not None:
            await self._sse_channel.aclose()

    async def _open_sse(self, deadline: float, refusal: HttpRefused) -> LineChannel:
        channel = self._events()
        try:
            async with asyncio.timeout(min(deadline - self._clock(), ASK_SECONDS)):
                await channel.connect(deadline)
            return channel
        except (McpError, TimeoutError):
            await channel.aclose()
            raise refusal from None
        except BaseException:
            await channel.aclose()
            raise
