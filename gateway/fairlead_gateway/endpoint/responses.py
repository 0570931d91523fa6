"""Builds HTTP responses as bytes.

Pure module. A response with a large body is a sequence of parts, which are written without being concatenated: copying
the parts would make `tools/list` of a large catalog ten times as expensive.
"""

from __future__ import annotations

import http
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.client_message import Rejection
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.heads import length_value
from fairlead_mcp.jsonrpc import BEFORE_ID, BEFORE_RESULT

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE: Final = b"connection: close\r\n"
CHUNKED: Final = b"transfer-encoding: chunked\r\n"
NO_EXTRA: Final = b""
"""Value of `extra` for a response without additional header lines."""

_STATUS_LINES: Final[Mapping[int, bytes]] = MappingProxyType(
    {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in http.HTTPStatus}
)
_ENVELOPE_BYTES: Final = len(BEFORE_ID + BEFORE_RESULT + b"}")
"""Bytes of a successful response without its id and result."""
_LF: Final = 10
_CR: Final = 13
_EVENT_BYTES: Final = len(b"event: message\ndata: \n\n")
"""Bytes of an event without its message."""
_EVENT_WITH_ID_BYTES: Final = _EVENT_BYTES + len(b"id: \n")
"""Bytes of an event with an id, without its message and id."""
_WHOLE_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n"
    b"x-accel-buffering: no\r\ncontent-length: "
)
_SUCCESS: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
_BODY_START: Final = b"\r\n\r\n" + BEFORE_ID


def head(status: int, length: int, extra: bytes = NO_EXTRA) -> bytes:
    """Head of a JSON response with a body of `length` bytes. `extra` are complete header lines."""
    return b"%bcontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n" % (
        _STATUS_LINES[status],
        length,
        extra,
    )


def head_of_fields(status: int, fields: Iterable[tuple[bytes, bytes]], extra: bytes = NO_EXTRA) -> bytes:
    """Head of a response with these header fields. `extra` are complete header lines. Raises ValueError for a field
    that would end its line.
    """
    lines: list[bytes] = []
    for name, value in fields:
        if _LF in value or _CR in value:
            raise ValueError(f"the header field {name!r} contains a line break")
        lines += (name, b": ", value, b"\r\n")
    status_line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"".join((status_line, *lines, extra, b"\r\n"))


def last_head(status: int, media_type: str, length: int, extra: bytes = NO_EXTRA) -> bytes:
    """Head of the last response of a connection, with a body of `length` bytes. `extra` are complete header lines."""
    return b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n" % (
        _STATUS_LINES[status],
        media_type.encode(),
        length,
        extra,
        CLOSE,
    )


def empty_response(status: int, extra: bytes = NO_EXTRA) -> bytes:
    """A response without a body."""
    return b"%bcontent-length: 0\r\n%b\r\n" % (_STATUS_LINES[status], extra)


def stream_head(extra: bytes = NO_EXTRA) -> bytes:
    """Head of an event stream in chunked coding."""
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n"
        b"x-accel-buffering: no\r\ntransfer-encoding: chunked\r\n%b\r\n" % extra
    )


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def one_line(message: bytes) -> bytes:
    """A JSON message without raw line breaks, which would end the data field of an event."""
    # searches for integers: for a `bytes` operand, `in` raises and drops a TypeError first, at ten times the cost
    if _LF in message or _CR in message:
        return message.replace(b"\r", b"").replace(b"\n", b"")  # in JSON a raw line break is always white space
    return message


def event(message: bytes, ident: bytes | None = None) -> bytes:
    """One JSON-RPC message as a chunk with a server-sent event; raw line breaks are removed from the message."""
    message = one_line(message)
    if ident is None:
        return b"%x\r\nevent: message\ndata: %b\n\n\r\n" % (_EVENT_BYTES + len(message), message)
    length = _EVENT_WITH_ID_BYTES + len(ident) + len(message)
    return b"%x\r\nid: %b\nevent: message\ndata: %b\n\n\r\n" % (length, ident, message)


END_OF_STREAM: Final = b"0\r\n\r\n"


def result_parts(ident: bytes, *result: bytes | Raw) -> tuple[bytes | Raw, ...]:
    """Parts of the body of a successful response; `result` are the parts of its raw JSON."""
    return (BEFORE_ID + ident + BEFORE_RESULT, *result, b"}")


def success(ident: bytes, result: bytes | Raw) -> bytes:
    """A complete successful response. A join is faster than %-formatting, which copies a Raw twice."""
    length = length_value(_ENVELOPE_BYTES + len(ident) + len(result))
    return b"".join((_SUCCESS, length, _BODY_START, ident, BEFORE_RESULT, result, b"}"))


def whole_stream(message: bytes, extra: bytes = NO_EXTRA) -> bytes:
    """A complete response with an event stream of one message, without an event id."""
    message = one_line(message)
    length = str(_EVENT_BYTES + len(message)).encode()
    return b"".join((_WHOLE_STREAM, length, b"\r\n", extra, b"\r\nevent: message\ndata: ", message, b"\n\n"))


def error_body(rejection: Rejection) -> bytes:
    """Body of a rejection, a JSON-RPC error."""
    return jsonrpc.error(rejection.id, rejection.code, rejection.message, rejection.data)
