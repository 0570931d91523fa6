"""Opens sessions with the servers of a registry, and runs stdio servers as child processes.

Each registry has one `ServerConnector`. It must be used only in the event loop and thread of its first use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from fairlead_api.documents.catalog import ChildEndpoint, EventsEndpoint
from fairlead_client.retry_policy import MAX_PARALLEL
from fairlead_client.servers import ServerDeclaration
from fairlead_client.sign_in_wanted import sign_in_wanted
from fairlead_mcp.capabilities import decline
from fairlead_mcp.child import Child
from fairlead_mcp.direct import DirectLauncher
from fairlead_mcp.eras import Client, Era
from fairlead_mcp.errors import McpError, RpcError
from fairlead_mcp.gated import SessionOpener
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.opening import MethodObserver, NetworkAccess, network_session
from fairlead_mcp.programs import find_program
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec, SubprocessLauncher
from fairlead_tools.version import NAME, VERSION

CONNECT_SECONDS: Final = 10.0
"""Timeout in seconds for the handshake with a server at a URL."""
START_SECONDS: Final = 60.0
"""Timeout in seconds for starting a child process and the handshake with it. It includes the download of a package."""
MAX_CONNECTIONS: Final = MAX_PARALLEL
"""Maximum number of connections to one server."""


@dataclass(eq=False)
class ServerConnection:
    """A session after its handshake."""

    server: ServerDeclaration
    session: McpSession
    child: Child | None = None
    """The server's child process; None for a server at a URL."""
    busy: int = 0
    """Number of requests in flight."""
    retired: bool = False
    """Whether the connection gets no further calls and is closed when its last call ends."""
    closing: bool = False
    """Whether closing the connection has begun."""


class ServerConnector:
    """Opens sessions over HTTP and stdio, and restarts child processes that have ended."""

    def __init__(
        self,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        start_seconds: float = START_SECONDS,
        resolve: Resolve | None = None,
    ) -> None:
        self.connect_seconds = connect_seconds
        self.start_seconds = start_seconds
        self._resolve = resolve
        self._host: ChildHost | None = None
        self._handlers: dict[Hashable, MethodObserver] = {}
        """Notification handlers of child processes, by server name. Each is called with the notification's method."""

    def connect_timeout(self, server: ServerDeclaration) -> float:
        """Timeout in seconds for connecting to a server."""
        return self.start_seconds if self.runs_as_child(server) else self.connect_seconds

    def runs_as_child(self, server: ServerDeclaration) -> bool:
        """Whether the server is a child process."""
        return isinstance(server.endpoint, ChildEndpoint)

    def uses_event_stream(self, server: ServerDeclaration) -> bool:
        """Whether the server uses one event stream (HTTP+SSE). When the stream ends, the connection ends."""
        return isinstance(server.endpoint, EventsEndpoint)

    async def open(self, server: ServerDeclaration, on_notification: MethodObserver) -> ServerConnection:
        """Open a session; `on_notification` is called with the method of each notification. Raises McpError."""
        connection = self._prepare(server, on_notification)
        try:
            await connection.session.connect(self.connect_timeout(server))
        except McpError as error:
            await self.close(connection)
            if (sign_in_failure := sign_in_wanted(server, error)) is not None:
                raise sign_in_failure from error
            raise
        except BaseException:
            await self.close(connection)
            raise
        return connection

    async def close(self, connection: ServerConnection) -> None:
        """Close a session and its child process. The time is limited; never raises."""
        await connection.session.aclose()
        name, child = connection.server.name, connection.child
        if child is not None and self._host is not None and self._host.find(name) is child:
            self._host.retire(name)

    def capability_sessions(self, connection: ServerConnection) -> SessionOpener:
        """Return a function that opens further sessions with a connection's server. These sessions declare client
        capabilities and decline requests of the server. A legacy stdio server receives the capabilities of its client
        only once, at the start, so a further session needs another process.
        """

        @asynccontextmanager
        async def session(capabilities: bytes) -> AsyncIterator[McpSession]:
            child, server = connection.child, connection.server
            if child is not None and connection.session.era is Era.MODERN:
                yield McpSession.over_child(child, capabilities)
                return
            offering = Offering(capabilities, decline)
            other_connection = self._prepare(
                replace(server, name=f"{server.name} with client capabilities"), lambda method: None, offering
            )
            try:
                await other_connection.session.connect(self.connect_timeout(server))
                yield other_connection.session
            finally:
                await self.close(other_connection)

        return session

    async def check(self, server: ServerDeclaration) -> None:
        """Check a server by a handshake over a new connection. Raises McpError."""
        await self.close(await self.open(server, lambda method: None))

    async def aclose(self) -> None:
        """Stop all child processes; the time is limited."""
        host, self._host = self._host, None
        if host is not None:
            await host.aclose()

    def _prepare(
        self, server: ServerDeclaration, on_notification: MethodObserver, offering: Offering | None = None
    ) -> ServerConnection:
        endpoint, credential = server.endpoint, server.credential
        if not isinstance(endpoint, ChildEndpoint):
            return ServerConnection(
                server,
                network_session(
                    server.name,
                    endpoint,
                    NetworkAccess(credential, self._resolve),
                    on_method=on_notification,
                    connections=MAX_CONNECTIONS,
                    offering=offering,
                ),
            )
        self._handlers[server.name] = on_notification
        command = find_program(endpoint.command, os.environ, endpoint.cwd) or endpoint.command
        spec = ChildSpec.of(command, endpoint.args, credential.env, endpoint.cwd)
        child = self._children().get(server.name, spec, offering)
        return ServerConnection(server, McpSession.over_child(child), child)

    def _children(self) -> ChildHost:
        if self._host is None:
            launcher = DirectLauncher(SubprocessLauncher(threading.current_thread()))
            self._host = ChildHost(
                launcher=launcher,
                client=Client(NAME, VERSION),
                start_seconds=self.start_seconds,
                logs_delays=False,  # `RestartBackoff` decides when a process is started again, and errors say so
            )
            self._host.listen(_ChildListener(self._handlers))
        return self._host


class _ChildListener:
    """Forwards notifications of child processes."""

    def __init__(self, on_notification: dict[Hashable, MethodObserver]) -> None:
        self._handlers = on_notification

    def child_changed(self, key: Hashable, child: Child) -> None:
        """No-op, as `RemoteServer` waits for the end of a child."""

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        if (on_notification := self._handlers.get(key)) is not None:
            on_notification(method)


async def check_responds(session: McpSession, seconds: float) -> None:
    """Check that a server responds, by a method that every server implements. Raises McpError."""
    try:
        await session.request("tools/list", timeout=seconds)
    except RpcError:
        return  # an error response is a response too
