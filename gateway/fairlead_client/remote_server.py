"""One MCP server of a registry: its connection, its cached tools, and what became of both.

Nothing is connected before the first use. A listing is kept for the registry's TTL (shorter where the server says so,
`ttlMs`), made stale by `list_changed` and by the loss of the connection, and renewed by the next request, once for all
who ask meanwhile. A connection that failed is dropped, so that the next request makes a new one; calls that are still
running on it may end. A process that fails again and again is left alone for a while: see `restarts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as randomness
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Raw

from fairlead_client import task_wait
from fairlead_client.callbacks import Callbacks
from fairlead_client.capability_comparison import CapabilityComparison
from fairlead_client.connector import ServerConnection, ServerConnector, ask
from fairlead_client.restart_backoff import RestartBackoff, RestartDelayed
from fairlead_client.servers import ServerDeclaration
from fairlead_client.single_flight import SingleFlight
from fairlead_client.tools import Tool, list_tools
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import (
    ConnectFailed,
    ConnectionLost,
    McpError,
    ProtocolError,
    RpcError,
    Timeout,
    TransportError,
)
from fairlead_mcp.gated import name_of
from fairlead_mcp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from fairlead_tools.names import exposed_name, tool_id

logger = logging.getLogger(__name__)

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
LIST_SECONDS: Final = 30.0
IMPATIENT: Final = 1.0
"""Seconds that a lookup waits for a server that failed the last time, or was too slow; it goes on being tried."""
_ROUNDS: Final = 2
"""Listings that one lookup waits for, where the server announces a change under the first."""


class RemoteServer:
    """Connection and tools of one server. `moved()` is called whenever `tools` or `online` have changed."""

    def __init__(
        self,
        server: ServerDeclaration,
        connector: ServerConnector,
        callbacks: Callbacks,
        *,
        ttl: float,
        clock: Callable[[], float],
        moved: Callable[[], None],
    ) -> None:
        self.server = server
        self.tools: Mapping[str, Tool] = {}
        """As last listed, by their own names."""
        self.online = False
        """Whether the last thing heard of it was no failure to reach it."""
        self._connector = connector
        self._comparison = CapabilityComparison(connector)
        self._callbacks = callbacks
        self._ttl = ttl
        self._clock = clock
        self._moved = moved
        self._connection: ServerConnection | None = None
        self._connecting = SingleFlight(f"connecting to {server.name}", self._connect)
        self._refreshing = SingleFlight(f"listing the tools of {server.name}", self._refresh)
        self._fresh_until = float("-inf")
        self._complaint = ""
        self._failure: McpError | None = None
        self._restarts = RestartBackoff(clock, randomness.random)
        self._slow = False
        self._changes = 0
        self._seen = -1
        """`_changes` when the last listing began."""
        self._watch: asyncio.Task[None] | None = None
        self._beside = TaskSet()
        self._closed = False

    def __repr__(self) -> str:
        state = "connected" if self._connection else "not connected"
        return f"<Remote {self.server.name} {state}, {len(self.tools)} tools>"

    # The cache

    @property
    def fresh(self) -> bool:
        """Whether the listing may be used as it is."""
        return self._clock() < self._fresh_until

    async def ensure_fresh(self, patience: float | None = None) -> None:
        """Renew the listing where it is stale. Raises nothing: `online` says whether the server answered. `patience` is
        how many seconds to wait for it; None: as long as it takes, or not for long where it was slow, or its process
        failed, the last time.
        """
        if patience is None:
            doubtful = self._slow or (self._failure is not None and self._connector.runs(self.server))
            if doubtful and self._refreshing.running:
                return  # reported to the callers that waited for it
            patience = IMPATIENT if doubtful else float("inf")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience if patience < float("inf") else None):
                await self._renew()

    async def _renew(self) -> None:
        for _ in range(_ROUNDS):
            if self.fresh or self._refusal() is not None:
                return
            try:
                await self._refreshing.result()
            except McpError as error:
                self._complain(error)
                return
            self._complaint = ""
            if self._seen == self._changes:
                return

    def _complain(self, error: McpError) -> None:
        """Log an error, the first time for each reason: a program that lists often would log nothing else."""
        message = str(error)
        level = logging.DEBUG if message == self._complaint else logging.WARNING
        logger.log(level, "%s is left out: %s", self.server.name, message)
        self._complaint = message

    def absence(self, name: str) -> McpError | None:
        """Why a tool of that name may be missing, where it would be one of this server: it could not be listed. None
        where the server is there, or where the name is none of its own.
        """
        server = self.server
        ids = tool_id(server.key._replace(name=server.name), "")
        if self.online or not name.startswith((exposed_name(server.prefix, "") if server.prefix else ids, ids)):
            return None
        return self._refusal() or self._failure or Timeout(f"{server.name} has not answered yet", sent=False)

    def invalidate(self) -> None:
        """Have the next lookup ask the server; the tools stay known for calls."""
        self._changes += 1
        self._fresh_until = float("-inf")

    def renew(self) -> None:
        """Have the next lookup ask the server, also one whose process failed a moment ago."""
        self._restarts.forget()
        self.invalidate()

    def forget(self) -> None:
        """Drop the cached tools."""
        self.renew()
        self.tools = {}
        self._moved()

    async def _refresh(self) -> None:
        before = self._changes
        try:
            connection = await self._connected()
            with self._use(connection):
                try:
                    items = await connection.session.list_all("tools/list", timeout=LIST_SECONDS)
                except RpcError as error:
                    if error.code != METHOD_NOT_FOUND or connection.session.offers("tools"):
                        raise
                    items = []
                gated = await self._comparison.gated_tools(connection, items)
                requires = {name_of(hidden.definition) or "": hidden.requires for hidden in gated}
                self.tools = list_tools(self.server, [*items, *(hidden.definition for hidden in gated)], requires)
        except McpError as error:
            self._failure = error
            if self._connection is None and not isinstance(error, RestartDelayed):
                self._restarts.note_failure(error)
            self._slow = isinstance(error, Timeout) or error.reason == "ConnectTimeout"
            self._set_online(False)
            raise
        self._slow = False
        self._failure = None
        self._set_online(True)
        self._seen = before
        if self._changes == before:
            ttl_s = connection.session.ttl.get("tools/list", 0) / 1000
            self._fresh_until = self._clock() + (min(self._ttl, ttl_s) if ttl_s > 0 else self._ttl)

    def _set_online(self, online: bool) -> None:
        self.online = online
        self._moved()

    # Requests

    async def call(self, tool: str, arguments: bytes, timeout: float) -> Raw:
        """The raw result of `tools/call`, under the tool's own name. Raises McpError."""
        end = self._clock() + timeout
        try:
            async with asyncio.timeout(timeout):
                connection = await self._connected()
        except TimeoutError as error:
            raise Timeout(f"{self.server.name} was not connected to in time", sent=False) from error
        with self._use(connection):
            try:
                return await task_wait.call(
                    connection.session, tool, arguments, lambda: end - self._clock(), self._beside
                )
            except RpcError as error:
                if error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                    self.invalidate()  # it may not know the tool any more, or have it otherwise
                raise

    async def check(self) -> bool:
        """Whether a handshake succeeds now. Raises nothing."""
        self._restarts.forget()
        try:
            if self._connector.runs(self.server):
                connection = await self._connected()
                with self._use(connection):
                    await ask(connection.session, self._connector.connect_seconds)
            else:
                await self._connector.check(self.server)
        except McpError as error:
            logger.warning("%s is not healthy: %s", self.server.name, error)
            if self._connection is not None and isinstance(error, TransportError):
                self._lose(self._connection, error)
            self._set_online(False)
            return False
        return True

    # The connection

    async def _connected(self) -> ServerConnection:
        if self._closed:
            raise ConnectFailed("the registry is closed", reason="Closed")
        if self._connection is not None:
            return self._connection
        if (refusal := self._refusal()) is not None:
            raise refusal
        return await self._connecting.result()

    def _refusal(self) -> McpError | None:
        """Why a server that is a process is not started now; a URL is asked each time."""
        return self._restarts.refusal if self._connector.runs(self.server) else None

    async def _connect(self) -> ServerConnection:
        try:
            connection = await self._connector.open(self.server, self._on_notification)
        except McpError as error:
            self._restarts.note_failure(error)
            raise
        self._restarts.up()
        self._connection = connection
        self._callbacks.connected(self.server.name)
        self._watch = asyncio.get_running_loop().create_task(
            self._watch_connection(connection), name=f"connection to {self.server.name}"
        )
        return connection

    @contextlib.contextmanager
    def _use(self, connection: ServerConnection) -> Any:
        """Count a request on a connection, and drop the connection when the request shows that it is lost."""
        connection.busy += 1
        try:
            yield
        except McpError as error:
            if _fatal(error):
                self._lose(connection, error)
            raise
        finally:
            connection.busy -= 1
            self._bury(connection)

    def _lose(self, connection: ServerConnection, error: McpError | None) -> None:
        """Drop the connection; tools that were listed over it are listed again."""
        if self._connection is not connection:
            return
        self._connection = None
        if self._watch is not None and self._watch is not asyncio.current_task():
            self._watch.cancel()
        connection.retired = True
        self._callbacks.disconnected(self.server.name, error)
        if error is not None:
            logger.warning("the connection to %s is lost: %s", self.server.name, error)
            if connection.busy == 0:  # else a call may have ended it, and what is called again is up to the caller
                self._restarts.note_loss(error)
            self.online = False
        self.invalidate()
        self._moved()
        self._bury(connection)

    def _bury(self, connection: ServerConnection, *, at_once: bool = False) -> None:
        """Close what is retired, when the last request on it has ended or at once: then it fails."""
        if connection.retired and not connection.closing and (at_once or connection.busy == 0):
            connection.closing = True
            self._beside.start(self._connector.close(connection), f"closing {self.server.name}")

    async def disconnect(self) -> None:
        """Close the connection; the next request makes a new one. Bounded."""
        await self._connecting.stop()
        await self._refreshing.stop()
        self._restarts.forget()
        connection = self._connection
        if connection is not None:
            self._lose(connection, None)
            self._bury(connection, at_once=True)
        left = [*self._beside, *([self._watch] if self._watch is not None else [])]
        if left:
            await asyncio.wait(left)

    async def aclose(self) -> None:
        """Close for good. Bounded."""
        self._closed = True
        await self.disconnect()

    # What comes by itself

    def _on_notification(self, method: str) -> None:
        if method == TOOLS_CHANGED:
            logger.info("%s announced that its tools have changed", self.server.name)
            self.invalidate()

    async def _watch_connection(self, connection: ServerConnection) -> None:
        """Hear of changes, and of the end of the connection, as far as the transport tells."""
        session, child = connection.session, connection.child
        try:
            if child is not None:
                if session.era is Era.MODERN and session.negotiated.announced:
                    self._beside.start(_subscribe(connection), f"announcements of {self.server.name}")
                self._lose(connection, await child.end())
            elif self._connector.streams(self.server):
                await session.listen(self._connector.connect_seconds)
            elif session.negotiated.announced:
                await self._listen(connection)
        except TransportError as error:
            self._lose(connection, error)
        except McpError as error:
            logger.info("%s does not announce changes after all: %s", self.server.name, error)

    async def _listen(self, connection: ServerConnection) -> None:
        """Hold the stream of announcements over HTTP, which ends now and then. Raises McpError for a server that is
        gone or that has no such stream.
        """
        backoff = Backoff(randomness.random)
        while True:
            began = self._clock()
            try:
                await connection.session.listen(self._connector.connect_seconds)
            except ConnectionLost:
                self.invalidate()  # what was announced since is not known
                await asyncio.sleep(backoff.after(self._clock() - began))


async def _subscribe(connection: ServerConnection) -> None:
    with contextlib.suppress(McpError):
        await connection.session.listen()


def _fatal(error: McpError) -> bool:
    """Whether an error says that the connection cannot be used any more."""
    return isinstance(error, ConnectFailed | ConnectionLost | ProtocolError)
