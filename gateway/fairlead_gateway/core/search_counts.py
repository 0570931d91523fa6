"""Counts of searches: how they were ranked, which of their hits were called later, what changed in between, and who
compressed the results that were searched.

Pure module. That a hit is called is the best sign that it was the right one: a recall measured on real requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

MAX_PRINCIPALS: Final = 1_000
"""Principals whose hits are remembered; the one that searched longest ago goes first."""
MAX_HITS: Final = 100
"""Hits of one principal that are remembered; its oldest go first."""


class SearchCounts:
    """Counts of one gateway since its start. Each begins at 0, so that rates see its first increase."""

    def __init__(self) -> None:
        self.searches = dict.fromkeys(("bm25", "hybrid"), 0)
        """By ranking: `bm25`, `hybrid`, `filters`."""
        self.executed = dict.fromkeys(("1", "2-5", "6-"), 0)
        """Hits of which `execute_tool` was asked, by their place in the search: `1`, `2-5`, `6-`."""
        self.changes = dict.fromkeys(("added", "removed", "modified"), 0)
        """Tools that were `added`, `removed` or `modified` in what is searched."""
        self.compressed = dict.fromkeys(("model", "cache", "failed"), 0)
        """Answers that a model was wanted for: it compressed them now (`model`) or before (`cache`), or `failed`."""
        self._hits: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    def compressions(self, outcome: str) -> None:
        """Count an answer that a model was wanted for: `model`, `cache` or `failed`."""
        self.compressed[outcome] += 1

    def count_search(self, principal: str, ranking: str, names: Sequence[str]) -> None:
        """Count a search, and remember the tools that it found, the best first."""
        self.searches[ranking] = self.searches.get(ranking, 0) + 1
        hits = self._hits.setdefault(principal, OrderedDict())
        self._hits.move_to_end(principal)
        for rank, name in enumerate(names, 1):
            hits[name] = rank
            hits.move_to_end(name)
        while len(hits) > MAX_HITS:
            hits.popitem(last=False)
        while len(self._hits) > MAX_PRINCIPALS:
            self._hits.popitem(last=False)

    def count_call(self, principal: str, name: str) -> None:
        """Count the hit that a call goes to, once; any other call is none."""
        rank = self._hits.get(principal, OrderedDict()).pop(name, None)
        if rank is not None:
            kind = "1" if rank == 1 else "2-5" if rank <= 5 else "6-"
            self.executed[kind] = self.executed.get(kind, 0) + 1

    def count_change(self, kind: str, tools: int) -> None:
        """Count tools that were `added`, `removed` or `modified`."""
        if tools:
            self.changes[kind] = self.changes.get(kind, 0) + tools
