"""The trace that a request belongs to: W3C Trace Context, from its HTTP headers or its `_meta`, and on to the server.

Pure module. In MCP a trace travels in `params._meta` as `traceparent` and `tracestate` (SEP-414, OpenTelemetry semantic
conventions for MCP); HTTP clients that are traced as such send headers of the same names. `_meta` counts where both
are there. Nothing is passed on that is not of the form that the recommendation gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import jsonrpc

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"
_IN_META: Final = b'"traceparent"'
_PARENT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(rb"[\x20-\x7e]{1,512}")


class Trace(msgspec.Struct, frozen=True):
    """The caller's place in a trace, both as they go into a header; `state` may be empty."""

    parent: bytes
    state: bytes = b""

    @property
    def lines(self) -> bytes:
        """As lines of an HTTP head."""
        state = b"tracestate: %b\r\n" % self.state if self.state else b""
        return b"traceparent: %b\r\n%b" % (self.parent, state)


class _Meta(msgspec.Struct):
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


_decode_meta = msgspec.json.Decoder(_Meta).decode


def read_trace(parent: bytes | None, state: bytes | None, meta: Raw | None) -> Trace | None:
    """The trace of a request with these headers, or None, and this `_meta`; None for none of the proper form."""
    if meta is not None and _IN_META in bytes(meta):
        try:
            members = _decode_meta(meta)
        except jsonrpc.UNREADABLE:
            members = _Meta()
        if isinstance(members.traceparent, str):
            of_state = members.tracestate if isinstance(members.tracestate, str) else ""
            return _check(members.traceparent.encode(), of_state.encode())
    return None if parent is None else _check(parent, state or b"")


class TracePlace(msgspec.Struct, frozen=True):
    """A span by its ids, in hexadecimal digits."""

    trace_id: str
    span_id: str
    sampled: bool


def trace_id(parent: bytes, meta: Raw | None) -> str:
    """32 hexadecimal digits; empty for no trace."""
    ids = read_trace(parent or None, None, meta)
    return "" if ids is None else ids.parent[3:35].decode()


def trace_place(parent: bytes, meta: Raw | None) -> TracePlace | None:
    """The caller's span, of a request with this `traceparent` header, empty for none, and this `_meta`; None for no
    trace.
    """
    ids = read_trace(parent or None, None, meta)
    if ids is None:
        return None
    text = ids.parent.decode()
    return TracePlace(text[3:35], text[36:52], sampled=bool(int(text[53:55], 16) & 1))


def with_trace(params: jsonrpc.RawObject, trace: Trace) -> jsonrpc.RawObject:
    """Params whose `_meta` names the trace."""
    meta = params.get("_meta")
    members = {} if meta is None else jsonrpc.decode_object(meta)
    members["traceparent"] = Raw(b'"%b"' % trace.parent)
    if trace.state:
        members["tracestate"] = Raw(jsonrpc.encode(trace.state.decode()))
    else:
        members.pop("tracestate", None)
    return {**params, "_meta": Raw(jsonrpc.encode(members))}


def carry(params: jsonrpc.RawObject, headers: Mapping[bytes, bytes]) -> tuple[jsonrpc.RawObject, bytes]:
    """Params and lines of a head for the server of a request that came with a `traceparent` header; in `_meta`, where
    it names none itself.
    """
    meta = params.get("_meta")
    trace = read_trace(headers.get(TRACEPARENT), headers.get(TRACESTATE), meta)
    if trace is None:
        return params, b""
    told = meta is not None and _IN_META in bytes(meta)
    return params if told else with_trace(params, trace), trace.lines


def _check(parent: bytes, state: bytes) -> Trace | None:
    if _PARENT.fullmatch(parent) is None:
        return None
    return Trace(parent, state if _STATE.fullmatch(state) else b"")
