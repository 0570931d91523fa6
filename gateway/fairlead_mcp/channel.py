"""Channel of an `McpSession` over a stream of lines: a child process or a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Raw

from fairlead_mcp.capabilities import for_method
from fairlead_mcp.eras import Era, Negotiated, modern_params
from fairlead_mcp.handshake import read_line
from fairlead_mcp.stream_client import StreamClient


class LineChannel:
    """Channel of a session over the streams of a `StreamClient`. `close` closes the client, if the session owns it.

    `capabilities` (raw JSON) are declared in each modern request; legacy servers got them in the handshake.
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
        """Empty, as this transport has no workarounds."""
        return ()

    async def connect(self, deadline: float) -> Negotiated:
        """Wait until the stream is open and negotiated. Raises McpError."""
        return await self._client.wait_until_ready(deadline)

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, extension: str = "") -> Raw:
        """Send a request, with the `_meta` that the modern era requires, and return the raw result. Raises McpError.

        `extension` is an extension to declare to a modern server in addition to the capabilities.
        """
        negotiated = await self._client.wait_until_ready(deadline)
        if negotiated.era is Era.MODERN:
            params = modern_params(params, self._client.side.client, for_method(self._capabilities, method, extension))
        return read_line(await self._client.request(method, params, deadline=deadline))

    async def listen(self, deadline: float) -> None:
        """Receive notifications of changed lists until the stream ends, as `McpSession.listen` does."""
        await self._client.listen(deadline)

    async def aclose(self) -> None:
        if self._close is not None:
            await self._close()
