"""Several replicas behind one address.

async with balancer() as front:
    front.ports = [first.port, second.port]
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator


class Balancer:
    """Forwards each connection to the next of the ports."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.port = 0
        self._turns = itertools.count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.ports[next(self._turns) % len(self.ports)]
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_copy(reader, forth), _copy(back, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def balancer() -> AsyncIterator[Balancer]:
    """A balancer that listens on its `port`."""
    balanced = Balancer()
    server = await asyncio.start_server(balanced.serve, "127.0.0.1", 0)
    balanced.port = server.sockets[0].getsockname()[1]
    try:
        yield balanced
    finally:
        server.close()
