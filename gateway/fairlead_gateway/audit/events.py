"""Converts entries of the audit log to events for an OpenTelemetry collector.

Pure module that runs in the audit log's thread. The body of an event is the line that is written for the entry, so an
event has no data that lines leave out or redact. Attributes, for searches, have the names of span attributes.
"""

from __future__ import annotations

from typing import Final

from fairlead_gateway.audit.entry import ALLOWED, AuditEntry
from fairlead_gateway.audit.lines import CALL, MAX_NAME, trace_of
from fairlead_otel.events import LogEvent

NAME: Final = "fairlead.audit"
"""Prefix of event names, which end with `.call`, `.model`, `.request`, `.admin` or `.grant`."""
SEQUENCE: Final = "fairlead.audit.sequence"
"""Attribute with the number of the entry in its process, from 1. A missing number means that an entry was lost."""


def event_of(entry: AuditEntry, line: bytes, number: int) -> LogEvent:
    """Event for the entry whose formatted line is `line`; `number` counts entries of the process from 1."""
    caller_span = trace_of(entry)
    return LogEvent(
        f"{NAME}.{entry.event}",
        entry.at,
        line.rstrip(b"\n").decode(),
        _attributes(entry, number),
        entry.decision != ALLOWED,
        *(("", "") if caller_span is None else (caller_span.trace_id, caller_span.span_id)),
        sampled=caller_span is not None and caller_span.sampled,
    )


def _attributes(entry: AuditEntry, number: int) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        SEQUENCE: number,
        "fairlead.audit.decision": entry.decision,
        "fairlead.principal": entry.identity.principal,
        "fairlead.agent": entry.identity.agent or "",
        "client.address": entry.address,
        "fairlead.audit.reason": entry.reason,
    }
    if entry.model is not None:
        attributes["url.path"] = entry.method[:MAX_NAME]
        attributes["gen_ai.provider.name"] = entry.model.provider
        attributes["gen_ai.request.model"] = entry.model.model[:MAX_NAME]
    elif entry.status:
        attributes["http.response.status_code"] = entry.status
    else:
        attributes["mcp.method.name"] = entry.method
        attributes["gen_ai.tool.name" if entry.method == CALL else "fairlead.name"] = entry.tool[:MAX_NAME]
        attributes["fairlead.server"] = "" if entry.server is None else str(entry.server)
    if not entry.status:
        attributes["error.type"] = entry.outcome
    if entry.times:
        attributes["fairlead.audit.times"] = entry.times
    return {name: value for name, value in attributes.items() if value}
