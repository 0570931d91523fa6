"""Encodes spans as OTLP's protobuf messages, without an object of the SDK for each span and attribute.

Pure module. The messages are those of opentelemetry-proto 1.x:
https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

SERVER: Final = b"\x30\x02"
"""Field `kind` of a span that serves a request."""
CLIENT: Final = b"\x30\x03"
"""Field `kind` of a span that sends a request."""
FAILED: Final = b"\x7a\x02\x18\x02"
"""Field `status` of a span that ended with an error."""
_FIXED: Final = struct.Struct("<2s16s2s8s1sQ1sQ2sI").pack
"""Fields with a fixed length: ids, start, end, flags."""
_HAS_IS_REMOTE: Final = 0x100
_IS_REMOTE: Final = 0x200
_INT64: Final = (1 << 64) - 1


def text_attribute(key: str, value: str) -> bytes:
    """Field `attributes` of a span with one text. Lone surrogates are replaced."""
    text = value.encode(errors="replace")
    return _field(b"\x4a", _field(b"\n", key.encode()) + _field(b"\x12", _field(b"\n", text)))


def number_attribute(key: str, value: int) -> bytes:
    """Field `attributes` of a span with one integer of 64 bits."""
    return _field(b"\x4a", _field(b"\n", key.encode()) + _field(b"\x12", b"\x18" + _varint(value & _INT64)))


def name_field(name: str) -> bytes:
    """Field `name` of a span. Lone surrogates are replaced."""
    return _field(b"\x2a", name.encode(errors="replace"))


def encode_span(
    trace_id: bytes,
    span_id: bytes,
    times_ns: tuple[int, int],
    fields: bytes,
    *,
    parent_id: bytes = b"",
    state: bytes = b"",
    remote: bool = False,
) -> bytes:
    """A span as a field of the message ScopeSpans.

    `times_ns` are its start and end in nanoseconds since the epoch, `fields` its encoded name, kind, attributes and
    status. `parent_id` is empty for the root of a trace; `remote` tells whether the parent is in another process.
    """
    flags = _HAS_IS_REMOTE | _IS_REMOTE if remote else _HAS_IS_REMOTE
    start, end = times_ns
    fixed_fields = _FIXED(b"\n\x10", trace_id, b"\x12\x08", span_id, b"\x39", start, b"\x41", end, b"\x85\x01", flags)
    parent = b'"\x08' + parent_id if parent_id else b""
    trace_state = _field(b"\x1a", state) if state else b""
    return _field(b"\x12", fixed_fields + parent + trace_state + fields)


def encode_request(resource: bytes, scope: bytes, spans: Iterable[bytes]) -> bytes:
    """The message ExportTraceServiceRequest with spans of one scope. `resource` and `scope` are the encoded messages
    ResourceSpans and ScopeSpans without spans, `spans` are fields that `encode_span` returned.
    """
    return _field(b"\n", resource + _field(b"\x12", scope + b"".join(spans)))


def _field(tag: bytes, body: bytes) -> bytes:
    """A field with a length."""
    return b"%b%b%b" % (tag, _varint(len(body)), body)


def _varint(value: int) -> bytes:
    """A non-negative integer with seven bits in each byte, the lowest first."""
    if value < 0x80:
        return _BYTES[value]
    if value < 0x4000:
        return _BYTES[value & 0x7F | 0x80] + _BYTES[value >> 7]
    return _BYTES[value & 0x7F | 0x80] + _varint(value >> 7)


_BYTES: Final = [bytes([value]) for value in range(256)]
