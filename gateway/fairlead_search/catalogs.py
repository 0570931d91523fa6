"""Indices of the catalogs that are searched, in the process that searches them.

What a subject may see is a catalog of its own, and is ranked by its own tools alone: no score tells of a tool that the
subject cannot see. A catalog is known by the hash over its tools; one that differs from another in a few of them is
made from that one, so that a changed tool costs no more than itself.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Raw

from fairlead_search.backends import Backends
from fairlead_search.index import Hit
from fairlead_search.query_vectors import QueryVectors
from fairlead_search.record import IndexedTool, record
from fairlead_search.search_index import BackendFault, SearchIndex, ToolVector

if TYPE_CHECKING:  # needs numpy, which only vectors take
    from fairlead_search.vectors import Matrix

WORDS: Final = "bm25"
HYBRID: Final = "hybrid"
"""Rankings: by words alone, or by words and vectors."""
MAX_CATALOGS: Final = 16
"""Catalogs that are kept; the one that was searched longest ago goes first."""

Result = TypeVar("Result")
log = logging.getLogger(__name__)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class NewTool(msgspec.Struct, frozen=True):
    """A tool as its server defines it, for an index."""

    key: str
    name: str
    """As its server calls it."""
    server: str
    definition: Raw
    vector: ToolVector | None = None

    def record(self) -> IndexedTool:
        """The record of it; by the name alone where the definition cannot be read."""
        try:
            definition = _decode(self.definition)
        except (msgspec.DecodeError, RecursionError):
            definition = {}
        return record(self.key, self.server, {**definition, "name": self.name})


class SearchRequest(msgspec.Struct, frozen=True):
    """A search in one catalog. With `base`, the catalog is made first: from that one, or from none where it is
    empty.
    """

    catalog: str
    queries: Sequence[str]
    limit: int
    """Tools per query."""
    among: list[str] | None = None
    """Keys of the tools that may be found; None for all."""
    base: str | None = None
    added: Sequence[NewTool] = ()
    removed: Sequence[str] = ()
    encodes: bool = False
    """Whether the built-in encoder makes the vectors of the queries."""
    vectors: Sequence[bytes] = ()
    """Vectors of the queries, made elsewhere."""
    folder: str = ""
    """Folder of the LanceDB that keeps the vectors of tools; empty: memory does."""


class NewVectors(msgspec.Struct, frozen=True):
    """Vectors of tools, by their keys."""

    vectors: dict[str, ToolVector]
    folder: str = ""
    """As in `SearchRequest`."""


class StoredRequest(msgspec.Struct, frozen=True):
    """Asks for vectors that were kept through a restart."""

    texts: list[str]
    """Keys of the texts that they were made of."""
    folder: str


class StoredVectors(msgspec.Struct, frozen=True):
    """Vectors in the form of `vectors.WIRE`, by the key of their texts."""

    vectors: dict[str, bytes]


class SearchResult(msgspec.Struct, frozen=True):
    """Hits of a search, or the catalogs that there are where the one that was asked for is not among them."""

    hits: list[list[Hit]] = []
    """Per query, the best first."""
    cached_catalogs: list[str] | None = None
    """Hashes of the catalogs that there are, the one that was searched last first; None: it was searched."""
    ranking: str = WORDS
    vectors: int = 0
    """Tools of the catalog that have a vector."""
    note: str = ""
    """Why vectors are not kept where they should be."""


class IndexedCatalogs:
    """The indices of the last catalogs that were searched, and the vectors of their tools."""

    def __init__(self, limit: int = MAX_CATALOGS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._backends = Backends(clock)
        self._indices: OrderedDict[str, SearchIndex] = OrderedDict()
        self._encoded = QueryVectors()

    def put(self, new: NewVectors) -> int:
        """Take vectors; how many there are then."""

        def taken() -> int:
            self._put(new.vectors)
            return len(self._backends.current)

        return self._do(new.folder, taken)

    def read_stored(self, request: StoredRequest) -> StoredVectors:
        """Vectors that were kept through a restart, of those that are asked for."""
        return self._do(request.folder, lambda: StoredVectors(self._backends.current.read_stored(request.texts)))

    def search(self, request: SearchRequest) -> SearchResult:
        """The hits of each query, or what is known here where neither the catalog nor its base is."""
        return self._do(request.folder, lambda: self._search(request))

    def close(self) -> None:
        """Let go of the folder."""
        self._indices.clear()
        self._backends.choose("")

    def _do(self, folder: str, work: Callable[[], Result]) -> Result:
        """Do `work` with the backend of a folder, and once more in memory where that fails. Indices of another backend
        go, and are made again by what the next search brings.
        """
        if self._backends.choose(folder):
            self._indices.clear()
        try:
            return work()
        except BackendFault as error:
            self._backends.fail(error)
            self._indices.clear()
            return work()

    def _put(self, vectors: Mapping[str, ToolVector]) -> None:
        backend = self._backends.current
        if vectors:
            backend.put(vectors)
        if self._indices:
            backend.sweep(self._texts_in_use)

    def _texts_in_use(self) -> set[str]:
        return {key for index in self._indices.values() for key in index.keys()}  # noqa: SIM118 - an index is not a mapping

    def _search(self, request: SearchRequest) -> SearchResult:
        index = self._indices.get(request.catalog)
        if index is None:
            index = self._make_index(request)
        if index is None:
            return SearchResult(cached_catalogs=list(reversed(self._indices)))
        self._keep(request.catalog, index)
        self._put({tool.key: tool.vector for tool in request.added if tool.vector is not None})
        among = None if request.among is None else frozenset(request.among)
        vectors = _vectors(request, self._encoded) if index.covers else [None] * len(request.queries)
        hits = [
            index.search(query, vector, request.limit, among)
            for query, vector in zip(request.queries, vectors, strict=True)
        ]
        ranking = WORDS if all(vector is None for vector in vectors) else HYBRID
        return SearchResult(hits, ranking=ranking, vectors=index.vectors, note=self._backends.fault)

    def _make_index(self, request: SearchRequest) -> SearchIndex | None:
        if request.base is None:
            return None
        records = (tool.record() for tool in request.added)
        if not request.base:
            return self._backends.current.index(records)
        base = self._indices.get(request.base)
        return None if base is None else base.with_changes(records, request.removed)

    def _keep(self, name: str, index: SearchIndex) -> None:
        self._indices[name] = index
        self._indices.move_to_end(name)
        while len(self._indices) > self._limit:
            self._indices.popitem(last=False)


def _vectors(request: SearchRequest, query_vectors: QueryVectors) -> Sequence[Matrix | None]:
    """A vector per query; None where the query is ranked by its words. Those of the built-in encoder are taken from
    `query_vectors`, which gets the new ones.
    """
    if len(request.vectors) == len(request.queries):
        from fairlead_search.vectors import decode

        return [decode(raw) for raw in request.vectors]
    if not request.encodes:
        return [None] * len(request.queries)
    try:
        from fairlead_search.encoder import encode_queries

        return encode_queries(request.queries, query_vectors)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        log.warning("the built-in encoder fails, and words alone rank: %s", error)
        return [None] * len(request.queries)


def interleave(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """The hits of several queries in turn, each tool once with its best score: the first of each query, then the second
    of each.
    """
    best: dict[str, float] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        best[hit.key] = max(hit.score, best.get(hit.key, 0.0))
    order: dict[str, None] = {}
    for rank in range(max(map(len, rankings), default=0)):
        order.update(dict.fromkeys(ranking[rank].key for ranking in rankings if rank < len(ranking)))
    return [Hit(key, best[key]) for key in list(order)[:limit]]
