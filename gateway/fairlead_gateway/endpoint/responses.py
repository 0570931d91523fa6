"""HTTP responses as bytes.

Pure module. A prepared body is never copied behind its head (`tools/list` of a large catalog would cost ten times as
much), so responses are sequences of parts.
"""

from __future__ import annotations

import http
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.client_message import Rejection
from fairlead_mcp import jsonrpc

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE: Final = b"connection: close\r\n"
NO_EXTRA: Final = b""

_STATUS_LINES: Final[Mapping[int, bytes]] = MappingProxyType(
    {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in http.HTTPStatus}
)
_RESULT: Final = b'{"jsonrpc":"2.0","id":%b,"result":'
_FRAME: Final = len(_RESULT % b"" + b"}")
_LF: Final = 10
_CR: Final = 13
_SLICE: Final = 64 << 10
"""Bytes of a large part that are looked through at once."""
_EVENT: Final = b"event: message\ndata: "
_EVENT_END: Final = b"\n\n"
_EVENT_FRAME: Final = len(_EVENT + _EVENT_END)
_IDENT_FRAME: Final = _EVENT_FRAME + len(b"id: \n")
_WHOLE_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n"
    b"x-accel-buffering: no\r\ncontent-length: %d\r\n%b\r\n" + _EVENT
)
_ONE_EVENT: Final = _WHOLE_STREAM + b"%b\n\n"
_MESSAGE: Final = _RESULT + b"%b}"
_SUCCESS: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" + _RESULT + b"%b}"


def head(status: int, length: int, extra: bytes = NO_EXTRA) -> bytes:
    """Head of a JSON answer of `length` bytes. `extra` are whole header lines."""
    return b"%bcontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n" % (
        _STATUS_LINES[status],
        length,
        extra,
    )


def empty(status: int, extra: bytes = NO_EXTRA) -> bytes:
    """An answer without a body."""
    return b"%bcontent-length: 0\r\n%b\r\n" % (_STATUS_LINES[status], extra)


def stream_head(extra: bytes = NO_EXTRA) -> bytes:
    """Head of an event stream in chunks."""
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\n"
        b"x-accel-buffering: no\r\ntransfer-encoding: chunked\r\n%b\r\n" % extra
    )


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def one_line(message: bytes) -> bytes:
    """A JSON message without raw line breaks, which would end the field of an event."""
    # numbers are looked for, as `in` with bytes raises and drops a TypeError first: ten times the price
    if _LF in message or _CR in message:
        return message.replace(b"\r", b"").replace(b"\n", b"")  # in JSON only white space can be a bare line break
    return message


def event(message: bytes, ident: bytes | None = None) -> bytes:
    """One JSON-RPC message as a chunk that is one server-sent event. A message holds no raw line breaks after this."""
    message = one_line(message)
    if ident is None:
        return b"%x\r\nevent: message\ndata: %b\n\n\r\n" % (_EVENT_FRAME + len(message), message)
    length = _IDENT_FRAME + len(ident) + len(message)
    return b"%x\r\nid: %b\nevent: message\ndata: %b\n\n\r\n" % (length, ident, message)


END_OF_STREAM: Final = b"0\r\n\r\n"


def result_parts(ident: bytes, *result: bytes | Raw) -> tuple[bytes | Raw, ...]:
    """Body of a success, in parts; `result` is raw JSON, also in parts."""
    return (_RESULT % ident, *result, b"}")


def success(ident: bytes, result: bytes | Raw) -> bytes:
    """A whole answer in one step: `head` and `result_parts` at once."""
    return _SUCCESS % (_FRAME + len(ident) + len(result), ident, result)


def success_event(ident: bytes, result: bytes | Raw) -> bytes:
    """A whole answer that is an event stream of one message, which leaves nothing to resume."""
    message = one_line(_MESSAGE % (ident, result))
    return _ONE_EVENT % (_EVENT_FRAME + len(message), NO_EXTRA, message)


def event_parts(body: tuple[bytes | Raw, ...], extra: bytes = NO_EXTRA) -> tuple[bytes | Raw, ...]:
    """`success_event` of any message, in parts. A copy is made only of a message with raw line breaks."""
    length = 0
    for part in body:
        if _has_line_break(part):
            body = (one_line(b"".join(body)),)
            length = len(body[0])
            break
        length += len(part)
    return (_WHOLE_STREAM % (_EVENT_FRAME + length, extra), *body, _EVENT_END)


def _has_line_break(part: bytes | Raw) -> bool:
    if not isinstance(part, Raw):
        return _LF in part or _CR in part
    view = memoryview(part)  # which can only be looked through by number, one Python object for each byte
    for begin in range(0, len(view), _SLICE):
        piece = bytes(view[begin : begin + _SLICE])
        if _LF in piece or _CR in piece:
            return True
    return False


def error_body(rejection: Rejection) -> bytes:
    """A rejection as a JSON-RPC error."""
    return jsonrpc.error(rejection.id, rejection.code, rejection.message, rejection.data)
