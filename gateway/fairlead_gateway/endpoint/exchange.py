"""HTTP exchange: the parsed request of a client to an MCP endpoint, and its response (RFC 9110 section 3.4).

The packages that run calls know only its base class, `core.request.Exchange`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_gateway.core import request as core
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.core.request import Headers, agent_of, is_forwarded
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.event_store import Cancellable, EventStore, ResumableStream
from fairlead_gateway.endpoint.stream_starts import DeferredStream, StreamStarts
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.identity.peer_owner import is_by_owner
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_mcp import jsonrpc
from fairlead_mcp.addresses import to_ipv4
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival

MAX_COPIED_BYTES: Final = 64 << 10
"""Maximum number of bytes of an answer that is copied into one write with its head; larger answers are written in
parts."""
MAX_UNREAD_BYTES: Final = 1 << 20
"""Maximum number of bytes of a stream that the client has not read; further messages are dropped. If reading from the
server can be paused, it is paused much earlier (`congested`)."""


class HttpConnection:
    """Interface of a client connection to its requests.

    A class instead of a Protocol, because mypyc reads attributes of compiled classes ten times as fast.
    """

    __slots__ = ("_by_owner", "buffers", "client", "ending", "proxies", "transport")

    transport: asyncio.Transport

    def __init__(self, proxies: TrustedProxies, buffers: AnswerBuffers, *, ending: bool) -> None:
        self.client: tuple[str, int] | None = None
        """Address and port of the peer."""
        self.proxies = proxies
        """Proxies whose `X-Forwarded-For` is trusted."""
        self.buffers = buffers
        """Counters of the bytes in unread answers."""
        self.ending = ending
        """Whether the connection closes after the next answer."""
        self._by_owner: bool | None = None
        """Result of `is_by_owner`; None before its first call."""

    def is_by_owner(self) -> bool:
        """Whether the connection comes from the machine's owner, for a gateway that serves only its own machine."""
        if self._by_owner is None:
            peer, local_address = self.client, self.transport.get_extra_info("sockname")
            if peer is None or not isinstance(local_address, tuple):
                return False
            self._by_owner = is_by_owner(peer, (to_ipv4(str(local_address[0])), int(local_address[1])))
        return self._by_owner

    @property
    def congested(self) -> bool:
        """Whether the write buffer is full, because the client does not read."""
        raise NotImplementedError

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the connection is no longer congested or has been closed."""
        raise NotImplementedError

    @property
    def cancels_abandoned(self) -> bool:
        """Whether calls of legacy clients are cancelled when the client disconnects."""
        raise NotImplementedError

    def count_unread(self) -> None:
        """Update the count of bytes that the client has not read. For a congested connection."""
        raise NotImplementedError

    def update_reading(self) -> None:
        """Pause or resume reading from the client, depending on the connection's requests and write buffer."""
        raise NotImplementedError

    def end_exchange(self) -> None:
        """Record that the response in progress is complete, so that the next request is served."""
        raise NotImplementedError


