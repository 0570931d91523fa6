"""Formats entries of the audit log as lines of JSON.

Pure module that runs in the audit log's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_gateway.audit.entry import AuditEntry, ModelUse
from fairlead_gateway.tracing.trace import TracePlace, trace_place
from fairlead_tools.names import tool_id

CALL: Final = "tools/call"
MAX_TOOLS: Final = 100
"""Maximum number of tool names in the line of one request to an LLM endpoint."""
MAX_NAME: Final = 256
"""Maximum number of characters in a line of a name that the caller chose freely."""

_encode = msgspec.json.Encoder().encode
RenderArguments = Callable[[Raw], dict[str, Any]]


def line_of(entry: AuditEntry, render_arguments: RenderArguments) -> bytes:
    """Format an entry as one JSON object and a line feed. `render_arguments` returns the members for raw arguments."""
    identity = entry.identity
    members: dict[str, Any] = {
        "time": format_time(entry.at),
        "event": entry.event,
        "decision": entry.decision,
        "principal": identity.principal,
        "agent": identity.agent,
        "kind": identity.kind,
        "client": entry.address,
        "method": entry.method,
    }
    if entry.model is not None:
        members.update(_model(entry.model))
    else:
        members["tool" if entry.method == CALL else "name"] = _name_of(entry)
        members["server"] = None if entry.server is None else str(entry.server)
    members["outcome"] = entry.outcome or "ok"
    if entry.reason:
        members["reason"] = entry.reason
    if entry.status:
        members["status"] = entry.status
    if entry.times:
        members["times"] = entry.times
        return encode_line(members)
    if not entry.status and not entry.administers:
        members["durationMs"] = round(entry.seconds * 1000, 3)
    if entry.model is None and not (entry.status or entry.administers or entry.grants):
        members["argumentsBytes"] = entry.arguments_bytes
        members["resultBytes"] = entry.result_bytes
    trace = trace_of(entry)
    if trace is not None:
        members["traceId"] = trace.trace_id
    if entry.arguments is not None:
        members.update(render_arguments(entry.arguments))
    return encode_line(members)


def trace_of(entry: AuditEntry) -> TracePlace | None:
    """Span of the call, or else the client's span from the trace context of the request; None outside of a trace."""
    if entry.span is not None:
        return TracePlace(entry.span.trace_id, entry.span.span_id, sampled=True)
    return trace_place(entry.traceparent, entry.meta)


def _model(use: ModelUse) -> dict[str, Any]:
    return {
        "provider": use.provider or None,
        "model": use.model[:MAX_NAME] or None,
        "rounds": use.rounds,
        "inputTokens": use.input_tokens,
        "outputTokens": use.output_tokens,
        "cachedTokens": use.cached_tokens,
        "tools": [name[:MAX_NAME] for name in use.tools[:MAX_TOOLS]],
    }


def _name_of(entry: AuditEntry) -> str | None:
    if entry.server is not None and entry.method == CALL:
        return tool_id(entry.server, entry.tool)
    return entry.tool[:MAX_NAME] or None


def lost_line(at: float, count: int) -> bytes:
    """Line that reports `count` lost lines."""
    return encode_line({"time": format_time(at), "event": "lost", "count": count})


def encode_line(members: dict[str, Any]) -> bytes:
    """Encode members as a line of JSON; members that are None are left out."""
    return _encode({name: value for name, value in members.items() if value is not None}) + b"\n"


def format_time(at: float) -> str:
    """Format seconds since the epoch as RFC 3339 with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
