"""Tools of a subject in each way that they can be shown to a model: listed, by tier, or found at the router endpoint.

Runs in the worker. The account is `exposure.advised`'s.
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
INSTRUCTIONS_TOKENS: Final = 71
"""Tokens of the router's instructions, which clients put into the system prompt, in o200k's count."""
MAX_TURNS: Final = 1000
_Count = Annotated[int, Meta(ge=0, le=MAX_TURNS)]
_Tokens = Annotated[int, Meta(ge=0, le=100_000_000)]
_Factor = Annotated[float, Meta(ge=0, le=10)]


class PlannedTask(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A task that tools are needed for, by which the ways to show them are compared."""

    turns: Annotated[int, Meta(ge=1, le=MAX_TURNS)] | None = None
    """Requests to the model where every tool is listed, the one of the answer included; one more than calls."""
    calls: _Count = 1
    searches: _Count | None = None
    """Searches where tools are searched for, each a turn more; one per call."""
    caching: bool = False
    """Whether the provider caches prompts."""
    warm: bool = False
    """With `caching`: whether definitions and conversation are in the cache before the first turn."""
    conversation_tokens: _Tokens | None = None
    """The model's tokens that every turn reads beside definitions; those of `system` and `messages`."""
    search_tokens: _Tokens | None = None
    """Tokens of one answer to a search, by o200k; eight tools of mean size."""
    cache_read_factor: _Factor | None = None
    """Price of a cached token in that of an input token; the list price of the model."""
    cache_write_factor: _Factor | None = None
    """Price of a token that is put into the cache, in the same unit."""

    def shape(self, fit: Fit) -> TaskShape:
        """The task with all that was left out."""
        talk = fit.system + fit.messages if self.conversation_tokens is None else self.conversation_tokens
        turns = self.calls + 1 if self.turns is None else self.turns
        return TaskShape(turns, self.calls, self.calls if self.searches is None else self.searches, talk)

    def prices(self, fit: Fit, stated: Mapping[str, ModelPrice]) -> TokenPrices:
        """The task's own prices, else those that the installation states of the model, else the published ones."""
        price = stated.get(fit.model.name)
        prices = prices_of(fit.model.name) if price is None else price.factors(fit.model.name)
        read, write = self.cache_read_factor, self.cache_write_factor
        return msgspec.structs.replace(
            prices,
            read=prices.read if read is None else round(read * 1000),
            write=prices.write if write is None else round(write * 1000),
        )


def requested_tools(
    visible: VisibleTools, tags: Collection[str], servers: Collection[str], pins: Collection[str] = ()
) -> list[VisibleTool]:
    """The tools that a request with these filters is about, those in `pins` first. Raises Problem."""
    entries = visible.select(tags, servers)
    first = [entry for entry in visible.entries if entry.name in pins]
    return visible.with_reader([*first, *(entry for entry in entries if entry.name not in pins)])


def tools_of_other_tiers(
    catalogs: SubjectCatalogs, seen: SubjectCatalog, tier: str | None, filters: tuple[Collection[str], Collection[str]]
) -> Mapping[str, Sequence[VisibleTool]]:
    """Tools of every tier but one, by tier; `filters`: tags and servers. In the thread only. Raises Problem."""
    return {
        other: online(requested_tools(catalogs.visible(seen, other), *filters)) for other in seen.tiers if other != tier
    }


async def exposure_options(
    work: HeavyWork,
    tier: str | None,
    entries: Sequence[VisibleTool],
    tiers: Mapping[str, Sequence[VisibleTool]],
    own: CallerTools,
) -> list[ExposedTools]:
    """The ways to show `entries`, of a tier, beside the caller's own tools: all of them, those of one of the other
    `tiers`, or by search. A tier without a tool is none. In steps only. Raises Problem.
    """
    every = {entry.key: entry for part in (entries, ROUTER_TOOLS, *tiers.values()) for entry in part}
    counted = await candidates(work, [*every.values()], own=own)
    theirs = tuple(candidate.tokens for candidate in counted[: len(own.tools)])
    sizes = {key: candidate.tokens for key, candidate in zip(every, counted[len(own.tools) :], strict=True)}

    def tokens(part: Sequence[VisibleTool]) -> tuple[int, ...]:
        return tuple(sizes[entry.key] for entry in part)

    many = len(entries) + len(theirs)
    at_router = [*ROUTER_TOOLS, *(entry for entry in entries if entry.pinned)]
    results = search_answer_tokens(tokens(entries))
    return [
        ExposedTools(LIST, theirs + tokens(entries), many, tier or ""),
        *(
            ExposedTools(TIER, theirs + tokens(part), len(theirs) + len(part), other)
            for other, part in tiers.items()
            if part
        ),
        ExposedTools(SEARCH, theirs + tokens(at_router), many, "", INSTRUCTIONS_TOKENS, results),
    ]


def online(entries: Sequence[VisibleTool]) -> list[VisibleTool]:
    """Tools whose server is not offline."""
    return [entry for entry in entries if not entry.offline]


def compare_exposures(
    task: PlannedTask, fit: Fit, ways: Sequence[ExposedTools], stated: Mapping[str, ModelPrice]
) -> ExposureAdvice:
    """The account of the ways for the task and the model. `stated`: prices that the installation knows of."""
    cache = CacheState(warm=task.warm) if task.caching else None
    if task.search_tokens is not None:
        ways = [msgspec.structs.replace(way, results=task.search_tokens) for way in ways]
    return advise(fit, task.shape(fit), ways, task.prices(fit, stated), cache)
