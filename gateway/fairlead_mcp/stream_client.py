"""Client of one MCP server over message streams, one after the other: negotiated, shared by all requests, opened again.

What opens a stream, and when, is the affair of the two kinds: `fairlead_mcp.child` runs a process and starts it again
by itself, `fairlead_mcp.link` connects to somebody else's process when a request needs it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from msgspec import Raw

from fairlead_mcp.backoff import Backoff
from fairlead_mcp.eras import Client, Era, Negotiated, listen_params, modern_params
from fairlead_mcp.errors import ConnectionLost, McpError
from fairlead_mcp.handshake import read_line, shake_hands
from fairlead_mcp.multiplex import Multiplexer, Offering

logger = logging.getLogger(__name__)

NEVER: Final = float("inf")
PROBE_SECONDS: Final = 10.0
_LOGGED_LINES: Final = 10


class LineWriter(Protocol):
    """Open stream, or the process at its other end."""

    def write(self, line: bytes) -> None:
        """Send one message. Raises PoolFull when the other side does not read."""
        ...


PipeT = TypeVar("PipeT", bound=LineWriter)


class StreamConnection(Generic[PipeT]):
    """One message stream from its opening to its end; `end` is done with the reason when it is over."""

    sends: ClassVar[str] = "sent"
    """Verb of the warning about a line other than a message."""

    def __init__(self, client: StreamClient[PipeT]) -> None:
        self.pipe: PipeT | None = None
        """Set while or after it is opened."""
        self.negotiated: Negotiated | None = None
        """Handshake, while requests are taken."""
        on_request = None if client.offering is None else client.offering.on_request
        self.stream = Multiplexer(self._write, on_notification=client.notify, on_request=on_request, clock=client.clock)
        self.end: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self._name = client.name
        self._skipped = 0

    def _write(self, line: bytes) -> None:
        if self.end.done():
            raise self.end.result()
        assert self.pipe is not None
        self.pipe.write(line)

    def on_line(self, line: bytes) -> None:
        """One message, or what the server sent in place of one."""
        try:
            understood = self.stream.feed(line)
        except McpError as error:  # its request could not be answered: it does not read
            self.on_end(error)
            return
        if not understood:
            self._skipped += 1
            if self._skipped <= _LOGGED_LINES:
                logger.warning("%s %s what is not MCP: %.80r", self._name, self.sends, line)
            self.on_stray_line(line)

    def on_stray_line(self, line: bytes) -> None:
        """A line other than a message came."""

    def on_end(self, error: McpError) -> None:
        """End it for this reason, unless it has ended for another."""
        if not self.end.done():
            self.end.set_result(error)
            self.stream.fail_all(error)


class StreamClient(ABC, Generic[PipeT]):
    """Requests to one server over the stream that is open now. Deadlines are absolute, in `clock`.

    `on_notification(method, line)` is called in the loop and may not raise. `offering` are the client's capabilities;
    None declares none. `alternates`: whether the next handshake begins with the other era after a server that ended
    without an answer.
    """

    def __init__(
        self,
        name: str,
        *,
        client: Client | None,
        clock: Callable[[], float] = time.monotonic,
        offering: Offering | None,
        on_notification: Callable[[str, bytes], None] | None,
        backoff: Backoff,
        probe_seconds: float = PROBE_SECONDS,
        alternates: bool = True,
    ) -> None:
        self.name = name
        self.client = client or Client()
        self.clock = clock
        self.offering = offering
        self.on_notification = on_notification
        self.starts = 0
        """Streams opened so far, or tried to."""
        self.process: bytes | None = None
        """Random name of the process that takes requests now, 12 hexadecimal digits; None where no process begins and
        ends with the stream.
        """
        self.failure: McpError | None = None
        """Why the last stream ended, or could not be opened."""
        self._backoff = backoff
        self._probe = alternates
        self._probe_seconds = probe_seconds
        self._alternates = alternates

    @property
    @abstractmethod
    def connection(self) -> StreamConnection[PipeT] | None:
        """The stream that is open, or on the way."""

    @abstractmethod
    async def connect(self, deadline: float) -> StreamConnection[PipeT]:
        """The stream that takes requests, waited for. Raises McpError."""

    @property
    def negotiated(self) -> Negotiated | None:
        """Handshake of the stream that takes requests now."""
        connection = self.connection
        return None if connection is None else connection.negotiated

    async def ready(self, deadline: float) -> Negotiated:
        """Wait until the server takes requests. Raises McpError: Timeout when the deadline comes before a verdict."""
        agreed = (await self.connect(deadline)).negotiated
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
        self.begin_use()
        try:
            connection = self.connection
            if connection is None or connection.negotiated is None:
                connection = await self.connect(deadline)
            return await connection.stream.request(method, params, deadline=deadline, on_progress=on_progress)
        finally:
            self.end_use()

    async def listen(self, deadline: float) -> None:
        """Have changes of the lists announced to `on_notification` until the stream is over.

        Raises McpError, always: TransportError when the stream ends, another one when the server refuses.
        """
        self.begin_use()
        try:
            connection = await self.connect(deadline)
            agreed = connection.negotiated
            assert agreed is not None
            if agreed.era is Era.MODERN:
                params = modern_params(listen_params(agreed.announced), self.client)
                read_line(await connection.stream.request("subscriptions/listen", params, deadline=NEVER))
                raise ConnectionLost(f"{self.name} ended the subscription", sent=True)
            raise await asyncio.shield(connection.end)
        finally:
            self.end_use()

    def begin_use(self) -> None:
        """A request begins, connected or not."""

    def end_use(self) -> None:
        """A request is over."""

    def notify(self, method: str, line: bytes) -> None:
        """Pass on a notification of the server."""
        if self.on_notification is not None:
            self.on_notification(method, line)

    # Pieces of an opening

    async def negotiate(self, connection: StreamConnection[PipeT], deadline: float) -> Negotiated:
        """Shake hands on a stream that was opened. Raises McpError."""
        return await shake_hands(
            connection.stream,
            self.client,
            deadline=deadline,
            probe=self._probe,
            probe_seconds=self._probe_seconds,
            capabilities=b"{}" if self.offering is None else self.offering.capabilities,
        )

    def alternate(self, error: McpError) -> None:
        """Begin the next handshake with the other era where the server ended: some do at a message unknown to them."""
        if self._alternates and isinstance(error, ConnectionLost):
            self._probe = not self._probe


def process_name() -> bytes:
    """See `StreamClient.process`."""
    return secrets.token_hex(6).encode()
