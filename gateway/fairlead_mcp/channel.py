"""A server that is spoken to by lines (a child process, a link) as the transport of an `McpSession`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Raw

from fairlead_mcp.capabilities import for_method
from fairlead_mcp.eras import Era, Negotiated, modern_params
from fairlead_mcp.handshake import read_line
from fairlead_mcp.stream_client import StreamClient


class LineChannel:
    """Channel of a session over a stream of lines. `close` ends what is spoken to, where that is the session's own.
    `capabilities` (raw JSON) are declared with each modern request; a legacy server was given them in its handshake.
    """

    def __init__(
        self, client: StreamClient, close: Callable[[], Awaitable[None]] | None = None, capabilities: bytes = b"{}"
    ) -> None:
        self._client = client
        self._close = close
        self._capabilities = capabilities

    @property
    def negotiated(self) -> Negotiated | None:
        return self._client.negotiated

    @property
    def remarks(self) -> tuple[str, ...]:
        """None: nothing is done here to reach the server."""
        return ()

    async def connect(self, deadline: float) -> Negotiated:
        """Connect and negotiate, or wait until that is done. Raises McpError."""
        return await self._client.ready(deadline)

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, declares: str = "") -> Raw:
        """The raw result; the envelope of the era is added here, with the extension that a modern request `declares`.
        Raises McpError.
        """
        agreed = await self._client.ready(deadline)
        if agreed.era is Era.MODERN:
            params = modern_params(params, self._client.side.client, for_method(self._capabilities, method, declares))
        return read_line(await self._client.request(method, params, deadline=deadline))

    async def listen(self, deadline: float) -> None:
        """See `McpSession.listen`."""
        await self._client.listen(deadline)

    async def aclose(self) -> None:
        if self._close is not None:
            await self._close()
