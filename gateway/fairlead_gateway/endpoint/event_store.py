"""Event store for resumable streams of legacy requests: assigns event ids, and replays events after a reconnection.

From revision 2025-11-25 on, a client can resume a stream that broke off or that the server closed, by a GET with
`Last-Event-ID` (Transports, "Resumability and Redelivery"; SEP-1699). The events of a stream are stored until
KEEP_SECONDS after its answer, unless MAX_STORED_BYTES is exceeded. Only the session that opened a stream can resume it,
and only at the same replica: other replicas reject the event id.
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

FIRST_REVISION: Final = "2025-11-25"
"""First revision with resumable streams. Clients of older revisions may take the empty event at the start for a
message."""
RETRY_MS: Final = 500
"""`retry` field of the first event: milliseconds that a client waits before it resumes the stream."""
KEEP_SECONDS: Final = 60.0
"""Seconds for which a stream is stored after its answer, and after which a call without a client may be cancelled."""
MAX_STORED_BYTES: Final = 8 << 20
"""Maximum number of bytes of all streams; beyond it, the oldest streams of the agents with the most bytes are
dropped.
"""
STREAM_BYTES: Final = 1024
"""Approximate memory of a stream, without its events and session id."""
FEW_STREAMS: Final = 64
"""Up to this number of streams, an eviction frees only the excess, because scanning so few streams is cheap."""
MAX_STREAM_EVENTS: Final = 256
"""Maximum number of stored events of one stream; the oldest events are dropped first."""
_NAME_BYTES: Final = 18
"""Random bytes in the name of a stream."""
_NAME_LENGTH: Final = 24
"""Length of a name in base64."""
_NAMES_PER_DRAW: Final = 64
"""Number of names per call of `os.urandom`. A call takes 1.5 µs."""
_EVENT_ID: Final = re.compile(rb"([0-9A-Za-z_-]{16,64})\.([0-9]{1,12})")


class Cancellable(Protocol):
    """Call in progress."""

    def cancel(self) -> object:
        """Cancel the call. Does nothing after the call was answered."""
        ...


class EventSink(Protocol):
    """Response of a client's request, to which a stream is written."""

    def write(self, chunk: bytes) -> bool:
        """Write a chunk; False if the client is gone or does not read."""
        ...

    def end(self, *chunks: bytes) -> None:
        """Write the last chunks of the stream."""
        ...


class ResumableStream:
    """Resumable event stream of one request. `prime` has to be called first, and adds the stream to the store."""

    __slots__ = (
        "_count",
        "_events",
        "_is_dropped",
        "_name",
        "_sink",
        "_store",
        "agent",
        "call",
        "expires_at",
        "is_done",
        "session",
        "size",
        "unread_since",
    )

    def __init__(self, store: EventStore, name: bytes, session: bytes, agent: str) -> None:
        self._store = store
        self._name = name
        self._sink: EventSink | None = None
        """Response to which events are written; None while no client is connected."""
        self._count = 0
        """Number of the last event."""
        self._is_dropped = False
        """Whether the stream was dropped from the store."""
        self._events: deque[tuple[int, bytes]] = deque()
        """Stored events with their numbers, oldest first."""
        self.session = session
        """Id of the session that opened the stream, and may resume it."""
        self.agent = agent
        """Agent for which the stream is counted."""
        self.size = 0
        """Estimated bytes of memory."""
        self.is_done = False
        """Whether the last event, the answer, was added."""
        self.expires_at = float("inf")
        """When the store drops the stream, in seconds of the store's clock; infinity before the answer."""
        self.call: Cancellable | None = None
        """Call that the stream will answer; None after the answer."""
        self.unread_since = float("inf")
        """When the client disconnected, in seconds of the store's clock; infinity while a client is connected."""

    def prime(self, sink: EventSink) -> bytes:
        """The first event of the stream, which has an id and no data."""
        self._sink = sink
        self._count = 1
        self._store.keep(self._name, self)
        self.size = STREAM_BYTES + len(self.session)
        self._store.count_bytes(self.size)
        return responses.chunk(b"id: %b.1\nretry: %d\ndata: \n\n" % (self._name, RETRY_MS))

    def append(self, message: bytes) -> bytes:
        """Store a message as the next event. Returns the event's bytes, to be sent to the client."""
        self._count += 1
        event = responses.event(message, b"%b.%d" % (self._name, self._count))
        if self._is_dropped:
            return event
        self._events.append((self._count, event))
        added_bytes = len(event)
        if len(self._events) > MAX_STREAM_EVENTS:
            added_bytes -= len(self._events.popleft()[1])
        self.size += added_bytes
        self._store.count_bytes(added_bytes)
        return event

    def push(self, message: bytes) -> bool:
        """Store a message, and send it if a client is connected. Returns False if the client does not read."""
        event = self.append(message)
        return self._sink is None or self._sink.write(event)

    def finish(self, message: bytes) -> None:
        """Store the answer, and send it if a client is connected."""
        event = self.append(message)
        self.is_done = True
        self.call = None
        self.expires_at = self._store.clock() + KEEP_SECONDS
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.end(event, responses.END_OF_STREAM)

    def pause(self) -> None:
        """End the client's response before the answer, so that the client resumes the stream later."""
        sink, self._sink = self._sink, None
        self.unread_since = self._store.clock()
        if sink is not None:
            sink.end(responses.END_OF_STREAM)

    @property
    def detached(self) -> bool:
        """Whether no client reads the stream."""
        return self._sink is None

    def detach(self, sink: EventSink) -> None:
        """Record that the client of `sink` has disconnected."""
        if self._sink is sink:
            self._sink = None
            self.unread_since = self._store.clock()

    def attach(self, sink: EventSink, after: int) -> None:
        """Continue the stream in another response, beginning with the event after number `after`.

        The previous response ends.
        """
        self.pause()
        missed_events = b"".join([event for number, event in self._events if number > after])
        if self.is_done:
            sink.end(missed_events, responses.END_OF_STREAM)
        else:
            self._sink = sink
            self.unread_since = float("inf")
            sink.write(missed_events)

    def forget(self) -> None:
        """Drop the stored events, so that the stream cannot be resumed; a connected client still gets new events."""
        self._is_dropped = True
        self._events.clear()
        self.size = 0


