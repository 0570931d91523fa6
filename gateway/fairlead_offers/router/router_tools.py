"""`search_tools` and `retrieve_context`, for the router endpoint: what REST answers, as results of tools."""

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
from fairlead_offers.router.found_tools import DEFAULT_LIMIT, MAX_LIMIT, SearchQuery, checked, fitting, ranked
from fairlead_offers.search.tool_search import RankedTools
from fairlead_offers.services import ToolServices
from fairlead_tools import refusals
from fairlead_tools.refusal import Refusal

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
    """Answers by the services of tools, which are made after the endpoint: `services` returns them."""

    def __init__(self, services: Callable[[], ToolServices]) -> None:
        self._services = services

    async def answer(self, name: str, identity: Identity, tier: str | None, arguments: bytes | Raw) -> bytes:
        services = self._services()
        seen = services.catalogs.seen_by(identity)
        raw = b"{}" if bytes(arguments) == b"null" else arguments
        try:
            if name == SEARCH_TOOLS:
                return _result(await _search(services, seen, tier, decode(raw, SearchArguments)))
            if name == READ_RESULT:
                asked = decode(raw, ReadArguments)
                wanted = RetrieveArguments(
                    None, asked.query, asked.id, asked.path, asked.range, asked.grep, asked.token_budget
                )
                return _result(encode(await services.results.retrieve(seen, wanted)))
            return _result(encode(await services.results.retrieve(seen, decode(raw, RetrieveArguments))))
        except Problem as problem:
            said = problem.document
            code = said.code if said.code in _CODES else INVALID_ARGUMENTS
            return refusals.result(Refusal(code, said.detail, said.retry_after_ms))

    async def read(self, identity: Identity, ident: str, uri: str) -> bytes | None:
        services = self._services()
        return await services.results.contents(services.catalogs.seen_by(identity), ident, uri)

    async def shorten(self, long: LongResult) -> ShownResult:
        return await self._services().results.shorten(long)


def _result(said: bytes) -> bytes:
    return encode({"content": [{"type": "text", "text": said.decode()}]})


async def _search(services: ToolServices, seen: SubjectCatalog, tier: str | None, asked: SearchArguments) -> bytes:
    """Raises Problem."""
    given = [*([asked.query] if asked.query is not None else []), *asked.queries]
    filters = asked.tags, asked.servers, asked.categories
    if not given and not any(filters):
        raise Problem(INVALID_ARGUMENTS, "give query or queries: say in a few words what the tool should do")
    wish = SearchQuery(checked(given, *filters), asked.limit, tier, *filters, None, None, asked.token_budget)
    _, hits, searched = await ranked(services, seen, wish)
    return await services.work.stepwise(lambda: _written(services, hits, searched, wish))


async def _written(services: ToolServices, hits: RankedTools, searched: int, wish: SearchQuery) -> bytes:
    """In steps only. Raises Problem."""
    entries, cut = await fitting(services, [entry for entry, _ in hits.tools], find_format(MCP), wish)
    scores = {entry.name: round(score, 3) for entry, score in hits.tools}
    tools = [_tool(entry, scores[entry.name]) for entry in entries]
    said: dict[str, object] = {"tools": tools, "searched": searched, "ranking": hits.ranking}
    if hits.note:
        said["note"] = hits.note
    if cut:
        said["left_out_by_tokenBudget"] = [one.name for one in cut]
    return encode(said)


def _tool(entry: VisibleTool, score: float) -> dict[str, object]:
    """Members that a model needs to choose and to call a tool."""
    definition = entry.decoded
    said = {"name": entry.name, "server": str(entry.server), "score": score}
    for member in ("description", "inputSchema"):
        if member in definition:
            said[member] = definition[member]
    if entry.offline:
        said["offline"] = True
    return said
