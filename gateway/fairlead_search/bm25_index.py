"""Ranks tools by BM25 over their text and by related words. Pure module; uses numpy for many tools, if installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, KeysView, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Final

import msgspec

from fairlead_search.indexed_tool import IndexedTool
from fairlead_search.term_scores import DictScores, TermScores, TermTable
from fairlead_search.text import query_terms

MIN_NUMPY_TOOLS: Final = 512
"""Minimum number of tools for which scoring with numpy is faster, including the time to import numpy."""


class Hit(msgspec.Struct, frozen=True):
    """A tool that matches a query."""

    key: str
    score: float
    """Score above 0. Scores of different searches cannot be compared."""


class Bm25Index:
    """Immutable BM25 index of tools; `with_changes` derives a changed index."""

    def __init__(self, counts: Mapping[str, Counter[str]]) -> None:
        self._counts = dict(counts)
        self._postings: dict[str, dict[str, int]] = {}
        self._lengths: dict[str, int] = {}
        self._scores: TermScores | None = None
        for key, terms in self._counts.items():
            self._insert(key, terms)
        self._total_length = sum(self._lengths.values())

    @classmethod
    def of(cls, records: Iterable[IndexedTool]) -> Bm25Index:
        """Create an index of tools."""
        return cls({record.key: record.counts() for record in records})

    def __len__(self) -> int:
        return len(self._counts)

    def keys(self) -> KeysView[str]:
        """Keys of all tools."""
        return self._counts.keys()

    def with_changes(self, added_tools: Iterable[IndexedTool], removed_keys: Iterable[str]) -> Bm25Index:
        """Derive an index with some tools added and others removed. The time depends on the number of changed tools,
        except for a shallow copy of the table of terms.
        """
        derived = Bm25Index({})
        derived._counts = dict(self._counts)
        derived._postings = dict(self._postings)
        derived._lengths = dict(self._lengths)
        derived._total_length = self._total_length
        copied_terms: set[str] = set()
        for key in removed_keys:
            derived._remove(key, copied_terms)
        for record in added_tools:
            derived._remove(record.key, copied_terms)
            terms = record.counts()
            derived._counts[record.key] = terms
            for term in terms:
                derived._copy_postings(term, copied_terms)
            derived._insert(record.key, terms)
            derived._total_length += derived._lengths[record.key]
        return derived

    def search(self, query: str, limit: int, allowed_keys: Collection[str] | None = None) -> list[Hit]:
        """At most `limit` matching tools, best first. `allowed_keys` restricts the search to some tools."""
        if self._scores is None:
            self._scores = scores_of(TermTable(self._postings, self._lengths, self._total_length))
        return [Hit(key, score) for key, score in self._scores.best(query_terms(query), limit, allowed_keys)]

    def _insert(self, key: str, counts: Counter[str]) -> None:
        self._lengths[key] = counts.total()
        for term, times in counts.items():
            self._postings.setdefault(term, {})[key] = times

    def _remove(self, key: str, copied_terms: set[str]) -> None:
        counts = self._counts.pop(key, None)
        if counts is None:
            return
        self._total_length -= self._lengths.pop(key)
        for term in counts:
            self._copy_postings(term, copied_terms)
            del self._postings[term][key]

    def _copy_postings(self, term: str, copied_terms: set[str]) -> None:
        """Copy the postings of a term before they are changed, because the original index shares them."""
        if term not in copied_terms:
            copied_terms.add(term)
            self._postings[term] = dict(self._postings.get(term, ()))


def scores_of(table: TermTable) -> TermScores:
    """Create the implementation of `TermScores` that is faster for the number of tools in `table`."""
    if len(table.lengths) < MIN_NUMPY_TOOLS or not _has_numpy():
        return DictScores(table)
    from fairlead_search.array_scores import ArrayScores

    return ArrayScores(table)


@cache
def _has_numpy() -> bool:
    return find_spec("numpy") is not None
