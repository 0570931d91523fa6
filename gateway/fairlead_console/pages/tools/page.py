"""Pages about tools: `/console/tools` is a list with filters, and `/console/tools/{name}` shows one tool with a form
that calls the tool as the visitor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.histogram import histogram
from fairlead_console.pages.tools.facts import ToolFacts, pretty
from fairlead_console.pages.tools.facts_reader import FactsReader
from fairlead_console.pages.tools.form_fields import UnreadableArgument, arguments_of, fields_of
from fairlead_console.pages.tools.index import MAX_INDEXES, ConsoleTool, ConsoleToolList, ToolFilter, filter_tools
from fairlead_console.pages.tools.snippets import snippets
from fairlead_console.paging import part_of
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, ViewCache
from fairlead_rest.resources.access import AccessDocument
from fairlead_rest.resources.durations import DurationsDocument
from fairlead_rest.resources.explain import Explanation
from fairlead_rest.resources.toolcalls import CallDocument, ToolCallsAnswer

PATH: Final = "/console/tools"
ENTRY: Final = NavigationEntry("Tools", PATH, 20)
PER_PAGE: Final = 50
"""Tools per page of the list."""
MAX_WORDS: Final = 200
"""Maximum length of the search text in characters."""
_CALL: Final = "console"


class TriedCall(msgspec.Struct, frozen=True):
    """Outcome of a call that the visitor made by the form."""

    outcome: CallDocument | None
    """None if the tool was not called."""
    text: str
    """The result as JSON, or the reason why there is no result."""


class FoundTools(msgspec.Struct, frozen=True):
    """Tools that a search found."""

    index: ConsoleToolList
    tools: list[ConsoleTool]
    tiers: tuple[str, ...]


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the pages."""
    routes = APIRouter()
    indexes = ViewCache(ConsoleToolList, MAX_INDEXES)
    console.first_views.add(lambda catalog: indexes.get(catalog, None))
    facts = FactsReader(console.rest.services)

    @routes.get(PATH)
    async def list_tools(request: Request) -> Response:
        visit, query = console.visit(request), request.query_params
        filters = ToolFilter(
            query.get("q", "")[:MAX_WORDS], query.get("server", ""), query.get("tag", ""), query.get("tier", "")
        )
        catalog = console.rest.catalog(request)
        matches = await console.rest.services.work.do(lambda: _matching_tools(indexes, catalog, filters))
        part = part_of(matches.tools, request, PER_PAGE)
        hidden = matches.index.view.hidden
        return await visit.page(
            "tools/list.html",
            part=part,
            filters=filters,
            tiers=matches.tiers,
            servers=matches.index.servers,
            tags=matches.index.tags,
            all=len(matches.index.tools),
            hidden=hidden,
        )

    @routes.get(PATH + "/{name:path}")
    async def show_tool(request: Request, name: str) -> Response:
        tool_facts = await console.rest.when_ready(request, lambda catalog: facts.read(catalog, name))
        return await _page(console, request, tool_facts, {}, None)

    @routes.post(PATH + "/{name:path}")
    async def try_tool(request: Request, name: str) -> Response:
        visit = console.visit(request)
        texts = await visit.form()
        uncounted_facts = await facts.facts_without_tokens(console.rest.catalog(request), name)
        outcome = await _try_call(visit, uncounted_facts, texts)
        return await _page(console, request, await facts.read(console.rest.catalog(request), name), texts, outcome)

    return routes


def _matching_tools(indexes: ViewCache[ConsoleToolList], catalog: SubjectCatalog, filters: ToolFilter) -> FoundTools:
    """Filter the tools that a principal sees. Raises Problem for an unknown tier."""
    index = indexes.get(catalog, None)
    tier_tools = [*catalog.view(filters.tier).routes] if filters.tier else None
    return FoundTools(index, filter_tools(index, filters, tier_tools), catalog.tiers)


async def _page(
    console: ConsoleContext, request: Request, facts: ToolFacts, texts: Mapping[str, str], outcome: TriedCall | None
) -> Response:
    visit = console.visit(request)
    explanation, access, durations = await asyncio.gather(
        visit.api.get(f"/v1/tools/{facts.name}/explain", Explanation),
        visit.api.get("/v1/access", AccessDocument, {"tool": facts.name}),
        visit.api.get("/v1/durations", DurationsDocument, {"tool": facts.name}),
    )
    fields = fields_of(facts.input_schema)
    try:
        arguments = arguments_of(fields, texts)
    except UnreadableArgument:
        arguments = {}
    needs_key = not console.rest.guard.identities.open
    marks = [(word, float(value)) for word, value in _marks(explanation) if value is not None]
    return await visit.page(
        "tools/one.html",
        facts=facts,
        explained=explanation,
        access=access,
        durations=durations,
        fields=fields,
        typed=texts,
        tried=outcome,
        picture=histogram(durations.bounds_ms, durations.buckets, marks),
        snippets=snippets(str(request.base_url).rstrip("/"), facts.name, arguments, keyed=needs_key),
    )


def _marks(explanation: Explanation) -> list[tuple[str, float | None]]:
    quantiles = explanation.measured.quantiles
    return [
        ("declared", explanation.latency.estimated_duration_ms),
        ("p95", None if quantiles is None else quantiles.p95_ms),
    ]


async def _try_call(visit: Visit, facts: ToolFacts, texts: Mapping[str, str]) -> TriedCall:
    """Call the tool as the visitor, by the REST API, so that policies, limits and the audit log apply."""
    try:
        arguments = arguments_of(fields_of(facts.input_schema), texts)
    except UnreadableArgument as error:
        return TriedCall(None, str(error))
    params: dict[str, Any] = {"name": facts.name, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": _CALL, "method": "tools/call", "params": params}
    body = {"format": "mcp", "message": [message]}
    answer = await visit.api.post("/v1/tool-calls", body, ToolCallsAnswer)
    call = answer.calls[0]
    result = answer.messages[0].get("result") if answer.messages else None
    return TriedCall(call, call.message or "" if result is None else pretty(result))
