"""Client of one MCP server over message streams, one after the other: negotiated, shared by all requests, opened again.

A `StreamOpener` opens the streams: `tcp` and `http.events` connect to somebody else's process, `child` starts one. When
a stream is opened, who waits for it, what its loss does to its requests and when the next is tried is written here.

    IDLE ──request──> STARTING ──handshake──> RUNNING ──loss──> BACKOFF ──delay──> IDLE, or STARTING where it is eager
                         └────────failure────────────────────────┘        CLOSED: by `aclose`, for good

Deadlines are absolute, in `StreamClient.clock`. `request` passes params as they are: in the modern era the caller adds
the envelope (`eras.modern_params`). Each stream negotiates again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final, NamedTuple, Protocol

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Client, Era, Negotiated, listen_params, modern_params
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout, TransportError
from fairlead_mcp.handshake import read_line, shake_hands
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.multiplex import Multiplexer, Offering
from fairlead_mcp.refusals import alike
from fairlead_mcp.waiting import wait_until_set

logger = logging.getLogger(__name__)

NEVER: Final = float("inf")
PROBE_SECONDS: Final = 10.0
OPEN_SECONDS: Final = 30.0
"""For the handshake: a server on a stream may have to start first."""
FIRST_DELAY: Final = 0.25
LAST_DELAY: Final = 5.0
"""Seconds after a failure in which nothing is tried; connecting is cheap and the caller waits for it."""
FAILED_AFTER: Final = 3
"""Failures in a row from which the state is FAILED; it is still tried again."""
REFUSED_SECONDS: Final = 600.0
"""To the next attempt after a failure that lasts until somebody changes something."""
_LOGGED_LINES: Final = 10
_LONGEST_WAIT: Final = 1e6
"""Seconds; a timer of the loop takes no infinite ones."""


class StreamState(Enum):
    """Where the streams to one server are."""

    IDLE = "idle"
    """None is open; the next request opens one."""
    STARTING = "starting"
    """One is opened, or about to be, and not negotiated yet."""
    RUNNING = "running"
    """One is open and takes requests."""
    BACKOFF = "backoff"
    """The last one ended, or could not be opened; the next attempt is due in a moment."""
    FAILED = "failed"
    """As BACKOFF, after several failures in a row, or one for good: tried again, but seldom."""
    CLOSED = "closed"
    """Given up by us."""


class MessageStream(Protocol):
    """An open stream."""

    def write(self, line: bytes) -> None:
        """Send one message. Raises PoolFull when the other side does not read. After the end it is dropped."""
        ...

    async def aclose(self) -> None: ...


class StreamOpener(ABC):
    """Opens streams to one server, and says what it means when that fails."""

    closed: ClassVar[str] = "the connection to %s was closed"
    """Sentence about a server by its name, after `StreamClient.aclose`."""
    starts_process: ClassVar[bool] = False
    """Whether each stream is to a process of its own, which begins and ends with it."""

    @abstractmethod
    async def open(self, connection: StreamConnection) -> MessageStream:
        """Open one, whose messages and end `connection` is told. Raises McpError; leaves nothing behind then."""

    def explain(self, error: McpError, seconds: float) -> McpError:
        """Failure to open a stream or to negotiate within `seconds`, as callers shall see it."""
        return error

    def is_permanent(self, failure: McpError) -> bool:
        """Whether a stream that could not be opened for this reason cannot be until somebody changes something."""
        return False


class ClientSide(NamedTuple):
    """This side of the streams to one server."""

    client: Client = Client()
    offering: Offering | None = None
    """Capabilities of the only client that the server has; None declares none."""
    on_notification: Callable[[str, bytes], None] | None = None
    """Gets the method and the line of each notification. Called in the loop; may not raise."""


@dataclass(frozen=True)
class StreamPolicy:
    """When a stream is opened, and for how long it is waited for and held."""

    eager: bool = False
    """Open one at once, and another whenever it ends, instead of for requests alone."""
    legacy: bool = False
    """Skip the question for the modern era."""
    idle: float = NEVER
    """Seconds without a request after which the stream is closed."""
    open_seconds: float = OPEN_SECONDS
    """For the handshake."""
    probe_seconds: float = PROBE_SECONDS
    """For an answer to the question for the modern era."""


ON_DEMAND: Final = StreamPolicy()
NO_CLIENT_SIDE: Final = ClientSide()


class StreamConnection:
    """One message stream from its opening to its end; `end` is done with the reason when it is over."""

    def __init__(self, client: StreamClient) -> None:
        self.pipe: MessageStream | None = None
        """Set when it is open."""
        self.negotiated: Negotiated | None = None
        """Handshake, while requests are taken."""
        self.born = 0.0
        """When it was negotiated."""
        offering = client.side.offering
        self.stream = Multiplexer(
            self._write,
            on_notification=client.side.on_notification,
            on_request=None if offering is None else offering.on_request,
            clock=client.clock,
        )
        self.end: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self._client = client
        self._skipped = 0

    def _write(self, line: bytes) -> None:
        if self.end.done():
            raise self.end.result()
        assert self.pipe is not None
        self.pipe.write(line)

    def on_line(self, line: bytes) -> bool:
        """Take in one message. False for a line that is not one."""
        try:
            understood = self.stream.feed(line)
        except McpError as error:  # its request could not be answered: it does not read
            self.on_end(error)
            return True
        if not understood:
            self._skipped += 1
            if self._skipped <= _LOGGED_LINES:
                logger.warning("%s sent what is not MCP: %.80r", self._client.name, line)
        return understood

    def on_refused(self, line: bytes, error: McpError) -> None:
        """Fail the request that was written as `line` and did not get through; the stream goes on."""
        ident = jsonrpc.decode_message(line).id
        if isinstance(ident, Raw):
            self.stream.fail(bytes(ident), error)

    def on_end(self, error: McpError) -> None:
        """End it for this reason, unless it has ended for another."""
        if not self.end.done():
            self.end.set_result(error)
            self.stream.fail_all(error)
            self._client.lose(self, error)


class StreamClient:
    """Requests to one server over the stream that is open now, by default opened when a request needs it."""

    def __init__(
        self,
        name: str,
        opener: StreamOpener,
        policy: StreamPolicy = ON_DEMAND,
        *,
        side: ClientSide = NO_CLIENT_SIDE,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.side = side
        self.clock = clock
        self.state = StreamState.IDLE
        self.on_state: Callable[[], None] | None = None
        """Called in the loop when the state has changed; may not raise."""
        self.starts = 0
        """Streams opened so far, or tried to."""
        self.process: bytes | None = None
        """Random name of the process that takes requests now, 12 hexadecimal digits; None where no process begins and
        ends with the stream.
        """
        self.failure: McpError | None = None
        """Why the last stream ended, or could not be opened."""
        self._opener = opener
        self._policy = policy
        self._backoff = backoff or Backoff(random.random, base=FIRST_DELAY, cap=LAST_DELAY)
        self._probe = not policy.legacy
        self._connection: StreamConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._retried = False
        self._timer: asyncio.TimerHandle | None = None
        """To the end of the back-off."""
        self._changed = asyncio.Event()
        """Set at the next change of the state."""
        self._endings = TaskSet()
        self._busy = 0
        self._idle_times: IdleTimes[None] = IdleTimes(policy.idle, self._expire)
        if policy.eager:
            self._start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.state.value}, {self.starts} starts>"

    @property
    def negotiated(self) -> Negotiated | None:
        """Handshake of the stream that takes requests now."""
        return None if self._connection is None else self._connection.negotiated

    async def ready(self, deadline: float) -> Negotiated:
        """Wait until the server takes requests. Raises McpError: Timeout when the deadline comes before a verdict."""
        agreed = (await self._connected(deadline)).negotiated
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
        """The raw response, with an id of ours; putting the caller's back and the envelope of the era are the caller's
        affair. `on_progress` gets progress notifications with the caller's token.

        Raises ConnectFailed (nothing was sent), ConnectionLost, Timeout, PoolFull, and what a server refuses with.
        """
        self._begin_use()
        try:
            connection = self._connection
            if connection is None or connection.negotiated is None:
                connection = await self._connected(deadline)
            return await connection.stream.request(method, params, deadline=deadline, on_progress=on_progress)
        finally:
            self._end_use()

    async def listen(self, deadline: float) -> None:
        """Have changes of the lists announced to `on_notification` until the stream is over.

        Raises McpError, always: TransportError when the stream ends, another one when the server refuses.
        """
        self._begin_use()
        try:
            connection = await self._connected(deadline)
            agreed = connection.negotiated
            assert agreed is not None
            if agreed.era is Era.MODERN:
                params = modern_params(listen_params(agreed.announced), self.side.client)
                read_line(await connection.stream.request("subscriptions/listen", params, deadline=NEVER))
                raise ConnectionLost(f"{self.name} ended the subscription", sent=True)
            raise await asyncio.shield(connection.end)
        finally:
            self._end_use()

    async def end(self) -> McpError:
        """Wait until the stream that is open now has ended; why it did."""
        connection = self._connection
        return await asyncio.shield(connection.end) if connection is not None else self._down()

    def retry(self) -> None:
        """Open a stream now where the next attempt is due later, and once more if an attempt that goes on fails; the
        delays after failures are counted from zero.
        """
        if self.state in (StreamState.BACKOFF, StreamState.FAILED, StreamState.STARTING):
            self._backoff.failures = 0
            self.failure = None
            if self.state is StreamState.STARTING:
                self._retried = True
                self._enter(StreamState.STARTING)
            else:
                self._start()

    async def aclose(self) -> None:
        """Close for good; what is in flight fails. Bounded; idempotent."""
        self._cancel_timer()
        if self.state is not StreamState.CLOSED:
            self._enter(StreamState.CLOSED)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        self._drop(ConnectionLost(self._opener.closed % self.name, sent=True))
        if self._endings:
            await asyncio.wait(self._endings)

    # Opening

    async def _connected(self, deadline: float) -> StreamConnection:
        """The stream that takes requests, waited for while one is opened. Raises at once during a back-off."""
        if self.state is StreamState.IDLE:
            self._start()
        while self.state is StreamState.STARTING:
            if not await wait_until_set(self._changed, min(deadline - self.clock(), _LONGEST_WAIT)):
                raise Timeout(f"{self.name} is still starting", sent=False, reason="Silent")
        if self.state is not StreamState.RUNNING or self._connection is None:
            raise self._down()
        return self._connection

    def _start(self) -> None:
        self._cancel_timer()
        self.state = StreamState.STARTING
        self._opening = asyncio.get_running_loop().create_task(self._open(), name=f"open {self.name}")

    async def _open(self) -> None:
        failure = await self._attempt()
        while failure is not None and self._retried:  # what began before somebody asked says nothing to them
            failure = await self._attempt()
        if failure is not None:
            self._fail(failure, None)

    async def _attempt(self) -> McpError | None:
        """Open a stream and negotiate; why that failed."""
        self._retried = False
        self._enter(StreamState.STARTING)
        while self._endings:  # one stream at a time: a listener with a backlog of one is not flooded
            await asyncio.wait(self._endings)
        connection = self._connection = StreamConnection(self)
        self.starts += 1
        try:
            connection.pipe = await self._opener.open(connection)
            agreed = await self._negotiate(connection)
        except McpError as error:
            if isinstance(error, ConnectionLost) and not self._policy.legacy:
                self._probe = not self._probe  # some end at a message of the other era
            failure = self._opener.explain(error, self._policy.open_seconds)
        except Exception as error:  # the edge of the task: requests that wait for the stream must not wait for ever
            logger.exception("%s cannot be opened", self.name)
            failure = ConnectFailed(f"{self.name} cannot be opened ({error})", reason="StartFailed")
        else:
            connection.negotiated = agreed
            connection.born = self.clock()
            alone = self._opener.starts_process or self.side.offering is not None
            self.process = secrets.token_hex(6).encode() if alone else None
            self._enter(StreamState.RUNNING)
            self._rest()  # the caller may have given up
            return None
        self._drop(failure)
        return failure

    async def _negotiate(self, connection: StreamConnection) -> Negotiated:
        offering = self.side.offering
        agreed = await shake_hands(
            connection.stream,
            self.side.client,
            deadline=self.clock() + self._policy.open_seconds,
            probe=self._probe,
            probe_seconds=self._policy.probe_seconds,
            capabilities=b"{}" if offering is None else offering.capabilities,
        )
        if connection.end.done():
            raise connection.end.result()
        return agreed

    # The end of a stream

    def lose(self, connection: StreamConnection, error: McpError) -> None:
        """Take in that a stream has ended. One that is being opened fails its opening."""
        if connection is self._connection and self.state is StreamState.RUNNING:
            self._fail(error, self.clock() - connection.born)

    def _fail(self, error: McpError, lived: float | None) -> None:
        """The stream was lost after `lived` seconds, or could not be opened (None)."""
        failure = _not_sent(error)
        permanent = lived is None and self._opener.is_permanent(failure)
        delay = self._backoff.after(lived or 0.0)
        if permanent:
            delay = REFUSED_SECONDS
        if self._policy.eager:
            # every attempt at a server that cannot start would be a line
            repeated = lived is None and self.failure is not None and alike(str(failure), str(self.failure))
            level = logging.DEBUG if repeated else logging.WARNING
            logger.log(level, "%s; next start in %.1f s", with_name(self.name, failure), delay)
        self.failure = failure
        self._drop(error)
        if not self._policy.eager and lived is not None and lived >= self._backoff.stable:
            self._enter(StreamState.IDLE)
            return
        self._timer = asyncio.get_running_loop().call_later(delay, self._resume)
        failed = permanent or self._backoff.failures >= FAILED_AFTER
        self._enter(StreamState.FAILED if failed else StreamState.BACKOFF)

    def _resume(self) -> None:
        if self._policy.eager:
            self._start()
        else:
            self._enter(StreamState.IDLE)

    def _drop(self, error: McpError) -> None:
        """Part with the stream, in the background."""
        connection = self._connection
        self._connection = None
        self._idle_times.mark_used(None)
        if connection is not None:
            connection.on_end(error)
            if connection.pipe is not None:
                # a task: a cancellation on the way must not leave a process half stopped
                self._endings.start(connection.pipe.aclose(), f"close {self.name}")

    def _down(self) -> McpError:
        """Error for a request that cannot be sent now."""
        if self.state is StreamState.CLOSED:
            return ConnectFailed(self._opener.closed % self.name, reason="Closed")
        if self.failure is None:
            return ConnectFailed(f"{self.name} is down", reason="BackingOff")
        return self.failure.with_traceback(None)  # each time that it is raised adds to the last one

    def _enter(self, state: StreamState) -> None:
        self.state = state
        self._changed.set()
        self._changed = asyncio.Event()
        if self.on_state is not None:
            self.on_state()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Idleness

    def _begin_use(self) -> None:
        self._busy += 1
        self._idle_times.mark_used(None)

    def _end_use(self) -> None:
        self._busy -= 1
        self._rest()

    def _rest(self) -> None:
        if self._busy == 0 and self._policy.idle < NEVER and self.state is StreamState.RUNNING:
            self._idle_times.mark_idle(None)

    def _expire(self, _: None) -> None:
        if self._busy == 0 and self.state is StreamState.RUNNING:
            self._drop(ConnectionLost(f"the connection to {self.name} was idle", sent=False))
            self._enter(StreamState.IDLE)


def _not_sent(error: McpError) -> McpError:
    """Error for the next caller: its request was not sent. Refusals stay unchanged."""
    if isinstance(error, TransportError) and not isinstance(error, ConnectFailed):
        failure = ConnectFailed(str(error), reason=error.reason)
        failure.__cause__ = error
        return failure
    return error


def with_name(name: str, what: object, joint: str = ": ") -> str:
    """`what`, with the name of the server in front unless it is there already."""
    text = str(what)
    return text if text.startswith(name) else f"{name}{joint}{text}"
