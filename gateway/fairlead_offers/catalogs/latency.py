"""Latency of a tool in the REST API: declared, measured, and its place in each tier."""

from __future__ import annotations

import msgspec

from fairlead_api.documents.state import Quantiles, ToolState
from fairlead_gateway.core.server import Tool

_UNKNOWN = ToolState(name="")


class LatencyDocument(msgspec.Struct, frozen=True):
    """Under the names by which tools declare it; times in milliseconds, null where nothing is known."""

    estimated_duration_ms: int | None
    """Declared median."""
    max_duration_ms: int | None
    """Declared upper bound; a call is cut off here."""
    measured_duration_ms: int | None
    """Median of the last calls, up to 100, probes among them. Takes the place of what is declared."""
    measured_p99_ms: int | None
    measured_at: str | None
    """RFC 3339, of the last call behind what was measured; up to an hour earlier where calls go on."""
    idempotent: bool
    """Whether a call may be made again without harm."""
    cacheable_seconds: int
    """How long a result answers equal calls; 0: never."""


class HealthDocument(msgspec.Struct, frozen=True):
    """How far a tool can be relied upon."""

    score: int
    """0 (always bad) to 100 (always good)."""
    state: str
    reason: str | None


class MeasuredDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Measurements that decide about tiers."""

    quantiles: Quantiles | None
    """Quantiles of the last successful calls; null before the first."""
    bimodal: bool
    """Its durations form two heaps, so that every tier judges it by p95."""
    health: HealthDocument
    round_trip_ms: float | None
    """Duration of a request to its server that calls no tool, as the operator measures it: the network's part."""


def latency_of(tool: Tool, state: ToolState | None) -> LatencyDocument:
    """The fields of one tool."""
    quantiles = state.quantiles if state is not None else None
    return LatencyDocument(
        estimated_duration_ms=tool.estimated_duration_ms,
        max_duration_ms=tool.max_duration_ms,
        measured_duration_ms=round(quantiles.p50_ms) if quantiles else None,
        measured_p99_ms=round(quantiles.p99_ms) if quantiles else None,
        measured_at=measured_at(state),
        idempotent=tool.idempotent,
        cacheable_seconds=tool.cacheable_seconds,
    )


def measured_at(state: ToolState | None) -> str | None:
    """Time of the last call behind the figures, RFC 3339; None where nothing was measured, or the time is not known."""
    return (state.measured_at or None) if state is not None and state.quantiles is not None else None


def measured_of(state: ToolState | None, round_trip_ms: float | None) -> MeasuredDocument:
    """Measurements of one tool; nulls where there are none."""
    measured = state or _UNKNOWN
    health = HealthDocument(measured.health.score, measured.health.state, measured.health.reason)
    return MeasuredDocument(measured.quantiles, measured.bimodal, health, round_trip_ms)
