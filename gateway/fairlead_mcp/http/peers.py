"""Checks whether the peer of an open stream, which is one of the server's pods, is about to end."""

from __future__ import annotations

import asyncio
from typing import Final

from fairlead_mcp.addresses import is_address
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.dial import Address, Resolve
from fairlead_mcp.streams import NEVER

CHECK_SECONDS: Final = 5.0
"""Seconds between two look-ups of the server's pods while a stream is open: its pod may be about to end."""
_CONNECT_SECONDS: Final = 2.0


class PeerCheck:
    """Checks the peers of the streams to one host and port, every `seconds`.

    A pod that is about to end has no address under the host's name any more, and serves for some seconds. An IP address
    stands for one pod, so there is no other pod to look for, and `seconds` becomes infinite.
    """

    def __init__(self, host: str, port: int, resolve: Resolve, seconds: float = CHECK_SECONDS) -> None:
        self.seconds = NEVER if is_address(host) else seconds
        self._host = host
        self._port = port
        self._resolve = resolve

    async def is_current(self, peer: Address | None) -> bool:
        """Whether a peer is one of the server's pods. False if the name has addresses and none of them is the
        peer's.
        """
        try:
            addresses = await self._resolve(self._host, self._port)
        except (OSError, UnicodeError, ConnectFailed):  # ConnectFailed: none of the addresses is allowed
            return True
        return peer is None or not addresses or peer in addresses

    async def is_ending(self, peer: Address | None) -> bool:
        """Whether a peer refuses connections. A pod that is only not ready accepts them."""
        if peer is None:
            return False
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, *peer)
        except ConnectionRefusedError:
            return True
        except OSError:  # a TimeoutError is an OSError
            return False
        transport.abort()
        return False
