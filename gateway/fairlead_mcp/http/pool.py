"""Pool of HTTP connections to one address, for many requests per second.

There is one pool per address and outbound principal, in one event loop. A pool holds no credentials and does not parse
bodies.

    pool = Pool("10.0.0.7", 8080)
    answer = await pool.exchange(head + body, deadline=time.monotonic() + 30)

- A request goes to the connection used last, so that surplus connections reach their idle limit. There are at most
  `limit` connections, each with one request at a time, and at most `max_waiting` requests that wait for one.
- One timer per pool checks all deadlines, instead of a timer per call: a call may overrun its deadline by
  `SWEEP_SECONDS`.
- Canceling the awaiting task closes the connection.
- Redirects are returned like other answers, and no request is repeated. `ConnectionLost.keep_alive_race` says whether
  the caller should repeat an idempotent request.
- **Use a request id only once per pool, and compare it with the answer's.** If a server answers twice, the second
  answer may be taken for the answer to the next request; a caller that sees a foreign id must call `discard(answer)`.
"""

from __future__ import annotations

import asyncio
import ssl as tls
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from fairlead_mcp.addresses import authority
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, HeldUp, McpError, PoolFull, Timeout
from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.http.connection import Connection, Owner
from fairlead_mcp.http.dial import Dialer, Resolve, resolve_by_dns
from fairlead_mcp.http.exchange import Call, Counter
from fairlead_mcp.http.statistics import PoolActivity, PoolStatistics
from fairlead_mcp.waiting import wait_until_set

DEFAULT_MAX_BYTES: Final = 64 << 20
SWEEP_SECONDS: Final = 0.02
KEEP_ALIVE_SECONDS: Final = 4.0
"""Idle limit of a connection: below the 5 s of uvicorn and Node, so that no request is sent while the server
closes."""
FLEETING_SECONDS: Final = 1.0
"""A server that closes an idle connection within this time after an answer closes it too early; see SINGLE_USE_SECONDS.
"""
DROPS_IN_A_ROW: Final = 2
"""Number of connections closed too early, without a reused one in between, that starts SINGLE_USE_SECONDS."""
SINGLE_USE_SECONDS: Final = 600.0
"""How long connections are used for one exchange only, after a server closed DROPS_IN_A_ROW idle connections in a row
within FLEETING_SECONDS of an answer without `Connection: close`. Otherwise calls would be sent on closing
connections."""

NEVER: Final = float("inf")


