"""Comparison of ways to show tools to a model: a list of all tools, a list of a tier's tools, or a search for tools.

Pure module. The cheapest way depends on the number of tools and the length of the task. Arguments have the tokens of
definitions as o200k counts them; return values are in the model's own tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_formats.tokens.account import (
    CacheState,
    SearchTokens,
    TaskShape,
    TaskTokens,
    account_of_list,
    account_of_search,
)
from fairlead_formats.tokens.fit import Fit
from fairlead_formats.tokens.prices import TokenPrices

LIST: Final = "list"
TIER: Final = "tier"
SEARCH: Final = "search"

MAX_RESULTS: Final = 8
"""Maximum number of tools in the answer to a search."""
RESULT_FRAME_TOKENS: Final = 18
"""Tokens of server and score, which the answer to a search has beside each definition."""
ANSWER_FRAME_TOKENS: Final = 20
"""Tokens that the answer to a search has beside its entries."""
QUERY_TOKENS: Final = 24
"""Tokens of a call of `search_tools`. The mean of the labelled queries is 16; the rest is the call's envelope."""
WRAPPED_CALL_TOKENS: Final = 50
"""Tokens of the tool's name and the session as arguments of `execute_tool`."""
WRAPPED_RESULT_TOKENS: Final = 80
"""Tokens of the sentence that `execute_tool` adds to a result, which names the session and the entry."""


class ExposedTools(msgspec.Struct, frozen=True):
    """Content of every request to the model, with one way to show tools."""

    way: str
    """`list`, `tier` or `search`."""
    definitions: tuple[int, ...]
    """Tokens of each definition in o200k's count."""
    reachable: int
    """Number of tools that the model can call."""
    tier: str = ""
    """Name of the tier, for the way `tier`."""
    other_tokens: int = 0
    """Tokens of everything else in every request, in o200k's count."""
    results: int = 0
    """Tokens of one answer to a search, in o200k's count."""


class Exposure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One way to show tools, and the tokens of a whole task with it, in the model's own tokens."""

    way: str
    """`list`: all tools are listed. `tier`: only the tools of a tier. `search`: only the tools of `/router/mcp`."""
    listed: int
    """Number of tools in each request."""
    reachable: int
    """Number of tools that the model can call; smaller than for `list` in a tier that hides tools."""
    tool_tokens: int
    """Tokens of the definitions in each request."""
    turns: int
    tokens: int
    """Tokens read and written in all turns, without arguments and results of calls, which are equal in every way."""
    priced_tokens: int
    """Cost of the task, as a number of uncached input tokens of equal price."""
    largest_prompt: int
    fits: bool
    """Whether the model's context window, its provider and the limits allow this way."""
    tier: str = ""


class ExposureAdvice(msgspec.Struct, frozen=True, rename="camel"):
    """All ways to show tools, and the cheapest way that fits."""

    options: tuple[Exposure, ...]
    cheapest: Exposure | None
    """The cheapest way by `pricedTokens`; of equal ways the one that reaches more tools. Null if no way fits."""
    advice: str
    """The comparison as a sentence."""


