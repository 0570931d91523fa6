"""Members of the lines of the audit log."""

from __future__ import annotations

import msgspec


class LineMembers(msgspec.Struct, omit_defaults=True, rename="camel", gc=False):
    """Members of a line, in their order; members that are None are left out. A Struct is encoded in half the time of a
    dict.
    """

    time: str | None
    event: str | None
    decision: str | None
    principal: str | None
    agent: str | None = None
    kind: str | None = None
    client: str | None = None
    method: str | None = None
    provider: str | None = None
    model: str | None = None
    rounds: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    tools: list[str] | None = None
    tool: str | None = None
    name: str | None = None
    server: str | None = None
    outcome: str | None = None
    reason: str | None = None
    status: int | None = None
    times: int | None = None
    duration_ms: float | None = None
    arguments_bytes: int | None = None
    result_bytes: int | None = None
    trace_id: str | None = None