class HttpExchange(core.Exchange):
    """MCP request of a client, with its headers, its body and the state of its response."""

    __slots__ = (
        "_address",
        "_connection",
        "_deferred_streams",
        "_streaming",
        "authority",
        "body",
        "call",
        "can_stream",
        "cancel_on_disconnect",
        "disconnected",
        "keep_alive",
        "method",
        "page_lines",
        "prefers_stream",
        "response_complete",
        "resumes",
        "stream",
        "target",
        "vetted",
    )

    def __init__(
        self,
        connection: HttpConnection,
        method: bytes,
        target: bytes,
        headers: Headers,
        body: bytes | bytearray = b"",
        *,
        vetted: bool = False,
    ) -> None:
        super().__init__(headers, ANONYMOUS)  # `McpEndpoint.serve` sets the identity first
        self._connection = connection
        self.method = method
        self.target = target
        """Normalized target of an MCP endpoint. Together with the principal, it selects the view."""
        self.authority: bytes | None = None
        """Authority of a target in absolute form, which overrides Host (RFC 9112 section 3.2.2)."""
        self.body = body
        self._address: str | None = None
        self.page_lines: bytes | None = None
        """Header lines of the response that let a web page read it; None for a request without `Origin`."""
        self.keep_alive = True
        """Whether the connection stays open after the response."""
        self.can_stream = True
        """Whether the response may be an event stream: the client accepts it, and uses HTTP/1.1."""
        self.cancel_on_disconnect = False
        """Whether the call is cancelled when the client closes the connection, as in the modern era."""
        self.vetted = vetted
        """Whether Host, Origin, Accept and Content-Type are known to be valid: they were checked in this request, or in
        an earlier request with equal values.
        """
        self.call: Cancellable | None = None
        """Call that will answer the request; None before its start and after the answer."""
        self.response_complete = False
        self.disconnected = False
        """Whether the client has closed the connection."""
        self.stream: ResumableStream | None = None
        """Resumable event stream of the response; None if the response is lost with the connection."""
        self.resumes: tuple[EventStore, bytes] | None = None
        """Event store and session id for a resumable stream; None if the client cannot resume streams."""
        self.prefers_stream = False
        """Whether the answer is sent as an event stream even if no message precedes it, because the client prefers
        streams.
        """
        self._streaming = False
        """Whether the head of an event stream was written."""
        self._deferred_streams: set[DeferredStream] | None = None
        """Set of `StreamStarts` that contains this exchange; None unless `defer_stream` was called."""

    @property
    def address(self) -> str:
        """IP address of the client; empty for a Unix socket."""
        if self._address is None:
            client = self._connection.client
            forwarded = self.headers.get(b"x-forwarded-for")
            if client is None or forwarded is None:
                self._address = "" if client is None else client[0]
            else:
                self._address = self._connection.proxies.client(client[0], forwarded)
        return self._address

    def is_by_owner(self) -> bool:
        """Whether the request comes from the machine's owner, for a gateway that serves only its own machine."""
        return not is_forwarded(self.headers) and self._connection.is_by_owner()

    @property
    def gone(self) -> bool:
        if self.stream is not None:
            return False
        return self.disconnected or self._connection.transport.is_closing()

    @property
    def detached(self) -> bool:
        return self.gone if self.stream is None else self.stream.detached

    def on_disconnect(self) -> None:
        """Handle a connection that the client has closed.

        In the modern era a disconnection cancels the call. In the legacy era it "SHOULD NOT be interpreted as the
        client cancelling its request" (2025-11-25, Transports), and cancels the call only with `cancels_abandoned`. If
        the stream is resumable, the client then has some time to resume it first (`EventStore.sweep`).
        """
        self.disconnected = True
        self._cancel_deferred_stream()
        if self.stream is not None:
            self.stream.detach(self)
        call, self.call = self.call, None
        if call is None:
            return
        if self.cancel_on_disconnect or (self._connection.cancels_abandoned and self.stream is None):
            call.cancel()

    @property
    def congested(self) -> bool:
        """Whether the server should be paused, because the client does not read the stream."""
        return self._streaming and not self.gone and self._connection.congested

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when the connection is no longer congested or has been closed."""
        self._connection.when_writable(resume)

    def notify(self, message: bytes) -> bool:
        """Send a message as an event before the answer. Returns False if that is impossible; the message is then
        dropped."""
        if self._streaming:
            stream = self.stream
            return self.write(responses.event(message)) if stream is None else stream.push(message)
        return self.begin_stream(message)

    def begin_stream(self, message: bytes | None = None) -> bool:
        """Begin the event stream. Head, first event of a resumable stream, and `message` are one write.

        If the stream has already begun, only `message` is sent. Returns False if the response cannot be a stream.
        """
        if not self._may_begin():
            return False
        if self._streaming:
            return message is None or self.notify(message)
        self._streaming = True
        self._cancel_deferred_stream()
        first_events = b""
        if self.resumes is not None:
            event_store, session = self.resumes
            self.stream = stream = event_store.new(session, agent_of(self))
            stream.call = self.call
            first_events = stream.prime(self)
            if message is not None:
                first_events += stream.append(message)
        elif message is not None:
            first_events = responses.event(message)
        self._connection.transport.write(responses.stream_head(self._extra()) + first_events)
        if self._connection.congested:
            self._connection.count_unread()
        return True

    def defer_stream(self, starts: StreamStarts) -> None:
        """Begin the event stream with the first message, or when the timer of `starts` fires before a message."""
        if not self._streaming and self._may_begin():
            self._deferred_streams = starts.enter(self)

    def wait_for(self, call: Cancellable) -> None:
        """Cancel `call` when the client disconnects."""
        self.call = call
        if self.stream is not None:
            self.stream.call = call

    def pause(self) -> None:
        """End the response before the answer, if the client can resume the stream to get the rest; otherwise do
        nothing."""
        if self._deferred_streams is not None and self.resumes is not None:
            self.begin_stream()
        if self.stream is not None:
            self.stream.pause()

    def write(self, chunk: bytes) -> bool:
        """Write a chunk of the stream. Returns False if the client is gone, or has left MAX_UNREAD_BYTES unread."""
        transport = self._connection.transport
        if self.response_complete or self.disconnected or transport.is_closing():
            return False
        if self._connection.congested and transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            return False
        transport.write(chunk)
        if self._connection.congested:
            self._connection.count_unread()
        return True

    def end(self, *chunks: bytes) -> None:
        """Write the last chunks of the stream."""
        self._finish(b"".join(chunks))
        if self._connection.congested:
            self._connection.count_unread()

    def arrival(self, source: Carrier) -> Arrival:
        return self._connection.buffers.arrival(core.agent_of(self), source)

    def answer(self, status: int, *body: bytes | Raw, extra: bytes = responses.NO_EXTRA) -> None:
        """Answer with a JSON body, or with an event if a stream has begun or the client prefers one."""
        stream = self.stream
        if stream is not None:
            if not stream.is_done:
                stream.finish(b"".join(body))
            return
        if self._streaming:
            self.end(responses.event(b"".join(body)), responses.END_OF_STREAM)
            return
        if self.prefers_stream:
            self._answer_in_stream(b"".join(body), self._extra(extra))
            return
        length = 0
        for part in body:
            length += len(part)
        parts = (responses.head(status, length, self._extra(extra)), *body)
        if length > MAX_COPIED_BYTES:
            self._finish(b"", parts)
        else:
            self._finish(b"".join(parts))

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """Answer with a JSON-RPC result."""
        single_write = self.keep_alive and not (self._streaming or self.prefers_stream or self._connection.ending)
        if single_write and self.page_lines is None and len(result) <= MAX_COPIED_BYTES:
            self._finish(responses.success(ident, result))
        elif self.prefers_stream and not self._streaming:
            self._answer_in_stream(jsonrpc.result(ident, result), self._extra())
        else:
            self.answer(200, *responses.result_parts(ident, result))

    def acknowledge(self, status: int = 202) -> None:
        """Answer a notification or a response of the client with an empty body."""
        self._finish(responses.empty_response(status, self._extra()))

    def reject(self, rejection: Rejection, extra: bytes = responses.NO_EXTRA) -> None:
        body = responses.error_body(rejection)
        head = responses.head(rejection.status, len(body), self._extra(extra))
        self._finish(head if self.method == b"HEAD" else head + body)

    def _answer_in_stream(self, message: bytes, extra: bytes) -> None:
        """Answer with a stream that has not begun yet.

        Usually the whole response is a single write. A long message is sent in a resumable stream if the client
        supports that, because the connection may break while the message is sent.
        """
        if self.resumes is not None and len(message) > MAX_COPIED_BYTES and self.begin_stream():
            self.answer(200, message)
        else:
            self._finish(responses.whole_stream(message, extra))

    def _may_begin(self) -> bool:
        return self.can_stream and not self.response_complete and not self.gone

    def _cancel_deferred_stream(self) -> None:
        deferred_streams, self._deferred_streams = self._deferred_streams, None
        if deferred_streams is not None:
            deferred_streams.discard(self)

    def _extra(self, extra: bytes = responses.NO_EXTRA) -> bytes:
        if self.page_lines is not None:
            extra += self.page_lines
        return extra if self.keep_alive and not self._connection.ending else extra + responses.CLOSE

    def _finish(self, data: bytes, parts: tuple[bytes | Raw, ...] = ()) -> None:
        """Write the end of the response: `data`, or `parts` if they are too large to copy. Does nothing if the end was
        already written."""
        if self.response_complete:
            return
        self.response_complete = True
        self._cancel_deferred_stream()
        self.call = None  # breaks a reference cycle, which would cost the garbage collector 5 µs per call
        self.body = b""  # an idle connection keeps a reference to its last request
        connection = self._connection
        transport = connection.transport
        if not transport.is_closing():
            if parts:
                transport.writelines([memoryview(part) for part in parts])
            else:
                transport.write(data)
            if not self.keep_alive:
                transport.close()
        connection.end_exchange()
