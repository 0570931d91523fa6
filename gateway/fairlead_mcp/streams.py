"""Message streams to one server: the interface of their openers, when they are opened, and one stream from its opening
to its end.

`fairlead_mcp.stream_client` decides with these which stream takes a request.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Protocol

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Client, Negotiated
from fairlead_mcp.errors import McpError
from fairlead_mcp.multiplex import Multiplexer, Offering

logger = logging.getLogger(__name__)

NEVER: Final = float("inf")
PROBE_SECONDS: Final = 10.0
"""Default of `StreamPolicy.probe_seconds`."""
OPEN_SECONDS: Final = 30.0
"""Limit for the handshake; long, because a server on a stream may have to start first."""
_LOGGED_LINES: Final = 10
_LOGGED_BYTES: Final = 80
"""Maximum number of bytes that are logged of a line that is not an MCP message."""


class MessageStream(Protocol):
    """An open stream."""

    def write(self, line: bytes) -> None:
        """Send one message, which is dropped if the stream has ended. Raises PoolFull when the peer does not read."""
        ...

    async def aclose(self) -> None: ...


class StreamOpener(ABC):
    """Opens streams to one server and explains failures to open one."""

    closed_message: ClassVar[str] = "the connection to %s was closed"
    """Message of requests after the client was closed, with a `%s` for the server's name."""
    starts_process: ClassVar[bool] = False
    """Whether opening a stream starts a process that ends with the stream."""

    @abstractmethod
    async def open(self, connection: StreamConnection) -> MessageStream:
        """Open a stream that reports its messages and its end to `connection`. Raises McpError, after cleaning up."""

    def explain(self, error: McpError, seconds: float) -> McpError:
        """Make the error for callers from a failure to open a stream or to negotiate within `seconds`."""
        return error

    def is_permanent(self, failure: McpError) -> bool:
        """Whether retries are useless until somebody changes something, such as the command."""
        return False

    @property
    def check_seconds(self) -> float:
        """Seconds between two checks of `is_current`; NEVER for none."""
        return NEVER

    async def is_current(self, stream: MessageStream) -> bool:
        """Whether new requests still belong on this open stream; False if its peer is about to end and there is
        another one.
        """
        return True

    async def is_ending(self, stream: MessageStream) -> bool:
        """Whether the peer of this open stream is certain to end, as it takes no more connections."""
        return False


class ClientSide(NamedTuple):
    """Client's side of the streams to one server."""

    client: Client = Client()
    offering: Offering | None = None
    """Capabilities to declare, where the server has one client only; None declares none."""
    on_notification: Callable[[str, bytes], None] | None = None
    """Called in the event loop with the method and the line of each notification; may not raise."""


@dataclass(frozen=True)
class StreamPolicy:
    """When a stream is opened, how long opening may take, and how long an idle stream stays open."""

    eager: bool = False
    """Open a stream at once, and again whenever it ends, instead of on demand."""
    logs_delays: bool = True
    """Whether the log says when an eager stream is opened again; False where the owner decides that by itself."""
    modern: bool | None = None
    """Era of the server. False: `initialize` is sent without the probe for the modern era (`server/discover`). None:
    unknown, so that a stream which is lost while it opens makes the next handshake one of the other era.
    """
    idle: float = NEVER
    """Seconds without a request after which the stream is closed."""
    open_seconds: float = OPEN_SECONDS
    """Limit for the handshake."""
    probe_seconds: float = PROBE_SECONDS
    """Limit for an answer to the probe for the modern era."""


ON_DEMAND: Final = StreamPolicy()
NO_CLIENT_SIDE: Final = ClientSide()


class StreamOwner(Protocol):
    """Client of a server, as its streams use it."""

    name: str
    side: ClientSide
    clock: Callable[[], float]

    def handle_loss(self, connection: StreamConnection, error: McpError) -> None:
        """Handle the end of a stream."""
        ...


class StreamConnection:
    """One message stream from its opening to its end; the future `end` then has the reason."""

    def __init__(self, client: StreamOwner) -> None:
        self.pipe: MessageStream | None = None
        """The open stream; None while it is being opened."""
        self.negotiated: Negotiated | None = None
        """Result of the handshake; None before it."""
        self.negotiated_at = 0.0
        """Time of the handshake."""
        offering = client.side.offering
        self._is_for_one_client = offering is not None
        self.stream = Multiplexer(
            self._write,
            on_notification=client.side.on_notification,
            on_request=None if offering is None else offering.on_request,
            clock=client.clock,
        )
        self.end: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self.retirement: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        """Why the stream takes no new requests: it has ended, or another stream takes them."""
        self._client = client
        self._skipped = 0

    def _write(self, line: bytes) -> None:
        if self.end.done():
            raise self.end.result()
        assert self.pipe is not None
        self.pipe.write(line)

    def on_line(self, line: bytes) -> bool:
        """Handle one message. False if it is not JSON-RPC, or is a response with an id that no request had."""
        try:
            is_message = self.stream.feed(line)
        except McpError as error:  # the server does not read, so that its own request could not be answered
            self.on_end(error)
            return True
        if not is_message:
            self._skipped += 1
            if self._skipped <= _LOGGED_LINES:
                excerpt = line[:_LOGGED_BYTES].decode("utf-8", "replace")
                # for the stream that all clients share, the same line was already logged as a warning
                level = logging.DEBUG if self._is_for_one_client else logging.WARNING
                logger.log(level, "%s sent a line that is not MCP: %r", self._client.name, excerpt)
        return is_message

    def on_refused(self, line: bytes, error: McpError) -> None:
        """Fail the request in `line`, which could not be delivered; the stream stays open."""
        ident = jsonrpc.decode_message(line).id
        if isinstance(ident, Raw):
            self.stream.fail(bytes(ident), error)

    def on_end(self, error: McpError) -> None:
        """End the stream with this error, unless it has ended already."""
        if not self.end.done():
            self.end.set_result(error)
            self.retire(error)
            self.stream.fail_all(error)
            self._client.handle_loss(self, error)

    def retire(self, why: McpError) -> None:
        """End the subscriptions; requests with a deadline may still be answered."""
        if not self.retirement.done():
            self.retirement.set_result(why)
            self.stream.fail_unbounded(why)
