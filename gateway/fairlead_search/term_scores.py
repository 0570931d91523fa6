"""Scores tools by the terms of a query, with an immutable table of terms. Pure module.

Scores are BM25 in Lucene's variant (k1 1.2, b 0.75). The weights of a term are computed at its first use and cached, so
that a query only has to add up a few tables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Final, Protocol

import msgspec

from fairlead_search.lexicon import RELATED_WEIGHT, lexicon

K1: Final = 1.2
B: Final = 0.75
MAX_CACHED_TERMS: Final = 2_000
"""Maximum number of terms with cached weights. If there are more, the whole cache is cleared."""


class TermTable(msgspec.Struct, frozen=True):
    """Statistics of terms in a set of tools, for BM25."""

    postings: Mapping[str, Mapping[str, int]]
    """Number of occurrences by term and tool."""
    lengths: Mapping[str, int]
    """Number of terms of each tool."""
    total: int
    """Number of terms of all tools."""


class Bm25Term(msgspec.Struct, frozen=True):
    """Factors of BM25 for one term. A tool with `length` terms, in which the term occurs `times` times, gets the weight
    `top * times / (times + base + slope * length)`.
    """

    top: float
    base: float
    slope: float


class TermScores(Protocol):
    """Ranks tools by terms."""

    def best(self, terms: Iterable[str], limit: int, allowed_keys: Collection[str] | None) -> list[tuple[str, float]]:
        """At most `limit` keys with their scores, best first; equal scores in the order of their keys. `allowed_keys`
        restricts the search to some tools.
        """
        ...


def term(table: TermTable, holders: int, share: float) -> Bm25Term:
    """BM25 factors of a term that occurs in `holders` tools. Weights are multiplied by `share`."""
    rarity = math.log(1 + (len(table.lengths) - holders + 0.5) / (holders + 0.5))
    return Bm25Term(share * rarity * (K1 + 1), K1 * (1 - B), K1 * B * len(table.lengths) / table.total)


class DictScores:
    """`TermScores` without numpy, which is as fast as with numpy if there are few tools."""

    def __init__(self, table: TermTable) -> None:
        self._table = table
        self._weights: dict[str, dict[str, float]] = {}

    def best(self, terms: Iterable[str], limit: int, allowed_keys: Collection[str] | None) -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for query_term in terms:
            for key, weight in self._weights_of(query_term).items():
                scores[key] = scores.get(key, 0.0) + weight
        candidates = (
            scores.items() if allowed_keys is None else ((key, scores[key]) for key in scores.keys() & allowed_keys)
        )
        return nsmallest(limit, candidates, key=lambda pair: (-pair[1], pair[0]))

    def _weights_of(self, word: str) -> dict[str, float]:
        """Weights of a term per tool: the best weight of the term itself and of its related words."""
        cached_weights = self._weights.get(word)
        if cached_weights is not None:
            return cached_weights
        best = self._bm25(word, 1.0)
        for other in lexicon().get(word, ()):
            for key, weight in self._bm25(other, RELATED_WEIGHT).items():
                if weight > best.get(key, 0.0):
                    best[key] = weight
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[word] = best
        return best

    def _bm25(self, word: str, share: float) -> dict[str, float]:
        occurrences = self._table.postings.get(word)
        if not occurrences:
            return {}
        factors, lengths = term(self._table, len(occurrences), share), self._table.lengths
        top, base, slope = factors.top, factors.base, factors.slope
        return {key: top * times / (times + base + slope * lengths[key]) for key, times in occurrences.items()}
