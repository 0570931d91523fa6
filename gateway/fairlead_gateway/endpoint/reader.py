"""Parses the bytes of a connection into HTTP/1.1 requests, with the same limits and checks for all targets.

A request for an MCP endpoint becomes an `HttpExchange`. A request for any other path becomes a `FallbackRequest`, which
the ASGI application answers. One connection may carry both kinds. A large read is parsed in portions, one per iteration
of the event loop, so that other connections do not wait for the whole read. Reading from the transport is paused while
portions wait; while the connection itself pauses reading, no portion is parsed (`ReadBuffer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httptools

from fairlead_gateway.endpoint import framing
from fairlead_gateway.endpoint.client_limits import CHUNK_BYTES, MAX_FIELDS, MAX_PIPELINED
from fairlead_gateway.endpoint.exchange import HttpConnection, HttpExchange
from fairlead_gateway.endpoint.fallback import FallbackRequest, RequestServer
from fairlead_gateway.endpoint.framing import Field, FramingError
from fairlead_gateway.endpoint.http_service import HttpService
from fairlead_gateway.endpoint.inbound import SPELLINGS
from fairlead_gateway.endpoint.upgrades import UpgradeRequest
from fairlead_gateway.policy.tiers import in_tier

SLICE: Final = 16 << 10
"""Number of bytes in a slice, which is passed to the parser at once. Limits are checked after each slice, so they can
be exceeded by as many bytes.
"""
PORTION: Final = 64 << 10
"""Number of bytes that are parsed in one iteration of the event loop, in about 20 µs. The loop reads up to four times
as much at once."""
MAX_UNBUFFERED: Final = PORTION + (16 << 10)
"""Maximum number of bytes of a read that is parsed at once: a portion of the body, and the head before it."""
_NO_FIELDS: Final[list[Field]] = []


class ReadBuffer:
    """Received but unparsed bytes of one connection. They are passed to the parser, `feed`.

    `pause` and `resume` control the reading from the client.
    """

    __slots__ = ("_feed", "_loop", "_scheduled_read", "_transport", "_waiting", "paused")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, feed: Callable[[bytes | memoryview], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._feed = feed
        self._waiting: list[memoryview] = []
        self._scheduled_read: asyncio.Handle | None = None
        self.paused = False

    @property
    def waiting(self) -> bool:
        """Whether bytes wait for a later iteration of the event loop."""
        return bool(self._waiting)

    def receive(self, data: bytes) -> None:
        """Take bytes that were just read, and feed them at once or in portions."""
        if self._waiting or len(data) > MAX_UNBUFFERED:
            self.add(data)
        else:
            self.feed(memoryview(data))

    def add(self, data: bytes) -> None:
        """Queue bytes for later iterations of the event loop."""
        self._transport.pause_reading()
        view = memoryview(data)
        self._waiting.extend(view[start : start + PORTION] for start in range(0, len(data), PORTION))
        self._schedule()

    def feed(self, data: memoryview) -> None:
        """Feed bytes at once, in slices. If a slice makes the connection pause reading, the rest is put back in front
        of the queue.
        """
        for start in range(0, len(data), SLICE):
            if self.paused:
                self._waiting.insert(0, data[start:])
                return
            if self._transport.is_closing():
                return
            self._feed(data[start : start + SLICE])

    def on_disconnect(self) -> None:
        """Drop the queued bytes, and the reference to the closed connection."""
        self._feed = _ignore
        self._waiting.clear()
        if self._scheduled_read is not None:
            self._scheduled_read.cancel()

    def pause(self) -> None:
        if not self.paused:
            self.paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self._schedule()

    def _schedule(self) -> None:
        if self.paused or self._scheduled_read is not None:
            return
        if self._waiting:
            self._scheduled_read = self._loop.call_soon(self._parse_waiting)
        else:
            self._transport.resume_reading()

    def _parse_waiting(self) -> None:
        if not self.paused and self._waiting:
            self.feed(self._waiting.pop(0))
        self._scheduled_read = None
        if self._transport.is_closing():
            self._waiting.clear()
        else:
            self._schedule()


def _ignore(data: bytes | memoryview) -> None:
    """Discard bytes of a closed connection."""


class RequestSink(HttpConnection):
    """Connection that receives requests from a `RequestReader`."""

    __slots__ = ()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the responses to earlier requests."""
        raise NotImplementedError

    def begin_request(self) -> None:
        """Record that the first byte of a request has arrived."""
        raise NotImplementedError

    def send_continue(self) -> None:
        """Send a 100 response, for which the client waits before it sends the body (`Expect: 100-continue`)."""
        raise NotImplementedError

    def take_request(self, request: HttpExchange | FallbackRequest) -> None:
        """Serve a request: an `HttpExchange` with its complete body, or a `FallbackRequest` before its body."""
        raise NotImplementedError

    def upgrade(self, request: UpgradeRequest, trailing: bytes) -> None:
        """Hand the connection over to another protocol; `trailing` are the bytes after the request."""
        raise NotImplementedError

    def refuse(self, status: int, message: str) -> None:
        """Reject the connection with a last response, because its further bytes cannot be parsed."""
        raise NotImplementedError


