"""Streams of legacy requests that outlive their connection: event ids, and a GET that takes up where one ended.

From 2025-11-25 on a client that lost the stream of a request, or whose server ended it to be
asked again later, comes back with `Last-Event-ID` (Transports, "Resumability and Redelivery"; SEP-1699). What was sent
on such a stream is kept for a while, within a bound of bytes for all of them together; only the session that the stream
went to gets it. It is kept in this process: at another replica the id means nothing, and is refused.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_gateway.endpoint import responses
from fairlead_gateway.limits.shares import oldest_of_largest

SINCE: Final = "2025-11-25"
"""Older clients may take the empty event at the start of such a stream for a message."""
RETRY_MS: Final = 500
KEPT_SECONDS: Final = 60.0
"""Seconds that a finished stream is kept, and a call goes on whose stream no client reads."""
KEPT_BYTES: Final = 8 << 20
STREAM_BYTES: Final = 1024
"""Bytes that a stream costs beside its events and the id of its session, about."""
FEW: Final = 64
"""Streams that are looked through each time that there is no room."""
KEPT_EVENTS: Final = 256
"""Events kept per stream; older ones are forgotten first."""
_NAME_BYTES: Final = 18
"""Random bytes in the name of a stream."""
_NAME_LENGTH: Final = 24
"""Letters of a name: its bytes in base64."""
_NAMES: Final = 64
"""Names drawn at once: one by one they cost a stream 1.5 µs."""
_EVENT_ID: Final = re.compile(rb"([0-9A-Za-z_-]{16,64})\.([0-9]{1,12})")


class Cancellable(Protocol):
    """Call in progress that a request became."""

    def cancel(self) -> object:
        """No-op once it is answered."""
        ...


class EventSink(Protocol):
    """A connection that a stream is written to."""

    def write(self, chunk: bytes) -> bool:
        """False where the client is gone or does not read."""
        ...

    def end(self, *chunks: bytes) -> None:
        """The last chunks of the stream."""
        ...


class ResumableStream:
    """Event stream of one request. The store has it from `prime` on, which comes first."""

    __slots__ = (
        "_count",
        "_events",
        "_forgotten",
        "_name",
        "_sink",
        "_store",
        "agent",
        "call",
        "done",
        "left",
        "session",
        "size",
        "until",
    )

    def __init__(self, store: EventStore, name: bytes, session: bytes, agent: str) -> None:
        self._store = store
        self._name = name
        self._sink: EventSink | None = None
        self._count = 0
        self._forgotten = False
        self._events: deque[tuple[int, bytes]] = deque()
        self.session = session
        self.agent = agent
        """Agent that it is kept for."""
        self.size = 0
        """Bytes kept."""
        self.done = False
        self.until = float("inf")
        self.call: Cancellable | None = None
        self.left = float("inf")
        """Time since which no client reads it."""

    def prime(self, sink: EventSink) -> bytes:
        """The first event of the stream, which has an id and no data."""
        self._sink = sink
        self._count = 1
        self._store.keep(self._name, self)
        self.size = STREAM_BYTES + len(self.session)
        self._store.grown(self.size)
        return responses.chunk(b"id: %b.1\nretry: %d\ndata: \n\n" % (self._name, RETRY_MS))

    def append(self, message: bytes) -> bytes:
        """Number an event and keep it. Returns its bytes, for the client that reads."""
        self._count += 1
        event = responses.event(message, b"%b.%d" % (self._name, self._count))
        if self._forgotten:
            return event
        self._events.append((self._count, event))
        grown = len(event)
        if len(self._events) > KEPT_EVENTS:
            grown -= len(self._events.popleft()[1])
        self.size += grown
        self._store.grown(grown)
        return event

    def push(self, message: bytes) -> bool:
        """Send a message, or keep it for a client that comes back; it may be forgotten until then. False where there is
        a client that does not read.
        """
        event = self.append(message)
        return self._sink is None or self._sink.write(event)

    def finish(self, message: bytes) -> None:
        """Send the answer, or keep it."""
        event = self.append(message)
        self.done = True
        self.call = None
        self.until = self._store.clock() + KEPT_SECONDS
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(event, responses.END_OF_STREAM)

    def pause(self) -> None:
        """End the stream for now: its client comes back for the rest."""
        sink, self._sink = self._sink, None
        self.left = self._store.clock()
        if sink is not None:
            sink.end(responses.END_OF_STREAM)

    def detach(self, sink: EventSink) -> None:
        """The connection is gone."""
        if self._sink is sink:
            self._sink = None
            self.left = self._store.clock()

    def attach(self, sink: EventSink, after: int) -> None:
        """Go on at another connection, with what came after the event of that number. The former ends."""
        self.pause()
        missed = b"".join([event for number, event in self._events if number > after])
        if self.done:
            sink.end(missed, responses.END_OF_STREAM)
        else:
            self._sink = sink
            self.left = float("inf")
            sink.write(missed)

    def forget(self) -> None:
        """Drop its events: it cannot be resumed any more; a client that reads it now reads on."""
        self._forgotten = True
        self._events.clear()
        self.size = 0


class StreamResumption:
    """A GET for the rest of a stream. `cancel` is for its exchange, when the client is gone."""

    __slots__ = ("_sink", "_stream")

    def __init__(self, stream: ResumableStream, sink: EventSink) -> None:
        self._stream = stream
        self._sink = sink

    def cancel(self) -> None:
        self._stream.detach(self._sink)


class StreamNames:
    """Names of streams, which nobody can guess."""

    __slots__ = ("_drawn", "_used")

    def __init__(self) -> None:
        self._drawn = b""
        self._used = 0

    def new(self) -> bytes:
        """Letters, digits, `-` and `_`."""
        begin = self._used
        if begin == len(self._drawn):
            self._drawn = base64.urlsafe_b64encode(os.urandom(_NAME_BYTES * _NAMES))
            begin = 0
        self._used = begin + _NAME_LENGTH
        return self._drawn[begin : self._used]


class EventStore:
    """Resumable streams of one gateway, oldest first. `clock` is in seconds."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        new_name: Callable[[], bytes] | None = None,
        *,
        cancels_abandoned: bool = False,
        counts: ShareCounts | None = None,
    ) -> None:
        """`cancels_abandoned`: cancel a call whose stream no client has read for KEPT_SECONDS. `counts` has the streams
        that were forgotten for want of room.
        """
        self._counts = counts or ShareCounts()
        self.clock = clock
        self.cancels_abandoned = cancels_abandoned
        self._new_name = new_name or StreamNames().new
        self._streams: OrderedDict[bytes, ResumableStream] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._streams)

    def new(self, session: bytes, agent: str) -> ResumableStream:
        return ResumableStream(self, self._new_name(), session, agent)

    def find(self, session: bytes, event_id: bytes) -> tuple[ResumableStream, int] | None:
        """The stream of an event that was sent in a session, and the number of that event."""
        match = _EVENT_ID.fullmatch(event_id)
        stream = self._streams.get(match[1]) if match is not None else None
        if match is None or stream is None or stream.session != session:
            return None
        return stream, int(match[2])

    def keep(self, name: bytes, stream: ResumableStream) -> None:
        self._streams[name] = stream

    def grown(self, size: int) -> None:
        self._bytes += size
        if self._bytes > KEPT_BYTES:
            self._make_room()

    def sweep(self) -> None:
        """Forget what was finished long enough ago, and cancel what is given up. Called every second or so."""
        now = self.clock()
        if self.cancels_abandoned:
            for stream in [stream for stream in self._streams.values() if now - stream.left >= KEPT_SECONDS]:
                call, stream.call = stream.call, None
                if call is not None:
                    call.cancel()
        for name in [name for name, stream in self._streams.items() if stream.until <= now]:
            self._drop(name)

    def _make_room(self) -> None:
        """Forget the oldest streams of the agents that keep most. Looking takes a while where there are many streams:
        then there is room for an eighth afterwards.
        """
        entries = [(name, stream.agent, stream.size) for name, stream in self._streams.items()]
        spare = KEPT_BYTES // 8 if len(entries) > FEW else 0
        dropped = oldest_of_largest(entries, self._bytes - KEPT_BYTES + spare)
        for name in dropped:
            self._drop(name)
        self._counts.count("resumable_streams", "gave_way", len(dropped))

    def _drop(self, name: bytes) -> None:
        stream = self._streams.pop(name)
        self._bytes -= stream.size
        stream.forget()
