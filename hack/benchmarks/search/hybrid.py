"""Rankings by vectors of the built-in encoder, for every vector store. They require the extra `search` and its
wheel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fairlead_search.embedding import VectorText, embed
from fairlead_search.encoder import encoder, understands
from fairlead_search.index_interfaces import SearchBackend, ToolVector
from fairlead_search.indexed_tool import IndexedTool
from fairlead_search.vectors import encode
from search.labelled import DEPTH


def made_vectors(records: Sequence[IndexedTool]) -> dict[str, ToolVector]:
    """Vectors of tools from the encoder."""
    made = embed([VectorText(record.key, *record.vector_texts()) for record in records])
    return {record.key: ToolVector(vector, record.key) for record, vector in zip(records, made.vectors, strict=True)}


def random_vectors(records: Sequence[IndexedTool]) -> dict[str, ToolVector]:
    """Random vectors, whose search costs the same."""
    rng = np.random.default_rng(7)
    return {record.key: ToolVector(encode(rng.normal(size=384)), record.key) for record in records}


class HybridRanking:
    """Tools with their vectors, as in the process that searches."""

    def __init__(
        self, backend: SearchBackend, records: Sequence[IndexedTool], vectors: Mapping[str, ToolVector]
    ) -> None:
        backend.put(vectors)
        self._backend = backend
        self._index = backend.index(records)
        self._nameless = backend.index([IndexedTool(record.key, "", "") for record in records])

    def by_both(self, query: str) -> list[str]:
        """Ids ranked by words and vectors."""
        vector = encoder().encode([query])[0] if understands(query) else None
        return [hit.key for hit in self._index.search(query, vector, DEPTH)]

    def by_vectors(self, query: str) -> list[str]:
        """Ids ranked by vectors alone."""
        return [hit.key for hit in self._nameless.search(query, encoder().encode([query])[0], DEPTH)]

    def swapping(self, new: IndexedTool, removed: str, query: str) -> Callable[[], Any]:
        """Function that adds a tool with a new vector at each call, without the tool `removed`, and searches."""
        rng = np.random.default_rng(8)
        vector = encoder().encode([query])[0]

        def swap() -> None:
            made = encode(rng.normal(size=384))
            self._backend.put({new.key: ToolVector(made, f"{new.key} {made.hex()[:32]}")})
            self._index.with_changes([new], [removed]).search(query, vector, DEPTH)

        return swap
