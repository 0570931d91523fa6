"""Estimate of the tokens of a whole task, for a model that gets all tools listed or that searches for tools.

Pure module; all numbers are in the model's own tokens. A turn is one request to the model, and reads all earlier turns
again. With tools listed a task has `turns` turns, each of which reads the definitions and the conversation. With search
it has `searches` turns more. The account puts these first, so that all other turns read the results of every search
again: an upper bound, because a real task also searches later. Arguments and results of calls are equal with a list and
with search, and count only in `conversation`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_formats.tokens.prices import TokenPrices


class TaskShape(msgspec.Struct, frozen=True):
    """Size of a task with all tools listed."""

    turns: int
    """Requests to the model, including the one with the final answer; at least 1."""
    calls: int
    """Calls of tools in all turns together."""
    searches: int
    """Searches for tools, if the tools are not listed. Each search takes a turn of its own."""
    conversation: int = 0
    """Tokens of system prompt and messages, which every turn reads."""


class SearchTokens(msgspec.Struct, frozen=True):
    """Tokens that a search for tools costs in addition, compared with a list of all tools."""

    query: int
    """Tokens that the model writes for one call of `search_tools`."""
    results: int
    """Tokens of the result of a search."""
    wrapped_call: int
    """Additional tokens of a call through `execute_tool`, compared with a call of a listed tool."""
    wrapped_result: int
    """Additional tokens of the result of `execute_tool`, compared with the tool's own result."""


class CacheState(msgspec.Struct, frozen=True):
    """State of the provider's prompt cache at the beginning of a task."""

    warm: bool = False
    """Whether the cache holds the definitions and the conversation."""


class TaskTokens(msgspec.Struct, frozen=True):
    """Token account of a whole task."""

    turns: int
    """Requests to the model."""
    read: int
    """Tokens that the model reads in all turns, from the cache or not."""
    written: int
    """Tokens that the model writes in addition to what it would write with tools listed; 0 with tools listed."""
    largest: int
    """Tokens of the longest prompt."""
    priced: int
    """Cost of the task, as a number of uncached input tokens of equal price."""

    @property
    def tokens(self) -> int:
        """Tokens read, and tokens written in addition to those of a task with tools listed."""
        return self.read + self.written


def account_of_list(task: TaskShape, definitions: int, prices: TokenPrices, cache: CacheState | None) -> TaskTokens:
    """Account of a task in which every turn lists all tools. `definitions`: tokens of the tools. `cache` None: no
    cache.
    """
    return _sum([definitions + task.conversation] * task.turns, 0, prices, cache)


def account_of_search(
    task: TaskShape, definitions: int, search: SearchTokens, prices: TokenPrices, cache: CacheState | None
) -> TaskTokens:
    """Account of a task with search. `definitions`: tokens of the few tools that are listed, such as `search_tools`."""
    per_search = search.query + search.results
    first_prompt = definitions + task.conversation
    prompts = [first_prompt + per_search * search_count for search_count in range(task.searches + 1)]
    calls = task.calls * (search.wrapped_call + search.wrapped_result)
    prompts += [prompts[-1] + calls] * (task.turns - 1)
    return _sum(prompts, task.searches * search.query + task.calls * search.wrapped_call, prices, cache)


def _sum(prompts: Sequence[int], written: int, prices: TokenPrices, cache: CacheState | None) -> TaskTokens:
    """Account of prompts, each of which begins with the previous one."""
    read = sum(prompts)
    priced = read * 1000 if cache is None else _cached_price(prompts, prices, cache)
    return TaskTokens(len(prompts), read, written, max(prompts), -(-(priced + written * prices.output) // 1000))


def _cached_price(prompts: Sequence[int], prices: TokenPrices, cache: CacheState) -> int:
    """Price of prompts, in thousandths of an input token's price. A prompt of fewer than `prices.min_cached_prompt`
    tokens is not cached.
    """
    cached_tokens = prompts[0] if cache.warm and prompts[0] >= prices.min_cached_prompt else 0
    price = 0
    for prompt in prompts:
        price += cached_tokens * prices.read
        is_cacheable = prompt >= prices.min_cached_prompt
        price += (prompt - cached_tokens) * (prices.write if is_cacheable else 1000)
        cached_tokens = prompt if is_cacheable else 0
    return price
