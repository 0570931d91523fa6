"""Ranks tools by words and vectors together, with vectors in memory. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np

from fairlead_search.bm25_index import Bm25Index, Hit
from fairlead_search.fusion import DEPTH, fuse
from fairlead_search.vectors import Matrix, VectorStore, largest_cosines

NAME_SHARE: Final = 0.25
"""Weight of the vector of a tool's name in the vector of the tool; the vector of its whole text has the rest."""
MIN_COVERED: Final = 0.9
"""Minimum fraction of tools with a vector. If fewer tools have a vector, all tools are ranked by words only, because
the few tools with a vector would win too often.
"""


class VectorView:
    """Vectors of the tools of one catalog: some rows of the store that all search catalogs share."""

    def __init__(self, store: VectorStore, keys: Collection[str]) -> None:
        self._store = store
        self._keys = keys
        self._version = -1
        """Version of the store that `_tools`, `_rows` and `_indexes` were read from."""
        self._tools: list[str] = []
        """Keys of the tools with a vector."""
        self._rows: Any = None
        """Row number in the store of each tool in `_tools`."""
        self._indexes: dict[str, int] = {}
        """Index of each tool in `_tools`."""

    def _read(self) -> None:
        if self._version != self._store.version:
            self._tools, self._rows = self._store.rows(self._keys)
            self._indexes = {key: index for index, key in enumerate(self._tools)}
            self._version = self._store.version

    def __len__(self) -> int:
        self._read()
        return len(self._tools)

    @property
    def ranks_by_vectors(self) -> bool:
        """Whether enough tools have a vector to rank by vectors."""
        return 0 < len(self) >= MIN_COVERED * len(self._keys)

    def search(
        self, words: Bm25Index, query: str, vector: Matrix, limit: int, allowed_keys: Collection[str] | None
    ) -> list[Hit]:
        """Search by words and by vector, and merge both rankings. `allowed_keys` restricts the search to some tools."""
        self._read()
        word_scores = {hit.key: hit.score for hit in words.search(query, DEPTH, allowed_keys)}
        all_cosines = self._store.cosines(vector, self._rows)
        if allowed_keys is None:
            candidates = largest_cosines(all_cosines, DEPTH)
        else:
            allowed_indexes = np.array(
                [row for key in allowed_keys if (row := self._indexes.get(key)) is not None], np.int64
            )
            candidates = allowed_indexes[largest_cosines(all_cosines[allowed_indexes], DEPTH)]
        cosines = {self._tools[index]: float(all_cosines[index]) for index in candidates}
        for key in word_scores:
            if key not in cosines and key in self._indexes:
                cosines[key] = float(all_cosines[self._indexes[key]])
        return [Hit(key, score) for key, score in fuse(word_scores, cosines, limit)]


def tool_vectors(text_vectors: Matrix, name_vectors: Matrix) -> Matrix:
    """Compute vectors of tools from the vectors of their whole texts and names, one row per tool."""
    mixed: Matrix = (1 - NAME_SHARE) * text_vectors + NAME_SHARE * name_vectors
    return mixed
