"""Listening sockets of one port: accept client connections, check their timeouts, and close them at shutdown."""

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
"""Seconds between two checks of the timeouts."""
UNSENT_BYTES: Final = 16 << 10
"""Maximum number of bytes that the kernel buffers for a socket while the client's TCP window is full."""
CLOSING_SECONDS: Final = 2.0
"""Seconds after the grace period in which cancelled calls have to end. The last bytes have to be sent in as many
further seconds.
"""


class PortTaken(Exception):
    """Failure to listen on `port`. The message says why."""

    def __init__(self, message: str, port: int) -> None:
        super().__init__(message)
        self.port = port

    @classmethod
    def from_error(cls, error: OSError, host: str, port: int) -> PortTaken:
        if error.errno == errno.EADDRINUSE:
            return cls(f"port {port} of {host} is already in use", port)
        return cls(f"cannot listen on {authority(host, port)} ({error.strerror or error})", port)


class Listener:
    """Listener on one address. With `port` 0, `bind` chooses a free port and sets the attribute `port`."""

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
        """Bind the port, without accepting connections before `serve`. Raises PortTaken."""
        loop = asyncio.get_running_loop()
        tls = self._certificates
        try:
            self._server = await listen(
                # not a subclass of asyncio.Protocol, but has its methods
                lambda: ClientConnection(self._service, self._fallbacks, self.connections, loop),  # type: ignore[arg-type,return-value]
                self.host,
                self.port,
                start_serving=False,
                ssl=None if tls is None else tls.context,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
        except OSError as error:
            raise PortTaken.from_error(error, self.host, self.port) from error
        for listening_socket in self._server.sockets:
            _detect_dead_peers(listening_socket, self._service.bounds.silent_seconds)
            _limit_unsent(listening_socket)
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweeper = loop.create_task(self._sweep(), name="connection sweep")

    async def serve(self) -> None:
        """Accept connections."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()

    def retire(self) -> None:
        """Close each connection after its next response, including the connections that are accepted from now on."""
        self._service.retire()
        for connection in [*self.connections]:
            connection.retire()

    async def stop(self, grace: float) -> None:
        """Stop accepting connections, wait up to `grace` seconds for calls in flight, cancel the remaining calls, and
        close all connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in [*self.connections]:
            connection.shutdown()
        await self._fallbacks.end_waits()
        if not await self._wait_until_idle(grace):
            unfinished: list[Cancellable] = [*self._service.in_progress, *self._fallbacks.tasks]
            log.warning("Shutdown cancels %d requests that did not end within %g s", len(unfinished), grace)
            for request in unfinished:
                request.cancel()
            await self._wait_until_idle(CLOSING_SECONDS)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._close_connections()

    async def _wait_until_idle(self, seconds: float) -> bool:
        """Wait until no request is in progress. Returns False if a request is still in progress after `seconds`.

        Requests that are being received when the wait begins may still complete, and are awaited too.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._service.in_progress or self._fallbacks.tasks:
                    await self._service.wait_until_idle()
                    if tasks := self._fallbacks.tasks:
                        await asyncio.wait(tasks)
        except TimeoutError:
            return False
        return True

    async def _close_connections(self) -> None:
        """Close all connections, with CLOSING_SECONDS for the transports to flush their buffers."""
        loop = asyncio.get_running_loop()
        # with uvloop, connections accepted just before the close may get their protocol only now
        self._service.closed = True
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
                self._certificates.reload_if_changed()
            self._check(loop.time())

    def _check(self, now: float) -> None:
        """Check the timeouts of all connections.

        A separate method, because in `_sweep` the loop variable would keep the last connection alive for a second.
        """
        for connection in [*self.connections]:
            connection.check(now)


def _detect_dead_peers(listening_socket: socket.socket, seconds: float) -> None:
    """Make the kernel close connections to dead peers; accepted connections inherit the options (tcp(7)).

    By default, a connection to a peer that disappeared stays open for ever if nothing is sent on it, and for a quarter
    of an hour otherwise.
    """
    options = {
        "TCP_KEEPIDLE": max(1, round(seconds / 2)),
        "TCP_KEEPINTVL": max(1, round(seconds / 6)),
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": round(seconds * 1000),
    }
    listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has all of these options, other systems only some
            listening_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _limit_unsent(listening_socket: socket.socket) -> None:
    """Limit the bytes that the kernel buffers before sending; accepted connections inherit the option.

    By default, the kernel would buffer megabytes for each client that does not read, before the gateway notices. Bytes
    that were sent but not yet acknowledged are not limited.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and listening_socket.family in (socket.AF_INET, socket.AF_INET6):
        listening_socket.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)
