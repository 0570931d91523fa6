"""Listening sockets on one address, or on all interfaces over IPv6 and IPv4."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from ssl import SSLContext
from typing import Final

from fairlead_mcp.addresses import EVERY_ADDRESS, EVERY_IPV4_ADDRESS

BACKLOG: Final = 2048


def every_address_socket(port: int) -> socket.socket:
    """Make a socket that is bound to all interfaces, for IPv6 and IPv4; for IPv4 only if the kernel has no IPv6.

    The socket that asyncio would make for `::` refuses IPv4 clients. Raises OSError.
    """
    is_dual_stack = socket.has_dualstack_ipv6()
    family, address = (socket.AF_INET6, EVERY_ADDRESS) if is_dual_stack else (socket.AF_INET, EVERY_IPV4_ADDRESS)
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_dual_stack:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
    except BaseException:
        listener.close()
        raise
    return listener


async def listen(
    protocol: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    *,
    start_serving: bool = True,
    ssl: SSLContext | None = None,
    ssl_handshake_timeout: float | None = None,
) -> asyncio.Server:
    """Start a server of the running event loop; at `::` it accepts IPv4 clients too. Raises OSError."""
    serve = partial(
        asyncio.get_running_loop().create_server,
        protocol,
        backlog=BACKLOG,
        start_serving=start_serving,
        ssl=ssl,
        ssl_handshake_timeout=ssl_handshake_timeout,
    )
    if host != EVERY_ADDRESS:
        return await serve(host, port)
    listener = every_address_socket(port)
    try:
        return await serve(sock=listener)
    except BaseException:
        listener.close()
        raise
