"""`GET /v1/tools/{name}/explain`: why a tool is, or is not, in each latency tier."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor
from fairlead_formats.names import did_you_mean
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.policy.tiers import by_speed, why_hidden
from fairlead_offers.catalogs.latency import LatencyDocument, MeasuredDocument, latency_of, measured_of
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import unknown_tool
from fairlead_rest.context import RestContext
from fairlead_rest.openapi import describe_route
from fairlead_tools.names import tool_id

EXAMPLE: Final[dict[str, Any]] = {
    "a tool that is too slow for one tier": {
        "id": "mcp.demo.forecast",
        "name": "demo__forecast",
        "server": "default/demo",
        "latency": {
            "estimated_duration_ms": 300,
            "max_duration_ms": None,
            "measured_duration_ms": 640,
            "measured_p99_ms": 812,
            "measured_at": "2026-01-31T08:59:58Z",
            "idempotent": True,
            "cacheable_seconds": 0,
        },
        "measured": {
            "quantiles": {"p50Ms": 640.1, "p90Ms": 790.3, "p95Ms": 811.9, "p99Ms": 811.9, "samples": 5},
            "bimodal": False,
            "health": {"score": 100, "state": "Healthy", "reason": None},
            "roundTripMs": 2.4,
        },
        "minTier": None,
        "noCallsBy": None,
        "tiers": [
            {
                "tier": "fast",
                "shown": False,
                "reason": "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time",
            },
            {"tier": "standard", "shown": True, "reason": "fits p95=812ms tier=1500ms late=0/5 hides-at=5 points=0/30"},
        ],
        "decidedAt": "2026-01-31T09:00:00.000Z",
    }
}


class TierVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """One tier's decision about a tool."""

    tier: str
    shown: bool
    reason: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that decided about one tool, of any tier."""

    id: str
    name: str
    server: str
    latency: LatencyDocument
    measured: MeasuredDocument
    min_tier: str | None
    """The fastest tier that may show it to this caller, however fast it is; null: any."""
    no_calls_by: str | None
    """ToolPolicy whose `limits.callsPerMinute: 0` leaves this caller no calls; null: none does."""
    tiers: list[TierVerdict]
    """The fastest first."""
    decided_at: str
    """RFC 3339, of the oldest decision; empty while nothing was measured."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/tools/{name}/explain`, to be included before `/v1/tools/{name}`."""
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get(
        "/tools/{name:path}/explain",
        **describe_route("Explain why a tool is in which tiers, by name or id", Explanation, EXAMPLE),
    )
    async def explain_tool(request: Request, name: str) -> Response:
        return await context.answer_when_ready(request, lambda seen: explained(seen, name))

    return routes


def explained(seen: SubjectCatalog, name: str) -> Explanation:
    """The explanation of a tool that some tier shows or hides. Raises Problem for any other."""
    snapshot = seen.snapshot
    exposed, server, tool = _find_tool(snapshot, seen.view(None).everything, name)
    state, shown = snapshot.states.get(server.key, {}).get(tool.name), seen.tiers
    floor = seen.floor(tool)
    quota = seen.decision(server.key, tool.name).quota
    return Explanation(
        id=tool_id(server.key, tool.name),
        name=exposed,
        server=str(server.key),
        latency=latency_of(tool, state),
        measured=measured_of(state, snapshot.round_trips.get(server.key)),
        min_tier=None if floor is None else floor.tier,
        no_calls_by=None if quota is None else quota.no_calls_by,
        tiers=[_verdict(tier, tool, state, floor) for tier in by_speed(snapshot.rules.tiers) if tier.name in shown],
        decided_at=snapshot.decided_at,
    )


def _verdict(tier: Tier, tool: Tool, state: ToolState | None, floor: Floor | None) -> TierVerdict:
    """By the same decision that every list is made by."""
    hidden = why_hidden(tier, tool, state, floor)
    if hidden is not None:
        return TierVerdict(tier.name, False, hidden)
    if tier.max_latency_ms is None:
        return TierVerdict(tier.name, True, "fits no-limit")
    declared = "unmeasured" if tool.estimated_duration_ms is None else f"estimated={tool.estimated_duration_ms}ms"
    fit = state.fits.get(tier.name) if state is not None else None
    return TierVerdict(tier.name, True, fit or f"fits {declared} tier={tier.max_latency_ms}ms")


def _find_tool(snapshot: Snapshot, visible: Collection[str], name: str) -> tuple[str, Server, Tool]:
    """A tool by exposed name or id, of those that the principal may see."""
    merged = snapshot.merged
    if name in visible and name in merged:
        return name, *merged[name]
    of_id = [
        (exposed, *merged[exposed])
        for exposed in visible
        if exposed in merged and tool_id(merged[exposed][0].key, merged[exposed][1].name) == name
    ]
    if len(of_id) == 1:
        return of_id[0]
    raise unknown_tool(name, did_you_mean(name, visible))
