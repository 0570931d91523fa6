"""HTTP exchange of one MCP request: the request as it was read, and its response (RFC 9110 section 3.4).

Its base, and all that a call knows of it, is `core.request.Exchange`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Raw

from fairlead_gateway.core import request as core
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_gateway.core.request import Headers, agent_of
from fairlead_gateway.endpoint import responses
from fairlead_gateway.endpoint.event_store import Cancellable, EventStore, ResumableStream
from fairlead_gateway.endpoint.stream_starts import DeferredStream, StreamStarts
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.answer import Carrier
from fairlead_mcp.http.exchange import Arrival

COPIED: Final = 64 << 10
"""Answers up to this many bytes are written as one piece; larger ones are never copied."""
MAX_BEHIND: Final = 1 << 20
"""Bytes of a stream that wait for a client. Servers that can be held up are, long before (`congested`)."""


class HttpConnection:
    """Connection as its requests use it. A class and no Protocol: compiled code reads the attributes of its own classes
    at a tenth of the price.
    """

    __slots__ = ("buffers", "client", "ending", "proxies", "transport")

    transport: asyncio.Transport

    def __init__(self, proxies: TrustedProxies, buffers: AnswerBuffers, *, ending: bool) -> None:
        self.client: tuple[str, int] | None = None
        """Address and port of the other side."""
        self.proxies = proxies
        """Proxies whose `X-Forwarded-For` is believed."""
        self.buffers = buffers
        """Where bytes of answers are counted."""
        self.ending = ending
        """Whether the connection is to be closed after the answer in progress."""

    @property
    def congested(self) -> bool:
        """Whether the client does not read what was written."""
        raise NotImplementedError

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Call once it is no longer congested, or gone."""
        raise NotImplementedError

    @property
    def cancels_abandoned(self) -> bool:
        """Whether calls of legacy clients that went away are cancelled."""
        raise NotImplementedError

    def count_unread(self) -> None:
        """Count what was written and is not read, on a connection that is congested."""
        raise NotImplementedError

    def settle_reading(self) -> None:
        """Pause or resume reading, after what decides it has changed."""
        raise NotImplementedError

    def end_exchange(self) -> None:
        """The exchange in progress is over."""
        raise NotImplementedError


