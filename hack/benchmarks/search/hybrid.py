"""Rankings by vectors of the built-in encoder. Needs the extra `search` and its wheel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairlead_search.embedding import VectorText, embedded
from fairlead_search.encoder import encoder, understands
from fairlead_search.hybrid import VectorView
from fairlead_search.index import Bm25Index, Hit
from fairlead_search.record import IndexedTool
from fairlead_search.vectors import VectorStore, encoded
from search.labelled import DEPTH


class HybridRanking:
    """Tools with their vectors, as the process that searches has them."""

    def __init__(self, index: Bm25Index, records: Sequence[IndexedTool]) -> None:
        made = embedded([VectorText(record.key, *record.vector_texts()) for record in records])
        store = VectorStore()
        store.put({record.key: vector for record, vector in zip(records, made.vectors, strict=True)})
        self._index, self._nothing = index, Bm25Index({})
        self._view = VectorView(store, index.keys())

    def by_both(self, query: str) -> list[str]:
        """Ids by words and vectors."""
        return [hit.key for hit in self._hits(self._index, query)]

    def by_vectors(self, query: str) -> list[str]:
        """Ids by vectors alone."""
        return [hit.key for hit in self._hits(self._nothing, query)]

    def _hits(self, index: Bm25Index, query: str) -> list[Hit]:
        if index is self._index and not understands(query):
            return index.search(query, DEPTH)
        return self._view.search(index, query, encoder().encode([query])[0], DEPTH, None)


def random_hybrid(index: Bm25Index, records: Sequence[IndexedTool]) -> Callable[[str], object]:
    """A search among tools with random vectors, the encoding of the query included."""
    rng = np.random.default_rng(7)
    store = VectorStore()
    store.put({record.key: encoded(rng.normal(size=384)) for record in records})
    view = VectorView(store, index.keys())
    return lambda query: view.search(index, query, encoder().encode([query])[0], DEPTH, None)
