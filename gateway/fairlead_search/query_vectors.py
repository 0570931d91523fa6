"""Caches the vectors of recent queries. Pure module."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

MAX_QUERIES: Final = 2_000
MAX_BYTES: Final = 8 << 20
"""Maximum number of bytes of texts and vectors. 2,000 vectors of 384 32-bit floats take 3 MB; fewer than 2,000 vectors
with 4,096 dimensions fit.
"""


class QueryVectors:
    """LRU cache of vectors by query text, limited in number and bytes."""

    def __init__(self, limit: int = MAX_QUERIES, limit_bytes: int = MAX_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._vectors: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._vectors)

    def missing_from_cache(self, queries: Collection[str]) -> list[str]:
        """The queries that are not in the cache, without duplicates."""
        return [query for query in dict.fromkeys(queries) if query not in self._vectors]

    def take(self, queries: Sequence[str], new_vectors: Mapping[str, bytes]) -> list[bytes]:
        """Vectors of queries. `new_vectors`: vectors of the queries that were not in the cache. They are added to the
        cache.
        """
        for query, vector in new_vectors.items():
            self._bytes += _size(query, vector) - _size(query, self._vectors.get(query))
            self._vectors[query] = vector
        vectors = [self._vectors[query] for query in queries]
        for query in queries:
            self._vectors.move_to_end(query)
        while len(self._vectors) > self._limit or self._bytes > self._limit_bytes:
            self._bytes -= _size(*self._vectors.popitem(last=False))
        return vectors


def _size(query: str, vector: bytes | None) -> int:
    """Bytes of an entry. A character counts as 4 bytes, the maximum that Python stores for a character."""
    return 0 if vector is None else 4 * len(query) + len(vector)
