"""Latency of a tool in the REST API: declared and measured durations, and the measurements by which tiers show or hide
the tool."""

from __future__ import annotations

import msgspec

from fairlead_api.documents.state import Quantiles, ToolState
from fairlead_gateway.core.server import Tool

_UNKNOWN = ToolState(name="")


class LatencyDocument(msgspec.Struct, frozen=True):
    """Declared and measured latency of a tool, with the member names that tools use to declare it. Times are in
    milliseconds; null means unknown.
    """

    estimated_duration_ms: int | None
    """Declared median duration of a call."""
    max_duration_ms: int | None
    """Declared maximum duration, after which a call is cancelled."""
    measured_duration_ms: int | None
    """Measured median of the last calls, at most 100, including probes. It replaces the declared median."""
    measured_p99_ms: int | None
    """Measured 99th percentile of the same calls."""
    measured_at: str | None
    """Time of the last measured call (RFC 3339). May be up to an hour old while the tool is called."""
    idempotent: bool
    """Whether a call may be repeated without harm."""
    cacheable_seconds: int
    """Seconds for which a result may be cached for equal calls; 0: never."""


class HealthDocument(msgspec.Struct, frozen=True):
    """Reliability of a tool."""

    score: int
    """Score from 0 (all attempts fail) to 100 (all attempts succeed)."""
    state: str
    """State in one word, such as `Healthy`."""
    reason: str | None
    """Reason of a state other than `Healthy`."""


class MeasuredDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Measurements by which tiers show or hide a tool."""

    quantiles: Quantiles | None
    """Quantiles of the last successful calls; null before the first such call."""
    bimodal: bool
    """Whether the durations form two clusters. If so, all tiers judge the tool by its p95."""
    health: HealthDocument
    round_trip_ms: float | None
    """Duration of a request to the server that calls no tool, measured by the operator: the network's share."""


def latency_of(tool: Tool, state: ToolState | None) -> LatencyDocument:
    """Latency document of one tool."""
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
    """Time of the last measured call (RFC 3339); None if nothing was measured, or the time is unknown."""
    return (state.measured_at or None) if state is not None and state.quantiles is not None else None


def measurements_of(state: ToolState | None, round_trip_ms: float | None) -> MeasuredDocument:
    """Measurements of one tool. Values that were not measured are null."""
    known_state = state or _UNKNOWN
    health = HealthDocument(known_state.health.score, known_state.health.state, known_state.health.reason)
    return MeasuredDocument(known_state.quantiles, known_state.bimodal, health, round_trip_ms)
