"""Compares the ways to expose a subject's tools to a model: list all tools, list the tools of a latency tier, or let
the model search with the tools of the router endpoint.

The functions run in the worker thread. They count the tokens of each way; `tokens.exposure.advise` computes the costs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_formats.tokens.account import CacheState, TaskShape
from fairlead_formats.tokens.exposure import (
    LIST,
    SEARCH,
    TIER,
    ExposedTools,
    ExposureAdvice,
    advise,
    search_answer_tokens,
)
from fairlead_formats.tokens.fit import Fit
from fairlead_formats.tokens.prices import ModelPrice, TokenPrices, prices_of
from fairlead_gateway.core.meta_tools import DEFINITIONS
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, SubjectCatalogs
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools, gateway_tool
from fairlead_offers.plan.caller_tools import CallerTools
from fairlead_offers.plan.offered_tools import candidates
from fairlead_offers.workers.heavy_work import HeavyWork

ROUTER_TOOLS: Final = tuple(map(gateway_tool, DEFINITIONS))
INSTRUCTIONS_TOKENS: Final = 67
"""Tokens of the router endpoint's instructions, which clients put into the system prompt, by the vocabulary o200k."""
MAX_TURNS: Final = 1000
_Count = Annotated[int, Meta(ge=0, le=MAX_TURNS)]
_Tokens = Annotated[int, Meta(ge=0, le=100_000_000)]
_Factor = Annotated[float, Meta(ge=0, le=10)]


class PlannedTask(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Task with tool calls, for which the ways to expose tools are compared."""

    turns: Annotated[int, Meta(ge=1, le=MAX_TURNS)] | None = None
    """Requests to the model when all tools are listed, including the request for the answer; default: calls + 1."""
    calls: _Count = 1
    searches: _Count | None = None
    """Searches when the model searches tools; default: one per call. Each search adds a turn."""
    caching: bool = False
    """Whether the provider caches prompts."""
    warm: bool = False
    """Whether definitions and conversation are in the provider's cache before the first turn. Needs `caching`."""
    conversation_tokens: _Tokens | None = None
    """Tokens that every turn reads in addition to definitions; default: the tokens of `system` and `messages`."""
    search_tokens: _Tokens | None = None
    """Tokens of one search result, by the vocabulary o200k; default: eight tools of average size."""
    cache_read_factor: _Factor | None = None
    """Price of a cached token relative to an input token; default: the model's list price."""
    cache_write_factor: _Factor | None = None
    """Price of a token that is written to the cache, relative to an input token; default: the model's list price."""

    def shape(self, fit: Fit) -> TaskShape:
        """Fill in the defaults of the task."""
        conversation_tokens = (
            fit.system + fit.messages if self.conversation_tokens is None else self.conversation_tokens
        )
        turns = self.calls + 1 if self.turns is None else self.turns
        return TaskShape(turns, self.calls, self.calls if self.searches is None else self.searches, conversation_tokens)

    def prices(self, fit: Fit, installation_prices: Mapping[str, ModelPrice]) -> TokenPrices:
        """Prices of tokens: those of the task, else of the installation for the model, else the published prices."""
        price = installation_prices.get(fit.model.name)
        prices = prices_of(fit.model.name) if price is None else price.factors(fit.model.name)
        read_factor, write_factor = self.cache_read_factor, self.cache_write_factor
        return msgspec.structs.replace(
            prices,
            read=prices.read if read_factor is None else round(read_factor * 1000),
            write=prices.write if write_factor is None else round(write_factor * 1000),
        )


def requested_tools(
    visible: VisibleTools, tags: Collection[str], servers: Collection[str], pins: Collection[str] = ()
) -> list[VisibleTool]:
    """Tools that match the filters of a request, those in `pins` first. Raises Problem."""
    entries = visible.select(tags, servers)
    pinned_entries = [entry for entry in visible.entries if entry.name in pins]
    return visible.add_reader([*pinned_entries, *(entry for entry in entries if entry.name not in pins)])


def tools_of_other_tiers(
    catalogs: SubjectCatalogs,
    catalog: SubjectCatalog,
    tier: str | None,
    filters: tuple[Collection[str], Collection[str]],
) -> Mapping[str, Sequence[VisibleTool]]:
    """Tools of every tier except `tier`, by name of the tier. `filters`: tags and servers of the tools. Must run in the
    worker thread. Raises Problem.
    """
    return {
        other: without_offline(requested_tools(catalogs.visible_tools(catalog, other), *filters))
        for other in catalog.tiers
        if other != tier
    }


async def exposure_options(
    work: HeavyWork,
    tier: str | None,
    entries: Sequence[VisibleTool],
    tiers: Mapping[str, Sequence[VisibleTool]],
    caller_tools: CallerTools,
) -> list[ExposedTools]:
    """Count the tokens of each way to expose the `entries` of a tier: as a list, as the list of one of the other
    `tiers` that has tools, or by search. Each way includes the caller's tools. Must be awaited in `run_in_steps`.
    Raises Problem.
    """
    all_entries = {entry.key: entry for part in (entries, ROUTER_TOOLS, *tiers.values()) for entry in part}
    counted_tools = await candidates(work, [*all_entries.values()], caller_tools=caller_tools)
    caller_tokens = tuple(candidate.tokens for candidate in counted_tools[: len(caller_tools.tools)])
    gateway_tools = counted_tools[len(caller_tools.tools) :]
    sizes = {key: candidate.tokens for key, candidate in zip(all_entries, gateway_tools, strict=True)}

    def tokens(part: Sequence[VisibleTool]) -> tuple[int, ...]:
        return tuple(sizes[entry.key] for entry in part)

    total = len(entries) + len(caller_tokens)
    search_tools = [*ROUTER_TOOLS, *(entry for entry in entries if entry.pinned)]
    search_result_tokens = search_answer_tokens(tokens(entries))
    return [
        ExposedTools(LIST, caller_tokens + tokens(entries), total, tier or ""),
        *(
            ExposedTools(TIER, caller_tokens + tokens(part), len(caller_tokens) + len(part), other)
            for other, part in tiers.items()
            if part
        ),
        ExposedTools(
            SEARCH, caller_tokens + tokens(search_tools), total, "", INSTRUCTIONS_TOKENS, search_result_tokens
        ),
    ]


def without_offline(entries: Sequence[VisibleTool]) -> list[VisibleTool]:
    """Filter tools whose server is not offline."""
    return [entry for entry in entries if not entry.offline]


def compare_exposures(
    task: PlannedTask, fit: Fit, ways: Sequence[ExposedTools], installation_prices: Mapping[str, ModelPrice]
) -> ExposureAdvice:
    """Compare the costs of the ways to expose tools, for a task and a model."""
    cache = CacheState(warm=task.warm) if task.caching else None
    if task.search_tokens is not None:
        ways = [msgspec.structs.replace(way, results=task.search_tokens) for way in ways]
    return advise(fit, task.shape(fit), ways, task.prices(fit, installation_prices), cache)
