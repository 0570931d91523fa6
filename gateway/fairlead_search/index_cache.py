"""Caches the search indices of search catalogs, in the process that searches.

A search catalog is the set of tools that a subject may see. Tools are ranked only against tools of the same catalog, so
that scores disclose nothing about tools that the subject cannot see. A catalog is identified by a hash over its tools.
Its index can be derived from the index of a similar catalog, so that a changed tool does not require a new index.
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
from fairlead_search.bm25_index import Hit
from fairlead_search.index_interfaces import BackendFault, SearchIndex, ToolVector
from fairlead_search.indexed_tool import IndexedTool, record
from fairlead_search.query_vectors import QueryVectors

if TYPE_CHECKING:  # needs numpy, which is loaded only for vectors
    from fairlead_search.vectors import Matrix

WORDS: Final = "bm25"
HYBRID: Final = "hybrid"
"""Names of the two rankings: by words (BM25) only, or by words and vectors."""
MAX_CATALOGS: Final = 16
"""Maximum number of cached search catalogs; the least recently searched catalog is dropped first."""

Result = TypeVar("Result")
log = logging.getLogger(__name__)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class NewTool(msgspec.Struct, frozen=True):
    """A tool to add to an index, with the definition that its server publishes."""

    key: str
    name: str
    """Name of the tool at the server, without a prefix."""
    server: str
    definition: Raw
    vector: ToolVector | None = None

    def record(self) -> IndexedTool:
        """Create the tool's record for an index. A definition that cannot be decoded gives a record with only the
        name.
        """
        try:
            definition = _decode(self.definition)
        except (msgspec.DecodeError, RecursionError):
            definition = {}
        return record(self.key, self.server, {**definition, "name": self.name})


class SearchRequest(msgspec.Struct, frozen=True):
    """Search in one search catalog. If `base` is not None, the catalog's index is created before the search."""

    catalog: str
    """Hash of the search catalog."""
    queries: Sequence[str]
    limit: int
    """Maximum number of tools per query."""
    allowed_keys: list[str] | None = None
    """Keys of the tools to search; None for all."""
    base: str | None = None
    """Hash of the catalog from whose index a new index is derived; empty to create the index from scratch; None if the
    catalog already has an index.
    """
    added: Sequence[NewTool] = ()
    """Tools that the catalog has in addition to the tools of `base`."""
    removed: Sequence[str] = ()
    """Keys of the tools that the catalog lacks in comparison with `base`."""
    encodes: bool = False
    """Whether the built-in encoder computes the vectors of the queries."""
    vectors: Sequence[bytes] = ()
    """Vectors of the queries, if an embeddings endpoint computed them."""
    folder: str = ""
    """Folder of the LanceDB that stores the vectors of tools; empty to store them in memory."""


class NewVectors(msgspec.Struct, frozen=True):
    """Vectors of tools to store, by the key of the tool."""

    vectors: dict[str, ToolVector]
    folder: str = ""
    """Folder of the LanceDB in which to store the vectors; empty to store them in memory."""


class StoredRequest(msgspec.Struct, frozen=True):
    """Request for vectors that were stored in a folder before a restart."""

    texts: list[str]
    """Keys of the texts from which the vectors were computed."""
    folder: str


class StoredVectors(msgspec.Struct, frozen=True):
    """Vectors in the format `vectors.WIRE` by the key of their texts."""

    vectors: dict[str, bytes]


class SearchResult(msgspec.Struct, frozen=True):
    """Hits of a search, or the cached catalogs if the requested catalog is not cached."""

    hits: list[list[Hit]] = []
    """Hits per query, best first."""
    cached_catalogs: list[str] | None = None
    """Hashes of the cached catalogs, most recently searched first; None if the search was done."""
    ranking: str = WORDS
    """How tools were ranked: WORDS or HYBRID."""
    vectors: int = 0
    """Number of tools of the catalog with a vector."""
    note: str = ""
    """Why vectors are not stored in the requested folder; empty if they are stored there."""


class IndexedCatalogs:
    """Indices of the most recently searched catalogs, and the vectors of their tools."""

    def __init__(self, limit: int = MAX_CATALOGS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._backends = Backends(clock)
        self._indices: OrderedDict[str, SearchIndex] = OrderedDict()
        self._query_vectors = QueryVectors()

    def put(self, new_vectors: NewVectors) -> int:
        """Store vectors and return the number of all stored vectors."""

        def store() -> int:
            self._put(new_vectors.vectors)
            return len(self._backends.current)

        return self._run(new_vectors.folder, store)

    def read_stored(self, request: StoredRequest) -> StoredVectors:
        """Read the requested vectors that the folder has stored."""
        return self._run(request.folder, lambda: StoredVectors(self._backends.current.read_stored(request.texts)))

    def search(self, request: SearchRequest) -> SearchResult:
        """Search a catalog. If neither the catalog nor its base is cached, the result has the cached catalogs."""
        return self._run(request.folder, lambda: self._search(request))

    def close(self) -> None:
        """Close the folder, so that other processes can use it."""
        self._indices.clear()
        self._backends.choose("")

    def _run(self, folder: str, work: Callable[[], Result]) -> Result:
        """Run `work` with the backend of a folder; if the backend fails, run it again with vectors in memory. Indices
        of the previous backend are dropped; later searches create them again.
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
        self._cache(request.catalog, index)
        self._put({tool.key: tool.vector for tool in request.added if tool.vector is not None})
        allowed_keys = None if request.allowed_keys is None else frozenset(request.allowed_keys)
        vectors = _vectors(request, self._query_vectors) if index.ranks_by_vectors else [None] * len(request.queries)
        hits = [
            index.search(query, vector, request.limit, allowed_keys)
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

    def _cache(self, name: str, index: SearchIndex) -> None:
        self._indices[name] = index
        self._indices.move_to_end(name)
        while len(self._indices) > self._limit:
            self._indices.popitem(last=False)


def _vectors(request: SearchRequest, query_vectors: QueryVectors) -> Sequence[Matrix | None]:
    """Vector per query; None for a query that is ranked by words only. `query_vectors` caches vectors of the built-in
    encoder.
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
        log.warning("The built-in encoder failed, so tools are ranked by words only: %s", error)
        return [None] * len(request.queries)


def interleave(rankings: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Merge the hits of several queries: the first hit of each query, then the second hit of each query, and so on.
    Each tool is included once with its best score.
    """
    best: dict[str, float] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        best[hit.key] = max(hit.score, best.get(hit.key, 0.0))
    order: dict[str, None] = {}
    for rank in range(max(map(len, rankings), default=0)):
        order.update(dict.fromkeys(ranking[rank].key for ranking in rankings if rank < len(ranking)))
    return [Hit(key, best[key]) for key in list(order)[:limit]]
