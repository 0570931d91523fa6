"""Limits the operator to one process at a time of each stdio server in a pod.

Each connection to such a server starts a process, which counts against `limits.processes` until it has ended.
Discovery, notification stream and probes therefore share one connection, which stays open for `LINGER_SECONDS` after
its last use. A capability comparison with a legacy server needs a process of its own, because capabilities are declared
in the handshake. It waits until no request uses the shared process, and ends that; the notification stream is reopened
later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairlead_api.documents.catalog import Credential, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.capabilities import decline
from fairlead_mcp.eras import Era
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.opening import PROCESS_SECONDS
from fairlead_mcp.session import McpSession
from fairlead_mcp.stream_client import StreamClient, StreamState
from fairlead_operator.ports import MethodObserver

LINGER_SECONDS: Final = 5.0
"""Seconds for which an unused process is kept: a notification stream or a comparison often follows a discovery."""
EXIT_SECONDS: Final = 1.0
"""Seconds between the end of a process's output, which closes the connection, and the start of another process. The
first process counts against the limit until its interpreter has ended.
"""
CLOSE_SECONDS: Final = 1.0
"""Seconds for which `ServerProcesses.aclose` waits for the end of the processes."""


class LinkOpener(Protocol):
    """Makes the link to a stdio server in a pod; its process starts with the first request."""

    def __call__(
        self,
        key: ServerKey,
        endpoint: TcpEndpoint,
        credential: Credential,
        on_notification: MethodObserver | None,
        offering: Offering | None,
    ) -> StreamClient: ...


@dataclass(frozen=True)
class _ProcessTarget:
    """Endpoint and credential of a session; only sessions with the same target may share a process."""

    endpoint: TcpEndpoint
    credential: Credential


class _SharedProcess:
    """A process with the sessions that share it."""

    def __init__(self, target: _ProcessTarget, open_link: Callable[[MethodObserver], StreamClient]) -> None:
        self.target = target
        self.link = open_link(self._notify)
        self.requesters = 0
        """Number of sessions that are not notification streams."""
        self.observers: list[MethodObserver] = []
        self.linger: asyncio.TimerHandle | None = None

    @property
    def is_broken(self) -> bool:
        """Whether the last attempt to start the process failed, or it has ended early."""
        return self.link.state not in (StreamState.IDLE, StreamState.STARTING, StreamState.RUNNING)

    @property
    def is_modern(self) -> bool:
        negotiated = self.link.negotiated
        return negotiated is not None and negotiated.era is Era.MODERN

    def enter(self, observer: MethodObserver | None) -> None:
        self.cancel_linger()
        if observer is None:
            self.requesters += 1
        else:
            self.observers.append(observer)

    def leave(self, observer: MethodObserver | None) -> None:
        if observer is None:
            self.requesters -= 1
        else:
            self.observers.remove(observer)

    def cancel_linger(self) -> None:
        if self.linger is not None:
            self.linger.cancel()
            self.linger = None

    def _notify(self, method: str) -> None:
        for observer in tuple(self.observers):
            observer(method)


@dataclass(eq=False)
class _Server:
    """Sessions and processes of one server."""

    process: _SharedProcess | None = None
    sessions: int = 0
    """Number of sessions, including those that wait for a process."""
    has_private: bool = False
    """Whether a session has a process of its own."""
    ending: int = 0
    """Number of processes that are being ended."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next change, then replaced."""

    @property
    def allows_shared(self) -> bool:
        """Whether a session may use the shared process, or start one."""
        return not self.has_private and not self.ending

    @property
    def allows_private(self) -> bool:
        """Whether a session may start a process of its own."""
        return self.allows_shared and (self.process is None or not self.process.requesters)

    @property
    def is_unused(self) -> bool:
        return not self.sessions and not self.ending and self.process is None

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.changed.wait()


