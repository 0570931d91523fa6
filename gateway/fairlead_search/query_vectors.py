"""Vectors of the queries that were asked last. Pure module."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

MAX_QUERIES: Final = 2_000
MAX_BYTES: Final = 8 << 20
"""Bytes of texts and vectors together: 2,000 vectors of 384 32-bit floats have 3 MB, of 4,096 they do not fit."""


class QueryVectors:
    """LRU cache of vectors by the text of their query, bounded in number and bytes."""

    def __init__(self, limit: int = MAX_QUERIES, limit_bytes: int = MAX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._vectors: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._vectors)

    def lacking(self, queries: Collection[str]) -> list[str]:
        """Those that have no vector, each once."""
        return [query for query in dict.fromkeys(queries) if query not in self._vectors]

    def take(self, queries: Sequence[str], made: Mapping[str, bytes]) -> list[bytes]:
        """The vectors of queries, `made` being those that were lacking."""
        for query, vector in made.items():
            self._bytes += _size(query, vector) - _size(query, self._vectors.get(query))
            self._vectors[query] = vector
        vectors = [self._vectors[query] for query in queries]
        for query in queries:
            self._vectors.move_to_end(query)
        while len(self._vectors) > self._limit or self._bytes > self._limit_bytes:
            self._bytes -= _size(*self._vectors.popitem(last=False))
        return vectors


def _size(query: str, vector: bytes | None) -> int:
    """Bytes of an entry; 4 per character, as the widest take."""
    return 0 if vector is None else 4 * len(query) + len(vector)
