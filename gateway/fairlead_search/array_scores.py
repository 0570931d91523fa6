"""Scores of many tools by the terms of a query, as arrays. Needs numpy (extra `search`).

Numbers are added in the order in which `DictScores` adds them, so that scores are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead_search.lexicon import WEIGHT, lexicon
from fairlead_search.term_scores import MAX_CACHED_TERMS, TermTable, term

Rows = NDArray[Any]
"""Places of tools, in the order of their keys."""
NOTHING: Final[tuple[Rows, Rows]] = (np.zeros(0, np.int32), np.zeros(0))


class ArrayScores:
    """`TermScores` with one row for each tool, in the order of their keys."""

    def __init__(self, table: TermTable) -> None:
        self._table = table
        self._keys = sorted(table.lengths)
        self._rows = {key: row for row, key in enumerate(self._keys)}
        self._lengths = np.array([table.lengths[key] for key in self._keys], np.float64)
        self._weights: dict[str, tuple[Rows, Rows]] = {}
        """Rows of the tools that a term finds, and its weights there."""

    def best(self, terms: Iterable[str], limit: int, among: Collection[str] | None) -> list[tuple[str, float]]:
        scores = np.zeros(len(self._keys))
        for each in terms:
            rows, weights = self._weights_of(each)
            scores[rows] += weights
        if among is not None:
            scores = self._only(scores, among)
        chosen = np.flatnonzero(scores)
        if len(chosen) > limit > 0:
            least = np.partition(scores[chosen], len(chosen) - limit)[len(chosen) - limit]
            chosen = chosen[scores[chosen] >= least]
        order = chosen[np.argsort(-scores[chosen], kind="stable")][:limit]
        return [(self._keys[row], float(scores[row])) for row in order]

    def _only(self, scores: Rows, among: Collection[str]) -> Rows:
        rows = np.array([row for key in among if (row := self._rows.get(key)) is not None], np.int32)
        allowed = np.zeros_like(scores)
        allowed[rows] = scores[rows]
        return allowed

    def _weights_of(self, word: str) -> tuple[Rows, Rows]:
        """Weights of a term, related words included: of these the best counts, once."""
        stored = self._weights.get(word)
        if stored is not None:
            return stored
        best = self._bm25(word, 1.0)
        related = [self._bm25(other, WEIGHT) for other in lexicon().get(word, ()) if other in self._table.postings]
        if related:
            every = np.zeros(len(self._keys))
            for rows, weights in (best, *related):
                every[rows] = np.maximum(every[rows], weights)
            rows = np.flatnonzero(every).astype(np.int32)
            best = rows, every[rows]
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[word] = best
        return best

    def _bm25(self, word: str, share: float) -> tuple[Rows, Rows]:
        holders = self._table.postings.get(word)
        if not holders:
            return NOTHING
        of = term(self._table, len(holders), share)
        rows = np.fromiter(map(self._rows.__getitem__, holders), np.int32, len(holders))
        times = np.fromiter(holders.values(), np.float64, len(holders))
        return rows, of.top * times / (times + of.base + of.slope * self._lengths[rows])
