"""OpenTelemetry events of a process: log records with a name and attributes. This module does not load the SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec


class LogEvent(msgspec.Struct, frozen=True, gc=False):
    """An event. The creator has to limit the length of `body`."""

    name: str
    at: float
    """Seconds since the epoch."""
    body: str
    attributes: Mapping[str, str | int]
    warns: bool = False
    """Whether the severity is WARN; else it is INFO."""
    trace_id: str = ""
    """Hexadecimal trace id; empty outside of a trace."""
    span_id: str = ""
    sampled: bool = False
    """Whether the trace is sampled."""


EmitEvent = Callable[[LogEvent], None]
"""Queues an event for export; never blocks."""
