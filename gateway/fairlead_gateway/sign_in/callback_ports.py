"""Listeners for redirect URIs that are registered with a port of this machine (RFC 8252 section 7.3).

A manually registered client may have a single redirect URI, such as `http://localhost:8765/callback`. The port is open
while a sign-in uses it. Each request is redirected to the gateway's own callback, which checks by a cookie that the
same browser began the sign-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from fairlead_gateway.sign_in.site import PORT_CALLBACK
from fairlead_mcp.oauth.errors import CONFIGURATION, GrantFailed

HOST: Final = "127.0.0.1"
MAX_HEAD_BYTES: Final = 16 << 10
"""Limit on the bytes of a request's head."""
MAX_CONNECTIONS: Final = 16
READ_SECONDS: Final = 5.0
_HEAD_END: Final = b"\r\n\r\n"


class CallbackPorts:
    """Open ports of one gateway. `callback` returns the URL to which requests are redirected."""

    def __init__(self, callback: Callable[[], str]) -> None:
        self._callback = callback
        self._servers: dict[int, asyncio.Server] = {}
        self._leases: dict[int, dict[str, asyncio.TimerHandle]] = {}
        """For each port, the names of the sign-ins that need it, with the timers that end them."""
        self._open_lock = asyncio.Lock()
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, port: int, lease: str, seconds: float) -> None:
        """Listen on a port of 127.0.0.1 for at most `seconds`, or until `release` is called with the name `lease`.
        Raises GrantFailed if the port is in use.
        """
        async with self._open_lock:
            if port not in self._servers:
                self._servers[port] = await self._listen(port)
            leases = self._leases.setdefault(port, {})
            if (previous_timer := leases.pop(lease, None)) is not None:
                previous_timer.cancel()
            leases[lease] = asyncio.get_running_loop().call_later(seconds, self._end_lease, port, lease)

    def release(self, lease: str) -> None:
        """End a lease. The port is closed with its last lease."""
        for port in [port for port, leases in self._leases.items() if lease in leases]:
            self._end_lease(port, lease)

    async def aclose(self) -> None:
        """Close all ports."""
        for port, leases in [*self._leases.items()]:
            for lease in [*leases]:
                self._end_lease(port, lease)
        for task in [*self._connections]:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _listen(self, port: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._accept, HOST, port, limit=MAX_HEAD_BYTES)
        except OSError as error:
            reason = f"which cannot be opened: {os.strerror(error.errno or 0)}"
            if error.errno == errno.EADDRINUSE:
                reason = "which another program uses: end it, and try again"
            raise GrantFailed(
                f"the answer of the authorization server is expected at port {port} of {HOST}, {reason}",
                cause=CONFIGURATION,
            ) from error

    def _end_lease(self, port: int, lease: str) -> None:
        leases = self._leases[port]
        leases.pop(lease).cancel()
        if not leases:
            del self._leases[port]
            self._servers.pop(port).close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._answer(reader, writer), name="sign-in callback")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(_HEAD_END)
                writer.write(response_to(head, self._callback()))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a browser that opened a connection in advance, or another program
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def response_to(head: bytes, callback: str) -> bytes:
    """Response to the head of a request: a redirect to `callback` with the query of the request, or 404."""
    method, _, target_and_version = head.partition(b"\r\n")[0].partition(b" ")
    target, _, version = target_and_version.rpartition(b" ")
    try:
        url = urlsplit(target.decode("ascii"))
    except ValueError:
        url = urlsplit("")
    is_callback = method == b"GET" and version.startswith(b"HTTP/1.") and url.path == PORT_CALLBACK and not url.netloc
    status = f"303 See Other\r\nLocation: {callback}?{url.query}" if is_callback else "404 Not Found"
    headers = "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Length: 0\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode()
