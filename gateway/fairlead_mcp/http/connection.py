"""One HTTP/1.1 connection to a server, carrying one exchange at a time.

A `fairlead_mcp.http.pool.Pool` owns its connections. After each exchange a connection reports to its owner exactly
once: `take_back` when it is ready for the next call, `forget` when it is closed.

States: *idle* (no call), *busy* (a call), *draining* (the call has been answered from an event stream that has not
ended yet). Bytes in the idle state, bytes after a complete answer, and bytes that are not HTTP close the connection,
as they could be taken for the answer to the next request.

Pieces of a body are collected in a list, with little overhead for small pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import httptools
from mypy_extensions import mypyc_attr

from fairlead_mcp.errors import BadHttp, ConnectionLost, TooLarge
from fairlead_mcp.http.answer import ANSWER_HEADERS, Answer, Cursor
from fairlead_mcp.http.exchange import SMALL, Arrival, Call
from fairlead_mcp.http.heads import CacheBudget, KnownHead, keep_alive_seconds
from fairlead_mcp.sse import EventParser, only_answer

SMALL_PIECE: Final = 1024
"""Bytes below which data is appended to the last piece, as each separate piece takes 40 bytes more."""
Pieces: TypeAlias = list[bytes | bytearray]
MAX_HEADERS: Final = 128
MAX_HEAD_BYTES: Final = 64 << 10
"""Limit for the bytes of one answer outside of its body: headers, interim answers, chunk extensions and trailers."""
CHUNK_BYTES: Final = 32
"""Bytes of framing per chunk that do not count towards MAX_HEAD_BYTES."""
DRAIN_SECONDS: Final = 1.0
"""Time for an event stream to end after its answer; a connection whose stream continues is closed."""
MAX_DRAIN_BYTES: Final = 256 << 10
"""Limit for the bytes of an event stream after its answer."""
_HEADS: Final = CacheBudget(2_048, 512 << 10)
"""Cache of response heads, shared by all connections of the process because servers repeat their heads."""
_LENGTH: Final = b"content-length"
_TYPE: Final = b"content-type"
_CODING: Final = b"transfer-encoding"
_CONTENT_CODING: Final = b"content-encoding"
_KEEP_ALIVE: Final = b"keep-alive"
_CHALLENGE: Final = b"www-authenticate"
_SPELLINGS: Final = {name: name for name in ANSWER_HEADERS} | {name.title(): name for name in ANSWER_HEADERS}
_LENGTHS: Final = frozenset(len(name) for name in ANSWER_HEADERS)


def add_piece(pieces: Pieces, data: bytes) -> None:
    """Add data to the body: as a new piece, or at the end of the last piece if the data is small."""
    if len(data) >= SMALL_PIECE or not pieces:
        pieces.append(data)
        return
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += data
    else:
        pieces.append(bytearray(data))


def join_pieces(pieces: Pieces) -> bytes:
    """Return the whole body and clear the pieces, which an idle connection would keep until its next answer."""
    if len(pieces) == 1:
        return bytes(pieces[0])
    is_first_piece = b"".join(pieces)
    pieces.clear()
    return is_first_piece


@mypyc_attr(allow_interpreted_subclasses=True)
class Owner:
    """Callbacks of a connection to its pool."""

    __slots__ = ("clock",)

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        """Seconds, monotonic."""

    def take_back(self, connection: Connection, now: float) -> None:
        """The exchange is over and the connection can carry the next one."""
        raise NotImplementedError

    def forget(self, connection: Connection) -> None:
        """The connection is closed. Called once, before the connection's call receives its error."""
        raise NotImplementedError

    def note_drop(self, connection: Connection) -> None:
        """The server closed a kept-alive connection without a byte since its last answer; `forget` follows."""
        raise NotImplementedError

    def watch(self, deadline: float) -> None:
        """Check the deadlines of all connections at `deadline`."""
        raise NotImplementedError


