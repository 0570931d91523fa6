"""Tools of the router endpoint: `search_tools`, `retrieve_context` and `read_result`. They give the same answers as the
REST resources for search and stored results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.long_results import LongResult, Shortener, ShownResult
from fairlead_gateway.core.meta_tools import READ_RESULT, SEARCH_TOOLS, MetaTools
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import VisibleTool
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import decode, encode
from fairlead_offers.problems import CONNECTION_LOST, INVALID_ARGUMENTS, RATE_LIMITED, Problem
from fairlead_offers.results.session_context import DEFAULT_TOKENS, Budget, RetrieveArguments, Text
from fairlead_offers.router.found_tools import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    SearchQuery,
    check_queries,
    limit_tools,
    rank_tools,
)
from fairlead_offers.search.tool_search import RankedTools
from fairlead_offers.services import ToolServices
from fairlead_openapi.calling.answers import AnswerForm
from fairlead_tools import refusals
from fairlead_tools.refusal import Refusal
from fairlead_tools.selection import ResultSelection

MCP: Final = "mcp"
_CODES: Final = frozenset({CONNECTION_LOST, RATE_LIMITED})


class SearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `search_tools`."""

    query: str | None = None
    queries: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    categories: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    token_budget: Annotated[int, Meta(ge=50, le=100_000)] | None = msgspec.field(name="tokenBudget", default=None)


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `read_result`."""

    id: Text
    path: Text | None = None
    range: Text | None = None
    grep: Text | None = None
    query: Text | None = None
    token_budget: Budget = msgspec.field(name="tokenBudget", default=DEFAULT_TOKENS)


class RouterTools(MetaTools, Shortener):
    """Runs the tools of the router endpoint. `services` is a function that returns the services, because they are made
    after the endpoint.
    """

    def __init__(self, services: Callable[[], ToolServices]) -> None:
        self._services = services

    async def answer(self, name: str, identity: Identity, tier: str | None, arguments: bytes | Raw) -> bytes:
        services = self._services()
        catalog = services.catalogs.seen_by(identity)
        raw_arguments = b"{}" if bytes(arguments) == b"null" else arguments
        try:
            if name == SEARCH_TOOLS:
                return _result(await _search(services, catalog, tier, decode(raw_arguments, SearchArguments)))
            if name == READ_RESULT:
                read_arguments = decode(raw_arguments, ReadArguments)
                retrieval = RetrieveArguments(
                    None,
                    read_arguments.query,
                    read_arguments.id,
                    read_arguments.path,
                    read_arguments.range,
                    read_arguments.grep,
                    read_arguments.token_budget,
                )
                return _result(encode(await services.results.retrieve(catalog, retrieval)))
            return _result(encode(await services.results.retrieve(catalog, decode(raw_arguments, RetrieveArguments))))
        except Problem as problem:
            document = problem.document
            code = document.code if document.code in _CODES else INVALID_ARGUMENTS
            return refusals.result(Refusal(code, document.detail, document.retry_after_ms))

    async def read(self, identity: Identity, ident: str, uri: str) -> bytes | None:
        services = self._services()
        return await services.results.contents(services.catalogs.seen_by(identity), ident, uri)

    async def shorten(self, long: LongResult) -> ShownResult:
        return await self._services().results.shorten(long)

    async def select(self, selection: ResultSelection, result: bytes) -> bytes:
        return await self._services().results.select(selection, result)

    async def api_result(self, form: AnswerForm, body: bytes, max_bytes: int) -> Raw:
        """Implements `upstream.openapi.MakeResult`."""
        return await self._services().results.api_result(form, body, max_bytes)


def _result(content: bytes) -> bytes:
    return encode({"content": [{"type": "text", "text": content.decode()}]})


async def _search(services: ToolServices, catalog: SubjectCatalog, tier: str | None, search: SearchArguments) -> bytes:
    """Run `search_tools`. Raises Problem."""
    queries = [*([search.query] if search.query is not None else []), *search.queries]
    filters = search.tags, search.servers, search.categories
    if not queries and not any(filters):
        raise Problem(
            INVALID_ARGUMENTS, "query or queries is required: describe in a few words what the tool should do"
        )
    search_query = SearchQuery(
        check_queries(queries, *filters), search.limit, tier, *filters, None, None, search.token_budget
    )
    _, hits, searched = await rank_tools(services, catalog, search_query)
    return await services.work.run_in_steps(lambda: _write_answer(services, hits, searched, search_query))


async def _write_answer(services: ToolServices, hits: RankedTools, searched: int, search_query: SearchQuery) -> bytes:
    """Encode the answer of `search_tools` as JSON. Must be awaited in `run_in_steps`. Raises Problem."""
    entries, cut = await limit_tools(services, [entry for entry, _ in hits.tools], find_format(MCP), search_query)
    scores = {entry.name: round(score, 3) for entry, score in hits.tools}
    tools = [_tool(entry, scores[entry.name]) for entry in entries]
    answer: dict[str, object] = {"tools": tools, "searched": searched, "ranking": hits.ranking}
    if hits.note:
        answer["note"] = hits.note
    if cut:
        answer["left_out_by_tokenBudget"] = [cut_tool.name for cut_tool in cut]
    return encode(answer)


def _tool(entry: VisibleTool, score: float) -> dict[str, object]:
    """Members of a tool that a model needs in order to choose and call the tool."""
    definition = entry.decoded_definition
    members = {"name": entry.name, "server": str(entry.server), "score": score}
    for member in ("description", "inputSchema"):
        if member in definition:
            members[member] = definition[member]
    if entry.offline:
        members["offline"] = True
    return members
