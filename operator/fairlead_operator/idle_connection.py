"""An idle TCP connection that reports its end.

TCP keep-alive probes the peer, so that a host that is switched off or disconnected is noticed too, within five
seconds.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, cast

_KEEPALIVE: Final = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
"""Keep-alive: idle seconds before the first probe, seconds between probes, and lost probes that end the connection."""


class IdleConnection(asyncio.Protocol):
    """One idle connection. The future `closed` is done when the peer or the network has ended the connection."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.peer: tuple[str, int] | None = None
        """Address and port of the server; None before the connection is open."""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not instances of the class
        _enable_keepalive(transport.get_extra_info("socket"))
        name = transport.get_extra_info("peername")
        self.peer = None if name is None else (str(name[0]), int(name[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():  # a cancelled waiter has cancelled the future
            self.closed.set_result(None)

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()


def _enable_keepalive(connection: socket.socket) -> None:
    """Turn on TCP keep-alive with the intervals of `_KEEPALIVE`, as far as the system supports them."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
