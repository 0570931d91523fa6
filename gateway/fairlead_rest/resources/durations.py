"""`GET /v1/durations`: how long calls of a tool took, as a histogram of the process that answers."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_gateway.telemetry import BOUNDS
from fairlead_offers.catalogs.visible_tools import VisibleTools
from fairlead_rest.context import RestContext
from fairlead_rest.openapi import describe_route

BOUNDS_MS: Final = tuple(round(bound * 1000) for bound in BOUNDS)
EXAMPLE: Final[dict[str, Any]] = {
    "a tool that was called twelve times": {
        "tool": "demo__forecast",
        "server": "default/demo",
        "boundsMs": [*BOUNDS_MS],
        "buckets": [0, 0, 3, 6, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        "calls": 12,
        "meanMs": 131.5,
    }
}


class DurationsDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Durations of all answered calls of one tool since the start of the process, failed ones too."""

    tool: str
    server: str
    """`namespace/name`."""
    bounds_ms: tuple[int, ...]
    """Upper bounds of all buckets but the last, in milliseconds: those of `mcp.server.operation.duration`."""
    buckets: tuple[int, ...]
    """Calls in each bucket, not cumulated; one more than there are bounds."""
    calls: int
    mean_ms: float | None
    """null before the first call."""


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/durations`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["scores"])

    @routes.get("/durations", **describe_route("Show how long calls of a tool took", DurationsDocument, EXAMPLE))
    async def durations(
        request: Request, tool: Annotated[str, Query(description="By its name on `/mcp`, or id.")]
    ) -> Response:
        return await context.answer_when_ready(
            request, lambda seen: _count(context, services.catalogs.visible(seen, None), tool)
        )

    return routes


def _count(context: RestContext, visible: VisibleTools, name: str) -> DurationsDocument:
    """Raises Problem for a tool that the principal does not see."""
    entry = visible.find(name) or visible.find_hidden(name) or visible.tool(name)
    histogram = context.records.calls.durations(entry.tool.name, str(entry.server))
    calls = histogram.count
    mean = round(histogram.total / calls / 1e6, 3) if calls else None
    return DurationsDocument(entry.name, str(entry.server), BOUNDS_MS, tuple(histogram.buckets), calls, mean)
