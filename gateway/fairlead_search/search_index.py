"""Indices of tools as catalogs use them, wherever their vectors are kept. Pure module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, KeysView, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from fairlead_search.index import Bm25Index, Hit
from fairlead_search.record import IndexedTool

if TYPE_CHECKING:  # need numpy, which only vectors take
    from fairlead_search.hybrid import VectorView
    from fairlead_search.vectors import Matrix, VectorStore

LEAST_SWEPT: Final = 4096
"""Vectors that are kept in any case, of tools of no catalog too: those of one that is still to come."""


class BackendFault(Exception):
    """The place of the vectors cannot be used; the message names it and says why."""


class ToolVector(msgspec.Struct, frozen=True):
    """The vector of a tool."""

    vector: bytes
    """In the form of `vectors.WIRE`."""
    text: str = ""
    """Key of the texts that it was made of (`record.vector_key`)."""


class SearchIndex(Protocol):
    """A set of tools that does not change, ranked by words, and by vectors too where they have some."""

    def __len__(self) -> int:
        """Number of tools."""
        ...

    @property
    def vectors(self) -> int:
        """Tools that have a vector."""
        ...

    @property
    def covers(self) -> bool:
        """Whether enough of the tools have a vector to rank by them."""
        ...

    def keys(self) -> KeysView[str]:
        """Keys of all tools."""
        ...

    def with_changes(self, added: Iterable[IndexedTool], removed: Iterable[str]) -> SearchIndex:
        """This index with tools added and without others; this one stays as it is."""
        ...

    def search(self, query: str, vector: Matrix | None, limit: int, among: Collection[str] | None = None) -> list[Hit]:
        """At most `limit` tools, the best first, of the keys in `among` alone where that is given. Without a `vector`
        of the query, of length 1, words alone rank.
        """
        ...


class SearchBackend(Protocol):
    """Makes indices, and keeps the vectors that they share."""

    def __len__(self) -> int:
        """Number of vectors."""
        ...

    def index(self, records: Iterable[IndexedTool]) -> SearchIndex:
        """An index of these tools."""
        ...

    def put(self, vectors: Mapping[str, ToolVector]) -> None:
        """Add or replace vectors, by the key of their tool."""
        ...

    def read_stored(self, texts: Collection[str]) -> dict[str, bytes]:
        """Vectors that were kept through a restart, by the key of their texts."""
        ...

    def sweep(self, used: Callable[[], Collection[str]]) -> None:
        """Drop the vectors of tools that are not `used`, where there are too many."""
        ...

    def close(self) -> None:
        """Let go of what others may use."""
        ...


class MemoryBackend:
    """Indices whose vectors are in memory. Needs numpy once there are any."""

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

    def sweep(self, used: Callable[[], Collection[str]]) -> None:
        """They go when they are as many as the others."""
        if self._store is not None and len(self._store) > LEAST_SWEPT and len(self._store) > 2 * len(keys := used()):
            self._store.keep(keys)

    def close(self) -> None:
        """Nobody else uses memory."""

    def view(self, keys: Collection[str]) -> VectorView | None:
        """The vectors of these tools; None while there are none of any."""
        if self._store is None:
            return None
        from fairlead_search.hybrid import VectorView

        return VectorView(self._store, keys)


class MemoryIndex:
    """`SearchIndex` in memory."""

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
    def covers(self) -> bool:
        return self._view is not None and self._view.covers

    def keys(self) -> KeysView[str]:
        return self._words.keys()

    def with_changes(self, added: Iterable[IndexedTool], removed: Iterable[str]) -> MemoryIndex:
        return MemoryIndex(self._backend, self._words.with_changes(added, removed))

    def search(self, query: str, vector: Matrix | None, limit: int, among: Collection[str] | None = None) -> list[Hit]:
        view = None if vector is None else self._view
        if vector is None or view is None:
            return self._words.search(query, limit, among)
        return view.search(self._words, query, vector, limit, among)
