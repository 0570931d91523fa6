"""Server-sent events: bytes in, events out, bounded.

Pure module: no I/O. Fed by the HTTP connection. Follows the WHATWG parsing rules (line ends CR, LF and CRLF, also
split over chunks; comments; a BOM), except that an event whose data is empty is dropped: TypeScript servers send one
as a priming event, and it is not a message (MCP 2025-11-25, Transports, "Resumability"). Compiled.
"""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import TooLarge
from fairlead_mcp.sse_event import SseEvent

MAX_EVENT: Final = 16 << 20
_DATA: Final = b"data: "
_NAMED: Final = b"event: message\ndata: "
_NAMED_CRLF: Final = b"event: message\r\ndata: "
_BLANK_CRLF: Final = b"\r\n\r\n"
_LF: Final = 10
_CR: Final = 13


def only_message(stream: bytes) -> bytes | None:
    """The data of the one event that `stream` is, in the form that servers of MCP answer in: an event of one line of
    data, called `message` or nothing, without an id. None for anything else, which EventParser reads.
    """
    if stream.startswith(_NAMED):
        start = len(_NAMED)
    elif stream.startswith(_DATA):
        start = len(_DATA)
    elif stream.startswith(_NAMED_CRLF):
        start = len(_NAMED_CRLF)
    else:
        return None
    end = len(stream) - 2
    if end < start or stream[end + 1] != _LF:
        return None
    if stream[end] != _LF:
        end -= 2
        if end < start or stream[end:] != _BLANK_CRLF:
            return None
    elif start == len(_NAMED_CRLF):
        return None  # line ends of two kinds
    data = stream[start:end]
    # numbers, as `in` with bytes raises and drops a TypeError first: ten times the price
    return None if _LF in data or _CR in data else data


def only_answer(stream: bytes) -> bytes | None:
    """The JSON-RPC response that the one event of `stream` is; None where the stream has to be read: it has more
    events, or one that may be a request or a notification.
    """
    message = only_message(stream)
    return message if message and message.find(b'"method"') < 0 else None


class EventParser:
    """`feed(chunk)` returns the events completed by the chunk. `max_event` bounds the bytes held for one event.

    An event is over at an empty line: what is incomplete when the stream ends is dropped, as the rules demand.
    `last_id` is the id of the last event that had one, dropped events included; `retry` the reconnection time in
    milliseconds that the stream asked for.
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
        self._started = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Raises TooLarge when one event exceeds the bound."""
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
    def pending(self) -> int:
        """Bytes of the event that is not complete."""
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
