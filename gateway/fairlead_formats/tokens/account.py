"""Tokens of a whole task, with its tools listed or found by search: every turn reads all that came before it again.

Pure module, in the model's own tokens. A turn is one request to the model. With tools listed there are `turns`, each of
which reads the definitions and the conversation. With search there are `searches` turns more. They are counted before
the others, so that these read the results of every search again: an upper bound for a task that searches in between.
Arguments and results of calls are the same in both, so they count in `conversation` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead_formats.tokens.prices import TokenPrices


class TaskShape(msgspec.Struct, frozen=True):
    """A task as it is with every tool listed."""

    turns: int
    """Requests to the model, the one of the answer included; at least 1."""
    calls: int
    """Calls of tools, all turns together."""
    searches: int
    """Searches where tools are searched for, each in a turn of its own."""
    conversation: int = 0
    """Tokens of system prompt and messages, which every turn reads."""


class SearchTokens(msgspec.Struct, frozen=True):
    """Tokens by which search differs from a list."""

    query: int
    """Tokens of a call of `search_tools`, written by the model."""
    results: int
    """Tokens of its result."""
    wrapped_call: int
    """Written for a call by `execute_tool` beyond what the call of a listed tool takes."""
    wrapped_result: int
    """Tokens of its result beyond that of the tool."""


class CacheState(msgspec.Struct, frozen=True):
    """A cache of prompts at the beginning of a task."""

    warm: bool = False
    """Whether it has definitions and conversation already."""


class TaskTokens(msgspec.Struct, frozen=True):
    """Tokens of a whole task."""

    turns: int
    read: int
    """Tokens that the model reads in all turns, from a cache or not."""
    written: int
    """Tokens that the model writes beyond those with tools listed."""
    largest: int
    """Tokens of the longest prompt."""
    priced: int
    """The uncached input tokens that cost as much as all of them."""

    @property
    def tokens(self) -> int:
        """Read and written."""
        return self.read + self.written


def account_of_list(task: TaskShape, definitions: int, prices: TokenPrices, cache: CacheState | None) -> TaskTokens:
    """The task with tools of `definitions` tokens in every turn. `cache` None: prompts are not cached."""
    return _sum([definitions + task.conversation] * task.turns, 0, prices, cache)


def account_of_search(
    task: TaskShape, definitions: int, search: SearchTokens, prices: TokenPrices, cache: CacheState | None
) -> TaskTokens:
    """The task with search; `definitions` are tokens of the tools that stand in the list all the same."""
    per_search = search.query + search.results
    begun = definitions + task.conversation
    prompts = [begun + per_search * done for done in range(task.searches + 1)]
    called = task.calls * (search.wrapped_call + search.wrapped_result)
    prompts += [prompts[-1] + called] * (task.turns - 1)
    return _sum(prompts, task.searches * search.query + task.calls * search.wrapped_call, prices, cache)


def _sum(prompts: Sequence[int], written: int, prices: TokenPrices, cache: CacheState | None) -> TaskTokens:
    """The account of prompts, each of which begins with the one before it."""
    read = sum(prompts)
    priced = read * 1000 if cache is None else _cached_price(prompts, prices, cache)
    return TaskTokens(len(prompts), read, written, max(prompts), -(-(priced + written * prices.output) // 1000))


def _cached_price(prompts: Sequence[int], prices: TokenPrices, cache: CacheState) -> int:
    """Price of prompts that are cached where they are long enough, in thousandths of an input token's."""
    cached = prompts[0] if cache.warm and prompts[0] >= prices.least else 0
    price = 0
    for prompt in prompts:
        price += cached * prices.read
        cacheable = prompt >= prices.least
        price += (prompt - cached) * (prices.write if cacheable else 1000)
        cached = prompt if cacheable else 0
    return price
