"""Messages of `application/vnd.amazon.eventstream`: parser of a provider's stream, and writer for clients. Pure module.

Source: Amazon event stream specification (Smithy). A message consists of its total length, the length of its headers, a
CRC-32 of these two lengths, the headers, the payload, and a CRC-32 of everything before. Converse uses string headers
only: `:message-type` is `event`, `exception` or `error`. This module exists because botocore, which has a parser,
cannot be installed beside the Kubernetes client (each needs another `python-dateutil`), and because the Python API of
the AWS Common Runtime has no parser.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire.protocol import BadStream
from fairlead_mcp.errors import TooLarge

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_STRING_TYPE: Final = 7
_FIXED_SIZES: Final[Mapping[int, int]] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Length in bytes of header values, by type, for the types with a fixed length."""
_TYPES_WITH_LENGTH: Final = (6, _STRING_TYPE)
"""Types of header values that begin with their length: byte arrays and strings."""
_encode: Final = msgspec.json.Encoder().encode


class EventMessage(msgspec.Struct, frozen=True):
    """One event of a provider's stream, as JSON."""

    data: bytes


class EventStreamParser:
    """Incremental parser of one stream. Each message becomes a JSON object with the event's name as its only member,
    such as `{"messageStop": {"stopReason": "end_turn"}}`.
    """

    def __init__(self, max_event: int) -> None:
        """`max_event`: maximum bytes of a message."""
        self._max_event = max_event
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[EventMessage]:
        """Parse a chunk and return the events that it completes. Raises TooLarge, BadStream."""
        self._buffer += chunk
        events: list[EventMessage] = []
        while len(self._buffer) >= _PRELUDE.size:
            total, headers, crc = _PRELUDE.unpack_from(self._buffer)
            if zlib.crc32(self._buffer[:8]) != crc or total < headers + _PRELUDE.size + _CRC.size:
                raise BadStream("the provider's stream is damaged: the checksum of a message's head is wrong")
            if total > self._max_event:
                raise TooLarge(f"an event of the stream exceeds {self._max_event} bytes")
            if len(self._buffer) < total:
                break
            message = bytes(self._buffer[:total])
            del self._buffer[:total]
            events.append(EventMessage(_data(message, headers)))
        return events


def _data(message: bytes, headers_length: int) -> bytes:
    """The event in a complete message as JSON."""
    end = len(message) - _CRC.size
    if zlib.crc32(message[:end]) != _CRC.unpack_from(message, end)[0]:
        raise BadStream("the provider's stream is damaged: the checksum of a message is wrong")
    start = _PRELUDE.size + headers_length
    headers = _headers(message[_PRELUDE.size : start])
    kind = headers.get(":message-type", "event")
    if kind == "error":
        error = {"code": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
        return _encode({"error": error})
    name = headers.get(":exception-type" if kind == "exception" else ":event-type", "")
    return b"{%s:%s}" % (_encode(name), message[start:end] or b"{}")


def _headers(raw: bytes) -> dict[str, str]:
    """Headers with string values, by name."""
    headers: dict[str, str] = {}
    offset = 0
    try:
        while offset < len(raw):
            name = raw[offset + 1 : offset + 1 + raw[offset]].decode()
            offset += 1 + raw[offset]
            kind = raw[offset]
            offset += 1
            size = _FIXED_SIZES.get(kind, 0)
            if kind in _TYPES_WITH_LENGTH:
                size = _LENGTH.unpack_from(raw, offset)[0]
                offset += _LENGTH.size
            elif kind not in _FIXED_SIZES:
                raise BadStream(f"the provider's stream has a header of the unknown type {kind}")
            if kind == _STRING_TYPE:
                headers[name] = raw[offset : offset + size].decode()
            offset += size
        if offset > len(raw):
            raise IndexError
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise BadStream("the provider's stream has a message whose headers are cut") from error
    return headers


def write_message(name: str, payload: bytes | Raw, message_type: str = "event") -> bytes:
    """A message with a JSON payload. `message_type`: `event` or `exception`."""
    headers = b"".join(
        _write_header(header, value)
        for header, value in (
            (":exception-type" if message_type == "exception" else ":event-type", name),
            (":content-type", "application/json"),
            (":message-type", message_type),
        )
    )
    body = bytes(payload)
    lengths = struct.pack(">II", _PRELUDE.size + len(headers) + len(body) + _CRC.size, len(headers))
    message = lengths + _CRC.pack(zlib.crc32(lengths)) + headers + body
    return message + _CRC.pack(zlib.crc32(message))


def _write_header(name: str, value: str) -> bytes:
    encoded, text = name.encode(), value.encode()
    return bytes((len(encoded),)) + encoded + bytes((_STRING_TYPE,)) + _LENGTH.pack(len(text)) + text