class StreamResumption:
    """GET request that resumes a stream. The request's exchange calls `cancel` when the client disconnects."""

    __slots__ = ("_sink", "_stream")

    def __init__(self, stream: ResumableStream, sink: EventSink) -> None:
        self._stream = stream
        self._sink = sink

    def cancel(self) -> None:
        self._stream.detach(self._sink)


class StreamNames:
    """Generator of unguessable stream names."""

    __slots__ = ("_position", "_random_names")

    def __init__(self) -> None:
        self._random_names = b""
        self._position = 0

    def new(self) -> bytes:
        """A new name of _NAME_LENGTH letters, digits, `-` and `_`."""
        begin = self._position
        if begin == len(self._random_names):
            self._random_names = base64.urlsafe_b64encode(os.urandom(_NAME_BYTES * _NAMES_PER_DRAW))
            begin = 0
        self._position = begin + _NAME_LENGTH
        return self._random_names[begin : self._position]


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
        """With `cancels_abandoned`, calls whose stream had no client for KEEP_SECONDS are cancelled.

        `counts` counts evicted streams.
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
        """The stream of the event with this id, and the event's number; None if the session has no such stream."""
        match = _EVENT_ID.fullmatch(event_id)
        stream = self._streams.get(match[1]) if match is not None else None
        if match is None or stream is None or stream.session != session:
            return None
        return stream, int(match[2])

    def keep(self, name: bytes, stream: ResumableStream) -> None:
        self._streams[name] = stream

    def count_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_STORED_BYTES:
            self._make_room()

    def sweep(self) -> None:
        """Drop expired streams, and cancel abandoned calls. To be called about once a second."""
        now = self.clock()
        if self.cancels_abandoned:
            for stream in [stream for stream in self._streams.values() if now - stream.unread_since >= KEEP_SECONDS]:
                call, stream.call = stream.call, None
                if call is not None:
                    call.cancel()
        for name in [name for name, stream in self._streams.items() if stream.expires_at <= now]:
            self._drop(name)

    def _make_room(self) -> None:
        """Evict the oldest streams of the agents that use most memory.

        With more than FEW_STREAMS streams, an eighth of the limit is freed in addition, so that evictions are rare:
        each of them scans all streams.
        """
        entries = [(name, stream.agent, stream.size) for name, stream in self._streams.items()]
        additional_bytes = MAX_STORED_BYTES // 8 if len(entries) > FEW_STREAMS else 0
        evicted_names = oldest_of_largest(entries, self._bytes - MAX_STORED_BYTES + additional_bytes)
        for name in evicted_names:
            self._drop(name)
        self._counts.count("resumable_streams", "gave_way", len(evicted_names))

    def _drop(self, name: bytes) -> None:
        stream = self._streams.pop(name)
        self._bytes -= stream.size
        stream.forget()
