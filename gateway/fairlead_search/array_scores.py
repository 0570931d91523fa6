"""Scores many tools by the terms of a query with numpy arrays (extra `search`).

Numbers are added in the same order as in `DictScores`, the implementation without numpy, so that both compute identical
scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead_search.lexicon import WEIGHT, lexicon
from fairlead_search.term_scores import MAX_CACHED_TERMS, TermTable, term

Rows = NDArray[Any]
"""Array of row numbers, or array with one value per row. Each row stands for one tool, in the order of the tools'
keys.
"""
NOTHING: Final[tuple[Rows, Rows]] = (np.zeros(0, np.int32), np.zeros(0))


class ArrayScores:
    """`TermScores` with one array row per tool, sorted by key."""

    def __init__(self, table: TermTable) -> None:
        self._table = table
        self._keys = sorted(table.lengths)
        self._rows = {key: row for row, key in enumerate(self._keys)}
        self._lengths = np.array([table.lengths[key] for key in self._keys], np.float64)
        self._weights: dict[str, tuple[Rows, Rows]] = {}
        """Cache by term: rows of the tools that match the term, and the weight of the term in each of these tools."""

    def best(self, terms: Iterable[str], limit: int, allowed_keys: Collection[str] | None) -> list[tuple[str, float]]:
        scores = np.zeros(len(self._keys))
        for query_term in terms:
            rows, weights = self._weights_of(query_term)
            scores[rows] += weights
        if allowed_keys is not None:
            scores = self._restrict(scores, allowed_keys)
        matching = np.flatnonzero(scores)
        if len(matching) > limit > 0:
            least = np.partition(scores[matching], len(matching) - limit)[len(matching) - limit]
            matching = matching[scores[matching] >= least]
        order = matching[np.argsort(-scores[matching], kind="stable")][:limit]
        return [(self._keys[row], float(scores[row])) for row in order]

    def _restrict(self, scores: Rows, allowed_keys: Collection[str]) -> Rows:
        """Set the scores of all tools that are not in `allowed_keys` to 0."""
        rows = np.array([row for key in allowed_keys if (row := self._rows.get(key)) is not None], np.int32)
        restricted = np.zeros_like(scores)
        restricted[rows] = scores[rows]
        return restricted

    def _weights_of(self, word: str) -> tuple[Rows, Rows]:
        """Weights of a term per tool: the best weight of the term itself and of its related words."""
        stored = self._weights.get(word)
        if stored is not None:
            return stored
        best = self._bm25(word, 1.0)
        related = [self._bm25(other, WEIGHT) for other in lexicon().get(word, ()) if other in self._table.postings]
        if related:
            maxima = np.zeros(len(self._keys))
            for rows, weights in (best, *related):
                maxima[rows] = np.maximum(maxima[rows], weights)
            rows = np.flatnonzero(maxima).astype(np.int32)
            best = rows, maxima[rows]
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[word] = best
        return best

    def _bm25(self, word: str, share: float) -> tuple[Rows, Rows]:
        holders = self._table.postings.get(word)
        if not holders:
            return NOTHING
        factors = term(self._table, len(holders), share)
        rows = np.fromiter(map(self._rows.__getitem__, holders), np.int32, len(holders))
        times = np.fromiter(holders.values(), np.float64, len(holders))
        return rows, factors.top * times / (times + factors.base + factors.slope * self._lengths[rows])
