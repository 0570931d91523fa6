"""The state document: what was measured of the tools of up to 100 servers, and what was decided from it.

Small and written often, so it is apart from the catalogs, which are large and rarely change.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format

STATE: Final = "state"
SERVERS_PER_STATE: Final = 100
DEGRADED: Final = "Degraded"
"""State of a tool that cannot be relied upon."""


class Quantiles(DocumentStruct, kw_only=True, frozen=True):
    """Upstream durations of successful attempts in the window, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    samples: int


class Health(DocumentStruct, kw_only=True, frozen=True):
    """How far a tool can be relied upon."""

    score: int = 100
    """0 (always bad) to 100 (always good)."""
    state: str = "Healthy"
    reason: str | None = None


class ToolState(DocumentStruct, kw_only=True, frozen=True):
    """One tool in one environment."""

    name: str
    environment: str = "cluster"
    quantiles: Quantiles | None = None
    measured_at: str = ""
    """RFC 3339, of the last call behind the quantiles when this was written; empty where it is not known."""
    bimodal: bool = False
    health: Health = Health()
    tiers: tuple[str, ...] | None = None
    """Names of the tiers that the tool fits; None while nothing has been decided, which counts as every tier."""
    hidden: dict[str, str] = msgspec.field(default_factory=dict)
    """Tier name to the reason why the tool is not in it."""
    fits: dict[str, str] = msgspec.field(default_factory=dict)
    """Tier name to the reason why the tool is in it, for tiers with a limit."""
    points: dict[str, int] = msgspec.field(default_factory=dict)
    """Tier name to the score of late calls, from which an operator that starts again goes on."""


class ServerState(DocumentStruct, kw_only=True, frozen=True):
    """The tools of one server."""

    namespace: str
    name: str
    tools: tuple[ToolState, ...] = ()
    round_trip_ms: dict[str, float] = msgspec.field(default_factory=dict)
    """Environment to the milliseconds of a request to the server that calls no tool, as the operator sees it: what of
    a call is the network's.
    """


class State(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=STATE):
    """Measurements and decisions for up to `SERVERS_PER_STATE` servers."""

    version: int = msgspec.field(default_factory=current_format)
    shard: int = 0
    servers: tuple[ServerState, ...] = ()
    decided_at: str = ""
    """RFC 3339; its age is a metric with an alert."""
