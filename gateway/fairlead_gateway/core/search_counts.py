"""Counters of tool search: rankings, hits that were called later, changes of the index, and compressed results.

Pure module. If an agent later calls a tool that a search returned, the hit was probably relevant. So these counters
show the quality of the search on real requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

MAX_PRINCIPALS: Final = 1_000
"""Maximum number of principals whose hits are stored; the principal with the oldest search is dropped first."""
MAX_HITS: Final = 100
"""Maximum number of hits stored per principal; the oldest are dropped first."""


class SearchCounts:
    """Counters of one gateway since its start. Each begins at 0, so that rates include the first increase."""

    def __init__(self) -> None:
        self.searches = dict.fromkeys(("bm25", "hybrid"), 0)
        """Searches by ranking: `bm25`, `hybrid` or `filters`."""
        self.executed = dict.fromkeys(("1", "2-5", "6-"), 0)
        """Hits that `execute_tool` called, by their rank: `1`, `2-5` or `6-`."""
        self.changes = dict.fromkeys(("added", "removed", "modified"), 0)
        """Tools of the search index that were `added`, `removed` or `modified`."""
        self.compressed = dict.fromkeys(("model", "cache", "failed"), 0)
        """Results to be compressed by a model: compressed now (`model`), found in the `cache`, or `failed`."""
        self._hits: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()
        """Ranks of tools in recent searches that were not called yet, by principal and tool name."""

    def count_compression(self, outcome: str) -> None:
        """Count a result to be compressed by its outcome: `model`, `cache` or `failed`."""
        self.compressed[outcome] += 1

    def count_search(self, principal: str, ranking: str, names: Sequence[str]) -> None:
        """Count a search and store its hits; `names` are ordered by rank."""
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
        """Count a call of a stored hit; each hit counts once, and calls of other tools do not count."""
        rank = self._hits.get(principal, OrderedDict()).pop(name, None)
        if rank is not None:
            kind = "1" if rank == 1 else "2-5" if rank <= 5 else "6-"
            self.executed[kind] = self.executed.get(kind, 0) + 1

    def count_change(self, kind: str, tools: int) -> None:
        """Count `tools` tools of the search index that were `added`, `removed` or `modified` (`kind`)."""
        if tools:
            self.changes[kind] = self.changes.get(kind, 0) + tools
