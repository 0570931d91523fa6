"""Opens sessions with the servers of a registry, and runs the child processes among them.

One `ServerConnector` per registry. It belongs to the loop and the thread that use it first.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from fairlead_api.documents.catalog import ChildEndpoint, EventsEndpoint
from fairlead_client.policy import MAX_PARALLEL
from fairlead_client.servers import ServerDeclaration
from fairlead_mcp.capabilities import decline
from fairlead_mcp.child import Child
from fairlead_mcp.direct import DirectLauncher
from fairlead_mcp.eras import Client, Era
from fairlead_mcp.errors import RpcError
from fairlead_mcp.gated import Declaring
from fairlead_mcp.host import ChildHost
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.opening import Heard, NetworkAccess, network_session
from fairlead_mcp.programs import find_program
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec, SubprocessLauncher
from fairlead_tools.version import NAME, VERSION

CONNECT_SECONDS: Final = 10.0
"""To negotiate with a server behind a URL."""
START_SECONDS: Final = 60.0
"""To start a child process and to negotiate with it: its package may have to be fetched first."""
CONNECTIONS: Final = MAX_PARALLEL
"""To one server at once."""


@dataclass(eq=False)
class ServerConnection:
    """A session that has been negotiated, and how many calls are on it."""

    server: ServerDeclaration
    session: McpSession
    child: Child | None = None
    busy: int = 0
    retired: bool = False
    """No further call is made on it; it is closed when the last one ends."""
    closing: bool = False


class ServerConnector:
    """Opens sessions over HTTP and stdio, and restarts child processes that ended."""

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
        self._heard: dict[Hashable, Heard] = {}

    def seconds(self, server: ServerDeclaration) -> float:
        """How long connecting to a server may take."""
        return self.start_seconds if self.runs(server) else self.connect_seconds

    def runs(self, server: ServerDeclaration) -> bool:
        """Whether the server is a child process."""
        return isinstance(server.endpoint, ChildEndpoint)

    def streams(self, server: ServerDeclaration) -> bool:
        """Whether the server is reached over one stream, whose end is that of the connection."""
        return isinstance(server.endpoint, EventsEndpoint)

    async def open(self, server: ServerDeclaration, heard: Heard) -> ServerConnection:
        """Connect and negotiate; `heard` is called with the method of each notification. Raises McpError."""
        opened = self._prepare(server, heard)
        try:
            await opened.session.connect(self.seconds(server))
        except BaseException:
            await self.close(opened)
            raise
        return opened

    async def close(self, opened: ServerConnection) -> None:
        """End a session, and the process behind it. Bounded; raises nothing."""
        await opened.session.aclose()
        if opened.child is not None and self._host is not None and self._host.find(opened.server.name) is opened.child:
            self._host.retire(opened.server.name)

    def declaring(self, connection: ServerConnection) -> Declaring:
        """Opens further sessions with the server of a connection, which declare capabilities and decline questions. A
        legacy process is told of them when it starts, and so takes a process of its own each time.
        """

        @asynccontextmanager
        async def session(capabilities: bytes) -> AsyncIterator[McpSession]:
            child, server = connection.child, connection.server
            if child is not None and connection.session.era is Era.MODERN:
                yield McpSession.over_child(child, capabilities)
                return
            offering = Offering(capabilities, decline)
            opened = self._prepare(
                replace(server, name=f"{server.name} as seen with client capabilities"), lambda method: None, offering
            )
            try:
                await opened.session.connect(self.seconds(server))
                yield opened.session
            finally:
                await self.close(opened)

        return session

    async def check(self, server: ServerDeclaration) -> None:
        """A handshake over a connection of its own. Raises McpError."""
        await self.close(await self.open(server, lambda method: None))

    async def aclose(self) -> None:
        """Stop all child processes. Bounded."""
        host, self._host = self._host, None
        if host is not None:
            await host.aclose()

    def _prepare(self, server: ServerDeclaration, heard: Heard, offering: Offering | None = None) -> ServerConnection:
        endpoint, credential = server.endpoint, server.credential
        if not isinstance(endpoint, ChildEndpoint):
            return ServerConnection(
                server,
                network_session(
                    server.name,
                    endpoint,
                    NetworkAccess(credential, self._resolve),
                    heard=heard,
                    connections=CONNECTIONS,
                    offering=offering,
                ),
            )
        self._heard[server.name] = heard
        command = find_program(endpoint.command, os.environ, endpoint.cwd) or endpoint.command
        spec = ChildSpec.of(command, endpoint.args, credential.env, endpoint.cwd)
        child = self._children().get(server.name, spec, offering)
        return ServerConnection(server, McpSession.over_child(child), child)

    def _children(self) -> ChildHost:
        if self._host is None:
            launcher = DirectLauncher(SubprocessLauncher(threading.current_thread()))
            self._host = ChildHost(launcher=launcher, client=Client(NAME, VERSION), start_seconds=self.start_seconds)
            self._host.listen(_ChildListener(self._heard))
        return self._host


class _ChildListener:
    """Passes on what child processes announce."""

    def __init__(self, heard: dict[Hashable, Heard]) -> None:
        self._heard = heard

    def child_changed(self, key: Hashable, child: Child) -> None:
        """Its end is waited for elsewhere."""

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        if (heard := self._heard.get(key)) is not None:
            heard(method)


async def ask(session: McpSession, seconds: float) -> None:
    """Have a server prove that it answers, by what every server implements. Raises McpError."""
    try:
        await session.request("tools/list", timeout=seconds)
    except RpcError:
        return  # an answer
