"""Cache of the scores of tools for pages, valid for one snapshot. Use it only in the worker thread.

Open pages are refreshed every few seconds. Computing ten thousand scores takes 60 ms, or 0.3 s if the REST API encodes
them as JSON, and tool calls would wait for the interpreter during this time. So scores are cached without their call
counters, and only the counters are read for each page.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Final

from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_rest.call_counts import CallCountReading, ToolLabels
from fairlead_rest.resources.scores import Badge, Leaderboard, Score, boards, score_tools

MAX_INDEXES: Final = 8
"""Maximum number of cached indexes. All principals that see the same tools share one index."""
NO_COUNTS: Final = CallCountReading({}, is_complete=False)


class ScoreIndex:
    """Scores of all tools that a principal sees, without call counters. Principals that see the same tools share it."""

    def __init__(self, catalog: SubjectCatalog) -> None:
        self.views: Mapping[bytes, View] = catalog.views
        """Views from which the scores were made. Their `id` is the key of the cache, and no other object can get this
        `id` while the reference exists.
        """
        self.tools: list[Score] = score_tools(catalog, NO_COUNTS)
        by_server: dict[str, list[Score]] = {}
        for score in self.tools:
            by_server.setdefault(score.server, []).append(score)
        self.by_server: Mapping[str, list[Score]] = by_server
        merged = catalog.snapshot.merged
        self.labels: Mapping[str, ToolLabels] = {
            score.name: (merged[score.name][1].name, score.server) for score in self.tools
        }
        """Labels of the call counters, by exposed name."""
        self.visible = frozenset(self.labels.values())
        self.slowest = {server: slowest for server, scores in by_server.items() if (slowest := _slowest_score(scores))}
        """Slowest measured tool by server."""

    @cached_property
    def boards(self) -> list[Leaderboard]:
        """Leaderboards of all categories."""
        return boards(self.tools, None)

    @cached_property
    def badges(self) -> Mapping[Badge | None, int]:
        """Number of tools by badge; the key None stands for tools that were not measured."""
        return Counter(score.badge for score in self.tools)


class ScoreCache:
    """LRU cache of score indexes, one for all principals that see the same tools."""

    def __init__(self, max_indexes: int = MAX_INDEXES) -> None:
        self._max_indexes = max_indexes
        self._snapshot: Snapshot | None = None
        self._indexes: OrderedDict[int, ScoreIndex] = OrderedDict()

    def of(self, catalog: SubjectCatalog) -> ScoreIndex:
        """Return the index for a principal's catalog."""
        if self._snapshot is not catalog.snapshot:
            self._snapshot = catalog.snapshot
            self._indexes = OrderedDict()
        index = self._indexes.get(id(catalog.views))
        if index is None:
            index = self._indexes[id(catalog.views)] = ScoreIndex(catalog)
            if len(self._indexes) > self._max_indexes:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(id(catalog.views))
        return index


def _slowest_score(scores: list[Score]) -> Score | None:
    return max(
        (score for score in scores if score.p95_ms is not None), key=lambda score: score.p95_ms or 0.0, default=None
    )
