"""Finds the tools that fit what somebody wants to do, within the limits of a search."""

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
"""Among 1,300 tools a model finds the right one in the first eight about three times of four."""
MAX_LIMIT: Final = 100
MAX_QUERIES: Final = 16
MAX_QUERY: Final = 1000
"""Characters."""
FILTERS: Final = "filters"
NO_WORD_FITS: Final = "no tool that the filters pass fits the query: these are tools that they pass, by name"
NO_HITS: Final = RankedTools([], FILTERS)


class FoundTool(msgspec.Struct, frozen=True, rename="camel"):
    """A tool, and how well it fits."""

    score: float
    """Comparable within one answer only."""
    tool: ToolDocument


class SearchAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Tools that have words of the query, or related ones."""

    tools: list[FoundTool]
    """The best first; of several queries in turn."""
    searched: int
    """Visible tools that were looked at, after the filters."""
    ranking: str
    """`bm25`: by the words of names, descriptions and arguments, and words related to these. `hybrid`: by these and by
    vectors, which find what is said in other words. `filters`: by name, where no query fits a tool that the filters
    pass, or none was given.
    """
    note: str = ""
    """Why words alone ranked although vectors are made, or why filters did."""
    cut: tuple[Cut, ...] = ()
    """Tools that were found and that the limit on tokens left out."""


class SearchQuery(msgspec.Struct, frozen=True):
    """Parameters of a search."""

    queries: tuple[str, ...]
    """None where filters alone find."""
    limit: int
    tier: str | None
    tags: frozenset[str]
    servers: frozenset[str]
    categories: frozenset[str]
    format: str | None
    model: str | None
    tool_tokens: int | None


def check_queries(queries: Sequence[str], *filters: Collection[str]) -> tuple[str, ...]:
    """The queries without spaces around them; empty ones are left out where there are filters. Raises Problem."""
    stripped = tuple(query.strip() for query in queries)
    if any(filters):
        stripped = tuple(filter(None, stripped))
    elif not stripped or not all(stripped):
        raise Problem(INVALID_ARGUMENTS, "the query: `query` is empty; say in a few words what the tool should do")
    if len(stripped) > MAX_QUERIES:
        raise Problem(INVALID_ARGUMENTS, f"the query: at most {MAX_QUERIES} queries in one search")
    if max(map(len, stripped), default=0) > MAX_QUERY:
        raise Problem(INVALID_ARGUMENTS, f"the query: at most {MAX_QUERY} characters; a few words find more")
    return stripped


async def search_answer(services: ToolServices, seen: SubjectCatalog, wish: SearchQuery) -> bytes:
    """The answer to a search, encoded. Raises Problem."""
    if wish.format is not None:
        find_format(wish.format)
    if wish.format is None and wish.model is not None:
        raise Problem(INVALID_ARGUMENTS, "model needs a format: `mcp` is one")
    visible, hits, searched = await rank_tools(services, seen, wish)
    return await services.work.stepwise(lambda: _write_answer(services, visible, hits, searched, wish))


async def rank_tools(
    services: ToolServices, seen: SubjectCatalog, wish: SearchQuery
) -> tuple[VisibleTools, RankedTools, int]:
    """The visible tools, those of them that were found, and how many were looked at. Raises Problem."""
    visible, chosen = await services.work.do(lambda: _select(services, seen, wish))
    try:
        hits = NO_HITS
        if wish.queries:
            hits = await services.search.find(visible, wish.queries, wish.limit, chosen)
    except Overloaded as error:
        raise Problem(RATE_LIMITED, str(error), retry_after_ms=1000) from error
    if chosen and not hits.tools:
        first = sorted(chosen, key=lambda entry: entry.name)[: wish.limit]
        hits = RankedTools([(entry, 0.0) for entry in first], FILTERS, NO_WORD_FITS if wish.queries else "")
    services.counts.count_search(seen.identity.principal, hits.ranking, [entry.name for entry, _ in hits.tools])
    return visible, hits, len(visible.entries if chosen is None else chosen)


def _select(
    services: ToolServices, seen: SubjectCatalog, wish: SearchQuery
) -> tuple[VisibleTools, list[VisibleTool] | None]:
    """The visible tools, and those of them that pass the filters; None for all."""
    visible = services.catalogs.visible(seen, wish.tier)
    filtered = wish.tags or wish.servers or wish.categories
    return visible, visible.select(wish.tags, wish.servers, wish.categories) if filtered else None


async def _write_answer(
    services: ToolServices,
    visible: VisibleTools,
    hits: RankedTools,
    searched: int,
    wish: SearchQuery,
) -> bytes:
    """The JSON answer to a search. In steps only. Raises Problem."""
    entries, cut = await fitting(
        services, [entry for entry, _ in hits.tools], find_format(wish.format or registry.MCP), wish
    )
    if wish.format is not None:
        offer = await convert_tools(
            services.work, visible, entries, find_format(wish.format), Options(model=wish.model)
        )
        return encode(msgspec.structs.replace(offer, cut=cut))
    scores = {entry.name: score for entry, score in hits.tools}
    documents = [FoundTool(round(scores[entry.name], 3), document(entry)) for entry in with_pauses(entries)]
    return encode(SearchAnswer(documents, searched, hits.ranking, hits.note, cut))


async def fitting(
    services: ToolServices, entries: list[VisibleTool], format_: Format, wish: SearchQuery
) -> tuple[list[VisibleTool], tuple[Cut, ...]]:
    """The entries that there is room for, from the best on, and the others. Without a model no overhead of a request is
    counted: that is known to the caller alone. In steps only. Raises Problem.
    """
    if not entries or (wish.tool_tokens is None and wish.model is None):
        return entries, ()
    if wish.model is not None:
        plan = await fit_tools(
            services.work,
            entries,
            single_model(services.models, format_, wish.model),
            PlanLimits(tool_tokens=wish.tool_tokens, reserved_output=0),
        )
        names = frozenset(plan.tools)
        return [entry for entry in entries if entry.name in names], plan.cut
    left, fitting, cut = wish.tool_tokens or 0, [], []
    for entry, candidate in zip(entries, await candidates(services.work, entries), strict=True):
        if candidate.tokens <= left:
            left -= candidate.tokens
            fitting.append(entry)
        else:
            cut.append(Cut(entry.name, candidate.tokens, TOOL_TOKENS))
    return fitting, tuple(cut)
