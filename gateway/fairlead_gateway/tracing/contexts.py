"""Trace contexts of requests, as `tracing.trace` reads them."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Trace(msgspec.Struct, frozen=True):
    """Trace context of the caller: the values of the headers `traceparent` and `tracestate`; `state` may be empty."""

    parent: bytes
    state: bytes = b""

    @property
    def lines(self) -> bytes:
        """Header lines of the trace context."""
        state = b"tracestate: %b\r\n" % self.state if self.state else b""
        return b"traceparent: %b\r\n%b" % (self.parent, state)


class TraceMembers(msgspec.Struct):
    """Members of `_meta` that have the trace context."""

    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


class TracePlace(msgspec.Struct, frozen=True):
    """Span of a caller by its hexadecimal ids."""

    trace_id: str
    span_id: str
    sampled: bool
