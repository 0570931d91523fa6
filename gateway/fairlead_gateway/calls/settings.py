"""Settings of calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import Count, Seconds, SecondsOrZero
from fairlead_gateway.custom.settings import CustomToolSettings


class CallSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Settings of tool calls."""

    timeout: Seconds = field(default=60.0, name="call_timeout")
    """Timeout of a call in seconds; a tool or its server may set a shorter one."""
    start_wait: SecondsOrZero = 10.0
    """Seconds for which a request waits for a starting server before it is refused; a tier may set fewer."""
    max_result_bytes: Count = 16 << 20
    """Limit on the bytes of one result; a server may set a lower one."""
    answer_bytes: Annotated[int, Meta(ge=0)] = 256 << 20
    """Memory limit in bytes for large answers: half for answers arriving from servers, half for answers not yet read by
    clients. Beyond it, reading from servers pauses, and new requests are answered with status 503. 0 sets no limit.
    """
    answer_bytes_each: Annotated[int, Meta(ge=0)] = 64 << 20
    """Memory limit in bytes for the answers of one agent, or of one address without authentication. Beyond it, the
    agent's requests are answered with status 429. 0 sets no limit.
    """
    validate: bool = True
    """Whether arguments are checked against a tool's `inputSchema`, and results against its `outputSchema`."""
    meta_latency: bool = False
    """Whether `tools/list` has each tool's declared and measured latency in `_meta`. The list then changes with each
    published latency, which invalidates the caches of clients and model providers.
    """
    result_cache_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """Size in bytes of the cache for results of tools with `latency.cacheable`; 0 disables it."""
    open_tasks: Annotated[int, Meta(ge=0)] = 256
    """Limit on the open tasks (SEP-2663) of one agent, counted by each replica; 0 sets no limit. Beyond it, calls are
    made without tasks: a tool with optional tasks answers directly, a tool that requires them is refused with
    `RATE_LIMITED`.
    """
    cancel_abandoned: bool = False
    """Whether a call is cancelled at the server when a client of 2025-11-25 or earlier closes its connection. The call
    is cancelled at once if its stream cannot be resumed, otherwise after 60 s without the client. Off by default, as
    that revision of MCP requires; from 2026-07-28 on, a closed connection always cancels.
    """
    custom: CustomToolSettings = CustomToolSettings()
