"""Scores of tools by the terms of a query, over a table of terms that does not change. Pure module.

Lucene's form of BM25 (k1 1.2, b 0.75). The weights of a query's term are worked out at its first use and kept, so that
a query adds up a few tables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Final, Protocol

import msgspec

from fairlead_search.lexicon import WEIGHT, lexicon

K1: Final = 1.2
B: Final = 0.75
MAX_CACHED_TERMS: Final = 2_000
"""Terms of queries whose weights are kept; then they are dropped together."""


class TermTable(msgspec.Struct, frozen=True):
    """Counts of terms in a set of tools, as BM25 takes them."""

    postings: Mapping[str, Mapping[str, int]]
    """Times that a term stands in each tool that has it."""
    lengths: Mapping[str, int]
    """Terms of each tool."""
    total: int
    """Terms of all tools."""


class Bm25Term(msgspec.Struct, frozen=True):
    """BM25 of one term: `top * times / (times + base + slope * length)` for each tool that has it."""

    top: float
    base: float
    slope: float


class TermScores(Protocol):
    """Ranks tools by terms."""

    def best(self, terms: Iterable[str], limit: int, among: Collection[str] | None) -> list[tuple[str, float]]:
        """At most `limit` keys with their scores, the best first, equal ones by their key; of `among` alone where that
        is given.
        """
        ...


def term(table: TermTable, holders: int, share: float) -> Bm25Term:
    """A term that so many tools have, of which a `share` counts."""
    rarity = math.log(1 + (len(table.lengths) - holders + 0.5) / (holders + 0.5))
    return Bm25Term(share * rarity * (K1 + 1), K1 * (1 - B), K1 * B * len(table.lengths) / table.total)


class DictScores:
    """`TermScores` without numpy: as fast for few tools."""

    def __init__(self, table: TermTable) -> None:
        self._table = table
        self._weights: dict[str, dict[str, float]] = {}

    def best(self, terms: Iterable[str], limit: int, among: Collection[str] | None) -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for each in terms:
            for key, weight in self._weights_of(each).items():
                scores[key] = scores.get(key, 0.0) + weight
        chosen = scores.items() if among is None else ((key, scores[key]) for key in scores.keys() & among)
        return nsmallest(limit, chosen, key=lambda pair: (-pair[1], pair[0]))

    def _weights_of(self, word: str) -> dict[str, float]:
        """Weights of a term by tool, related words included: of these the best counts, once."""
        stored = self._weights.get(word)
        if stored is not None:
            return stored
        best = self._bm25(word, 1.0)
        for other in lexicon().get(word, ()):
            for key, weight in self._bm25(other, WEIGHT).items():
                if weight > best.get(key, 0.0):
                    best[key] = weight
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[word] = best
        return best

    def _bm25(self, word: str, share: float) -> dict[str, float]:
        holders = self._table.postings.get(word)
        if not holders:
            return {}
        of, lengths = term(self._table, len(holders), share), self._table.lengths
        top, base, slope = of.top, of.base, of.slope
        return {key: top * times / (times + base + slope * lengths[key]) for key, times in holders.items()}
