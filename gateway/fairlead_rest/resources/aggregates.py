"""REST resource `GET /v1/aggregates`: histograms of calls, which an installation may publish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Raw

from fairlead_gateway.aggregates.file import Aggregates, Line, gather, line
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.problems import NOT_KEPT, Problem
from fairlead_rest.context import RestContext, Tallies
from fairlead_rest.openapi import describe_route

EXAMPLE: Final[dict[str, Any]] = {
    "one tool": {
        "kind": "fairlead.dev/aggregates",
        "version": 1,
        "origins": ["6f1c9d3e5ab24f0e8d7c6b5a49382716"],
        "boundsMs": [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 120000, 300000],
        "tools": [
            {
                "server": "mcp-time",
                "version": "1.28.1",
                "tool": "get_current_time",
                "definition": "sha256:0c5b",
                "environment": "cluster",
                "counts": [812, 41, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                "totalUs": 3821007,
            }
        ],
    }
}


class _Info(msgspec.Struct):
    name: str = ""
    version: str = ""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/aggregates`."""
    routes = APIRouter(prefix="/v1", tags=["scores"])

    @routes.get("/aggregates", **describe_route("Show histograms of calls since the start", Aggregates, EXAMPLE))
    async def aggregates(request: Request) -> Response:
        catalog = context.catalog(request)
        return await context.answer(lambda: visible_aggregates(context.records.tallies, catalog))

    return routes


def visible_aggregates(tallies: Tallies | None, catalog: SubjectCatalog) -> Aggregates:
    """Histograms of the tools that the principal may see. Raises Problem if histograms are turned off."""
    if tallies is None:
        raise Problem(NOT_KEPT, "this gateway records no histograms: start it with FAIRLEAD_AGGREGATES=true")
    return gather(tallies.origin, _lines(tallies, catalog))


def _lines(tallies: Tallies, catalog: SubjectCatalog) -> Iterator[Line]:
    for server in catalog.servers():
        view, info = catalog.server_view(server.key), _info(server.catalog.server_info)
        for tool in server.tools:
            tally = tallies.of(server.key, tool.name)
            if tally is not None and view is not None and tool.shown_name in view.everything:
                yield line(info.name, info.version, tool.name, tallies.environment, tally)


def _info(raw: Raw) -> _Info:
    try:
        return msgspec.json.decode(raw, type=_Info)
    except msgspec.MsgspecError:
        return _Info()
