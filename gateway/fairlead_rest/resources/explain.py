"""REST resource `GET /v1/tools/{name}/explain`: why each latency tier shows or hides a tool."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_api.documents.rules import Tier
from fairlead_api.documents.state import ToolState
from fairlead_api.floors import Floor
from fairlead_formats.names import suggest_name
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.core.server import Server, Tool
from fairlead_gateway.policy.tiers import by_speed, why_hidden
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.call_identity import credential_for
from fairlead_offers.catalogs.latency import LatencyDocument, MeasuredDocument, latency_of, measurements_of
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
        "credential": None,
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
    """Decision of one tier about a tool."""

    tier: str
    shown: bool
    reason: str


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Decisions of all tiers about one tool, with the measurements behind them."""

    id: str
    name: str
    server: str
    latency: LatencyDocument
    measured: MeasuredDocument
    min_tier: str | None
    """Fastest tier that may show the tool to this caller, whatever the tool's latency; null if any tier may."""
    no_calls_by: str | None
    """ToolPolicy whose `limits.callsPerMinute: 0` refuses all calls of this caller; null if there is none."""
    credential: str | None
    """Under whose credential a call of this caller goes to the server; null if the server gets none."""
    tiers: list[TierVerdict]
    """Decisions by tier, the fastest tier first."""
    decided_at: str
    """Time of the oldest decision (RFC 3339); empty if nothing was measured."""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/tools/{name}/explain`, which must precede `/v1/tools/{name}`."""
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get(
        "/tools/{name:path}/explain",
        **describe_route("Explain why tiers show or hide a tool, by name or id", Explanation, EXAMPLE),
    )
    async def explain_tool(request: Request, name: str) -> Response:
        exchange_allowed = context.administration.exchange_allowed
        return await context.answer_when_ready(request, lambda catalog: explain(catalog, name, exchange_allowed))

    return routes


def explain(catalog: SubjectCatalog, name: str, exchange_allowed: Collection[str]) -> Explanation:
    """Explain a tool that any tier shows or hides. Raises Problem for other tools. `exchange_allowed` has the
    authorization servers that callers' tokens may be sent to.
    """
    snapshot = catalog.snapshot
    exposed, server, tool = _find_tool(snapshot, catalog.view(None), name)
    state, visible_tiers = snapshot.states.get(server.key, {}).get(tool.name), catalog.tiers
    floor = catalog.floor(tool)
    quota = catalog.decision(server.key, tool.name).quota
    return Explanation(
        id=tool_id(server.key, tool.shown_name),
        name=exposed,
        server=str(server.key),
        latency=latency_of(tool, state),
        measured=measurements_of(state, snapshot.round_trips.get(server.key)),
        min_tier=None if floor is None else floor.tier,
        no_calls_by=None if quota is None else quota.policy_without_calls,
        credential=credential_for(server.catalog, catalog.identity, exchange_allowed),
        tiers=[
            _verdict(tier, tool, state, floor) for tier in by_speed(snapshot.rules.tiers) if tier.name in visible_tiers
        ],
        decided_at=snapshot.decided_at,
    )


def _verdict(tier: Tier, tool: Tool, state: ToolState | None, floor: Floor | None) -> TierVerdict:
    """Decide about a tool by the same function as for lists."""
    hiding_reason = why_hidden(tier, tool, state, floor)
    if hiding_reason is not None:
        return TierVerdict(tier.name, False, hiding_reason)
    if tier.max_latency_ms is None:
        return TierVerdict(tier.name, True, "fits no-limit")
    estimate = "unmeasured" if tool.estimated_duration_ms is None else f"estimated={tool.estimated_duration_ms}ms"
    fit = state.fits.get(tier.name) if state is not None else None
    return TierVerdict(tier.name, True, fit or f"fits {estimate} tier={tier.max_latency_ms}ms")


def _find_tool(snapshot: Snapshot, view: View, name: str) -> tuple[str, Server, Tool]:
    """Find a tool by exposed name or id among those that the principal may see."""
    merged, visible = snapshot.merged, view.everything
    if name in visible and name in merged:
        return name, *merged[name]
    matches = [
        (exposed, *merged[exposed])
        for exposed in visible
        if exposed in merged and tool_id(merged[exposed][0].key, merged[exposed][1].shown_name) == name
    ]
    if len(matches) == 1:
        return matches[0]
    raise unknown_tool(name, view.find_renamed(name) or suggest_name(name, visible))
