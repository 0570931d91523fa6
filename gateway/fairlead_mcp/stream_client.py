"""Client of one MCP server over a message stream that all requests share and that is reopened after it was lost.

A `StreamOpener` opens the streams: the openers in `tcp` and `http.events` connect to a remote process, the opener in
`child` starts a process. This module decides when a stream is opened, which requests wait for it, and when a failed
opening is retried.

A stream whose peer is about to end is replaced: another stream is opened while the first still takes requests, and
takes them when its handshake is done. The first ends when its last request is answered.

    IDLE ──request──> STARTING ──handshake──> RUNNING ──loss──> BACKOFF ──delay──> IDLE, or STARTING if eager
                         └────────failure────────────────────────┘        CLOSED: by `aclose`, for good

Deadlines are absolute, in `StreamClient.clock`. `request` sends params unchanged: in the modern era the caller adds the
required `_meta` (`eras.modern_params`). The handshake is repeated for each stream.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from msgspec import Raw

from fairlead_mcp.asyncio_tasks import TaskSet
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Era, Negotiated, listen_params, modern_params
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout, TransportError
from fairlead_mcp.handshake import read_line, shake_hands
from fairlead_mcp.idle import IdleTimes
from fairlead_mcp.refusals import is_same_failure
from fairlead_mcp.streams import (
    NEVER,
    NO_CLIENT_SIDE,
    ON_DEMAND,
    ClientSide,
    StreamConnection,
    StreamOpener,
    StreamPolicy,
)
from fairlead_mcp.waiting import wait_until_set

logger = logging.getLogger(__name__)

FIRST_DELAY: Final = 0.25
"""Longest delay in seconds before the first retry."""
LAST_DELAY: Final = 5.0
"""Longest delay in seconds before a retry; short, because connecting is cheap and a caller may be waiting."""
FAILED_AFTER: Final = 3
"""Consecutive failures after which the state is FAILED; retries go on."""
PERMANENT_FAILURE_SECONDS: Final = 600.0
"""Delay before the retry after a permanent failure, which somebody has to fix."""
REPLACE_SECONDS: Final = 12.0
"""Longest time for which a stream whose peer is about to end takes requests while another stream is opened. A pod gives
its last requests 30 s, of which up to 10 pass before the check notices its end.
"""
MAX_MOVES: Final = 3
"""Attempts without a delay after streams that could not be opened, because their host name led to another peer by then.
A name server that answers otherwise each time would have streams opened without an end.
"""
_LONGEST_WAIT: Final = 1e6
"""Seconds; stands for infinity, which the timers of an event loop do not accept."""


class StreamState(Enum):
    """State of the connection to one server."""

    IDLE = "idle"
    """No stream is open; the next request opens one."""
    STARTING = "starting"
    """A stream is being opened or is in its handshake."""
    RUNNING = "running"
    """A stream is open and takes requests."""
    BACKOFF = "backoff"
    """The last stream ended or could not be opened; the next attempt waits for a delay."""
    FAILED = "failed"
    """Like BACKOFF, after `FAILED_AFTER` failures in a row or a permanent failure."""
    CLOSED = "closed"
    """`aclose` was called."""


class StreamClient:
    """Sends requests to one server over its open stream; by default the first request opens the stream."""

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
        """Called in the event loop after each change of `state`; may not raise."""
        self.starts = 0
        """Attempts to open a stream so far."""
        self.process: bytes | None = None
        """Random ID of the server's process, 12 hexadecimal digits; None where the process outlives the stream."""
        self.failure: McpError | None = None
        """Why the last stream ended or could not be opened."""
        self._opener = opener
        self._policy = policy
        self._backoff = backoff or Backoff(random.random, base=FIRST_DELAY, cap=LAST_DELAY)
        self._probe = policy.modern is not False
        """Whether the next handshake begins with the probe for the modern era."""
        self._connection: StreamConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._retried = False
        """Whether `retry` was called during the current attempt."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the back-off."""
        self._changed = asyncio.Event()
        """Set at the next change of `state`, then replaced."""
        self._endings = TaskSet()
        self._check_timer: asyncio.TimerHandle | None = None
        """Starts the next check of the open stream (`StreamOpener.is_current`)."""
        self._checks = TaskSet()
        self._replacement: asyncio.Task[None] | None = None
        """Opens the stream that will take the requests in place of the open one."""
        self._retired_streams: set[StreamConnection] = set()
        """Streams whose requests may still be answered, while another stream takes the new requests."""
        self._retired_endings = TaskSet()
        self._busy = 0
        self._idle_times: IdleTimes[None] = IdleTimes(policy.idle, self._expire)
        if policy.eager:
            self._start()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.state.value}, {self.starts} starts>"

    @property
    def negotiated(self) -> Negotiated | None:
        """Result of the handshake of the open stream; None without one."""
        return None if self._connection is None else self._connection.negotiated

    async def wait_until_ready(self, deadline: float) -> Negotiated:
        """Wait until the server takes requests. Raises McpError: Timeout at the deadline, or the reason why the stream
        cannot be opened now.
        """
        negotiated = (await self._wait_connected(deadline)).negotiated
        assert negotiated is not None
        return negotiated

    async def request(
        self,
        method: str,
        params: bytes | Raw | None,
        *,
        deadline: float,
        on_progress: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Send a request and return the raw response, whose id the caller has to replace by its own.

        The caller adds the `_meta` of the modern era. `on_progress` gets progress notifications with the caller's
        token. Raises ConnectFailed (nothing was sent), ConnectionLost, Timeout, PoolFull, and the server's errors.
        """
        self._begin_use()
        connection = self._connection
        try:
            if connection is None or connection.negotiated is None:
                connection = await self._wait_connected(deadline)
            return await connection.stream.request(method, params, deadline=deadline, on_progress=on_progress)
        finally:
            self._end_use(connection)

    async def listen(self, deadline: float) -> None:
        """Subscribe `on_notification` to changes of the server's lists until the stream ends.

        Always raises McpError: TransportError when the stream ends, another McpError when the server refuses.
        """
        self._begin_use()
        connection = None
        try:
            connection = await self._wait_connected(deadline)
            negotiated = connection.negotiated
            assert negotiated is not None
            if negotiated.era is Era.MODERN:
                params = modern_params(listen_params(negotiated.announced_lists), self.side.client)
                read_line(await connection.stream.request("subscriptions/listen", params, deadline=NEVER))
                raise ConnectionLost(f"{self.name} ended the subscription", sent=True)
            raise await asyncio.shield(connection.retirement)
        finally:
            self._end_use(connection)

    async def end(self) -> McpError:
        """Wait for the end of the open stream and return its reason."""
        connection = self._connection
        return await asyncio.shield(connection.end) if connection is not None else self._unavailable_error()

    def retry(self) -> None:
        """Open a stream now instead of after the back-off, and reset the back-off.

        Where an attempt is under way, another one follows if it fails.
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
        """Close for good, failing the requests in flight. Bounded in time; idempotent."""
        self._cancel_timer()
        if self.state is not StreamState.CLOSED:
            self._enter(StreamState.CLOSED)
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        error = ConnectionLost(self._opener.closed_message % self.name, sent=True)
        self._close_connection(error)
        for connection in [*self._retired_streams]:
            connection.on_end(error)
        await self._checks.cancel()
        if endings := {*self._endings, *self._retired_endings}:
            await asyncio.wait(endings)

    # Opening

    async def _wait_connected(self, deadline: float) -> StreamConnection:
        """Return the open stream, after waiting for one that is being opened. Raises at once during a back-off."""
        if self.state is StreamState.IDLE:
            self._start()
        while self.state is StreamState.STARTING:
            if not await wait_until_set(self._changed, min(deadline - self.clock(), _LONGEST_WAIT)):
                raise Timeout(f"{self.name} is still starting", sent=False, reason="Silent")
        if self.state is not StreamState.RUNNING or self._connection is None:
            raise self._unavailable_error()
        return self._connection

    def _start(self) -> None:
        self._cancel_timer()
        self.state = StreamState.STARTING
        self._opening = asyncio.get_running_loop().create_task(self._open(), name=f"open {self.name}")

    async def _open(self) -> None:
        moves = 0
        while True:
            probe = self._probe
            connection, failure = await self._attempt()
            if failure is None:
                return
            if moves < MAX_MOVES and await self._has_moved(connection):
                moves += 1
                self._probe = probe  # the end of a peer says nothing about the server's era
            elif not self._retried:  # else the failed attempt began before `retry` was called
                break
        self._fail(failure, None)

    async def _attempt(self) -> tuple[StreamConnection, McpError | None]:
        """Open the stream that requests wait for. Returns it, with the error of a failure."""
        self._retried = False
        self._enter(StreamState.STARTING)
        while self._endings:  # one stream at a time: a listener with a backlog of one is not flooded
            await asyncio.wait(self._endings)
        connection = self._connection = StreamConnection(self)
        failure = await self._connect(connection)
        if failure is None:
            self._adopt(connection)
        else:
            self._close_connection(failure)
        return connection, failure

    async def _connect(self, connection: StreamConnection) -> McpError | None:
        """Open a stream and negotiate. Returns the error of a failure, None for success."""
        self.starts += 1
        try:
            connection.pipe = await self._opener.open(connection)
            connection.negotiated = await self._negotiate(connection)
        except McpError as error:
            if isinstance(error, ConnectionLost) and self._policy.modern is None:
                self._probe = not self._probe  # some servers close the stream at a message of the other era
            return self._opener.explain(error, self._policy.open_seconds)
        except Exception as error:  # requests wait for this task: without a verdict they would wait for ever
            logger.exception("%s cannot be opened", self.name)
            return ConnectFailed(f"{self.name} cannot be opened ({error})", reason="StartFailed")
        return None

    def _adopt(self, connection: StreamConnection) -> None:
        """Have a stream take the requests, in place of the previous one."""
        previous, self._connection = self._connection, connection
        connection.negotiated_at = self.clock()
        has_own_process = self._opener.starts_process or self.side.offering is not None
        self.process = secrets.token_hex(6).encode() if has_own_process else None
        self._enter(StreamState.RUNNING)
        self._mark_idle()  # the request that wanted the stream may have been canceled
        self._schedule_check(connection)
        if previous is not None and previous is not connection:
            self._retire(previous)

    async def _has_moved(self, connection: StreamConnection) -> bool:
        """Whether requests belong to another peer by now than that of a stream which could not be opened."""
        return connection.pipe is not None and not await self._opener.is_current(connection.pipe)

    async def _negotiate(self, connection: StreamConnection) -> Negotiated:
        offering = self.side.offering
        negotiated = await shake_hands(
            connection.stream,
            self.side.client,
            deadline=self.clock() + self._policy.open_seconds,
            probe=self._probe,
            probe_seconds=self._policy.probe_seconds,
            capabilities=b"{}" if offering is None else offering.capabilities,
        )
        if connection.end.done():
            raise connection.end.result()
        return negotiated

    # The replacement of a stream

    def _schedule_check(self, connection: StreamConnection) -> None:
        if self._opener.check_seconds < NEVER:
            loop = asyncio.get_running_loop()
            self._check_timer = loop.call_later(self._opener.check_seconds, self._start_check, connection)

    def _start_check(self, connection: StreamConnection) -> None:
        self._checks.start(self._check(connection), f"check {self.name}")

    async def _check(self, connection: StreamConnection) -> None:
        is_current = await self._is_current(connection)
        if connection is not self._connection:
            return
        if is_current:
            self._schedule_check(connection)
        elif self.side.offering is not None:
            self._leave(connection)
        else:
            self._replacement = self._checks.start(self._replace(connection), f"replace {self.name}")

    async def _is_current(self, connection: StreamConnection) -> bool:
        """Whether an open stream still takes new requests. The stream of a single client has that client's state, so
        that it stays until its peer is certain to end.
        """
        assert connection.pipe is not None
        if await self._opener.is_current(connection.pipe):
            return True
        return self.side.offering is not None and not await self._opener.is_ending(connection.pipe)

    async def _replace(self, previous: StreamConnection) -> None:
        """Open another stream while `previous` takes the requests, so that no request waits for a process to start."""
        probe, connection = self._probe, StreamConnection(self)
        timer = asyncio.get_running_loop().call_later(REPLACE_SECONDS, self._leave, previous)
        try:
            failure = await self._connect(connection)
            if failure is not None and await self._has_moved(connection):
                self._probe = probe
        except asyncio.CancelledError:
            self._end(connection, ConnectionLost(f"the connection to {self.name} is not needed any more", sent=False))
            raise
        finally:
            timer.cancel()
        self._replacement = None
        if failure is None:
            self._adopt(connection)
            return
        logger.warning("%s; requests stay where they are", with_name(self.name, failure))
        self._end(connection, failure)
        if self._connection is previous:
            self._schedule_check(previous)
        else:
            self._start()  # no stream is left: the requests that wait get the outcome of another attempt

    def _leave(self, connection: StreamConnection) -> None:
        """Give a stream no more requests, though no other stream is open yet."""
        if connection is not self._connection:
            return
        self._connection = None
        self._idle_times.mark_used(None)
        self._retire(connection)
        if self._replacement is not None:
            self._enter(StreamState.STARTING)
        else:
            self._resume()

    def _retire(self, connection: StreamConnection) -> None:
        """Give a stream no new requests; it ends when its requests are answered."""
        self._retired_streams.add(connection)
        connection.retire(ConnectionLost(f"{self.name} is reached elsewhere", sent=True))
        self._end_if_done(connection)

    def _cancel_replacement(self) -> None:
        if self._replacement is not None:
            self._replacement.cancel()
            self._replacement = None

    def _end_if_done(self, connection: StreamConnection) -> None:
        if connection in self._retired_streams and not connection.stream.in_flight:
            self._end_retired(connection)

    def _end_retired(self, connection: StreamConnection) -> None:
        self._retired_streams.discard(connection)
        connection.on_end(ConnectionLost(f"{self.name} is reached elsewhere", sent=True))
        assert connection.pipe is not None
        # not among `_endings`, which a new stream waits for: this one leads to another process
        self._retired_endings.start(connection.pipe.aclose(), f"close {self.name}")

    # The end of a stream

    def handle_loss(self, connection: StreamConnection, error: McpError) -> None:
        """Handle the end of an open stream; a stream that is being opened fails in `_attempt` instead."""
        if connection is self._connection and self.state is StreamState.RUNNING:
            if self._replacement is None:
                self._fail(error, self.clock() - connection.negotiated_at)
            else:
                self._close_connection(error)
                self._enter(StreamState.STARTING)
        elif connection in self._retired_streams:
            self._end_retired(connection)

    def _fail(self, error: McpError, lifetime: float | None) -> None:
        """Handle the failure of a stream: lost after `lifetime` seconds, or not opened if `lifetime` is None."""
        failure = _not_sent(error)
        is_permanent = lifetime is None and self._opener.is_permanent(failure)
        delay = self._backoff.delay_after(lifetime or 0.0)
        if is_permanent:
            delay = PERMANENT_FAILURE_SECONDS
        if self._policy.eager:
            # a server that cannot start would fill the log with one line per attempt
            is_repeated = (
                lifetime is None and self.failure is not None and is_same_failure(str(failure), str(self.failure))
            )
            level = logging.DEBUG if is_repeated else logging.WARNING
            sentence = with_name(self.name, failure).rstrip(".")
            if self._policy.logs_delays:
                logger.log(level, "%s; next start in %.1f s", sentence, delay)
            else:
                logger.log(level, "%s", sentence)
        self.failure = failure
        self._close_connection(error)
        if not self._policy.eager and lifetime is not None and lifetime >= self._backoff.stable:
            self._enter(StreamState.IDLE)
            return
        self._timer = asyncio.get_running_loop().call_later(delay, self._resume)
        has_failed = is_permanent or self._backoff.failures >= FAILED_AFTER
        self._enter(StreamState.FAILED if has_failed else StreamState.BACKOFF)

    def _resume(self) -> None:
        if self._policy.eager:
            self._start()
        else:
            self._enter(StreamState.IDLE)

    def _close_connection(self, error: McpError) -> None:
        """End the stream that takes or would take the requests."""
        connection = self._connection
        self._connection = None
        self._idle_times.mark_used(None)
        if self._check_timer is not None:
            self._check_timer.cancel()
        if connection is not None:
            self._end(connection, error)

    def _end(self, connection: StreamConnection, error: McpError) -> None:
        """End a stream, and close it in the background."""
        connection.on_end(error)
        if connection.pipe is not None:
            # a task of its own, as a canceled caller must not leave a process half stopped
            self._endings.start(connection.pipe.aclose(), f"close {self.name}")

    def _unavailable_error(self) -> McpError:
        """Make the error for a request that cannot be sent in this state."""
        if self.state is StreamState.CLOSED:
            return ConnectFailed(self._opener.closed_message % self.name, reason="Closed")
        if self.failure is None:
            return ConnectFailed(f"{self.name} is down", reason="BackingOff")
        return self.failure.with_traceback(None)  # each raise would lengthen the traceback

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

    def _end_use(self, connection: StreamConnection | None) -> None:
        self._busy -= 1
        self._mark_idle()
        if self._retired_streams and connection is not None:
            self._end_if_done(connection)

    def _mark_idle(self) -> None:
        if self._busy == 0 and self._policy.idle < NEVER and self.state is StreamState.RUNNING:
            self._idle_times.mark_idle(None)

    def _expire(self, _: None) -> None:
        if self._busy == 0 and self.state is StreamState.RUNNING:
            self._cancel_replacement()
            self._close_connection(ConnectionLost(f"the connection to {self.name} was idle", sent=False))
            self._enter(StreamState.IDLE)


def _not_sent(error: McpError) -> McpError:
    """Turn a transport error into ConnectFailed for requests that were not sent; return other errors unchanged."""
    if isinstance(error, TransportError) and not isinstance(error, ConnectFailed):
        failure = ConnectFailed(str(error), reason=error.reason)
        failure.__cause__ = error
        return failure
    return error


def with_name(name: str, message: object, separator: str = ": ") -> str:
    """Return the text of `message`, preceded by the server's name unless it begins with it."""
    text = str(message)
    return text if text.startswith(name) else f"{name}{separator}{text}"
