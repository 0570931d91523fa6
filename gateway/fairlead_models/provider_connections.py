"""Connections to providers that read small pieces, so that the gateway buffers little of an answer for a slow client.

By default, a transport of asyncio passes up to 256 KiB at once to an `asyncio.Protocol`, and aiohttp pauses reading
only afterwards, if more than twice `READ_BUFFER` is buffered. With small pieces, reading pauses as soon as the client
does not read, and TCP flow control makes the provider wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client import ClientTimeout
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

PIECE: Final = 2 << 10
"""Maximum number of bytes of one read."""
READ_BUFFER: Final = 512
"""Number of buffered bytes of an answer below which aiohttp resumes reading. It pauses above twice this number."""


class PieceReader(asyncio.BufferedProtocol):
    """Passes the data that arrive on a connection to the protocol of aiohttp, in pieces of at most the size of
    `buffer`.

    All connections can share one buffer, because each piece is passed on before the next piece is read.
    """

    def __init__(self, protocol: asyncio.Protocol, buffer: bytearray) -> None:
        self._protocol = protocol
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class PieceConnector(aiohttp.TCPConnector):
    """Connector of aiohttp whose connections are read by a `PieceReader`."""

    def __init__(self, *, keepalive_timeout: float) -> None:
        """`keepalive_timeout`: seconds that an idle connection stays open."""
        super().__init__(limit=0, keepalive_timeout=keepalive_timeout)
        self._pieces = bytearray(PIECE)

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        connection = await super().connect(req, traces, timeout)
        transport, protocol = connection.transport, connection.protocol
        if transport is not None and protocol is not None and transport.get_protocol() is protocol:
            transport.set_protocol(PieceReader(protocol, self._pieces))
        return connection
