"""Settings of calls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.setting_types import Count, OptionalSeconds, Seconds
from fairlead_gateway.custom.settings import CustomToolSettings


class CallSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Calls of tools."""

    timeout: Seconds = field(default=60.0, name="call_timeout")
    """Seconds for a call, where neither the tool nor its server sets less."""
    start_wait: OptionalSeconds = 10.0
    """How long a request waits for a server that starts before it is told so; a tier may say less."""
    max_result_bytes: Count = 16 << 20
    """Bytes of one result, where the server sets less."""
    answer_bytes: Annotated[int, Meta(ge=0)] = 256 << 20
    """Bytes of large answers at once: half of them on their way from servers, half not read by clients. Beyond that
    servers are not read, and new requests are answered with status 503. 0 takes any number.
    """
    answer_bytes_each: Annotated[int, Meta(ge=0)] = 64 << 20
    """Bytes of answers of one agent, or of one address where nobody is asked who they are; its requests beyond that
    are answered with status 429. 0 takes any number.
    """
    validate: bool = True
    """Whether arguments are checked against a tool's `inputSchema`, and results against its `outputSchema`."""
    meta_latency: bool = False
    """Whether `tools/list` has each tool's declared and measured latency in its `_meta`. With it a list changes when a
    published figure does, and with the list what clients and model providers keep of it.
    """
    result_cache_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    """For results of tools with `latency.cacheable`; 0 keeps none."""
    open_tasks: Annotated[int, Meta(ge=0)] = 256
    """Tasks (SEP-2663) that one caller may have open, as each replica counts them; 0 takes any number. Further calls
    are made without them: a tool that can do without answers as ever, one that cannot is refused with `RATE_LIMITED`.
    """
    cancel_abandoned: bool = False
    """Whether the call of a client of 2025-11-25 or before that closes its connection is cancelled at the server: at
    once where the client has no event to resume its stream from, else after 60 s without the client. Off by default,
    as that revision of MCP asks; from 2026-07-28 on a closed connection cancels in any case.
    """
    custom: CustomToolSettings = CustomToolSettings()
