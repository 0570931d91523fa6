"""A server that is spoken to by lines (a child process, a link) as the transport of an `McpSession`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Raw

from fairlead_mcp.capabilities import for_method
from fairlead_mcp.eras import Client, Era, Negotiated, modern_params
from fairlead_mcp.handshake import read_line


class Lined(Protocol):
    """Requests, notifications and state that `Child` and `Link` have in common. Everything raises McpError; deadlines
    are in the time of `clock`.
    """

    client: Client
    clock: Callable[[], float]

    @property
    def negotiated(self) -> Negotiated | None: ...

    @property
    def process(self) -> bytes | None:
        """Random name of the process that takes requests now, 12 hexadecimal digits; None where no process begins and
        ends with the stream.
        """
        ...

    async def ready(self, deadline: float) -> Negotiated:
        """Wait until it takes requests."""
        ...

    async def request(
        self,
        method: str,
        params: bytes | Raw | None,
        *,
        deadline: float,
        on_progress: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """The raw response. `on_progress` gets progress notifications with the caller's token."""
        ...

    async def listen(self, deadline: float) -> None:
        """Have changes announced until it is over; raises, always."""
        ...


class LineChannel:
    """Channel of a session over a stream of lines. `close` ends what is spoken to, where that is the session's own.
    `capabilities` (raw JSON) are declared with each modern request; a legacy server was given them in its handshake.
    """

    def __init__(
        self, lined: Lined, close: Callable[[], Awaitable[None]] | None = None, capabilities: bytes = b"{}"
    ) -> None:
        self._lined = lined
        self._close = close
        self._capabilities = capabilities

    @property
    def negotiated(self) -> Negotiated | None:
        return self._lined.negotiated

    @property
    def remarks(self) -> tuple[str, ...]:
        """None: nothing is done here to reach the server."""
        return ()

    async def connect(self, deadline: float) -> Negotiated:
        """Connect and negotiate, or wait until that is done. Raises McpError."""
        return await self._lined.ready(deadline)

    async def request(self, method: str, params: bytes | Raw | None, *, deadline: float, declares: str = "") -> Raw:
        """The raw result; the envelope of the era is added here, with the extension that a modern request `declares`.
        Raises McpError.
        """
        agreed = await self._lined.ready(deadline)
        if agreed.era is Era.MODERN:
            params = modern_params(params, self._lined.client, for_method(self._capabilities, method, declares))
        return read_line(await self._lined.request(method, params, deadline=deadline))

    async def listen(self, deadline: float) -> None:
        """See `McpSession.listen`."""
        await self._lined.listen(deadline)

    async def aclose(self) -> None:
        if self._close is not None:
            await self._close()
