"""REST resource `GET /v1/durations`: histogram of the durations of a tool's calls in the answering process."""

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
    """Durations of all answered calls of one tool since the start of the process, including failed calls."""

    tool: str
    server: str
    """Server as `namespace/name`."""
    bounds_ms: tuple[int, ...]
    """Upper bounds in milliseconds of all buckets except the last, as in `mcp.server.operation.duration`."""
    buckets: tuple[int, ...]
    """Number of calls in each bucket, not cumulative. There is one more bucket than bounds."""
    calls: int
    mean_ms: float | None
    """Mean duration; null before the first call."""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/durations`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["scores"])

    @routes.get("/durations", **describe_route("Show the durations of a tool's calls", DurationsDocument, EXAMPLE))
    async def durations(
        request: Request, tool: Annotated[str, Query(description="Name of the tool on `/mcp`, or its id.")]
    ) -> Response:
        return await context.answer_when_ready(
            request, lambda catalog: _durations_document(context, services.catalogs.visible_tools(catalog, None), tool)
        )

    return routes


def _durations_document(context: RestContext, visible: VisibleTools, name: str) -> DurationsDocument:
    """Make the document of one tool. Raises Problem for a tool that the principal may not see."""
    entry = visible.find(name) or visible.find_hidden(name) or visible.tool(name)
    histogram = context.records.calls.durations(entry.tool.name, str(entry.server))
    calls = histogram.count
    mean = round(histogram.total / calls / 1e6, 3) if calls else None
    return DurationsDocument(entry.name, str(entry.server), BOUNDS_MS, tuple(histogram.buckets), calls, mean)
