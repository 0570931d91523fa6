"""Connections to providers that read small pieces, so that little of an answer is buffered for a slow client.

A transport passes up to 256 KiB at once to an `asyncio.Protocol`, and aiohttp pauses reading only afterwards, above
twice `READ_BUFFER`. The provider is kept waiting by TCP as soon as the client of its answer does not read.
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
"""Maximum bytes of one read."""
READ_BUFFER: Final = 512
"""Bytes of an answer below which aiohttp resumes reading. It pauses above twice this size."""


class PieceReader(asyncio.BufferedProtocol):
    """Passes what arrives on a connection to its protocol, in pieces of at most the size of `buffer`.

    The buffer can be shared, as each read is passed on before the next one begins.
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
    """Connections that are read by a `PieceReader`."""

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
