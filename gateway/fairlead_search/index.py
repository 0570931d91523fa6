"""Ranks tools by BM25 over their text, widened by related words. Pure module.

Lucene's form of BM25 (k1 1.2, b 0.75). The weights of a query's term are worked out at its first use and kept, so that
a query adds up a few tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, KeysView, Mapping
from heapq import nsmallest
from typing import Final

import msgspec

from fairlead_search.lexicon import WEIGHT, lexicon
from fairlead_search.record import IndexedTool
from fairlead_search.text import query_terms

K1: Final = 1.2
B: Final = 0.75
MAX_CACHED_TERMS: Final = 2_000
"""Terms of queries whose weights are kept; then they are dropped together."""


class Hit(msgspec.Struct, frozen=True):
    """One tool that was found."""

    key: str
    score: float
    """Above 0; comparable within one answer only."""


class Bm25Index:
    """A set of tools that does not change; `changed` makes the next one."""

    def __init__(self, counts: Mapping[str, Counter[str]]) -> None:
        self._counts = dict(counts)
        self._postings: dict[str, dict[str, int]] = {}
        self._lengths: dict[str, int] = {}
        self._weights: dict[str, dict[str, float]] = {}
        for key, found in self._counts.items():
            self._insert(key, found)
        self._total = sum(self._lengths.values())

    @classmethod
    def of(cls, records: Iterable[IndexedTool]) -> Bm25Index:
        """An index of these tools."""
        return cls({record.key: record.counts() for record in records})

    def __len__(self) -> int:
        return len(self._counts)

    def keys(self) -> KeysView[str]:
        """Keys of all tools."""
        return self._counts.keys()

    def with_changes(self, added: Iterable[IndexedTool], removed: Iterable[str]) -> Bm25Index:
        """This index with tools added and without others; this one stays as it is. Costs what changed, and a copy of
        the table of terms.
        """
        new = Bm25Index({})
        new._counts = dict(self._counts)
        new._postings = dict(self._postings)
        new._lengths = dict(self._lengths)
        new._total = self._total
        copied: set[str] = set()
        for key in removed:
            new._take_out(key, copied)
        for record in added:
            new._take_out(record.key, copied)
            found = record.counts()
            new._counts[record.key] = found
            for term in found:
                new._own(term, copied)
            new._insert(record.key, found)
            new._total += new._lengths[record.key]
        return new

    def search(self, query: str, limit: int, among: Collection[str] | None = None) -> list[Hit]:
        """At most `limit` tools, the best first; of the keys in `among` alone where that is given."""
        scores: dict[str, float] = {}
        for term in query_terms(query):
            for key, weight in self._weighed(term).items():
                scores[key] = scores.get(key, 0.0) + weight
        chosen = scores.items() if among is None else ((key, scores[key]) for key in scores.keys() & among)
        return [Hit(key, score) for key, score in nsmallest(limit, chosen, key=lambda pair: (-pair[1], pair[0]))]

    def _weighed(self, term: str) -> dict[str, float]:
        """Weights of a term by tool, related words included: of these the best counts, once."""
        known = self._weights.get(term)
        if known is not None:
            return known
        found = self._bm25(term, 1.0)
        for other in lexicon().get(term, ()):
            for key, weight in self._bm25(other, WEIGHT).items():
                if weight > found.get(key, 0.0):
                    found[key] = weight
        if len(self._weights) >= MAX_CACHED_TERMS:
            self._weights.clear()
        self._weights[term] = found
        return found

    def _bm25(self, term: str, share: float) -> dict[str, float]:
        holders = self._postings.get(term)
        if not holders:
            return {}
        rarity = math.log(1 + (len(self._counts) - len(holders) + 0.5) / (len(holders) + 0.5))
        top, base, slope = share * rarity * (K1 + 1), K1 * (1 - B), K1 * B * len(self._counts) / self._total
        lengths = self._lengths
        return {key: top * times / (times + base + slope * lengths[key]) for key, times in holders.items()}

    def _insert(self, key: str, counts: Counter[str]) -> None:
        self._lengths[key] = counts.total()
        for term, times in counts.items():
            self._postings.setdefault(term, {})[key] = times

    def _take_out(self, key: str, copied: set[str]) -> None:
        counts = self._counts.pop(key, None)
        if counts is None:
            return
        self._total -= self._lengths.pop(key)
        for term in counts:
            self._own(term, copied)
            del self._postings[term][key]

    def _own(self, term: str, copied: set[str]) -> None:
        """Have the postings of a term to itself before they are changed."""
        if term not in copied:
            copied.add(term)
            self._postings[term] = dict(self._postings.get(term, ()))
