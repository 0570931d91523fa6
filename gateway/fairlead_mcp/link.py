"""One server over a stream of messages that is opened when it is needed, shared, and opened again after a loss.

Somebody else's process answers it: `tcp` and `http.events` open such streams. Nothing runs without requests: a link
connects with its first request, closes after `idle` seconds without one, and after a loss the next request connects
again, unless the last loss was a moment ago (see `fairlead_mcp.backoff`).

Each connection negotiates again. Deadlines are absolute, in `Link.clock`. One connection at a time, ever: a listener
with a backlog of one is not flooded.
"""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Client
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout, TransportError
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.stream_client import NEVER, PROBE_SECONDS, StreamClient, StreamConnection, process_name

OPEN_SECONDS: Final = 30.0
"""From dialing to the end of the handshake: a server on a stream may have to start first."""
FIRST_DELAY: Final = 0.25
LAST_DELAY: Final = 5.0
"""Seconds after a failure in which nothing is tried; connecting is cheap and the caller waits for it."""


class StreamListener(Protocol):
    """Who is told what comes over a stream."""

    def on_line(self, line: bytes) -> None:
        """One message."""
        ...

    def on_refused(self, line: bytes, error: McpError) -> None:
        """A message that was written did not get through; the stream goes on."""
        ...

    def on_end(self, error: McpError) -> None:
        """The stream is over; told once, last."""
        ...


class MessageStream(Protocol):
    """An open stream."""

    def write(self, line: bytes) -> None:
        """Send one message. Raises PoolFull when the other side does not read. After the end it is dropped."""
        ...

    async def aclose(self) -> None: ...


class Opener(Protocol):
    """Opens streams to one server."""

    async def open(self, listener: StreamListener) -> MessageStream:
        """Raises McpError; leaves nothing behind then."""
        ...


class Link(StreamClient[MessageStream]):
    """Server over a stream of messages, opened when a request needs it. `legacy` skips the question for the modern era.
    `process`: each connection is to a process of its own.
    """

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        client: Client | None = None,
        legacy: bool = False,
        idle: float = NEVER,
        open_seconds: float = OPEN_SECONDS,
        probe_seconds: float = PROBE_SECONDS,
        random: Callable[[], float] = randomness.random,
        clock: Callable[[], float] = time.monotonic,
        on_notification: Callable[[str, bytes], None] | None = None,
        offering: Offering | None = None,
        process: bool = False,
    ) -> None:
        super().__init__(
            name,
            client=client,
            clock=clock,
            offering=offering,
            on_notification=on_notification,
            backoff=Backoff(random, base=FIRST_DELAY, cap=LAST_DELAY),
            probe_seconds=probe_seconds,
            alternates=not legacy,
        )
        self._process = process
        self._opener = opener
        self._idle = idle
        self._open_seconds = open_seconds
        self._life: LinkConnection | None = None
        self._opening: asyncio.Task[LinkConnection] | None = None
        self._not_before = -NEVER
        self._busy = 0
        self._idle_times: IdleTimes[None] = IdleTimes(idle, self._expire)
        self._burials = TaskSet()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Link {self.name} {'open' if self._life else 'idle'}, {self._busy} busy, {self.starts} opened>"

    @property
    def connection(self) -> LinkConnection | None:
        return self._life

    async def aclose(self) -> None:
        """Close for good; what is in flight fails. Bounded; idempotent."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        self._drop(ConnectionLost(f"the connection to {self.name} was closed", sent=True))
        if self._burials:
            await asyncio.wait(self._burials)

    # Connecting

    async def connect(self, deadline: float) -> LinkConnection:
        if self._life is not None:
            return self._life
        if self._closed:
            raise ConnectFailed(f"the connection to {self.name} was closed", reason="Closed")
        if self._opening is None:
            if self.failure is not None and self.clock() < self._not_before:
                raise self.failure
            self._opening = asyncio.get_running_loop().create_task(self._open(), name=f"connect {self.name}")
            self._opening.add_done_callback(self._finish_opening)
        done, _ = await asyncio.wait([self._opening], timeout=max(0.0, min(deadline - self.clock(), 1e6)))
        if not done:
            raise Timeout(f"{self.name} is still starting", sent=False, reason="Silent")
        if (task := done.pop()).cancelled():
            raise ConnectFailed(f"the connection to {self.name} was closed", reason="Closed")
        return task.result()

    def _finish_opening(self, task: asyncio.Task[LinkConnection]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # its waiters may be gone, and nobody has to complain

    async def _open(self) -> LinkConnection:
        life = LinkConnection(self)
        deadline = self.clock() + self._open_seconds
        self.starts += 1
        try:
            life.pipe = await self._opener.open(life)
            life.negotiated = await self.negotiate(life, deadline)
            if life.end.done():
                raise life.end.result()
        except McpError as error:
            self.alternate(error)
            self._bury(life)
            self.failure = _not_sent(error)
            self._not_before = self.clock() + self._backoff.after(0.0)
            raise self.failure from error
        except BaseException:
            self._bury(life)
            raise
        self._life = life
        life.born = self.clock()
        self.process = process_name() if self._process else None
        self._rest()  # the caller may have given up
        return life

    # The end of a connection

    def end(self, life: LinkConnection, error: McpError) -> None:
        """End the life of a connection that broke."""
        if self._life is life:
            self._life = None
            lived = self.clock() - life.born
            delay = self._backoff.after(lived)
            self.failure = _not_sent(error)
            self._not_before = -NEVER if lived >= self._backoff.stable else self.clock() + delay
            self._bury(life)

    def _drop(self, error: McpError) -> None:
        """Close the connection on our own account: nothing to wait for before the next."""
        life, self._life = self._life, None
        self._idle_times.mark_used(None)
        if life is not None:
            life.on_end(error)
            self._bury(life)

    def _bury(self, life: LinkConnection) -> None:
        if life.pipe is not None:
            self._burials.start(life.pipe.aclose(), f"close {self.name}")

    def begin_use(self) -> None:
        self._busy += 1
        self._idle_times.mark_used(None)

    def end_use(self) -> None:
        self._busy -= 1
        self._rest()

    def _rest(self) -> None:
        if self._busy == 0 and self._idle < NEVER and self._life is not None:
            self._idle_times.mark_idle(None)

    def _expire(self, _: None) -> None:
        if self._busy == 0:
            self._drop(ConnectionLost(f"the connection to {self.name} was idle", sent=False))


class LinkConnection(StreamConnection[MessageStream]):
    """One connection of a link."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.born = 0.0
        self._link = link

    def on_refused(self, line: bytes, error: McpError) -> None:
        ident = jsonrpc.decode_message(line).id
        if isinstance(ident, Raw):
            self.stream.fail(bytes(ident), error)

    def on_end(self, error: McpError) -> None:
        if not self.end.done():
            super().on_end(error)
            self._link.end(self, error)


def _not_sent(error: McpError) -> McpError:
    """Error for the next caller: its request was not sent. Refusals stay unchanged."""
    if isinstance(error, TransportError) and not isinstance(error, ConnectFailed):
        failure = ConnectFailed(str(error), reason=error.reason)
        failure.__cause__ = error
        return failure
    return error
