"""`GET /v1/search`: the tools that fit what somebody wants to do, the best first."""

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
    """The resource `/v1/search`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/search", **describe_route("Search tools", SearchAnswer | OfferedTools, examples.FOUND))
    async def search_tools(
        request: Request,
        query: Annotated[
            list[str] | None,
            Query(description="What is wanted, in words; repeated for several steps. Filters alone find, too."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Tools at most.")] = DEFAULT_LIMIT,
        tier: Annotated[str | None, Query(description="A latency tier; without it the default one.")] = None,
        tags: Annotated[list[str] | None, Query(description="With one of these; commas or repeated.")] = None,
        categories: Annotated[list[str] | None, Query(description="In one of these.")] = None,
        servers: Annotated[list[str] | None, Query(description="`namespace/name`, name or prefix.")] = None,
        format: Annotated[str | None, Query(description="A provider's format; without it MCP definitions.")] = None,  # noqa: A002 - its word in the URL
        model: Annotated[str | None, Query(description="Who reads the tools: its window, its rules.")] = None,
        tool_tokens: Annotated[
            int | None, Query(alias="toolTokens", ge=1, description="Tokens of all definitions at most.")
        ] = None,
    ) -> Response:
        filters = words(tags), words(servers), words(categories)
        wish = SearchQuery(check_queries(query or (), *filters), limit, tier, *filters, format, model, tool_tokens)
        return answer(await context.when_ready(request, lambda seen: search_answer(services, seen, wish)))

    return routes
