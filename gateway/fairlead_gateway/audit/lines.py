"""Formats an entry of the audit log as its line.

Pure module, run in the log's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_gateway.audit.entry import AuditEntry, ModelUse
from fairlead_gateway.tracing.trace import trace_id
from fairlead_tools.names import tool_id

CALL: Final = "tools/call"
MAX_TOOLS: Final = 100
"""Calls of one request whose tools are named."""
MAX_NAME: Final = 256
"""Characters of a name that somebody made up."""

_encode = msgspec.json.Encoder().encode
Teller = Callable[[Raw], dict[str, Any]]


def line_of(entry: AuditEntry, tell: Teller) -> bytes:
    """One JSON object and a line feed. `tell` says what there is to say of arguments."""
    identity = entry.identity
    members: dict[str, Any] = {
        "time": when(entry.at),
        "event": _event(entry),
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
        members["tool" if entry.method == CALL else "name"] = _named(entry)
        members["server"] = None if entry.server is None else str(entry.server)
    members["outcome"] = entry.outcome or "ok"
    if entry.reason:
        members["reason"] = entry.reason
    if entry.status:
        members["status"] = entry.status
    elif not entry.administers:
        members["durationMs"] = round(entry.seconds * 1000, 3)
    if entry.model is None and not entry.status and not entry.administers:
        members["argumentsBytes"] = entry.arguments_bytes
        members["resultBytes"] = entry.result_bytes
    trace = trace_id(entry.traceparent, entry.meta)
    if trace:
        members["traceId"] = trace
    if entry.arguments is not None:
        members.update(tell(entry.arguments))
    return written(members)


def _event(entry: AuditEntry) -> str:
    if entry.administers:
        return "admin"
    return "request" if entry.status else "model" if entry.model is not None else "call"


def _model(use: ModelUse) -> dict[str, Any]:
    return {
        "provider": use.provider or None, "model": use.model[:MAX_NAME] or None, "rounds": use.rounds,
        "inputTokens": use.input_tokens, "outputTokens": use.output_tokens, "cachedTokens": use.cached_tokens,
        "tools": [name[:MAX_NAME] for name in use.tools[:MAX_TOOLS]],
    }  # fmt: skip


def _named(entry: AuditEntry) -> str | None:
    if entry.server is not None and entry.method == CALL:
        return tool_id(entry.server, entry.tool)
    return entry.tool[:MAX_NAME] or None


def lost_line(at: float, count: int) -> bytes:
    """The line that stands for lines that are missing."""
    return written({"time": when(at), "event": "lost", "count": count})


def written(members: dict[str, Any]) -> bytes:
    """Members that are None are left out."""
    return _encode({name: value for name, value in members.items() if value is not None}) + b"\n"


def when(at: float) -> str:
    """RFC 3339, in milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