class Connection(asyncio.Protocol):
    """HTTP/1.1 connection to a server, for one request at a time. `deadline` limits its current state: the call, the
    draining or the idle time.
    """

    __slots__ = (
        "_arrival",
        "_body",
        "_complete",
        "_drained",
        "_events",
        "_fields",
        "_head_done",
        "_header_count",
        "_known_head",
        "_overhead_bytes",
        "_owner",
        "_parser",
        "_pause_count",
        "_received",
        "_reusable",
        "_size",
        "_status",
        "_transport",
        "_until_eof",
        "answered_at",
        "call",
        "closed",
        "deadline",
        "draining",
        "idle",
        "keep_alive",
        "sent_at",
        "served",
    )

    _body: Pieces
    _events: EventParser | None
    _fields: dict[bytes, bytes]

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.call: Call | None = None
        self.idle = False
        self.draining = False
        self.closed = False
        self.served = 0
        """Number of completed exchanges."""
        self.deadline = float("inf")
        self.keep_alive: float | None = None
        """Seconds for which the server's `Keep-Alive` allows an idle connection; None if the server did not say."""
        self.sent_at = 0.0
        """Time of the last request, in seconds of the owner's clock."""
        self.answered_at = 0.0
        """Time of the last complete answer; 0 before the first."""
        self._begin()
        self._complete = False
        self._reusable = False
        self._received = False
        self._overhead_bytes = 0
        """Bytes of the current answer outside of its body, less `CHUNK_BYTES` per chunk."""
        self._drained = 0
        self._known_head: KnownHead | None = None
        self._pause_count = 0
        """Number of parties that have paused reading."""
        self._arrival: Arrival | None = None

    def __repr__(self) -> str:
        states = {"closed": self.closed, "busy": self.call is not None, "draining": self.draining, "idle": self.idle}
        state = next((name for name, holds in states.items() if holds), "new")
        return f"<Connection {state}, {self.served} served>"

    # Called by the pool

    @property
    def usable(self) -> bool:
        return not self.closed and self._transport is not None and not self._transport.is_closing()

    def start(self, call: Call, now: float) -> None:
        """Write a request. The connection must be neither busy, draining nor idle in the pool's list."""
        assert self.call is None
        assert not self.draining
        assert not self.idle
        assert self._transport is not None
        self.call = call
        call.connection = self
        self._complete = self._received = False
        self._overhead_bytes = 0
        self.deadline = call.deadline
        self.sent_at = now
        self._transport.write(call.data)

    def close(self, error: Exception | None = None) -> None:
        """Close at once and fail the call with `error`. Closing also cancels a call of the modern era."""
        if self.closed:
            return
        self.closed = True
        self.draining = False
        call, self.call = self.call, None
        if self._transport is not None:
            self._transport.abort()
        self._uncount(self._arrival)
        self._owner.forget(self)
        if call is not None and error is not None:
            call.take_error(error)

    @property
    def peer(self) -> tuple[str, int] | None:
        """Address and port of the server; None after the connection was lost."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return None if name is None else (str(name[0]), int(name[1]))

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`, when the consumer is too slow. No-op on a closed connection."""
        self._pause_count += 1  # a slow client and a memory budget may both pause it: reading resumes when neither does
        if self._transport is not None and self.usable:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._pause_count -= 1
        if not self._pause_count and self._transport is not None and self.usable:
            self._transport.resume_reading()

    @property
    def held_up(self) -> bool:
        """Whether reading is paused because the memory budget has no room for the rest of the answer."""
        return self._arrival is not None and self._arrival.paused

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio.Transport
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        call = self.call
        if call is None and not self.draining:
            self.close()
            return
        is_first_piece = not self._received
        if is_first_piece and self._known_head is not None and call is not None:
            start = self._known_head.body_start(data)
            if start and len(data) - start <= call.max_bytes:
                answer, start = (data, start) if self._events is None else (only_answer(data[start:]), 0)
                if answer is not None:
                    self._hand_over(call, answer, start, is_known=True)
                    return
        self._received = True
        self._known_head = None
        self._overhead_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refuse(error)
            return
        if self._complete:
            if is_first_piece and self._reusable and self._status == 200:
                head = KnownHead.of(data, _HEADS)
                self._known_head = None if head is None else _HEADS.share(head)
            self._finish()
        elif self._overhead_bytes < 0:
            self._overhead_bytes = 0
        elif self._overhead_bytes > MAX_HEAD_BYTES:
            self.close(TooLarge(f"the answer's headers exceed {MAX_HEAD_BYTES} bytes", reason="HeadersTooLarge"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._parser = None  # breaks a reference cycle, which would keep the transport until garbage is collected
        if self.closed:
            return
        self.closed = True
        if self.served and not self.draining and (self.idle or not self._received):
            self._owner.note_drop(self)
        self._uncount(self._arrival)
        self._owner.forget(self)
        call, self.call = self.call, None
        if call is None:
            return
        self._store_cursor(call)
        if self._until_eof and exc is None:
            now = self._owner.clock()
            call.take_answer(self._answer(self._join_body(), self.sent_at, now, reused=self.served > 0))
            return
        moment = "in the middle of its answer" if self._received else "without an answer"
        message = f"the server closed the connection {moment}"
        error = ConnectionLost(message, sent=True, reused=self.served > 0, received=self._received)
        error.__cause__ = exc
        call.take_error(error)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._complete:
            raise BadHttp("the server sent more than one answer to one request")
        self._begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            raise TooLarge(f"the answer has more than {MAX_HEADERS} headers", reason="HeadersTooLarge")
        if self._head_done:
            return  # a trailer
        stored_name = _SPELLINGS.get(name)
        if stored_name is None and len(name) in _LENGTHS:
            stored_name = _SPELLINGS.get(name.lower())
        if stored_name is None:
            return
        if stored_name == _CHALLENGE and stored_name in self._fields:
            value = b"%b, %b" % (self._fields[stored_name], value)  # each line may have a challenge (RFC 9110, 11.6.1)
        self._fields[stored_name] = value

    def on_headers_complete(self) -> None:
        status = self._status = self._parser.get_status_code()
        call = self.call
        if status < 200 or call is None:
            return
        self._head_done = True
        fields = self._fields
        if not call.has_body:
            self._complete = True  # the parser waits for a body, so the connection cannot be used again
            self._reusable = False
            return
        if _CONTENT_CODING in fields and fields[_CONTENT_CODING].lower() != b"identity":
            coding = fields[_CONTENT_CODING].decode("latin-1")
            raise BadHttp(f"the server compressed its answer ({coding}) although the request does not accept that")
        if _LENGTH in fields:
            if int(fields[_LENGTH]) > call.max_bytes:
                raise TooLarge(f"the answer announces {int(fields[_LENGTH])} bytes, more than {call.max_bytes}")
        else:
            chunked = b"chunked" in fields.get(_CODING, b"").lower()
            self._until_eof = not chunked and status not in (204, 304)
        if fields.get(_TYPE, b"")[:17].lower() == b"text/event-stream" and status == 200:
            self._events = EventParser(call.max_bytes)
            call.on_open(self)

    def on_body(self, data: bytes) -> None:
        self._overhead_bytes -= len(data) + CHUNK_BYTES
        if self._events is not None:
            self._on_stream(self._events, data)
            return
        self._size += len(data)
        if self.call is not None and self._size > self.call.max_bytes:
            raise TooLarge(f"the answer exceeds {self.call.max_bytes} bytes")
        add_piece(self._body, data)
        if self._size > SMALL:
            self._count(self._size)

    def on_message_complete(self) -> None:
        if self._status < 200:
            return  # the interim answers 100 and 103 precede the final one
        self._complete = True
        self._reusable = self._parser.should_keep_alive()
        if _KEEP_ALIVE in self._fields:
            self.keep_alive = keep_alive_seconds(self._fields[_KEEP_ALIVE])

        # Internal

    def _begin(self) -> None:
        self._status = 0
        self._head_done = False
        self._until_eof = False
        self._header_count = 0
        self._size = 0
        self._fields = {}
        self._body = []
        self._events = None

    def _on_stream(self, events: EventParser, data: bytes) -> None:
        if self.draining:
            self._drained += len(data)
            if self._drained > MAX_DRAIN_BYTES:
                raise TooLarge("the server's event stream continues after the answer")
            return
        for event in events.feed(data):
            call = self.call
            if call is not None and call.on_named_event(event.name, event.data):
                self.call = None
                self.draining = True
                self._drained = 0
                now = self._owner.clock()
                self.deadline = now + DRAIN_SECONDS
                self._owner.watch(self.deadline)
                arrival, self._arrival = self._arrival, None
                call.take_answer(self._answer(event.data, self.sent_at, now, reused=self.served > 0))
                self._uncount(arrival)
                return
        if events.pending_bytes > SMALL or self._arrival is not None:
            self._count(events.pending_bytes)

    def _count(self, size: int) -> None:
        """Report `size` as the bytes received so far of an incomplete answer."""
        if self._arrival is not None and size < self._arrival.size:
            self._uncount(self._arrival)  # an event that is not the answer was completed and handed on
        call = self.call
        if self._arrival is None and size > SMALL and call is not None and call.counter is not None:
            self._arrival = call.counter.arrival(self)
        if self._arrival is not None:
            self._arrival.grow(size - self._arrival.size)

    def _uncount(self, arrival: Arrival | None) -> None:
        if arrival is not None:
            if arrival is self._arrival:
                self._arrival = None
            arrival.close()

    def _finish(self) -> None:
        """Finish an exchange whose message is complete, without bytes after it."""
        self.draining = False
        if self.call is not None:
            self._store_cursor(self.call)
            self._hand_over(self.call, self._join_body())
        else:
            self._hand_back(self._owner.clock())

    def _hand_over(self, call: Call, data: bytes, start: int = 0, *, is_known: bool = False) -> None:
        """Return the connection to the pool, then pass the answer, whose body begins at `start`, to the call.

        `is_known` says that the head equals the head of the previous answer, so that only the body is new.
        """
        self.call = None
        sent_at, reused, now = self.sent_at, self.served > 0, self._owner.clock()
        arrival, self._arrival = self._arrival, None
        self._hand_back(now)
        if not (is_known and call.accept(data, start)):
            call.take_answer(self._answer(data[start:], sent_at, now, reused=reused))
        if arrival is not None:
            arrival.close()  # after the call took the answer, so that its bytes are counted without a gap

    def _hand_back(self, now: float) -> None:
        self.answered_at = now
        self.served += 1
        if self._reusable and self.usable:
            self._owner.take_back(self, now)
        else:
            self.close()

    def _store_cursor(self, call: Call) -> None:
        """Store in the call the event ID from which its interrupted stream can be resumed."""
        events = self._events
        if events is not None and events.last_id:
            call.cursor = Cursor(events.last_id, None if events.retry is None else events.retry / 1000)

    def _refuse(self, error: Exception) -> None:
        """Handle an error of the parser: an answer that was complete before is delivered, the connection is closed."""
        if self._complete:
            self._reusable = False
            self._finish()
            return
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
        if not isinstance(cause, Exception):
            cause = BadHttp(f"the answer is not HTTP/1.1 ({error})")
            cause.__cause__ = error
        self.close(cause)

    def _join_body(self) -> bytes:
        return b"" if self._events is not None else join_pieces(self._body)

    def _answer(self, body: bytes, sent_at: float, now: float, *, reused: bool) -> Answer:
        fields, streamed = self._fields, self._events is not None
        return Answer(self._status, fields.get(_TYPE, b""), fields, body, streamed, reused, sent_at, now, self)
