"""One server over a stream of messages that is opened when it is needed, shared, and opened again after a loss.

`fairlead_mcp.child` does this for a process of ours, this module for a stream that somebody else's process answers:
`tcp` and `http.events` open such streams. Nothing runs without requests: a link connects with its first request, closes
after `idle` seconds without one, and after a loss the next request connects anew, unless the last loss was a moment ago
(see `fairlead_mcp.backoff`).

Each connection negotiates anew. Deadlines are absolute, in `Link.clock`. One connection at a time, ever: a listener
with a backlog of one is not flooded.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Client, Era, Negotiated, listen_params, modern_params
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout, TransportError
from fairlead_mcp.handshake import read_line, shake_hands
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.multiplex import Multiplexer, Offering

logger = logging.getLogger(__name__)

OPEN_SECONDS: Final = 30.0
"""From dialing to the end of the handshake: a server on a stream may have to start first."""
FIRST_DELAY: Final = 0.25
LAST_DELAY: Final = 5.0
"""Seconds after a failure in which nothing is tried; connecting is cheap and the caller waits for it."""
NEVER: Final = float("inf")
_LOGGED_LINES: Final = 10


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

    async def open(self, ears: StreamListener) -> MessageStream:
        """Raises McpError; leaves nothing behind then."""
        ...


class Link:
    """Server over a stream of messages. `legacy` skips the question for the modern era. `on_notification(method, line)`
    may not raise. `offering` are the client's capabilities; None declares none. `process`: each connection is
    to a process of its own.
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
        probe_seconds: float = 10.0,
        random: Callable[[], float] = randomness.random,
        clock: Callable[[], float] = time.monotonic,
        on_notification: Callable[[str, bytes], None] | None = None,
        offering: Offering | None = None,
        process: bool = False,
    ) -> None:
        self.name = name
        self.clock = clock
        self.client = client or Client()
        self.on_notification = on_notification
        self.offering = offering
        self.opened = 0
        """Connections so far."""
        self.process: bytes | None = None
        """As of `channel.Lined`."""
        self._process = process
        self._opener = opener
        self._legacy = legacy
        self._probe = not legacy
        self._idle = idle
        self._open_seconds = open_seconds
        self._probe_seconds = probe_seconds
        self._backoff = Backoff(random, base=FIRST_DELAY, cap=LAST_DELAY)
        self._life: _Life | None = None
        self._opening: asyncio.Task[_Life] | None = None
        self._not_before = -NEVER
        self._failure: McpError | None = None
        self._busy = 0
        self._idle_times: IdleTimes[None] = IdleTimes(idle, self._expire)
        self._burials = TaskSet()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Link {self.name} {'open' if self._life else 'idle'}, {self._busy} busy, {self.opened} opened>"

    @property
    def negotiated(self) -> Negotiated | None:
        """Handshake of the connection that is open now."""
        return self._life.negotiated if self._life is not None else None

    async def ready(self, deadline: float) -> Negotiated:
        """Connect where there is no connection. Raises McpError."""
        agreed = (await self._living(deadline)).negotiated
        assert agreed is not None
        return agreed

    async def request(
        self,
        method: str,
        params: bytes | Raw | None,
        *,
        deadline: float,
        on_progress: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """The raw response, with an id of ours. The envelope of the era is the caller's affair.

        Raises ConnectFailed (nothing was sent), ConnectionLost, Timeout, PoolFull, and what a server refuses with.
        """
        life = await self._living(deadline)
        self._enter()
        try:
            return await life.stream.request(method, params, deadline=deadline, on_progress=on_progress)
        finally:
            self._leave()

    async def listen(self, deadline: float) -> None:
        """Keep the connection and have changes of the lists announced to `on_notification`, until it is over.

        Raises McpError, always: TransportError when the connection ends, another one when the server refuses.
        """
        life = await self._living(deadline)
        assert life.negotiated is not None
        self._enter()
        try:
            if life.negotiated.era is Era.MODERN:
                params = modern_params(listen_params(life.negotiated.announced), self.client)
                read_line(await life.stream.request("subscriptions/listen", params, deadline=NEVER))
                raise ConnectionLost(f"{self.name} ended the subscription", sent=True)
            raise await asyncio.shield(life.end)
        finally:
            self._leave()

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

    async def _living(self, deadline: float) -> _Life:
        if self._life is not None:
            return self._life
        if self._closed:
            raise ConnectFailed(f"the connection to {self.name} was closed", reason="Closed")
        if self._opening is None:
            if self._failure is not None and self.clock() < self._not_before:
                raise self._failure
            self._opening = asyncio.get_running_loop().create_task(self._open(), name=f"connect {self.name}")
            self._opening.add_done_callback(self._opened)
        done, _ = await asyncio.wait([self._opening], timeout=max(0.0, min(deadline - self.clock(), 1e6)))
        if not done:
            raise Timeout(f"{self.name} is still starting", sent=False, reason="Silent")
        if (task := done.pop()).cancelled():
            raise ConnectFailed(f"the connection to {self.name} was closed", reason="Closed")
        return task.result()

    def _opened(self, task: asyncio.Task[_Life]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # its waiters may be gone, which is no reason for a complaint

    async def _open(self) -> _Life:
        life = _Life(self)
        deadline = self.clock() + self._open_seconds
        self.opened += 1
        try:
            life.pipe = await self._opener.open(life)
            life.negotiated = await shake_hands(
                life.stream,
                self.client,
                deadline=deadline,
                probe=self._probe,
                probe_seconds=self._probe_seconds,
                capabilities=b"{}" if self.offering is None else self.offering.capabilities,
            )
            if life.end.done():
                raise life.end.result()
        except McpError as error:
            if isinstance(error, ConnectionLost) and not self._legacy:
                self._probe = not self._probe  # some servers end when they do not know the first message
            self._bury(life)
            self._failure = _not_sent(error)
            self._not_before = self.clock() + self._backoff.after(0.0)
            raise self._failure from error
        except BaseException:
            self._bury(life)
            raise
        self._life = life
        life.born = self.clock()
        self.process = secrets.token_hex(6).encode() if self._process else None
        self._leave(0)  # the caller may have given up
        return life

    # The end of a connection

    def ended(self, life: _Life, error: McpError) -> None:
        """End the life of a connection that broke."""
        if self._life is life:
            self._life = None
            lived = self.clock() - life.born
            delay = self._backoff.after(lived)
            self._failure = _not_sent(error)
            self._not_before = -NEVER if lived >= self._backoff.stable else self.clock() + delay
            self._bury(life)

    def _drop(self, error: McpError) -> None:
        """Close the connection on our own account: nothing to wait for before the next."""
        life, self._life = self._life, None
        self._idle_times.mark_used(None)
        if life is not None:
            life.on_end(error)
            self._bury(life)

    def _bury(self, life: _Life) -> None:
        if life.pipe is not None:
            self._burials.start(life.pipe.aclose(), f"close {self.name}")

    def _enter(self) -> None:
        self._busy += 1
        self._idle_times.mark_used(None)

    def _leave(self, count: int = 1) -> None:
        self._busy -= count
        if self._busy == 0 and self._idle < NEVER and self._life is not None:
            self._idle_times.mark_idle(None)

    def _expire(self, _: None) -> None:
        if self._busy == 0:
            self._drop(ConnectionLost(f"the connection to {self.name} was idle", sent=False))


class _Life:
    """One connection: its message stream and how it ended."""

    def __init__(self, link: Link) -> None:
        self.pipe: MessageStream | None = None
        self.negotiated: Negotiated | None = None
        self.born = 0.0
        on_request = None if link.offering is None else link.offering.on_request
        self.stream = Multiplexer(self._write, on_notification=self._notified, on_request=on_request, clock=link.clock)
        self.end: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self._link = link
        self._skipped = 0

    def _write(self, line: bytes) -> None:
        if self.end.done():
            raise self.end.result()
        assert self.pipe is not None
        self.pipe.write(line)

    def _notified(self, method: str, line: bytes) -> None:
        if self._link.on_notification is not None:
            self._link.on_notification(method, line)

    def on_line(self, line: bytes) -> None:
        try:
            understood = self.stream.feed(line)
        except McpError as error:  # its request could not be answered: it does not read
            self.on_end(error)
            return
        if not understood:
            self._skipped += 1
            if self._skipped <= _LOGGED_LINES:
                logger.warning("%s sent what is not MCP: %.80r", self._link.name, line)

    def on_refused(self, line: bytes, error: McpError) -> None:
        ident = jsonrpc.decode_message(line).id
        if isinstance(ident, Raw):
            self.stream.fail(bytes(ident), error)

    def on_end(self, error: McpError) -> None:
        if not self.end.done():
            self.end.set_result(error)
            self.stream.fail_all(error)
            self._link.ended(self, error)


def _not_sent(error: McpError) -> McpError:
    """Error for the next caller: its request was not sent. Refusals stay unchanged."""
    if isinstance(error, TransportError) and not isinstance(error, ConnectFailed):
        failure = ConnectFailed(str(error), reason=error.reason)
        failure.__cause__ = error
        return failure
    return error
