"""Scores many tools by the terms of a query with numpy arrays (extra `search`).

Numbers are added in the same order as in `DictScores`, the implementation without numpy, so that both compute identical
scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead_search.lexicon import RELATED_WEIGHT, lexicon
from fairlead_search.term_scores import MAX_CACHED_TERMS, TermTable, term

Rows = NDArray[Any]
"""Array of row numbers, or array with one value per row. Each row stands for one tool, in the order of the tools'
keys.
"""
NO_WEIGHTS: Final[tuple[Rows, Rows]] = (np.zeros(0, np.int32), np.zeros(0))


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
        matching_rows = np.flatnonzero(scores)
        if len(matching_rows) > limit > 0:
            threshold = np.partition(scores[matching_rows], len(matching_rows) - limit)[len(matching_rows) - limit]
            matching_rows = matching_rows[scores[matching_rows] >= threshold]
        order = matching_rows[np.argsort(-scores[matching_rows], kind="stable")][:limit]
        return [(self._keys[row], float(scores[row])) for row in order]

    def _restrict(self, scores: Rows, allowed_keys: Collection[str]) -> Rows:
        """Set the scores of all tools that are not in `allowed_keys` to 0."""
        rows = np.array([row for key in allowed_keys if (row := self._rows.get(key)) is not None], np.int32)
        restricted = np.zeros_like(scores)
        restricted[rows] = scores[rows]
        return restricted

    def _weights_of(self, word: str) -> tuple[Rows, Rows]:
        """Weights of a term per tool: the best weight of the term itself and of its related words."""
        cached_weights = self._weights.get(word)
        if cached_weights is not None:
            return cached_weights
        best = self._bm25(word, 1.0)
        related_weights = [
            self._bm25(other, RELATED_WEIGHT) for other in lexicon().get(word, ()) if other in self._table.postings
        ]
        if related_weights:
            maxima = np.zeros(len(self._keys))
            for rows, weights in (best, *related_weights):
                maxima[rows] = np.maximum(maxima[rows], weights)
            rows = np.flatnonzero(maxima).astype(np.int32)
            best = rows, maxima[rows]
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[word] = best
        return best

    def _bm25(self, word: str, share: float) -> tuple[Rows, Rows]:
        occurrences = self._table.postings.get(word)
        if not occurrences:
            return NO_WEIGHTS
        factors = term(self._table, len(occurrences), share)
        rows = np.fromiter(map(self._rows.__getitem__, occurrences), np.int32, len(occurrences))
        counts = np.fromiter(occurrences.values(), np.float64, len(occurrences))
        return rows, factors.top * counts / (counts + factors.base + factors.slope * self._lengths[rows])
