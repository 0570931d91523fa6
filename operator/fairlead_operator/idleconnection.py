"""An idle TCP connection that says when it ends. Opened by `connector`, held by `idleconnections`.

The kernel probes a silent peer, so that one that is switched off or cut off is noticed too, within five seconds.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, cast

_PROBES: Final = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between probes, probes without an answer that end it."""


class IdleConnection(asyncio.Protocol):
    """One idle connection. `closed` is done when the other side, or the network, has ended it."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.peer: tuple[str, int] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not instances of it
        _probe(transport.get_extra_info("socket"))
        name = transport.get_extra_info("peername")
        self.peer = None if name is None else (str(name[0]), int(name[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():  # by the cancellation of who waits
            self.closed.set_result(None)

    def close(self) -> None:
        """End it from this side."""
        if self._transport is not None:
            self._transport.abort()


def _probe(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