class RequestReader:
    """Parser of one connection. `in_message` is True while a request is being read, `in_head` until its body begins."""

    __slots__ = (
        "_exchange",
        "_fallback",
        "_fallbacks",
        "_field_count",
        "_fields",
        "_overhead",
        "_replacement_head",
        "_service",
        "_sink",
        "_target",
        "_upgrade",
        "in_head",
        "in_message",
        "parser",
    )

    __deletable__ = ("_sink",)

    def __init__(self, service: HttpService, sink: RequestSink, fallbacks: RequestServer) -> None:
        self._service = service
        self._sink = sink
        self._fallbacks = fallbacks
        self.parser: Any = httptools.HttpRequestParser(self)
        # bytes after a request with `Connection: close` are ignored instead of being an error
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._target = b""
        self._exchange: HttpExchange | None = None
        """Request for an MCP endpoint that is being read."""
        self._fallback: FallbackRequest | None = None
        """Request for the application whose body is being read."""
        self._fields: list[Field] = _NO_FIELDS
        """Header fields of a request for the application; `_NO_FIELDS` itself while the kind of request is unknown."""
        self._field_count = 0
        """Number of header fields read so far."""
        self._overhead = 0
        """Number of bytes of the request that were read so far, without the bytes of the body."""
        self._replacement_head = b""
        """Head of an `Upgrade` request, serialized again for the next parser; empty for other requests."""
        self._upgrade: UpgradeRequest | None = None
        """Request to hand over to the upgrade handler; None if the upgrade is declined."""
        self.in_head = False
        self.in_message = False

    def feed(self, data: bytes | memoryview) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            trailing = bytes(data[error.args[0] :])
            if self._upgrade is not None:
                self._sink.upgrade(self._upgrade, trailing)
            else:
                self._decline_upgrade(trailing)
            return
        except httptools.HttpParserError as error:
            # the refusal is not assigned to a variable: the traceback refers to this frame, and a cycle of the two
            # would keep the connection alive
            self._sink.refuse(*framing.refusal(error))
            return
        if self.in_message:
            self._overhead = max(self._overhead + len(data), 0)
            if self._overhead > self._service.bounds.head:
                part = "headers" if self.in_head else "chunk extensions and trailers"
                self._sink.refuse(431, f"the {part} are larger than {self._service.bounds.head} bytes")

    @property
    def incomplete_request(self) -> FallbackRequest | None:
        """The request for the application whose body is being read; None if no such body is being read."""
        return None if self.in_head or not self.in_message else self._fallback

    @property
    def asks_for_head(self) -> bool:
        """Whether the request that is being read is a HEAD, whose response has no body."""
        return self.in_message and self.parser.get_method() == b"HEAD"

    def stop(self) -> None:
        """Drop the incomplete request that is being read."""
        self.in_head = self.in_message = False
        self._exchange = self._fallback = None

    def on_disconnect(self) -> None:
        """Drop the parser and the closed connection.

        This breaks reference cycles that would keep the transport and its buffers until garbage collection.
        """
        self.stop()
        self.parser = None
        del self._sink

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        if self._sink.waiting >= MAX_PIPELINED:
            raise FramingError(503, f"more than {MAX_PIPELINED} pipelined requests wait on this connection")
        self._target = b""
        self._exchange = self._fallback = None
        self._fields = _NO_FIELDS
        self.in_head = self.in_message = True
        self._field_count = self._overhead = 0
        self._sink.begin_request()

    def on_url(self, url: bytes) -> None:
        self._target = self._target + url if self._target else url
        is_endpoint = self._target in self._service.targets
        self._exchange = HttpExchange(self._sink, self.parser.get_method(), self._target, {}) if is_endpoint else None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:
            return  # a trailer: ignored, because proxies in front check and rewrite only the head
        self._field_count += 1
        if self._field_count > MAX_FIELDS:
            raise FramingError(431, f"the request has more than {MAX_FIELDS} header fields")
        exchange = self._exchange or self._classify()
        if exchange is None:
            self._fields.append((name.lower(), value))
            return
        header_name = SPELLINGS.get(name) or SPELLINGS.get(name.lower())
        if header_name is None and name[:10].lower() == b"mcp-param-":
            header_name = name.lower()
        if header_name is not None:
            headers = exchange.headers
            headers[header_name] = value if header_name not in headers else headers[header_name] + b", " + value

    def on_headers_complete(self) -> None:
        exchange = self._exchange or self._classify()
        if exchange is None:
            self._begin_fallback()
        else:
            self._check(exchange)
        self.in_head = False

    def on_body(self, body: bytes) -> None:
        self._overhead -= len(body) + CHUNK_BYTES
        exchange = self._exchange
        if exchange is None:
            if self._fallback is not None:
                self._fallback.body(body)
            return
        if not exchange.body:
            exchange.body = body
            return
        if len(exchange.body) + len(body) > self._service.bounds.body:
            raise FramingError(413, f"the body is larger than {self._service.bounds.body} bytes")
        if isinstance(exchange.body, bytes):
            exchange.body = bytearray(exchange.body)
        exchange.body += body

    def on_message_complete(self) -> None:
        self.in_message = False
        exchange, self._exchange = self._exchange, None
        fallback, self._fallback = self._fallback, None
        if self._replacement_head:
            return
        if exchange is None:
            if fallback is not None:
                fallback.end()
            return
        keep_alive = self.parser.should_keep_alive()
        if not keep_alive or b"connection" in exchange.headers:
            exchange.can_stream = self.parser.get_http_version() != "1.0"
            keep_alive = keep_alive and exchange.can_stream
        exchange.keep_alive = keep_alive
        self._sink.take_request(exchange)

    # Internals

    def _classify(self) -> HttpExchange | None:
        """Decide which kind of request this is. Called for a complete target that is not literally in
        `HttpService.targets`.

        Returns an exchange if the target is an MCP endpoint in an unusual form, and None for a path of the application.
        """
        if self._fields is not _NO_FIELDS:
            return None
        target = framing.parse_target(self._target)
        if target is None:
            self._fields = []
            return None
        self._exchange = exchange = HttpExchange(self._sink, self.parser.get_method(), target.path, {})
        exchange.authority = target.authority
        return exchange

    def _check(self, exchange: HttpExchange) -> None:
        """Check the head of a request to an MCP endpoint. Raises FramingError."""
        headers = exchange.headers
        framing.check(self.parser.get_http_version(), headers.get(b"host"), headers.get(b"transfer-encoding"))
        if b"fairlead-tier" in headers:
            target_view = self._service.targets.get(exchange.target)
            if target_view is not None:
                exchange.target = in_tier(target_view.base, headers[b"fairlead-tier"].decode("latin-1").strip())
        if b"connection" in headers and self.parser.should_upgrade():
            self._replacement_head = framing.serialize_without_upgrade(exchange.method, self._target, headers)
            return
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._service.bounds.body:
            raise FramingError(413, f"the body is larger than {self._service.bounds.body} bytes")
        if b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            self._sink.send_continue()

    def _begin_fallback(self) -> None:
        """Check the head of a request for the application, and pass the request on. Raises FramingError."""
        version, method = self.parser.get_http_version(), self.parser.get_method()
        fields = framing.check_fields(version, self._fields, self._target)
        if self.parser.should_upgrade():
            upgrades = self._fallbacks.upgrades
            if version == "1.1" and upgrades is not None and upgrades.handles(self._target, fields):
                self._replacement_head = framing.serialize_upgrade(method, self._target, fields)
                self._upgrade = UpgradeRequest(self._target, fields, self._replacement_head)
            else:
                self._replacement_head = framing.serialize_head(method, self._target, version, fields)[0]
            return
        self._fallback = request = self._fallbacks.request(self._sink, method, self._target, fields)
        request.keep_alive = self.parser.should_keep_alive()
        request.head(method, self._target, version, fields)
        self._sink.take_request(request)

    def _decline_upgrade(self, trailing: bytes) -> None:
        """Parse the request again without its `Upgrade` header (RFC 9110 section 7.8 lets a server ignore it).

        A new parser is needed because httptools does not read the body of an `Upgrade` request. Clients such as Java's
        offer an upgrade to h2c with their first request.
        """
        head, self._replacement_head = self._replacement_head, b""
        self.parser = httptools.HttpRequestParser(self)
        self.feed(head)
        self.feed(trailing)
