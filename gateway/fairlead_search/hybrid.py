"""An index that ranks by words and by vectors at once, in memory. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np

from fairlead_search.fusion import DEPTH, fuse
from fairlead_search.index import Bm25Index, Hit
from fairlead_search.vectors import Matrix, VectorStore, nearest

NAME_SHARE: Final = 0.25
"""Part of a tool's vector that is that of its name; the rest is that of its whole text."""
MIN_COVERED: Final = 0.9
"""Part of the tools that have a vector, below which words alone rank: with fewer, those with one would win."""


class VectorView:
    """The vectors of one catalog's tools: rows of the store that all catalogs share."""

    def __init__(self, store: VectorStore, keys: Collection[str]) -> None:
        self._store = store
        self._keys = keys
        self._version = -1
        self._named: list[str] = []
        self._rows: Any = None
        self._places: dict[str, int] = {}

    def _read(self) -> None:
        if self._version != self._store.version:
            self._named, self._rows = self._store.rows(self._keys)
            self._places = {key: row for row, key in enumerate(self._named)}
            self._version = self._store.version

    def __len__(self) -> int:
        self._read()
        return len(self._named)

    @property
    def covers(self) -> bool:
        """Whether enough of the tools have a vector."""
        return 0 < len(self) >= MIN_COVERED * len(self._keys)

    def search(
        self, index: Bm25Index, query: str, vector: Matrix, limit: int, among: Collection[str] | None
    ) -> list[Hit]:
        """The best by words and by vector, joined."""
        self._read()
        by_words = {hit.key: hit.score for hit in index.search(query, DEPTH, among)}
        every = self._store.cosines(vector, self._rows)
        if among is None:
            chosen = nearest(every, DEPTH)
        else:
            allowed = np.array([row for key in among if (row := self._places.get(key)) is not None], np.int64)
            chosen = allowed[nearest(every[allowed], DEPTH)]
        cosines = {self._named[row]: float(every[row]) for row in chosen}
        for key in by_words:
            if key not in cosines and key in self._places:
                cosines[key] = float(every[self._places[key]])
        return [Hit(key, score) for key, score in fuse(by_words, cosines, limit)]


def tool_vectors(whole: Matrix, names: Matrix) -> Matrix:
    """Vectors of tools from those of their two texts, a row each."""
    mixed: Matrix = (1 - NAME_SHARE) * whole + NAME_SHARE * names
    return mixed
