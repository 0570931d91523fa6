"""HTTP/1.1 connection of a client: an asyncio protocol that answers requests in order, one at a time.

A request that arrives in one piece, with the same head as the request before, is served without parsing (`head_cache`).
All other requests are parsed by the `RequestReader`. The listener checks the timeouts of all connections every second
(`check`), which costs less than a timer per connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.request import agent_in, agent_of
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.buffered_transport import BufferedTransport
from fairlead_gateway.endpoint.exchange import HttpExchange
from fairlead_gateway.endpoint.fallback import FallbackRequest, RequestServer
from fairlead_gateway.endpoint.head_cache import CachedHead
from fairlead_gateway.endpoint.http_service import HttpService
from fairlead_gateway.endpoint.reader import SLICE, ReadBuffer, RequestReader, RequestSink
from fairlead_gateway.endpoint.upgrades import UPGRADE_SECONDS, PendingUpgrade, UpgradeRequest
from fairlead_gateway.limits.buffers import UNREAD
from fairlead_gateway.limits.shares import CLOSED, Admission
from fairlead_mcp import jsonrpc
from fairlead_mcp.addresses import to_ipv4

log = logging.getLogger(__name__)
LINGER_SECONDS: Final = 2.0
"""Time in seconds for a rejected client to read the response, before the connection is aborted."""


class ClientConnection(RequestSink):
    """Protocol for `loop.create_server`: `reader` parses requests, `pipeline` holds the waiting requests, and `current`
    is the request that is being answered.
    """

    __slots__ = (
        "_admission",
        "_advancing",
        "_agent",
        "_buffer",
        "_clock",
        "_final_response",
        "_latest_exchange",
        "_limit",
        "_lingering",
        "_loop",
        "_open_connections",
        "_paused_servers",
        "_pending_upgrade",
        "_service",
        "_starts_with_request",
        "_tls_buffer",
        "_unread",
        "_upgrades",
        "cached_head",
        "current",
        "pipeline",
        "reader",
        "reading_stopped",
        "state_since",
        "write_paused",
    )

    _buffer: ReadBuffer

    def __init__(
        self,
        service: HttpService,
        fallbacks: RequestServer,
        open_connections: set[ClientConnection],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(service.proxies, service.buffers, ending=service.retiring)
        self._service = service
        self._open_connections = open_connections
        self._loop = loop
        self._clock = loop.time
        self._limit = service.bounds.body
        self.reader = RequestReader(service, self, fallbacks)
        self.pipeline: list[HttpExchange | FallbackRequest] = []
        """Requests that wait for the responses to earlier requests, oldest first."""
        self.current: HttpExchange | FallbackRequest | None = None
        """Request that is being answered."""
        self.cached_head: CachedHead | None = None
        """Head of an earlier request on this connection, with which the head of the next request is compared."""
        self.state_since = loop.time()
        """Start of the present state (idle, reading, serving, paused), in seconds of the event loop's clock."""
        self.write_paused = False
        """Whether the write buffer is full, because the client does not read."""
        self.reading_stopped = False
        """Whether all further bytes are ignored, because the connection was rejected."""
        self._paused_servers: list[Callable[[], None]] = []
        """Functions that resume the reading from servers, which was paused until the client reads."""
        self._tls_buffer: BufferedTransport | None = None
        """Write buffer in front of TLS; None for a connection without TLS."""
        self._agent = ""
        """Agent for which unread bytes are counted."""
        self._unread = 0
        """Number of bytes of responses that the client has not read, as counted for `_agent`."""
        self._advancing = False
        """Whether `_advance` is running. It must not be entered twice."""
        self._starts_with_request = False
        """Whether the bytes that are being parsed begin with the start of a request, so that its head can be cached."""
        self._latest_exchange: HttpExchange | None = None
        """The last request parsed from bytes that begin with the start of a request."""
        self._final_response: bytes | None = None
        """Rejection to write after the responses to earlier requests; None if the connection is not rejected."""
        self._lingering = False
        """Whether the final response was written, so that the connection only waits for the client to read it."""
        self._admission: Admission = CLOSED
        self._upgrades = fallbacks.upgrades
        self._pending_upgrade: PendingUpgrade | None = None
        """Connection to the handler of another protocol, after an `Upgrade` request."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(UNREAD)
        if transport.get_extra_info("sslcontext") is not None:
            transport = self._tls_buffer = BufferedTransport(transport, self._pause, self._resume, UNREAD)
        self.transport = transport
        self._buffer = ReadBuffer(transport, self._loop, self._feed)
        self._open_connections.add(self)
        peer = transport.get_extra_info("peername")
        self.client = (to_ipv4(str(peer[0])), int(peer[1])) if isinstance(peer, tuple) else None
        self._admission = admission = self._service.connection_limiter.enter(self.client[0] if self.client else "")
        if admission.rejection is not None:
            self._refuse(*admission.rejection, b"retry-after: 1\r\n")
        elif not admission.admitted or self._service.closed:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        cached_head = self.cached_head
        if cached_head is not None and self._is_idle() and len(data) <= SLICE:
            exchange = cached_head.match(data, self, self._limit)
            if exchange is not None:
                self.current = exchange
                self._service.serve(exchange)
                return
        self._read(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_connections.discard(self)
        self._service.connection_limiter.leave(self._admission)
        self._buffer.on_disconnect()
        self.reader.on_disconnect()
        current, self.current = self.current, None
        self.pipeline.clear()
        self._count_unread_bytes(0)
        if current is not None:
            current.on_disconnect()
        self._resume_servers()
        pending_upgrade, self._pending_upgrade = self._pending_upgrade, None
        if pending_upgrade is not None:
            pending_upgrade.connection_lost(exc)

    def eof_received(self) -> None:
        """Return None, so that asyncio closes the connection: a client that half-closes gets no answer."""

    def pause_writing(self) -> None:
        if self._tls_buffer is None:
            self._pause()
        else:
            self._tls_buffer.on_below_paused()

    def resume_writing(self) -> None:
        if self._tls_buffer is None:
            self._resume()
        else:
            self._tls_buffer.on_below_resumed()

    # Interface for requests

    @property
    def congested(self) -> bool:
        return self.write_paused

    @property
    def cancels_abandoned(self) -> bool:
        return self._service.cancels_abandoned

    def when_writable(self, resume: Callable[[], None]) -> None:
        self._paused_servers.append(resume)

    def end_exchange(self) -> None:
        self.current = None
        self.state_since = self._clock()
        if self.ending and not self.transport.is_closing():
            self.transport.close()
        if self.pipeline or self.reading_stopped or self._buffer.paused:
            self._advance()

    def count_unread(self) -> None:
        self._count_unread_bytes(self.transport.get_write_buffer_size())

    def update_reading(self) -> None:
        current = self.current
        body_is_paused = isinstance(current, FallbackRequest) and current.body_is_paused
        if not self._lingering and (self.write_paused or self.pipeline or body_is_paused):
            self._buffer.pause()
        else:
            self._buffer.resume()

    # Interface for the reader

    @property
    def waiting(self) -> int:
        return len(self.pipeline)

    def begin_request(self) -> None:
        self.state_since = self._clock()

    def send_continue(self) -> None:
        if self.current is None:
            self.transport.write(responses.CONTINUE)

    def take_request(self, request: HttpExchange | FallbackRequest) -> None:
        if self.transport.is_closing():
            return
        if self._starts_with_request and isinstance(request, HttpExchange):
            self._latest_exchange = request
        if self.current is None and not self.pipeline and not self.write_paused:
            self._serve(request)
        else:
            self.pipeline.append(request)
            self.update_reading()

    def upgrade(self, request: UpgradeRequest, trailing: bytes) -> None:
        if self.current is not None or self.pipeline or self.write_paused or self._upgrades is None:
            self.refuse(400, "an Upgrade request must not be sent before the responses to earlier requests")
            return
        self.cached_head = None
        self.reader.stop()
        self.state_since = self._clock()
        self._pending_upgrade = pending_upgrade = PendingUpgrade(self, self.transport, self._upgrades)
        pending_upgrade.begin(request._replace(is_by_owner=self.is_by_owner), self.client, trailing)

    def on_upgrade_refused(self) -> None:
        """Close the connection after a rejected upgrade, when the client has had time to read the response."""
        self._pending_upgrade = None
        self.reading_stopped = True
        self._write_final_response(b"")

    def refuse(self, status: int, message: str) -> None:
        self._refuse(status, message, responses.NO_EXTRA)

    # Interface for the listener

    def retire(self) -> None:
        """Close the connection after the next response, which has `Connection: close`.

        A request that is arriving is still answered.
        """
        self.ending = True
        current = self.current
        if isinstance(current, FallbackRequest):
            current.retire()

    def shutdown(self) -> None:
        """Close the connection: at once if no request is in progress, otherwise after the response."""
        self.retire()
        has_upgraded = self._pending_upgrade is not None and self._pending_upgrade.switched
        if not has_upgraded and self.current is None and not self.reader.in_message:
            self.transport.close()

    def check(self, now: float) -> None:
        """Apply the timeouts of the connection. `now` is in seconds of the event loop's clock."""
        bounds, seconds, reader = self._service.bounds, now - self.state_since, self.reader
        if self._pending_upgrade is not None:  # after the switch, the handler of the new protocol has its own deadlines
            if not self._pending_upgrade.switched and seconds > UPGRADE_SECONDS:
                self.transport.abort()
        elif self._lingering:
            if seconds > LINGER_SECONDS:
                self.transport.abort()
        elif self.write_paused:
            if seconds > bounds.unread_seconds:
                self._abort_unread()
        elif reader.in_message:
            if seconds > (bounds.head_seconds if reader.in_head else bounds.body_seconds):
                self.refuse(408, "the request did not arrive in time")
        elif self.current is None and seconds > bounds.keep_alive:
            if self.transport.is_closing():  # the client does not read the last bytes
                self.transport.abort()
            else:
                self.transport.close()

    # Internals

    def _abort_unread(self) -> None:
        """Abort the connection, because its client has not read responses for `unread_seconds`."""
        self._service.unread_connections += 1
        address = "" if self.client is None else self.client[0]
        seconds = self._service.bounds.unread_seconds
        log.info(
            "The connection of %s was closed: the client read nothing for %g s (FAIRLEAD_CLIENT_UNREAD)",
            address,
            seconds,
        )
        self.transport.abort()

    def _is_idle(self) -> bool:
        """Whether the next byte begins a request that can be served at once."""
        return (
            self.current is None
            and not self.reader.in_message
            and not self.reading_stopped
            and not self.pipeline
            and not self.write_paused
        )

    def _read(self, data: bytes) -> None:
        """Parse `data`, and cache its head if `data` is exactly one request to an MCP endpoint."""
        if self._pending_upgrade is not None and not self._buffer.waiting:
            self._pending_upgrade.data_received(data)
            return
        self._starts_with_request = len(data) <= SLICE and self._is_idle() and not self._buffer.paused
        self._buffer.receive(data)
        self._starts_with_request = False
        latest_exchange, self._latest_exchange = self._latest_exchange, None
        if latest_exchange is not None:
            self.cached_head = self._service.head_cache.learn(latest_exchange, data) or self.cached_head

    def _feed(self, data: bytes | memoryview) -> None:
        if self._pending_upgrade is not None:
            self._pending_upgrade.data_received(bytes(data))
        elif not self.reading_stopped:
            self.reader.feed(data)

    def _serve(self, request: HttpExchange | FallbackRequest) -> None:
        self.current = request
        if isinstance(request, HttpExchange):
            self._service.serve(request)
        else:
            request.start()

    def _advance(self) -> None:
        """Serve the requests in `pipeline`, one at a time, then resume reading.

        A request that is answered within `_serve` calls this method again. That nested call returns at once, so that a
        long pipeline does not recurse.
        """
        if self._advancing:
            return
        self._advancing = True
        try:
            while self.pipeline and self.current is None and not self.write_paused and not self.transport.is_closing():
                self._serve(self.pipeline.pop(0))
        finally:
            self._advancing = False
        if self.transport.is_closing():
            return
        if self._final_response is not None and self.current is None and not self.pipeline:
            self._write_final_response(self._final_response)
        self.update_reading()

    def _pause(self) -> None:
        """Stop reading requests while the client does not read responses."""
        if self._pending_upgrade is not None:
            self._pending_upgrade.pause_writing()
            return
        self.write_paused = True
        self.state_since = self._clock()
        current = self.current
        if isinstance(current, HttpExchange):
            self._agent = agent_of(current)
        elif current is not None:
            self._agent = agent_in(current.scope, self.client)
            current.pause_writing()
        else:
            self._agent = agent_in({}, self.client)
        self.update_reading()
        self.count_unread()

    def _resume(self) -> None:
        if self._pending_upgrade is not None:
            self._pending_upgrade.resume_writing()
            return
        self._count_unread_bytes(0)
        self.write_paused = False
        current = self.current
        if isinstance(current, FallbackRequest):
            current.resume_writing()
        self._resume_servers()
        self._advance()

    def _count_unread_bytes(self, unread: int) -> None:
        change = unread - self._unread
        if change:
            self._unread = unread
            self.buffers.add_unread(self._agent, change)

    def _resume_servers(self) -> None:
        """Resume the server streams that were paused because the client did not read."""
        paused_servers, self._paused_servers = self._paused_servers, []
        for resume in paused_servers:
            resume()

    def _refuse(self, status: int, message: str, extra: bytes) -> None:
        """Stop reading, answer the earlier requests, write the rejection, and close."""
        if self._final_response is not None or self.transport.is_closing():
            return
        self.reading_stopped = True
        was_answered = self._abandon_incomplete()
        only_head = self.reader.asks_for_head
        self.reader.stop()
        self._service.count_refused(status)
        body = responses.error_body(Rejection(status, jsonrpc.INVALID_REQUEST, message))
        head = responses.head(status, len(body), responses.CLOSE + extra)
        self._final_response = b"" if was_answered else head if only_head else head + body
        if self.current is None and not self.pipeline:
            self._write_final_response(self._final_response)

    def _abandon_incomplete(self) -> bool:
        """Disconnect a request for the ASGI application whose body will stay incomplete.

        Returns True if the request was already answered.
        """
        request = self.reader.incomplete_request
        if request is None:
            return False
        if request.response_complete:
            return True
        request.on_disconnect()
        if request is not self.current:
            self.pipeline.remove(request)
        elif request.response_started:
            self.transport.close()  # a rejection cannot follow half of another response
        else:
            self.current = None
        return False

    def _write_final_response(self, final_response: bytes) -> None:
        """Write the final response, then half-close the connection.

        If both directions were closed while the client still sends, this machine's kernel would answer with a RST, and
        the client's kernel would drop the unread response.
        """
        if self._lingering:
            return
        self._lingering = True
        self.state_since = self._clock()
        self._buffer.resume()
        self.transport.write(final_response)
        if self.transport.can_write_eof():
            self.transport.write_eof()
