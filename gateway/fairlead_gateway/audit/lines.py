"""Formats entries of the audit log as lines of JSON.

Pure module that runs in the audit log's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.audit.entry import AuditEntry, ModelUse
from fairlead_gateway.audit.line_members import LineMembers
from fairlead_gateway.tracing.trace import CallerSpan, caller_span
from fairlead_tools.names import tool_id

CALL: Final = "tools/call"
MAX_TOOLS: Final = 100
"""Maximum number of tool names in the line of one request to an LLM endpoint."""
MAX_NAME: Final = 256
"""Maximum number of characters in a line of a name that the caller chose freely."""

_encode: Final = msgspec.json.Encoder().encode
RenderArguments = Callable[[Raw], dict[str, Any]]
_SECONDS_END: Final = len("2026-01-01T00:00:00")
_CACHED_TARGETS: Final = 1024
"""Maximum number of tools whose names in lines are cached."""


def line_of(entry: AuditEntry, render_arguments: RenderArguments) -> bytes:
    """Format an entry as one JSON object and a line feed. `render_arguments` returns the members for raw arguments."""
    identity, server, method, is_sum = entry.identity, entry.server, entry.method, entry.times > 0
    use, tool, name = entry.model, None, None
    has_duration = not (entry.status or entry.administers or is_sum)
    has_sizes = has_duration and use is None and not entry.grants
    trace = None if is_sum else trace_of(entry)
    if use is not None:
        server_name = None
    elif server is not None and method == CALL:
        tool, server_name = _tool_names(server, entry.tool)
    else:
        server_name = None if server is None else str(server)
        tool, name = (entry.tool[:MAX_NAME] or None, None) if method == CALL else (None, entry.tool[:MAX_NAME] or None)
    line = LineMembers(  # with more keywords Python would make a dict of them first
        format_time(entry.at),
        entry.event,
        entry.decision,
        identity.principal,
        identity.agent,
        identity.kind,
        entry.address,
        method,
        tool=tool,
        name=name,
        server=server_name,
        outcome=entry.outcome or "ok",
        reason=entry.reason or None,
        status=entry.status or None,
        times=entry.times or None,
        duration_ms=int(entry.seconds * 1_000_000 + 0.5) / 1000 if has_duration else None,
        arguments_bytes=entry.arguments_bytes if has_sizes else None,
        result_bytes=entry.result_bytes if has_sizes else None,
        trace_id=None if trace is None else trace.trace_id,
    )
    if use is not None:
        _add_model(line, use)
    if entry.arguments is None or is_sum:
        return _encode(line) + b"\n"
    arguments = {name: value for name, value in render_arguments(entry.arguments).items() if value is not None}
    return (_encode(line)[:-1] + b"," + _encode(arguments)[1:] if arguments else _encode(line)) + b"\n"


def trace_of(entry: AuditEntry) -> CallerSpan | None:
    """Span of the call, or else the client's span from the trace context of the request; None outside of a trace."""
    if entry.span is not None:
        return CallerSpan(entry.span.trace_id, entry.span.span_id, sampled=True)
    return caller_span(entry.traceparent, entry.meta)


def _add_model(line: LineMembers, use: ModelUse) -> None:
    line.provider = use.provider or None
    line.model = use.model[:MAX_NAME] or None
    line.rounds = use.rounds
    line.input_tokens = use.input_tokens
    line.output_tokens = use.output_tokens
    line.cached_tokens = use.cached_tokens
    line.tools = [name[:MAX_NAME] for name in use.tools[:MAX_TOOLS]]


@lru_cache(_CACHED_TARGETS)
def _tool_names(server: ServerKey, tool: str) -> tuple[str, str]:
    """Id of a tool, and its server, as lines have them."""
    return tool_id(server, tool), str(server)


def lost_line(at: float, count: int) -> bytes:
    """Line that reports `count` lost lines."""
    return _encode({"time": format_time(at), "event": "lost", "count": count}) + b"\n"


def format_time(at: float) -> str:
    """Format seconds since the epoch as RFC 3339 with milliseconds."""
    second, microsecond = divmod(int(at * 1_000_000 + 0.5), 1_000_000)
    return f"{_format_second(second)}.{str(microsecond // 1000 + 1000)[1:]}Z"


@lru_cache(2)
def _format_second(second: int) -> str:
    """Date and time of a second since the epoch. Cached, because it takes a quarter of the time of a line."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:_SECONDS_END]
