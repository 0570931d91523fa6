"""The state document: measurements of the tools of up to 100 servers, and the tiers that result from them.

A state document is small and written often. It is therefore separate from the catalogs, which are large and rarely
change.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.documents.base import DocumentStruct, current_format

STATE: Final = "state"
SERVERS_PER_STATE: Final = 100
DEGRADED: Final = "Degraded"
"""State of a tool that fails often."""


class Quantiles(DocumentStruct, kw_only=True, frozen=True):
    """Quantiles of the upstream durations of a tool's last successful attempts, at most 100, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    samples: int
    """Number of these attempts."""


class Health(DocumentStruct, kw_only=True, frozen=True):
    """Reliability of a tool."""

    score: int = 100
    """0 (all attempts fail) to 100 (all attempts succeed)."""
    state: str = "Healthy"
    reason: str | None = None


class ToolState(DocumentStruct, kw_only=True, frozen=True):
    """Measurements of one tool in one environment."""

    name: str
    environment: str = "cluster"
    quantiles: Quantiles | None = None
    measured_at: str = ""
    """Time in RFC 3339 of the last call that the quantiles include; empty if unknown."""
    bimodal: bool = False
    """Whether the durations have two separate peaks, such as with and without a cache hit."""
    health: Health = Health()
    tiers: tuple[str, ...] | None = None
    """Names of the tiers that show the tool; None, before the first decision, stands for all tiers."""
    hidden: dict[str, str] = msgspec.field(default_factory=dict)
    """Tier name to the reason why the tier does not show the tool."""
    fits: dict[str, str] = msgspec.field(default_factory=dict)
    """Tier name to the reason why the tier shows the tool, for tiers with a limit."""
    points: dict[str, int] = msgspec.field(default_factory=dict)
    """Tier name to the score of late calls, from which a restarted operator continues."""


class ServerState(DocumentStruct, kw_only=True, frozen=True):
    """The tools of one server."""

    namespace: str
    name: str
    tools: tuple[ToolState, ...] = ()
    round_trip_ms: dict[str, float] = msgspec.field(default_factory=dict)
    """Environment to the round-trip time from the operator to the server in milliseconds, without a tool call: the
    network's share of a call.
    """


class State(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=STATE):
    """Measurements and decisions for up to `SERVERS_PER_STATE` servers."""

    version: int = msgspec.field(default_factory=current_format)
    shard: int = 0
    """Number of this document among the state documents of the installation, from 0."""
    servers: tuple[ServerState, ...] = ()
    decided_at: str = ""
    """Time of the last decision in RFC 3339. Its age is a metric with an alert."""
