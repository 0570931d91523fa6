"""Reads the trace context of a request (W3C Trace Context) and passes it on to the server.

Pure module. MCP requests have `traceparent` and `tracestate` in `params._meta` (SEP-414, OpenTelemetry semantic
conventions for MCP); traced HTTP clients send headers of the same names. `_meta` takes precedence over headers. Values
that do not conform to the recommendation are dropped.
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
_TRACEPARENT_MEMBER: Final = b'"traceparent"'
_META_MEMBER: Final = b'"_meta"'
_EMPTY_BYTES: Final = len(b"{}")
_PARENT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE: Final = re.compile(rb"[\x20-\x7e]{1,512}")


class Trace(msgspec.Struct, frozen=True):
    """Trace context of the caller: the values of the headers `traceparent` and `tracestate`; `state` may be empty."""

    parent: bytes
    state: bytes = b""

    @property
    def lines(self) -> bytes:
        """Header lines of the trace context."""
        state = b"tracestate: %b\r\n" % self.state if self.state else b""
        return b"traceparent: %b\r\n%b" % (self.parent, state)


class _Meta(msgspec.Struct):
    """Members of `_meta` that have the trace context."""

    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


_decode_meta = msgspec.json.Decoder(_Meta).decode


def read_trace(parent: bytes | None, state: bytes | None, meta: Raw | None) -> Trace | None:
    """Trace context of a request, from its headers and its `_meta`; None if the request has no valid trace context."""
    if meta is not None and _TRACEPARENT_MEMBER in bytes(meta):
        try:
            members = _decode_meta(meta)
        except jsonrpc.UNREADABLE:
            members = _Meta()
        if isinstance(members.traceparent, str):
            tracestate = members.tracestate if isinstance(members.tracestate, str) else ""
            return _check(members.traceparent.encode(), tracestate.encode())
    return None if parent is None else _check(parent, state or b"")


class CallerSpan(msgspec.Struct, frozen=True):
    """Hexadecimal ids of a caller's span."""

    trace_id: str
    span_id: str
    sampled: bool


def trace_id(parent: bytes, meta: Raw | None) -> str:
    """Trace id of a request, 32 hexadecimal digits; empty without a trace."""
    trace = read_trace(parent or None, None, meta)
    return "" if trace is None else trace.parent[3:35].decode()


def caller_span(parent: bytes, meta: Raw | None) -> CallerSpan | None:
    """Span of the caller of a request, from the request's `traceparent` header (empty if it is missing) and `_meta`;
    None without a trace.
    """
    trace = read_trace(parent or None, None, meta)
    if trace is None:
        return None
    text = trace.parent.decode()
    return CallerSpan(text[3:35], text[36:52], sampled=bool(int(text[53:55], 16) & 1))


def with_trace(params: jsonrpc.RawObject, trace: Trace) -> jsonrpc.RawObject:
    """Copy params and set the trace context in their `_meta`."""
    meta = params.get("_meta")
    members = {} if meta is None else jsonrpc.decode_object(meta)
    members["traceparent"] = Raw(b'"%b"' % trace.parent)
    if trace.state:
        members["tracestate"] = Raw(jsonrpc.encode(trace.state.decode()))
    else:
        members.pop("tracestate", None)
    return {**params, "_meta": Raw(jsonrpc.encode(members))}


def add_trace(params: bytes, trace: Trace) -> bytes:
    """Encoded params with the trace context in their `_meta`."""
    if params.find(_META_MEMBER) >= 0 or len(params) <= _EMPTY_BYTES:
        return jsonrpc.encode(with_trace(jsonrpc.decode_object(params), trace))
    state = b',"tracestate":%b' % jsonrpc.encode(trace.state.decode()) if trace.state else b""
    return b'%b,"_meta":{"traceparent":"%b"%b}}' % (params[:-1], trace.parent, state)


def pass_on(params: jsonrpc.RawObject, headers: Mapping[bytes, bytes]) -> tuple[jsonrpc.RawObject, bytes]:
    """Params and header lines that pass a request's trace context on to the server. The context is added to `_meta`,
    unless `_meta` already has it.
    """
    meta = params.get("_meta")
    trace = read_trace(headers.get(TRACEPARENT), headers.get(TRACESTATE), meta)
    if trace is None:
        return params, b""
    is_in_meta = meta is not None and _TRACEPARENT_MEMBER in bytes(meta)
    return params if is_in_meta else with_trace(params, trace), trace.lines


def _check(parent: bytes, state: bytes) -> Trace | None:
    if _PARENT.fullmatch(parent) is None:
        return None
    return Trace(parent, state if _STATE.fullmatch(state) else b"")
