"""Search for tools by a description of the task: checks the query, ranks the tools, and cuts the result to limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from fairlead_formats import registry
from fairlead_formats.tokens.outcome import TOOL_TOKENS, Cut
from fairlead_formats.tokens.routes import PlanLimits
from fairlead_formats.tool_format import Format, Options
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.tool_document import ToolDocument, document
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import encode
from fairlead_offers.plan.offered_tools import candidates, convert_tools, fit_tools, single_model
from fairlead_offers.problems import INVALID_ARGUMENTS, RATE_LIMITED, Problem
from fairlead_offers.search.tool_search import RankedTools
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_offers.workers.process import Overloaded

DEFAULT_LIMIT: Final = 8
"""Default number of tools in a result. Among 1,300 tools, the right one is in the first eight in about
75% of searches.
"""
MAX_LIMIT: Final = 100
MAX_QUERIES: Final = 16
MAX_QUERY: Final = 1000
"""Maximum number of characters of a query."""
FILTERS: Final = "filters"
NO_WORD_FITS: Final = "no tool matches both the filters and the query; these are tools that match the filters, by name"
NO_HITS: Final = RankedTools([], FILTERS)


class FoundTool(msgspec.Struct, frozen=True, rename="camel"):
    """Tool in the result of a search, with its score."""

    score: float
    """Relevance to the query, comparable only within one answer."""
    tool: ToolDocument


class SearchAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Result of a search: tools that contain words of the query, or related words."""

    tools: list[FoundTool]
    """Tools, the best first. The results of several queries alternate."""
    searched: int
    """Number of searched tools, which are visible and match the filters."""
    ranking: str
    """Method of ranking. `bm25`: by the words of names, descriptions and arguments, and related words. `hybrid`: also
    by vectors, which find paraphrases. `filters`: by name, because there is no query, or no tool that matches the
    filters fits the query.
    """
    note: str = ""
    """Why tools were ranked by words alone although vectors are configured, or by filters although there is a query."""
    cut: tuple[Cut, ...] = ()
    """Found tools that were left out because of the token limit."""


class SearchQuery(msgspec.Struct, frozen=True):
    """Parameters of a search."""

    queries: tuple[str, ...]
    """Queries; empty for a search by filters alone."""
    limit: int
    tier: str | None
    tags: frozenset[str]
    servers: frozenset[str]
    categories: frozenset[str]
    format: str | None
    model: str | None
    tool_tokens: int | None


def check_queries(queries: Sequence[str], *filters: Collection[str]) -> tuple[str, ...]:
    """Check queries, and remove white space around them. Empty queries are dropped if there are filters. Raises
    Problem.
    """
    stripped_queries = tuple(query.strip() for query in queries)
    if any(filters):
        stripped_queries = tuple(filter(None, stripped_queries))
    elif not stripped_queries or not all(stripped_queries):
        raise Problem(INVALID_ARGUMENTS, "`query` is empty: describe in a few words what the tool should do")
    if len(stripped_queries) > MAX_QUERIES:
        raise Problem(INVALID_ARGUMENTS, f"a search may have at most {MAX_QUERIES} queries")
    if max(map(len, stripped_queries), default=0) > MAX_QUERY:
        raise Problem(INVALID_ARGUMENTS, f"a query may have at most {MAX_QUERY} characters; a few words find more")
    return stripped_queries


async def search_answer(services: ToolServices, catalog: SubjectCatalog, search_query: SearchQuery) -> bytes:
    """Run a search and encode the answer. Raises Problem."""
    if search_query.format is not None:
        find_format(search_query.format)
    if search_query.format is None and search_query.model is not None:
        raise Problem(INVALID_ARGUMENTS, "model requires format, for example `mcp`")
    visible, hits, searched = await rank_tools(services, catalog, search_query)
    return await services.work.run_in_steps(lambda: _write_answer(services, visible, hits, searched, search_query))


async def rank_tools(
    services: ToolServices, catalog: SubjectCatalog, search_query: SearchQuery
) -> tuple[VisibleTools, RankedTools, int]:
    """Search the visible tools that match the filters of a query. Returns all visible tools, the ranked tools, and the
    number of searched tools. Raises Problem.
    """
    visible, filtered_tools = await services.work.do(lambda: _select(services, catalog, search_query))
    try:
        hits = NO_HITS
        if search_query.queries:
            hits = await services.search.find(visible, search_query.queries, search_query.limit, filtered_tools)
    except Overloaded as error:
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    if filtered_tools and not hits.tools:
        first_tools = sorted(filtered_tools, key=lambda entry: entry.name)[: search_query.limit]
        hits = RankedTools(
            [(entry, 0.0) for entry in first_tools], FILTERS, NO_WORD_FITS if search_query.queries else ""
        )
    services.counts.count_search(catalog.identity.principal, hits.ranking, [entry.name for entry, _ in hits.tools])
    return visible, hits, len(visible.entries if filtered_tools is None else filtered_tools)


def _select(
    services: ToolServices, catalog: SubjectCatalog, search_query: SearchQuery
) -> tuple[VisibleTools, list[VisibleTool] | None]:
    """All visible tools, and the visible tools that match the filters; None for the second if there are no filters."""
    visible = services.catalogs.visible_tools(catalog, search_query.tier)
    has_filters = search_query.tags or search_query.servers or search_query.categories
    return visible, visible.select(
        search_query.tags, search_query.servers, search_query.categories
    ) if has_filters else None


async def _write_answer(
    services: ToolServices,
    visible: VisibleTools,
    hits: RankedTools,
    searched: int,
    search_query: SearchQuery,
) -> bytes:
    """Encode the answer to a search as JSON. Must be awaited in `run_in_steps`. Raises Problem."""
    entries, cut = await limit_tools(
        services, [entry for entry, _ in hits.tools], find_format(search_query.format or registry.MCP), search_query
    )
    if search_query.format is not None:
        offer = await convert_tools(
            services.work, visible, entries, find_format(search_query.format), Options(model=search_query.model)
        )
        return encode(msgspec.structs.replace(offer, cut=cut))
    scores = {entry.name: score for entry, score in hits.tools}
    documents = [FoundTool(round(scores[entry.name], 3), document(entry)) for entry in with_pauses(entries)]
    return encode(SearchAnswer(documents, searched, hits.ranking, hits.note, cut))


async def limit_tools(
    services: ToolServices, entries: list[VisibleTool], format_: Format, search_query: SearchQuery
) -> tuple[list[VisibleTool], tuple[Cut, ...]]:
    """Select the entries that fit the token limit, the best first. Returns the selected entries, and the other entries,
    each with the limit. Without a model, only the tokens of definitions are counted, because the other tokens of a
    request depend on the model. Must be awaited in `run_in_steps`. Raises Problem.
    """
    if not entries or (search_query.tool_tokens is None and search_query.model is None):
        return entries, ()
    if search_query.model is not None:
        plan = await fit_tools(
            services.work,
            entries,
            single_model(services.models, format_, search_query.model),
            PlanLimits(tool_tokens=search_query.tool_tokens, reserved_output=0),
        )
        names = frozenset(plan.tools)
        return [entry for entry in entries if entry.name in names], plan.cut
    tokens_left, selected, cut = search_query.tool_tokens or 0, [], []
    for entry, candidate in zip(entries, await candidates(services.work, entries), strict=True):
        if candidate.tokens <= tokens_left:
            tokens_left -= candidate.tokens
            selected.append(entry)
        else:
            cut.append(Cut(entry.name, candidate.tokens, TOOL_TOKENS))
    return selected, tuple(cut)