class ServerProcesses:
    """The operator's processes of all stdio servers in pods."""

    def __init__(self, open_link: LinkOpener) -> None:
        self._open_link = open_link
        self._servers: dict[ServerKey, _Server] = {}
        self._endings = TaskSet()

    def __len__(self) -> int:
        return len(self._servers)

    @asynccontextmanager
    async def session(
        self,
        key: ServerKey,
        endpoint: TcpEndpoint,
        credential: Credential,
        on_notification: MethodObserver | None = None,
        capabilities: bytes | None = None,
    ) -> AsyncIterator[McpSession]:
        """A negotiated session, as soon as the server may run a process for it. Raises McpError.

        The session declares `capabilities` (raw JSON). `on_notification` gets all notifications of the process; a
        session with `on_notification` is ended when another session needs a process of its own.
        """
        server = self._servers.setdefault(key, _Server())
        server.sessions += 1
        target = _ProcessTarget(endpoint, credential)
        process = server.process
        can_share = capabilities is None or (process is not None and process.target == target and process.is_modern)
        session_context: AbstractAsyncContextManager[McpSession] = (
            self._open_shared(key, server, target, on_notification, capabilities or b"{}")
            if can_share
            else self._open_private(key, server, target, capabilities or b"{}")
        )
        try:
            async with session_context as session:
                yield session
        finally:
            server.sessions -= 1
            self._note_change(key, server)

    def renew(self, key: ServerKey) -> None:
        """End the server's shared process; the next session starts another process, possibly in another pod."""
        server = self._servers.get(key)
        if server is not None:
            self._end_process(key, server)

    async def aclose(self) -> None:
        """End all shared processes."""
        for key in list(self._servers):
            self.renew(key)
        if self._endings:
            await asyncio.wait(self._endings, timeout=CLOSE_SECONDS)

    @asynccontextmanager
    async def _open_shared(
        self,
        key: ServerKey,
        server: _Server,
        target: _ProcessTarget,
        observer: MethodObserver | None,
        capabilities: bytes,
    ) -> AsyncIterator[McpSession]:
        await server.wait_until(lambda: server.allows_shared)
        while server.process is not None and (server.process.target != target or server.process.is_broken):
            self._end_process(key, server)
            await server.wait_until(lambda: server.allows_shared)
        process = server.process
        if process is None:
            process = server.process = _SharedProcess(
                target, lambda notify: self._open_link(key, target.endpoint, target.credential, notify, None)
            )
        process.enter(observer)
        try:
            session = McpSession.over_child(process.link, capabilities)
            await session.connect(PROCESS_SECONDS)
            yield session
        finally:
            process.leave(observer)
            if server.process is process:
                self._after_use(key, server, process)

    @asynccontextmanager
    async def _open_private(
        self, key: ServerKey, server: _Server, target: _ProcessTarget, capabilities: bytes
    ) -> AsyncIterator[McpSession]:
        await server.wait_until(lambda: server.allows_private)
        server.has_private = True
        try:
            self._end_process(key, server)
            await server.wait_until(lambda: not server.ending)
            offering = Offering(capabilities, decline)
            link = self._open_link(key, target.endpoint, target.credential, None, offering)
            try:
                session = McpSession.over_child(link, capabilities)
                await session.connect(PROCESS_SECONDS)
                yield session
            finally:
                self._end_link(key, server, link)
        finally:
            server.has_private = False
            self._note_change(key, server)

    def _after_use(self, key: ServerKey, server: _Server, process: _SharedProcess) -> None:
        self._note_change(key, server)
        if process.requesters or process.observers:
            return
        if process.link.state is StreamState.RUNNING:
            process.linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._end_process, key, server)
        else:
            self._end_process(key, server)

    def _end_process(self, key: ServerKey, server: _Server) -> None:
        process = server.process
        server.process = None
        if process is not None:
            process.cancel_linger()
            self._end_link(key, server, process.link)

    def _end_link(self, key: ServerKey, server: _Server, link: StreamClient) -> None:
        server.ending += 1
        self._endings.start(self._end(key, server, link), f"end the process of {key}")

    async def _end(self, key: ServerKey, server: _Server, link: StreamClient) -> None:
        try:
            await link.aclose()
        finally:
            asyncio.get_running_loop().call_later(EXIT_SECONDS, self._note_end, key, server)

    def _note_end(self, key: ServerKey, server: _Server) -> None:
        server.ending -= 1
        self._note_change(key, server)

    def _note_change(self, key: ServerKey, server: _Server) -> None:
        server.changed.set()
        server.changed = asyncio.Event()
        if server.is_unused and self._servers.get(key) is server:
            del self._servers[key]
