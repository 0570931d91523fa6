"""Tokens of whole tasks with every tool listed and with search, over catalogs of many sizes: saved how much, from how
many tools on.

A task is one labelled query of the half for tuning, or three of them one after the other. Its tools are found as
`search_tools` finds them, by words, and the answers are counted; one that lacks the tool among its eight is asked for
again. Catalogs are the project's own tools in a random order, then others of the size of public ones. Tokens are
o200k's; prices of the cache are Anthropic's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from statistics import fmean
from typing import Any, Final

from fairlead_formats.tokens.account import (
    CacheState,
    SearchTokens,
    TaskShape,
    TaskTokens,
    account_of_list,
    account_of_search,
)
from fairlead_formats.tokens.counting import TokenCounter, best_counter
from fairlead_formats.tokens.exposure import MAX_RESULTS, QUERY_TOKENS, WRAPPED_CALL_TOKENS, WRAPPED_RESULT_TOKENS
from fairlead_formats.tokens.prices import CLAUDE
from fairlead_formats.tokens.sizes import Sizes
from fairlead_gateway.core.meta_tools import DEFINITIONS
from fairlead_offers.plan.exposed_tools import INSTRUCTIONS_TOKENS
from fairlead_search.bm25_index import Bm25Index
from fairlead_search.indexed_tool import record
from rig.definitions import definition
from rig.harness import Cell, Goal, Report
from search.labelled import own

SIZES: Final = (20, 50, 100, 200, 500, 1000, 2000, 5000)
SHAPES: Final = ((1, 0), (1, 2000), (3, 2000))
"""Number of calls in a task, and number of tokens of the conversation before it."""
CACHES: Final[dict[str, CacheState | None]] = {"": None, ", cache": CacheState(), ", warm cache": CacheState(warm=True)}
GOAL: Final = 95
"""Percentage of tokens to save without a prompt cache."""
GOAL_TOOLS: Final = 1000


@dataclass(frozen=True)
class FoundQuery:
    """One query with the costs of its searches."""

    searches: int
    results: int
    """Number of tokens of one answer."""


class Catalog:
    """The first tools of a random order, and the queries whose tools are among them."""

    def __init__(self, tools: list[dict[str, Any]], queries: list[dict[str, Any]], sizes: Sizes) -> None:
        tool_ids = {tool["id"] for tool in tools}
        self._tools = {tool["id"]: tool for tool in tools}
        self._queries = [query for query in queries if tool_ids.issuperset(query["groups"][0])]
        self._sizes = sizes
        self.definitions = sum(sizes.of({**tool, "name": tool["id"]}).tokens for tool in tools)

    @cached_property
    def queries(self) -> list[FoundQuery]:
        """All queries."""
        index = Bm25Index.of([record(key, tool["server"], tool) for key, tool in self._tools.items()])
        return [self._query(index, query) for query in self._queries]

    def _query(self, index: Bm25Index, query: dict[str, Any]) -> FoundQuery:
        hits = index.search(query["query"], MAX_RESULTS)
        shown = [_shown(self._tools[hit.key], hit.score) for hit in hits]
        answer = {"tools": shown, "searched": len(self._tools), "ranking": "bm25"}
        results = self._sizes.counter.count(json.dumps(answer, ensure_ascii=False, separators=(",", ":")))
        hit = not {hit.key for hit in hits}.isdisjoint(query["groups"][0])
        return FoundQuery(1 if hit else 2, results)


def _shown(tool: dict[str, Any], score: float) -> dict[str, Any]:
    """A tool in the form of `search_tools` answers."""
    about = {"description": tool["description"], "inputSchema": tool["inputSchema"]}
    return {"name": tool["id"], "server": f"default/{tool['server']}", "score": round(score, 3), **about}


@dataclass(frozen=True)
class Account:
    """Mean cost of tasks in input tokens, at the price of uncached tokens."""

    listed: float
    searched: float

    @property
    def saved(self) -> float:
        """Percentage of the cost that search saves; negative if search costs more."""
        return 100 * (1 - self.searched / self.listed)


class Accounts:
    """Accounts over several random orders of the tools. Each size is searched at most once."""

    def __init__(self, orders: int) -> None:
        counter: TokenCounter = best_counter()
        self._sizes = Sizes(counter)
        self._router = sum(self._sizes.of(raw).tokens for raw in DEFINITIONS) + INSTRUCTIONS_TOKENS
        labelled = own("tuning")
        self._queries = labelled.queries
        self._orders = [[*_shuffled(labelled.tools, seed), *_others(max(SIZES), seed)] for seed in range(orders)]
        self._catalogs: dict[int, list[Catalog]] = {}

    def catalogs(self, size: int) -> list[Catalog]:
        """One catalog of each order."""
        if size not in self._catalogs:
            self._catalogs[size] = [Catalog(order[:size], self._queries, self._sizes) for order in self._orders]
        return self._catalogs[size]

    def missed(self, size: int) -> float:
        """Share of queries whose first search does not return the tool."""
        return fmean(search.searches > 1 for catalog in self.catalogs(size) for search in catalog.queries)

    def of(self, size: int, calls: int, conversation: int, cache: CacheState | None) -> Account:
        """Mean over all tasks with a given number of calls."""
        spent = [
            pair
            for catalog in self.catalogs(size)
            for steps in tasks(catalog.queries, calls)
            for pair in (self._task(catalog, steps, conversation, cache),)
        ]
        return Account(fmean(ours.priced for ours, _ in spent), fmean(theirs.priced for _, theirs in spent))

    def _task(
        self, catalog: Catalog, steps: list[FoundQuery], conversation: int, cache: CacheState | None
    ) -> tuple[TaskTokens, TaskTokens]:
        calls = len(steps)
        searches = sum(step.searches for step in steps)
        results = round(sum(step.searches * step.results for step in steps) / searches)
        task = TaskShape(calls + 1, calls, searches, conversation)
        search = SearchTokens(QUERY_TOKENS, results, WRAPPED_CALL_TOKENS, WRAPPED_RESULT_TOKENS)
        return (
            account_of_list(task, catalog.definitions, CLAUDE, cache),
            account_of_search(task, self._router, search, CLAUDE, cache),
        )

    def crossover(self, calls: int, conversation: int, cache: CacheState | None) -> int:
        """Number of tools from which search costs less than a list."""
        low, high = 2, max(SIZES)
        while high - low > 1:
            middle = (low + high) // 2
            if self.of(middle, calls, conversation, cache).saved > 0:
                high = middle
            else:
                low = middle
        return high


def _shuffled(tools: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    return random.Random(seed).sample(tools, len(tools))


def _others(count: int, seed: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    for index in range(count):
        made = definition(index, rng)
        yield {**made, "id": f"other__{made['name']}", "server": "other"}


def tasks(queries: list[FoundQuery], calls: int) -> Iterator[list[FoundQuery]]:
    """Queries in groups of a given size. An incomplete last group is dropped; if there are few queries, they are
    repeated.
    """
    for start in range(0, max(1, len(queries) - calls + 1), calls):
        yield [*islice(queries, start, start + calls)] if len(queries) >= calls else (queries * calls)[:calls]


def account(report: Report, *, quick: bool) -> None:
    """Rows, goals and notes."""
    accounts = Accounts(1 if quick else 5)
    for calls, conversation in SHAPES:
        for size in SIZES:
            row: dict[str, Cell] = {"task": _task_name(calls, conversation), "tools": size}
            for name, cache in CACHES.items():
                costs = accounts.of(size, calls, conversation, cache)
                row |= {f"list{name}": costs.listed, f"search{name}": costs.searched, f"saved{name}, %": costs.saved}
                if size == GOAL_TOOLS and cache is None:
                    goal = f"saved at {size:,} tools, {_task_name(calls, conversation)}"
                    report.goals.append(Goal(goal, costs.saved, "%", at_least=GOAL))
            report.rows.append(row)
        crossovers = (f"{accounts.crossover(calls, conversation, cache)}{name}" for name, cache in CACHES.items())
        report.notes.append(
            f"search costs less from so many tools on, {_task_name(calls, conversation)}: {'; '.join(crossovers)}"
        )
    missed = ", ".join(f"{100 * accounts.missed(size):.0f} % of {size:,}" for size in SIZES)
    report.notes.append(f"searched again, because the first eight tools lacked the one that was wanted: {missed}")


def _task_name(calls: int, conversation: int) -> str:
    return f"{calls} call{'s' if calls > 1 else ''}, conversation of {conversation:,} tokens"
