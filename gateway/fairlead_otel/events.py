"""Events of a process as OpenTelemetry has them: log records with a name and attributes. Loads nothing of its SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec


class LogEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `body` is text whose length its maker bounds."""

    name: str
    at: float
    """Seconds since the epoch."""
    body: str
    attributes: Mapping[str, str | int]
    warns: bool = False
    """Whether its severity is WARN; INFO otherwise."""
    trace_id: str = ""
    """Hexadecimal digits; empty outside of a trace."""
    span_id: str = ""
    sampled: bool = False


EmitEvent = Callable[[LogEvent], None]
"""Queues an event for its collector; never blocks."""
