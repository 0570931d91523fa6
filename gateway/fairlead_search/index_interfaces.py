"""Interfaces of search indices and of the storage for their vectors, with the implementation in memory. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, KeysView, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from fairlead_search.bm25_index import Bm25Index, Hit
from fairlead_search.indexed_tool import IndexedTool

if TYPE_CHECKING:  # these need numpy, which is loaded only for vectors
    from fairlead_search.hybrid_ranking import VectorView
    from fairlead_search.vectors import Matrix, VectorStore

MIN_SWEPT_VECTORS: Final = 4096
"""Number of stored vectors up to which unused vectors stay stored, because a new catalog may use them soon."""


class BackendFault(Exception):
    """Failure of the storage of vectors. The message names the folder and says why."""


class ToolVector(msgspec.Struct, frozen=True):
    """Vector of a tool."""

    vector: bytes
    """Vector in the format `vectors.WIRE`."""
    text: str = ""
    """Key of the texts from which the vector was computed (`record.vector_key`)."""


class SearchIndex(Protocol):
    """Immutable index of tools, which ranks by words and, if tools have vectors, by vectors."""

    def __len__(self) -> int:
        """Number of tools."""
        ...

    @property
    def vectors(self) -> int:
        """Number of tools with a vector."""
        ...

    @property
    def ranks_by_vectors(self) -> bool:
        """Whether enough tools have a vector to rank by vectors."""
        ...

    def keys(self) -> KeysView[str]:
        """Keys of all tools."""
        ...

    def with_changes(self, added_tools: Iterable[IndexedTool], removed_keys: Iterable[str]) -> SearchIndex:
        """Derive an index with some tools added and others removed."""
        ...

    def search(
        self, query: str, vector: Matrix | None, limit: int, allowed_keys: Collection[str] | None = None
    ) -> list[Hit]:
        """At most `limit` matching tools, best first. `allowed_keys` restricts the search to some tools. Without a
        `vector` of the query (length 1), tools are ranked by words only.
        """
        ...


class SearchBackend(Protocol):
    """Creates indices, and stores the vectors that these indices share."""

    def __len__(self) -> int:
        """Number of vectors."""
        ...

    def index(self, records: Iterable[IndexedTool]) -> SearchIndex:
        """Create an index of tools."""
        ...

    def put(self, vectors: Mapping[str, ToolVector]) -> None:
        """Add vectors, or replace them, by the key of the tool."""
        ...

    def read_stored(self, texts: Collection[str]) -> dict[str, bytes]:
        """Vectors that were stored before a restart, by the key of the texts that they were computed from."""
        ...

    def sweep(self, used_keys: Callable[[], Collection[str]]) -> None:
        """If there are too many vectors, drop the vectors of tools that are not in `used()`."""
        ...

    def close(self) -> None:
        """Release resources that other processes may need."""
        ...


class MemoryBackend:
    """`SearchBackend` with vectors in memory. Needs numpy as soon as there are vectors."""

    def __init__(self) -> None:
        self._store: VectorStore | None = None

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)

    def index(self, records: Iterable[IndexedTool]) -> MemoryIndex:
        return MemoryIndex(self, Bm25Index.of(records))

    def put(self, vectors: Mapping[str, ToolVector]) -> None:
        from fairlead_search.vectors import VectorStore

        if self._store is None:
            self._store = VectorStore()
        self._store.put({tool: each.vector for tool, each in vectors.items()})

    def read_stored(self, texts: Collection[str]) -> dict[str, bytes]:
        return {}

    def sweep(self, used_keys: Callable[[], Collection[str]]) -> None:
        """Drop unused vectors if they outnumber the used vectors and more than `MIN_SWEPT_VECTORS` are stored."""
        if (
            self._store is not None
            and len(self._store) > MIN_SWEPT_VECTORS
            and len(self._store) > 2 * len(keys := used_keys())
        ):
            self._store.keep(keys)

    def close(self) -> None:
        """No-op, because memory has no shared resources."""

    def view(self, keys: Collection[str]) -> VectorView | None:
        """Vectors of some tools; None if no tool has a vector yet."""
        if self._store is None:
            return None
        from fairlead_search.hybrid_ranking import VectorView

        return VectorView(self._store, keys)


class MemoryIndex:
    """`SearchIndex` with vectors in memory."""

    def __init__(self, backend: MemoryBackend, words: Bm25Index) -> None:
        self._backend = backend
        self._words = words
        self._stored_view: VectorView | None = None

    @property
    def _view(self) -> VectorView | None:
        if self._stored_view is None:
            self._stored_view = self._backend.view(self.keys())
        return self._stored_view

    def __len__(self) -> int:
        return len(self._words)

    @property
    def vectors(self) -> int:
        return 0 if self._view is None else len(self._view)

    @property
    def ranks_by_vectors(self) -> bool:
        return self._view is not None and self._view.ranks_by_vectors

    def keys(self) -> KeysView[str]:
        return self._words.keys()

    def with_changes(self, added_tools: Iterable[IndexedTool], removed_keys: Iterable[str]) -> MemoryIndex:
        return MemoryIndex(self._backend, self._words.with_changes(added_tools, removed_keys))

    def search(
        self, query: str, vector: Matrix | None, limit: int, allowed_keys: Collection[str] | None = None
    ) -> list[Hit]:
        view = None if vector is None else self._view
        if vector is None or view is None:
            return self._words.search(query, limit, allowed_keys)
        return view.search(self._words, query, vector, limit, allowed_keys)