def search_answer_tokens(definitions: Sequence[int], max_results: int = MAX_RESULTS) -> int:
    """Tokens of one answer to a search in o200k's count, estimated from the mean of the searched definitions."""
    count = min(max_results, len(definitions))
    return ANSWER_FRAME_TOKENS + (
        -(-sum(definitions) * count // len(definitions)) + count * RESULT_FRAME_TOKENS if count else 0
    )


def advise(
    fit: Fit,
    task: TaskShape,
    ways: Iterable[ExposedTools],
    prices: TokenPrices,
    cache: CacheState | None,
) -> ExposureAdvice:
    """Compare the ways to show tools for one model and task. `cache` None: the provider does not cache prompts."""
    options = tuple(_exposure(fit, task, way, prices, cache) for way in ways)
    best_option = _cheapest(options)
    return ExposureAdvice(options, best_option, _sentence(options, best_option, fit))


def _exposure(fit: Fit, task: TaskShape, way: ExposedTools, prices: TokenPrices, cache: CacheState | None) -> Exposure:
    definition_tokens = fit.tokens(sum(way.definitions))
    turn_tokens = definition_tokens + fit.text(way.other_tokens)
    if way.way == SEARCH:
        account = account_of_search(task, turn_tokens, _search_tokens(fit, way), prices, cache)
    else:
        account = account_of_list(task, turn_tokens, prices, cache)
    return Exposure(
        way=way.way,
        listed=len(way.definitions),
        reachable=way.reachable,
        tool_tokens=definition_tokens,
        turns=account.turns,
        tokens=account.tokens,
        priced_tokens=account.priced,
        largest_prompt=account.largest,
        fits=_fits(fit, way, definition_tokens, account),
        tier=way.tier,
    )


def _search_tokens(fit: Fit, way: ExposedTools) -> SearchTokens:
    return SearchTokens(
        fit.text(QUERY_TOKENS), fit.text(way.results), fit.text(WRAPPED_CALL_TOKENS), fit.text(WRAPPED_RESULT_TOKENS)
    )


def _fits(fit: Fit, way: ExposedTools, definitions: int, account: TaskTokens) -> bool:
    return account.largest <= fit.input and fit.allows(len(way.definitions), definitions)


def _cheapest(options: Iterable[Exposure]) -> Exposure | None:
    return min(
        (option for option in options if option.fits),
        key=lambda option: (option.priced_tokens, -option.reachable),
        default=None,
    )


def _sentence(options: Sequence[Exposure], best_option: Exposure | None, fit: Fit) -> str:
    if best_option is None:
        return f"none of the ways to show the tools fits {fit.model.name}: {_obstacle(options, fit)}"
    full_list = next((option for option in options if option.way == LIST), best_option)
    sentence = f"{_name_of(best_option)} is cheapest: the task costs {best_option.priced_tokens:,} input tokens"
    if best_option is not full_list:
        sentence += (
            f", {_difference(best_option, full_list)} than with {_name_of(full_list)} ({full_list.priced_tokens:,})"
        )
        sentence += "" if full_list.fits else ", which does not fit"
    alternative = _cheapest(option for option in options if option.reachable >= full_list.reachable)
    if best_option.reachable < full_list.reachable and alternative is not None:
        hidden_count = full_list.reachable - best_option.reachable
        tools = "1 tool; with it" if hidden_count == 1 else f"{hidden_count} tools; with all of them"
        sentence += f". It hides {tools} {_name_of(alternative)} is cheapest ({alternative.priced_tokens:,})"
    return sentence


def _obstacle(options: Sequence[Exposure], fit: Fit) -> str:
    """The limit that even the way with the shortest prompt exceeds: the context window or a limit on tools."""
    shortest_option = min(options, key=lambda option: option.largest_prompt, default=None)
    if shortest_option is None or shortest_option.largest_prompt > fit.input:
        return f"a prompt may have at most {fit.input:,} tokens"
    if fit.max_tools is not None and shortest_option.listed > fit.max_tools:
        number = f"{fit.max_tools:,} tool{' is' if fit.max_tools == 1 else 's are'}"
        return f"{_name_of(shortest_option)} lists {shortest_option.listed:,} tools, and {number} allowed"
    tokens = f"{shortest_option.tool_tokens:,} tokens, and {fit.tool_tokens or 0:,} are allowed"
    return f"the tools of {_name_of(shortest_option)} have {tokens}"


def _difference(best_option: Exposure, full_list: Exposure) -> str:
    share = 100 * (full_list.priced_tokens - best_option.priced_tokens) / max(1, full_list.priced_tokens)
    return f"{share:.1f} % less" if share >= 0 else f"{-share:.1f} % more"


def _name_of(option: Exposure) -> str:
    if option.way == SEARCH:
        return "search at /router/mcp"
    if option.way == TIER:
        return f"tier {option.tier}"
    name = f"a list of all {option.listed} tools" if option.listed > 1 else "a list"
    return f"{name} of tier {option.tier}" if option.tier else name