class Pool(Owner):
    """Connection pool of one address. `server_hostname` is the name to verify by TLS where `host` is an IP address.

    `resolve(host, port)` returns the addresses to try, in order. `clock` returns monotonic seconds, in which deadlines
    are given.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        limit: int = 64,
        max_waiting: int = 1024,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        connect_timeout: float = 5.0,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self.host = host
        self.port = port
        self.limit = limit
        self.max_waiting = max_waiting
        self.keep_alive = keep_alive
        self._dialer = Dialer(host, port, ssl, server_hostname, resolve or resolve_by_dns, connect_timeout)
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._waiting: deque[Call] = deque()
        self._dials: set[asyncio.Task[None]] = set()
        self._sweep_at = NEVER
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._all_ended: asyncio.Event | None = None
        """Set when the last exchange has ended, while `aclose` waits for it."""
        self._dialed = 0
        self._exchanges = 0
        self._answered_at = 0.0
        """Time of the last answer on a connection that is closed by now."""
        self._drops = 0
        self._single_use_until = 0.0

    def __repr__(self) -> str:
        stats = self.statistics()
        suffix = ", closed" if self._closed else ""
        return (
            f"<Pool {authority(self.host, self.port)}: {stats.busy} busy, {stats.idle} idle, {stats.dialing} dialing, "
            f"{stats.waiting} waiting{suffix}>"
        )

    def statistics(self) -> PoolStatistics:
        idle = len(self._idle)
        return PoolStatistics(
            busy=len(self._connections) - idle,
            idle=idle,
            dialing=len(self._dials),
            waiting=len(self._waiting),
            dialed=self._dialed,
            exchanges=self._exchanges,
        )

    @property
    def load(self) -> int:
        """Number of exchanges in progress or waiting for a connection."""
        return len(self._connections) - len(self._idle) + len(self._waiting)

    def activity(self) -> PoolActivity:
        """Times of the last answers of the server, over all connections."""
        oldest, answered_at, latest = NEVER, self._answered_at, 0.0
        for connection in self._connections:
            answered_at = max(answered_at, connection.answered_at)
            if connection.call is not None:
                oldest = min(oldest, connection.sent_at)
            else:
                latest = max(latest, connection.sent_at)
        return PoolActivity(oldest, answered_at, overtaken=latest > oldest, dialing=bool(self._waiting and self._dials))

    def outstanding_exchanges(self) -> list[Call]:
        """Return the exchanges in progress or waiting for a connection."""
        running_calls = [connection.call for connection in self._connections if connection.call is not None]
        return [*running_calls, *self._waiting]

    async def exchange(
        self,
        data: bytes,
        *,
        deadline: float,
        max_bytes: int = DEFAULT_MAX_BYTES,
        on_event: Callable[[bytes], bool] | None = None,
        on_open: Callable[[Carrier], None] | None = None,
        counter: Counter | None = None,
    ) -> Answer:
        """Send a complete request (`data`) and return the answer. See `Call` for `on_event`, `on_open` and `counter`.

        `deadline` is absolute; `max_bytes` limits a body or one event of a stream.
        Raises ConnectFailed, ConnectionLost, Timeout, TooLarge, PoolFull, HeldUp, BadHttp.
        """
        return await self.run(AwaitedCall(data, deadline, max_bytes, on_event, on_open, counter))

    async def run(self, call: AwaitedCall) -> Answer:
        """Like `exchange`, for a call object that the caller keeps."""
        self.submit(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            call.forget()
            self.cancel(call)
            raise

    def submit(self, call: Call) -> None:
        """Start an exchange. `call.take_answer` or `call.take_error` gets the outcome, possibly before this returns."""
        self._exchanges += 1
        now = self.clock()
        idle = self._idle
        while idle:
            connection = idle.pop()
            connection.idle = False
            if connection.deadline > now and connection.usable:
                connection.start(call, now)
                if call.deadline < self._sweep_at:
                    self.watch(call.deadline)
                return
            connection.close()
        self._queue(call)

    def cancel(self, call: Call) -> None:
        """Cancel an exchange without an outcome: `take_answer` and `take_error` will not be called."""
        connection = call.connection
        if connection is not None:
            if isinstance(connection, Connection) and connection.call is call:
                connection.close()
        elif call in self._waiting:
            self._waiting.remove(call)

    def discard(self, answer: Answer) -> None:
        """Close the connection of an answer that belongs to another request; a call on it fails with ConnectionLost."""
        connection = answer.connection
        connection.close(
            ConnectionLost(
                "the connection was closed, as the server sent an answer to another request on it",
                sent=True,
                reused=True,
                received=True,
            )
        )

    async def aclose(self, grace: float = 0.0) -> None:
        """Fail waiting and later exchanges, let running ones end for up to `grace` seconds, close all connections."""
        self._closed = True
        self._fail_waiting(ConnectFailed("the connections to the server were closed", reason="Closed"))
        for task in self._dials:
            task.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        for connection in self._idle.copy():
            connection.close()
        if self._connections and grace > 0:
            if self._all_ended is None:
                self._all_ended = asyncio.Event()
            await wait_until_set(self._all_ended, grace)
        for connection in self._connections.copy():
            connection.close(
                ConnectionLost("the connections to the server were closed", sent=True, reused=connection.served > 0)
            )
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()

    # Called by connections

    def take_back(self, connection: Connection, now: float) -> None:
        if connection.served > 1:
            self._drops = 0
        if self._closed or (now < self._single_use_until and connection.served):
            connection.close()
        elif self._waiting:
            connection.start(self._waiting.popleft(), now)
        else:
            assert not connection.idle
            connection.idle = True
            keep_alive = self.keep_alive if connection.keep_alive is None else connection.keep_alive
            connection.deadline = now + keep_alive
            self._idle.append(connection)
            if connection.deadline < self._sweep_at:
                self.watch(connection.deadline)

    def note_drop(self, connection: Connection) -> None:
        now = self.clock()
        if now - connection.answered_at < FLEETING_SECONDS:
            self._drops += 1
            if self._drops >= DROPS_IN_A_ROW:
                self._single_use_until = now + SINGLE_USE_SECONDS

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._answered_at = max(self._answered_at, connection.answered_at)
        if connection.idle:
            connection.idle = False
            self._idle.remove(connection)
        if not self._closed:
            self._dial_for_waiting()
        elif self._all_ended is not None and not self._connections:
            self._all_ended.set()

    def watch(self, deadline: float) -> None:
        """Schedule a sweep at `deadline`, or SWEEP_SECONDS from now if that is later."""
        if deadline >= self._sweep_at:
            return
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        delay = max(deadline - self.clock(), SWEEP_SECONDS)
        self._sweep_at = deadline
        self._sweep_timer = asyncio.get_running_loop().call_later(delay, self._sweep)

        # Internal

    def _queue(self, call: Call) -> None:
        if self._closed:
            call.take_error(ConnectFailed("the connections to the server were closed", reason="Closed"))
        elif len(self._waiting) >= self.max_waiting:
            call.take_error(PoolFull(f"{self.max_waiting} requests are waiting already for a connection to the server"))
        else:
            self._waiting.append(call)
            self.watch(call.deadline)
            self._dial_for_waiting()

    def _dial_for_waiting(self) -> None:
        room = self.limit - len(self._connections) - len(self._dials)
        for _ in range(min(room, len(self._waiting) - len(self._dials))):
            task = asyncio.get_running_loop().create_task(self._dial(), name=f"dial {self.host}:{self.port}")
            self._dials.add(task)

    async def _dial(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            connection = await self._dialer.connect(lambda: Connection(self))
        except McpError as error:
            self._dials.discard(task)
            self._fail_waiting(error)
            return
        finally:
            self._dials.discard(task)
        self._dialed += 1
        if connection.usable:
            self._connections.add(connection)
            self.take_back(connection, self.clock())
        elif self._waiting:
            self._waiting.popleft().take_error(
                ConnectionLost("the server closed the connection as soon as it was open", sent=False)
            )
            self._dial_for_waiting()

    def _fail_waiting(self, error: McpError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.take_error(error)

    def _sweep(self) -> None:
        self._sweep_at = NEVER
        self._sweep_timer = None
        now = self.clock()
        first = NEVER
        for connection in self._connections.copy():
            if connection.deadline > now:
                first = min(first, connection.deadline)
            else:
                connection.close(self._overdue_error(connection))
        for call in [call for call in self._waiting if call.deadline <= now]:
            self._waiting.remove(call)
            call.take_error(Timeout("no connection to the server became free in time", sent=False))
        first = min([first, *[call.deadline for call in self._waiting]])
        if first < NEVER:
            self.watch(first)

    def _overdue_error(self, connection: Connection) -> McpError:
        if connection.held_up:
            return HeldUp(
                "the answer could not be read in time: slow clients leave too many bytes unread in the gateway"
            )
        return Timeout("the server did not answer in time", sent=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class AwaitedCall(Call):
    """Call whose outcome is the result of a future, for `Pool.run`."""

    __slots__ = ("future",)

    def __init__(
        self,
        data: bytes,
        deadline: float,
        max_bytes: int,
        on_event: Callable[[bytes], bool] | None = None,
        on_open: Callable[[Carrier], None] | None = None,
        counter: Counter | None = None,
    ) -> None:
        super().__init__(data, deadline, max_bytes, on_event, on_open, counter)
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def take_answer(self, answer: Answer) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def take_error(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def forget(self) -> None:
        """Retrieve an error that arrived together with the cancellation, so that asyncio does not log it."""
        if self.future.done() and not self.future.cancelled():
            self.future.exception()
