"""Listening socket of a port: accepts connections, checks their timeouts, drains and closes them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Final

from fairlead_gateway.endpoint.connection import ClientConnection
from fairlead_gateway.endpoint.event_store import Cancellable
from fairlead_gateway.endpoint.fallback import RequestServer
from fairlead_gateway.endpoint.http_service import HttpService
from fairlead_gateway.endpoint.tls import HANDSHAKE_SECONDS, Certificates
from fairlead_mcp.addresses import authority
from fairlead_mcp.listening import listen

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 1.0
CLOSING_SECONDS: Final = 2.0
"""Bound on what is left after the grace: cancelled calls ending, last bytes going out."""


class PortTaken(Exception):
    """The address cannot be listened on; the message says why."""

    @classmethod
    def from_error(cls, error: OSError, host: str, port: int) -> PortTaken:
        if error.errno == errno.EADDRINUSE:
            return cls(f"port {port} of {host} is taken")
        return cls(f"cannot listen on {authority(host, port)} ({error.strerror or error})")


class Listener:
    """Serves one address. `port` 0 takes a free one, which `port` then names."""

    def __init__(
        self,
        service: HttpService,
        fallbacks: RequestServer,
        host: str,
        port: int,
        certificates: Certificates | None = None,
    ) -> None:
        self._service = service
        self._certificates = certificates
        self._fallbacks = fallbacks
        self.connections: set[ClientConnection] = set()
        """Open connections."""
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def bind(self) -> None:
        """Take the port; connections are refused until `serve`. Raises PortTaken."""
        loop = asyncio.get_running_loop()
        tls = self._certificates
        try:
            self._server = await listen(
                lambda: ClientConnection(self._service, self._fallbacks, self.connections, loop),  # type: ignore[arg-type,return-value]  # it takes what has a protocol's methods
                self.host,
                self.port,
                start_serving=False,
                ssl=None if tls is None else tls.context,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        for listening in self._server.sockets:
            _detect_dead_peers(listening, self._service.bounds.silent_seconds)
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = loop.create_task(self._sweep(), name="connection sweep")

    async def serve(self) -> None:
        """Accept connections."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()

    def retire(self) -> None:
        """From now on every answer ends its connection, also of those that are still accepted."""
        self._service.retire()
        for connection in [*self.connections]:
            connection.retire()

    async def stop(self, grace: float) -> None:
        """Stop accepting, let calls in flight end for up to `grace` seconds, cancel the rest, close."""
        if self._server is None:
            return
        self._server.close()
        for connection in [*self.connections]:
            connection.shutdown()
        await self._fallbacks.end_waits()
        if not await self._quiet(grace):
            left: list[Cancellable] = [*self._service.in_progress, *self._fallbacks.tasks]
            log.warning("%d requests did not end within %g s and are cancelled", len(left), grace)
            for request in left:
                request.cancel()
            await self._quiet(CLOSING_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._close_connections()

    async def _quiet(self, seconds: float) -> bool:
        """Wait until no request is in progress. Half-read connections may add requests meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                while self._service.in_progress or self._fallbacks.tasks:
                    await self._service.quiet()
                    if tasks := self._fallbacks.tasks:
                        await asyncio.wait(tasks)
        except TimeoutError:
            return False
        return True

    async def _close_connections(self) -> None:
        """Last answers may still be in the buffers of transports: they go out, or are cut off."""
        loop = asyncio.get_running_loop()
        self._service.closed = True  # uvloop makes connections that it accepted just before the server closed
        for connection in [*self.connections]:
            connection.transport.close()
        deadline = loop.time() + CLOSING_SECONDS
        while self.connections and loop.time() < deadline:  # noqa: ASYNC110  # once, at the end of the process
            await asyncio.sleep(0.01)
        for connection in [*self.connections]:
            connection.transport.abort()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._service.sweep(loop.time())
            if self._certificates is not None:
                self._certificates.look()
            self._check(loop.time())

    def _check(self, now: float) -> None:
        """A method, so that nothing holds the connection looked at last until the next sweep."""
        for connection in [*self.connections]:
            connection.check(now)


def _detect_dead_peers(listening: socket.socket, seconds: float) -> None:
    """Have the kernel end connections whose other side acknowledges nothing: accepted ones inherit it (tcp(7)).

    Without it a client that went without a word holds its connection for ever where it is idle or waits in a call, and
    for a quarter of an hour where something is sent to it.
    """
    options = {
        "TCP_KEEPIDLE": max(1, round(seconds / 2)),
        "TCP_KEEPINTVL": max(1, round(seconds / 6)),
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": round(seconds * 1000),
    }
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has them all
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
