"""REST resource `GET /v1/search`: searches tools by a description of the task, and lists the best first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from fairlead_offers.plan.offered_tools import OfferedTools
from fairlead_offers.router.found_tools import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    SearchAnswer,
    SearchQuery,
    check_queries,
    search_answer,
)
from fairlead_rest.context import RestContext
from fairlead_rest.examples import search as examples
from fairlead_rest.openapi import describe_route
from fairlead_rest.queries import words
from fairlead_web.bodies import answer


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/search`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/search", **describe_route("Search tools", SearchAnswer | OfferedTools, examples.FOUND))
    async def search_tools(
        request: Request,
        query: Annotated[
            list[str] | None,
            Query(description="Description of the task, or one description per step. Optional with filters."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of tools.")] = DEFAULT_LIMIT,
        tier: Annotated[str | None, Query(description="Latency tier; default: the default tier.")] = None,
        tags: Annotated[
            list[str] | None, Query(description="Tools with one of these tags; comma-separated or repeated.")
        ] = None,
        categories: Annotated[list[str] | None, Query(description="Tools with one of these categories.")] = None,
        servers: Annotated[
            list[str] | None, Query(description="Tools of one of these servers, by `namespace/name`, name or prefix.")
        ] = None,
        format: Annotated[str | None, Query(description="Format of a provider; default: MCP definitions.")] = None,  # noqa: A002 - the name in the URL
        model: Annotated[
            str | None,
            Query(description="Model that receives the tools; sets context window and definition rules."),
        ] = None,
        tool_tokens: Annotated[
            int | None, Query(alias="toolTokens", ge=1, description="Maximum tokens of all definitions.")
        ] = None,
    ) -> Response:
        filters = words(tags), words(servers), words(categories)
        search_query = SearchQuery(
            check_queries(query or (), *filters), limit, tier, *filters, format, model, tool_tokens
        )
        return answer(await context.when_ready(request, lambda catalog: search_answer(services, catalog, search_query)))

    return routes
