"""Connection and cached tools of one MCP server of a registry.

The server is connected at the first use. Its list of tools is cached for the registry's TTL, or for the server's
`ttlMs` if that is shorter. The notification `list_changed` and the loss of the connection make the list stale. The next
lookup then requests the list again, once for all concurrent callers.

A failed connection gets no further calls, while calls that still run on it may finish; the next request opens a new
connection. A process that fails repeatedly is restarted after growing delays (`restart_backoff`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as randomness
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw

from fairlead_client import task_wait
from fairlead_client.callbacks import Callbacks
from fairlead_client.capability_comparison import CapabilityComparison
from fairlead_client.connector import ServerConnection, ServerConnector, check_responds
from fairlead_client.restart_backoff import RestartBackoff, RestartDelayed
from fairlead_client.servers import ServerDeclaration
from fairlead_client.sign_in_wanted import sign_in_wanted
from fairlead_client.single_flight import SingleFlight
from fairlead_client.tools import Tool, list_tools
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Era
from fairlead_mcp.errors import (
    ConnectFailed,
    ConnectionLost,
    HandshakeRefused,
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
"""Timeout of each request for a list of tools, in seconds."""
IMPATIENT_SECONDS: Final = 1.0
"""Seconds that a lookup waits for a server whose process failed, or which was too slow, the last time. The attempt
continues in the background.
"""
_MAX_LISTS: Final = 2
"""Maximum number of lists that one lookup requests, if the server announces changes while it lists its tools."""


class RemoteServer:
    """Connection and tools of one server. `on_change()` is called whenever `tools` or `online` have changed."""

    def __init__(
        self,
        server: ServerDeclaration,
        connector: ServerConnector,
        callbacks: Callbacks,
        *,
        ttl: float,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self.server = server
        self.tools: Mapping[str, Tool] = {}
        """Tools of the last list by the server's own names."""
        self.online = False
        """Whether the last attempt to reach the server was successful."""
        self._connector = connector
        self._comparison = CapabilityComparison(connector)
        self._callbacks = callbacks
        self._ttl = ttl
        self._clock = clock
        self._on_change = on_change
        self._connection: ServerConnection | None = None
        self._connecting = SingleFlight(f"connecting to {server.name}", self._connect)
        self._refreshing = SingleFlight(f"listing the tools of {server.name}", self._refresh)
        self._comparing = SingleFlight(f"comparing the lists of {server.name}", self._compare)
        self._items: Sequence[Raw] = ()
        """Definitions of the last list."""
        self._fresh_until = float("-inf")
        self._logged_error = ""
        """Last error that was logged as a warning, whose repetitions are not warnings; empty after a success."""
        self._failure: McpError | None = None
        self._restarts = RestartBackoff(clock, randomness.random)
        self._was_slow = False
        """Whether the last attempt to list the tools timed out."""
        self._changes = 0
        """Number of times that the list was made stale."""
        self._changes_listed = -1
        """Value of `_changes` when the last list was requested."""
        self._watch_task: asyncio.Task[None] | None = None
        self._background = TaskSet()
        self._closed = False

    def __repr__(self) -> str:
        state = "connected" if self._connection else "not connected"
        return f"<Remote {self.server.name} {state}, {len(self.tools)} tools>"

    # The cache

    @property
    def fresh(self) -> bool:
        """Whether the cached tools are up to date."""
        return self._clock() < self._fresh_until

    async def ensure_fresh(self, patience: float | None = None) -> None:
        """List the tools again if they are stale. Never raises: `online` says whether the server could be reached.
        `patience` is the timeout in seconds. None means no timeout, or `IMPATIENT_SECONDS` if the server was slow or
        its process failed the last time.
        """
        if patience is None:
            is_doubtful = self._was_slow or (self._failure is not None and self._connector.runs_as_child(self.server))
            if is_doubtful and self._refreshing.running:
                return  # the callers that started the listing wait for it
            patience = IMPATIENT_SECONDS if is_doubtful else float("inf")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience if patience < float("inf") else None):
                await self._list_until_fresh()

    async def _list_until_fresh(self) -> None:
        for _ in range(_MAX_LISTS):
            if self.fresh or self._refusal() is not None:
                return
            try:
                await self._refreshing.result()
            except McpError as error:
                self._log_failure(error)
                return
            self._logged_error = ""
            if self._changes_listed == self._changes:
                return

    def _log_failure(self, error: McpError) -> None:
        """Log an error as a warning, or only at level DEBUG if it repeats the last error."""
        message = str(error)
        level = logging.DEBUG if message == self._logged_error else logging.WARNING
        logger.log(level, "the tools of server %s are left out: %s", self.server.name, message)
        self._logged_error = message

    def absence(self, name: str) -> McpError | None:
        """Reason why a tool with this server's prefix may be missing: the server's tools could not be listed. None if
        the server is online, or if `name` does not have the server's prefix.
        """
        server = self.server
        ids = tool_id(server.key._replace(name=server.name), "")
        if self.online or not name.startswith((exposed_name(server.prefix, "") if server.prefix else ids, ids)):
            return None
        return self._refusal() or self._failure or Timeout(f"server {server.name} has not responded yet", sent=False)

    def invalidate(self) -> None:
        """Make the tools stale, so that the next lookup lists them again. Calls can still use them."""
        self._changes += 1
        self._fresh_until = float("-inf")

    def reset(self) -> None:
        """Make the tools stale, and end the delay before a restart of a failed process."""
        self._restarts.end_delay()
        self.invalidate()

    def forget(self) -> None:
        """Drop the cached tools."""
        self.reset()
        self.tools = {}
        self._on_change()

    async def _refresh(self) -> None:
        changes_before = self._changes
        try:
            connection = await self._get_connection()
            with self._use(connection):
                try:
                    items = await connection.session.list_all("tools/list", timeout=LIST_SECONDS)
                except RpcError as error:
                    if error.code != METHOD_NOT_FOUND or connection.session.offers("tools"):
                        raise
                    items = []
                self._items = items
                self._update_tools()
        except McpError as error:
            self._failure = error
            if self._connection is None and not isinstance(error, RestartDelayed):
                self._restarts.note_failure(error)
            self._was_slow = isinstance(error, Timeout) or error.reason == "ConnectTimeout"
            self._set_online(False)
            raise
        self._was_slow = False
        self._failure = None
        self._set_online(True)
        self._changes_listed = changes_before
        if self._changes == changes_before:
            ttl_s = connection.session.ttl.get("tools/list", 0) / 1000
            self._fresh_until = self._clock() + (min(self._ttl, ttl_s) if ttl_s > 0 else self._ttl)

    def _update_tools(self) -> None:
        """Set `tools` to the tools of the last list and those that only a capability comparison has found."""
        gated = self._comparison.gated_tools(self._items)
        requires = {name_of(tool.definition) or "": tool.requires for tool in gated}
        self.tools = list_tools(self.server, [*self._items, *(tool.definition for tool in gated)], requires)

    async def find_gated(self) -> None:
        """Add the tools that the server lists only to clients with certain capabilities. Never raises."""
        if self._connection is not None and self.online:
            with contextlib.suppress(McpError):
                await self._comparing.result()

    async def _compare(self) -> None:
        connection = await self._get_connection()
        with self._use(connection):
            await self._comparison.compare(connection, self._items)
        self._update_tools()
        self._on_change()

    def _set_online(self, online: bool) -> None:
        self.online = online
        self._on_change()

    # Requests

    async def call(self, tool: str, arguments: bytes, timeout: float) -> Raw:
        """Call a tool by the server's own name for it, and return the raw result. `timeout` is in seconds. Raises
        McpError.
        """
        end = self._clock() + timeout
        try:
            async with asyncio.timeout(timeout):
                connection = await self._get_connection()
        except TimeoutError as error:
            raise Timeout(f"server {self.server.name} could not be connected in time", sent=False) from error
        with self._use(connection):
            try:
                return await task_wait.call(
                    connection.session, tool, arguments, lambda: end - self._clock(), self._background
                )
            except RpcError as error:
                if error.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                    self.invalidate()  # the tool may have been removed or changed
                raise

    async def check(self) -> bool:
        """Whether a handshake succeeds now. Never raises."""
        self._restarts.end_delay()
        try:
            if self._connector.runs_as_child(self.server):
                connection = await self._get_connection()
                with self._use(connection):
                    await check_responds(connection.session, self._connector.connect_seconds)
            else:
                await self._connector.check(self.server)
        except McpError as error:
            logger.warning("server %s is not healthy: %s", self.server.name, error)
            if self._connection is not None and isinstance(error, TransportError):
                self._lose(self._connection, error)
            self._set_online(False)
            return False
        return True

    # The connection

    async def _get_connection(self) -> ServerConnection:
        if self._closed:
            raise ConnectFailed("the registry is closed", reason="Closed")
        if self._connection is not None:
            return self._connection
        if (refusal := self._refusal()) is not None:
            raise refusal
        return await self._connecting.result()

    def _refusal(self) -> McpError | None:
        """Error that says why the server's process may not be started now; None if it may, and for servers at a URL."""
        return self._restarts.refusal if self._connector.runs_as_child(self.server) else None

    async def _connect(self) -> ServerConnection:
        try:
            connection = await self._connector.open(self.server, self._on_notification)
        except McpError as error:
            failure = error.with_server(self.server.name) if isinstance(error, HandshakeRefused) else error
            self._restarts.note_failure(failure)
            raise failure from error
        self._restarts.note_start()
        self._connection = connection
        self._callbacks.queue_connected(self.server.name)
        self._watch_task = asyncio.get_running_loop().create_task(
            self._watch_connection(connection), name=f"connection to {self.server.name}"
        )
        return connection

    @contextlib.contextmanager
    def _use(self, connection: ServerConnection) -> Any:
        """Count a request on a connection; drop the connection if the request shows that it is lost."""
        connection.busy += 1
        try:
            yield
        except McpError as error:
            if _ends_connection(error):
                self._lose(connection, error)
            if (sign_in_failure := sign_in_wanted(self.server, error)) is not None:
                raise sign_in_failure from error
            raise
        finally:
            connection.busy -= 1
            self._close_retired(connection)

    def _lose(self, connection: ServerConnection, error: McpError | None) -> None:
        """Drop a lost connection and make the tools stale."""
        if self._connection is not connection:
            return
        self._connection = None
        if self._watch_task is not None and self._watch_task is not asyncio.current_task():
            self._watch_task.cancel()
        connection.retired = True
        self._callbacks.queue_disconnected(self.server.name, error)
        if error is not None:
            logger.warning("the connection to server %s is lost: %s", self.server.name, error)
            # a call in flight may have made the process end; its caller then decides about a retry, without a delay
            if connection.busy == 0:
                self._restarts.note_loss(error)
            self.online = False
        self.invalidate()
        self._on_change()
        self._close_retired(connection)

    def _close_retired(self, connection: ServerConnection, *, at_once: bool = False) -> None:
        """Close a retired connection if no request runs on it. With `at_once`, close it in any case, so that running
        requests fail.
        """
        if connection.retired and not connection.closing and (at_once or connection.busy == 0):
            connection.closing = True
            self._background.start(self._connector.close(connection), f"closing {self.server.name}")

    async def disconnect(self) -> None:
        """Close the connection; the next request opens a new one. The time is limited."""
        await self._connecting.stop()
        await self._refreshing.stop()
        await self._comparing.stop()
        self._restarts.end_delay()
        connection = self._connection
        if connection is not None:
            self._lose(connection, None)
            self._close_retired(connection, at_once=True)
        tasks = [*self._background, *([self._watch_task] if self._watch_task is not None else [])]
        if tasks:
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        """Close the connection permanently. The time is limited."""
        self._closed = True
        await self.disconnect()

    # Notifications

    def _on_notification(self, method: str) -> None:
        if method == TOOLS_CHANGED:
            logger.info("server %s announced that its tools have changed", self.server.name)
            self.invalidate()

    async def _watch_connection(self, connection: ServerConnection) -> None:
        """Receive notifications of the server, and drop the connection when its transport reports the end."""
        session, child = connection.session, connection.child
        try:
            if child is not None:
                if session.era is Era.MODERN and session.negotiated.announced_lists:
                    self._background.start(_subscribe(connection), f"announcements of {self.server.name}")
                self._lose(connection, await child.end())
            elif self._connector.uses_event_stream(self.server):
                await session.listen(self._connector.connect_seconds)
            elif session.negotiated.announced_lists:
                await self._listen(connection)
        except TransportError as error:
            self._lose(connection, error)
        except McpError as error:
            logger.info("server %s cannot announce changes of its tools: %s", self.server.name, error)

    async def _listen(self, connection: ServerConnection) -> None:
        """Keep the HTTP stream of notifications open by opening it again whenever it ends. Raises McpError if the
        server cannot be reached or has no such stream.
        """
        backoff = Backoff(randomness.random)
        while True:
            began = self._clock()
            try:
                await connection.session.listen(self._connector.connect_seconds)
            except ConnectionLost:
                self.invalidate()  # announcements may have been missed
                await asyncio.sleep(backoff.delay_after(self._clock() - began))


async def _subscribe(connection: ServerConnection) -> None:
    with contextlib.suppress(McpError):
        await connection.session.listen()


def _ends_connection(error: McpError) -> bool:
    """Whether a connection cannot be used any more after an error."""
    return isinstance(error, ConnectFailed | ConnectionLost | ProtocolError)
