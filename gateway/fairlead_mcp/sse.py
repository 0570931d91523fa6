"""Parser of server-sent events, with a limit for the size of an event. No I/O.

The parser follows the WHATWG parsing rules: line ends CR, LF and CRLF, also split over chunks; comments; a BOM. In
contrast to these rules it drops events with empty data: TypeScript servers send one first, which is not a message (MCP
2025-11-25, Transports, "Resumability"). Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.sse_event import SseEvent

MAX_EVENT: Final = 16 << 20
_DATA: Final = b"data: "
_MESSAGE_EVENT: Final = b"event: message\ndata: "
_MESSAGE_EVENT_CRLF: Final = b"event: message\r\ndata: "
_BLANK_CRLF: Final = b"\r\n\r\n"
_LF: Final = 10
_CR: Final = 13


def only_message(stream: bytes) -> bytes | None:
    """Return the data of a stream that is exactly one event in the most frequent form: one line of data, without id,
    unnamed or named `message`. None for other streams, which need an EventParser.
    """
    if stream.startswith(_MESSAGE_EVENT):
        start = len(_MESSAGE_EVENT)
    elif stream.startswith(_DATA):
        start = len(_DATA)
    elif stream.startswith(_MESSAGE_EVENT_CRLF):
        start = len(_MESSAGE_EVENT_CRLF)
    else:
        return None
    end = len(stream) - 2
    if end < start or stream[end + 1] != _LF:
        return None
    if stream[end] != _LF:
        end -= 2
        if end < start or stream[end:] != _BLANK_CRLF:
            return None
    elif start == len(_MESSAGE_EVENT_CRLF):
        return None  # mixed line ends
    data = stream[start:end]
    # integers, as `in` with bytes raises and drops a TypeError first and is ten times slower
    return None if _LF in data or _CR in data else data


def only_answer(stream: bytes) -> bytes | None:
    """Return the JSON-RPC response in a stream of exactly one event; None for other streams, and if the event may be a
    request or a notification.
    """
    message = only_message(stream)
    return message if message and message.find(b'"method"') < 0 else None


class EventParser:
    """Incremental parser: `feed(chunk)` returns the events that the chunk completes. `max_event` is in bytes.

    An event ends with an empty line; an incomplete event at the end of the stream is dropped, by the WHATWG rules.
    `last_id` is the id of the last event with an id, dropped events included. `retry` is the stream's reconnection
    time in milliseconds.
    """

    __slots__ = ("_data", "_id", "_name", "_pieces", "_size", "_skip_lf", "_started", "last_id", "max_event", "retry")

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self.max_event = max_event
        self._pieces: list[bytes] = []  # of the line that is not complete yet
        self._data: list[bytes] = []
        self._name = b""
        self._id: bytes | None = None
        self.last_id: bytes | None = None
        self.retry: int | None = None
        self._size = 0
        self._skip_lf = False
        """Whether the last chunk ended with CR, so that an LF in front of the next chunk belongs to that line end."""
        self._started = False
        """Whether the first line was read, the only one that may begin with a BOM."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Parse a chunk and return the events that it completes. Raises TooLarge when an event exceeds the limit."""
        if not self._size and not self._skip_lf and len(chunk) <= self.max_event:
            message = only_message(chunk)
            if message:
                self._started = True
                return [SseEvent(message)]
        if self._skip_lf and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_lf = False
        if _CR in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[SseEvent] = []
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            if line:
                self._grow(len(line))
            if self._pieces:
                self._pieces.append(line)
                line = b"".join(self._pieces)
                self._pieces.clear()
            if not self._started:
                self._started = True
                line = line.removeprefix(b"\xef\xbb\xbf")
            self._line(line, events)
        if rest:
            self._pieces.append(rest)
            self._grow(len(rest))
        return events

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete event."""
        return self._size

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > self.max_event:
            raise TooLarge(f"an event of the stream exceeds {self.max_event} bytes")

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id" and 0 not in value:
            self._id = value
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = int(value)

    def _dispatch(self, events: list[SseEvent]) -> None:
        data = b"\n".join(self._data)
        if self._id is not None:
            self.last_id = self._id
        if data:
            events.append(SseEvent(data, self._name or b"message", self._id))
        self._data.clear()
        self._name = b""
        self._id = None
        self._size = 0