class HttpExchange(core.Exchange):
    """MCP request of a client, with its headers, its body and the state of its answer."""

    __slots__ = (
        "_address",
        "_connection",
        "_streaming",
        "_waits_in",
        "authority",
        "body",
        "call",
        "can_stream",
        "cancel_on_disconnect",
        "disconnected",
        "keep_alive",
        "method",
        "response_complete",
        "resumes",
        "stream",
        "streams_first",
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
        super().__init__(headers, ANONYMOUS)  # the endpoint sets the identity before it does anything else
        self._connection = connection
        self.method = method
        self.target = target
        """Target of an endpoint in normalized form; the principal decides which view that is."""
        self.authority: bytes | None = None
        """Authority of a target in absolute form, which counts in place of Host (RFC 9112 section 3.2.2)."""
        self.body = body
        self._address: str | None = None
        self.keep_alive = True
        self.can_stream = True
        self.cancel_on_disconnect = False
        """Whether closing the connection cancels the call, as in the modern era."""
        self.vetted = vetted
        """Whether Host, Origin, Accept and Content-Type were checked, here or in an earlier request with equal ones."""
        self.call: Cancellable | None = None
        self.response_complete = False
        self.disconnected = False
        self.stream: ResumableStream | None = None
        """Its event stream, where that may outlive the connection."""
        self.resumes: tuple[EventStore, bytes] | None = None
        """Store for its stream and the client's session id, where the client can resume streams."""
        self.streams_first = False
        """Whether the answer is an event, as the client prefers streams, even where nothing came before it."""
        self._streaming = False
        self._waits_in: set[DeferredStream] | None = None
        """Set of exchanges that it is in while its stream has not begun."""

    @property
    def address(self) -> str:
        """IP address of the client; empty where it has none."""
        if self._address is None:
            client = self._connection.client
            forwarded = self.headers.get(b"x-forwarded-for")
            if client is None or forwarded is None:
                self._address = "" if client is None else client[0]
            else:
                self._address = self._connection.proxies.client(client[0], forwarded)
        return self._address

    @property
    def gone(self) -> bool:
        if self.stream is not None:
            return False
        return self.disconnected or self._connection.transport.is_closing()

    def lost(self) -> None:
        """The client closed the connection. In the modern era that is how a call is cancelled; in the legacy era it
        "SHOULD NOT be interpreted as the client cancelling its request" (2025-11-25, Transports), unless a setting
        says otherwise. A stream that the client knows of is waited for: see `EventStore.sweep`.
        """
        self.disconnected = True
        self._wait_no_longer()
        if self.stream is not None:
            self.stream.detach(self)
        call, self.call = self.call, None
        if call is None:
            return
        if self.cancel_on_disconnect or (self._connection.cancels_abandoned and self.stream is None):
            call.cancel()

    @property
    def congested(self) -> bool:
        """Whether a server with more to send should wait, for the client does not read its stream."""
        return self._streaming and not self.gone and self._connection.congested

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """See `HttpConnection.when_writable`."""
        self._connection.when_writable(go_on)

    def notify(self, message: bytes) -> bool:
        """Send a message before the answer, as an event. False where that is impossible; it is dropped then."""
        if self._streaming:
            stream = self.stream
            return self.write(responses.event(message)) if stream is None else stream.push(message)
        return self.begin_stream(message)

    def begin_stream(self, message: bytes | None = None) -> bool:
        """Answer with an event stream, if that can be: its head, the event to resume from, and the first message where
        there is one, in one piece. Of one that has begun already, the message alone.
        """
        if not self._may_begin():
            return False
        if self._streaming:
            return message is None or self.notify(message)
        self._streaming = True
        self._wait_no_longer()
        first = b""
        if self.resumes is not None:
            event_store, session = self.resumes
            self.stream = stream = event_store.new(session, agent_of(self))
            stream.call = self.call
            first = stream.prime(self)
            if message is not None:
                first += stream.append(message)
        elif message is not None:
            first = responses.event(message)
        self._connection.transport.write(responses.stream_head(self._extra()) + first)
        if self._connection.congested:
            self._connection.count_unread()
        return True

    def defer_stream(self, starts: StreamStarts) -> None:
        """Begin the stream once there is something to write, or the call takes long (`BEGIN_AFTER_S`)."""
        if not self._streaming and self._may_begin():
            self._waits_in = starts.enter(self)

    def wait_for(self, call: Cancellable) -> None:
        """Cancel `call` when the client is gone."""
        self.call = call
        if self.stream is not None:
            self.stream.call = call

    def pause(self) -> None:
        """End the stream before the answer, where its client can resume it."""
        if self._waits_in is not None and self.resumes is not None:
            self.begin_stream()
        if self.stream is not None:
            self.stream.pause()

    def write(self, chunk: bytes) -> bool:
        """One chunk of the stream. False where the client is gone, or has left MAX_BEHIND bytes unread."""
        transport = self._connection.transport
        if self.response_complete or self.disconnected or transport.is_closing():
            return False
        if self._connection.congested and transport.get_write_buffer_size() > MAX_BEHIND:
            return False
        transport.write(chunk)
        if self._connection.congested:
            self._connection.count_unread()
        return True

    def end(self, *chunks: bytes) -> None:
        """The last chunks of the stream."""
        self._finish(b"".join(chunks))
        if self._connection.congested:
            self._connection.count_unread()

    def arrival(self, source: Carrier) -> Arrival:
        return self._connection.buffers.arrival(core.agent_of(self), source)

    def answer(self, status: int, *body: bytes | Raw, extra: bytes = responses.NO_EXTRA) -> None:
        """An answer with a JSON body, as the last event where a stream was begun, or the only one (`streams_first`)."""
        stream = self.stream
        if stream is not None:
            if not stream.done:
                stream.finish(b"".join(body))
            return
        if self._streaming:
            self.end(responses.event(b"".join(body)), responses.END_OF_STREAM)
            return
        if self.streams_first:
            self._answer_in_stream(b"".join(body), self._extra(extra))
            return
        length = 0
        for part in body:
            length += len(part)
        parts = (responses.head(status, length, self._extra(extra)), *body)
        if length > COPIED:
            self._finish(b"", parts)
        else:
            self._finish(b"".join(parts))

    def succeed(self, ident: bytes, result: bytes | Raw) -> None:
        """The answer to a request: its result, raw."""
        plain = self.keep_alive and not (self._streaming or self.streams_first or self._connection.ending)
        if plain and len(result) <= COPIED:
            self._finish(responses.success(ident, result))
        elif self.streams_first and not self._streaming:
            self._answer_in_stream(jsonrpc.result(ident, result), self._extra())
        else:
            self.answer(200, *responses.result_parts(ident, result))

    def acknowledge(self, status: int = 202) -> None:
        """The answer to what needs none."""
        self._finish(responses.empty(status, self._extra()))

    def reject(self, rejection: Rejection, extra: bytes = responses.NO_EXTRA) -> None:
        body = responses.error_body(rejection)
        head = responses.head(rejection.status, len(body), self._extra(extra))
        self._finish(head if self.method == b"HEAD" else head + body)

    def _answer_in_stream(self, message: bytes, extra: bytes) -> None:
        """Answer with a stream that has not begun: in one write, unless the client can resume and a connection may well
        break in the middle of so much.
        """
        if self.resumes is not None and len(message) > COPIED and self.begin_stream():
            self.answer(200, message)
        else:
            self._finish(responses.whole_stream(message, extra))

    def _may_begin(self) -> bool:
        return self.can_stream and not self.response_complete and not self.gone

    def _wait_no_longer(self) -> None:
        waits_in, self._waits_in = self._waits_in, None
        if waits_in is not None:
            waits_in.discard(self)

    def _extra(self, extra: bytes = responses.NO_EXTRA) -> bytes:
        return extra if self.keep_alive and not self._connection.ending else extra + responses.CLOSE

    def _finish(self, data: bytes, parts: tuple[bytes | Raw, ...] = ()) -> None:
        """Write the last of the response, in parts where they are too large to be copied. No-op when it is complete."""
        if self.response_complete:
            return
        self.response_complete = True
        self._wait_no_longer()
        self.call = None  # they know each other: a cycle for the garbage collector with every call costs 5 µs
        self.body = b""  # the connection knows its last request for as long as it is idle
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
