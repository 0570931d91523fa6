"""Searches visible tools in a separate process, and synchronizes the process's search indices with the served catalogs.

A search request contains the hash of a catalog. If the process has an index of this catalog, it searches at once. If
not, the process answers with the hashes of the catalogs that it has, and the request is repeated with the differences
from the most similar of them. The process may end at any time; a new process begins without catalogs.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fairlead_gateway.core.share_counts import ShareCounts
from fairlead_offers.catalogs.visible_tools import VisibleTool, VisibleTools
from fairlead_offers.search.jobs import SEARCH, STORED, VECTORS, search, take_vectors
from fairlead_offers.search.tool_vectors import Embedder, ToolVectors
from fairlead_offers.workers.heavy_work import WorkerThread, with_pauses
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone, Overloaded
from fairlead_search.index_cache import (
    HYBRID,
    MAX_CATALOGS,
    NewTool,
    NewVectors,
    SearchRequest,
    SearchResult,
    StoredRequest,
    interleave,
)
from fairlead_search.index_interfaces import ToolVector

log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class RankedTools:
    """Tools that a search found, with their scores, the best first."""

    tools: list[tuple[VisibleTool, float]]
    ranking: str
    """Method of ranking: `bm25`, `hybrid` or `filters`."""
    note: str = ""
    """Reason why tools were ranked by words alone although vectors are configured, or why vectors could
    not be stored.
    """


class ToolSearch:
    """Searches the tools that subjects may see."""

    def __init__(
        self,
        worker: WorkerThread,
        *,
        process: bool,
        embedder: Embedder | None = None,
        folder: Path | None = None,
        shares: ShareCounts | None = None,
    ) -> None:
        """`process`: whether to search in a separate process instead of the worker thread. `embedder`: None to rank
        tools by words alone. `folder`: where the process stores vectors; None to store none. `shares`: counts searches
        that are refused because too many searches of the same agent wait.
        """
        self._worker = worker
        self._pool = ProcessPool(1, counts=shares) if process else None
        stores = process and embedder is not None and folder is not None
        self._folder = str(folder) if stores else ""
        self.vectors = None
        if embedder is not None:
            self.vectors = ToolVectors(embedder, self._push, self._stored_vectors if stores else None)
        self._keys: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Keys of the tools in recently searched catalogs, by hash of the catalog, for the differences between
        catalogs."""

    @property
    def pids(self) -> list[int]:
        """Process id of the idle process; empty if there is no idle process."""
        return [] if self._pool is None else self._pool.pids

    async def find(
        self,
        tools: VisibleTools,
        queries: Sequence[str],
        limit: int,
        filtered_tools: Collection[VisibleTool] | None = None,
    ) -> RankedTools:
        """Find at most `limit` tools. The results of several queries alternate. `filtered_tools`: tools to search;
        None: all. Raises Overloaded.
        """
        vectors = self.vectors
        query_vectors = () if vectors is None else await vectors.embedder.queries(queries)
        encodes = vectors is not None and vectors.embedder.encodes

        def make_request() -> SearchRequest:
            keys = None if filtered_tools is None else [entry.key for entry in filtered_tools]
            return SearchRequest(
                tools.catalog_hash, queries, limit, keys, encodes=encodes, vectors=query_vectors, folder=self._folder
            )

        request = await self._worker.do(make_request)
        result = await self._run([_encode(request)])
        cached_catalogs = result.cached_catalogs
        if cached_catalogs is not None:
            result = await self._run(
                await self._worker.do(lambda: self._with_tools(request, tools.by_key, cached_catalogs))
            )
        note = await self._embed(tools, result) if vectors is not None else ""
        hits = [(tools.by_key[hit.key], hit.score) for hit in interleave(result.hits, limit)]
        return RankedTools(hits, result.ranking, "; ".join(filter(None, (result.note, note))))

    async def _embed(self, tools: VisibleTools, result: SearchResult) -> str:
        """Start making the vectors that tools of the catalog lack. Returns a note about the ranking of this search."""
        vectors, by_key = self.vectors, tools.by_key
        assert vectors is not None
        if result.vectors < len(by_key):
            new_texts = await self._worker.do(
                lambda: {
                    key: vectors.text(_new_tool(key, by_key[key])) for key in with_pauses(vectors.select_new(by_key))
                }
            )
            vectors.request(new_texts, by_key.keys())
        if result.ranking == HYBRID:
            return ""
        if result.vectors >= len(by_key):
            return f"tools were ranked by words alone, because {vectors.embedder.name} made no vector of the query"
        share = f"{result.vectors} of {len(by_key)} tools"
        return f"tools were ranked by words alone, because only {share} have vectors of {vectors.embedder.name} so far"

    async def _push(self, new_vectors: Mapping[str, ToolVector]) -> None:
        work = _encode(NewVectors({**new_vectors}, self._folder))
        if self._pool is None:
            await self._worker.do(lambda: take_vectors(work))
            return
        try:
            await self._pool.do(VECTORS, work)
        except NotDone as error:  # the next process gets the vectors with its first catalog
            log.warning("New vectors of tools did not reach the search process: %s", error)

    async def _stored_vectors(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        assert self._pool is not None
        try:
            work = _encode(StoredRequest([*texts], self._folder))
            return (await self._pool.do(STORED, work)).vectors
        except NotDone as error:
            log.warning("Vectors are made again, because the search process could not read the stored ones: %s", error)
            return {}

    async def _run(self, work: list[bytes]) -> SearchResult:
        if self._pool is not None:
            try:
                return await self._pool.do(SEARCH, work)
            except Overloaded:
                raise
            except NotDone as error:
                log.warning("The search process failed, so a search runs in the gateway's thread: %s", error)
        return await self._worker.do(lambda: search(b"".join(work), disk=False))

    def _with_tools(
        self, request: SearchRequest, tools: dict[str, VisibleTool], cached_catalogs: Sequence[str]
    ) -> list[bytes]:
        """Encode the search with the tools that the process lacks, as differences from the catalog of the process that
        is most similar. `cached_catalogs`: hashes of the catalogs that the process has. Must run in the worker thread.
        """
        keys = frozenset(tools)
        base_catalog, base_keys = "", frozenset[str]()
        for name in cached_catalogs:
            cached_keys = self._keys.get(name)
            if cached_keys is not None and len(keys ^ cached_keys) < len(keys ^ base_keys):
                base_catalog, base_keys = name, cached_keys
        get_vector = (lambda key: None) if self.vectors is None else self.vectors.get
        added = [_new_tool(key, tools[key], get_vector(key)) for key in with_pauses(keys - base_keys)]
        self._keys[request.catalog] = keys
        self._keys.move_to_end(request.catalog)
        if len(self._keys) > MAX_CATALOGS:
            self._keys.popitem(last=False)
        return [
            _encode(msgspec.structs.replace(request, base=base_catalog, added=added, removed=list(base_keys - keys)))
        ]

    async def aclose(self) -> None:
        """End the search process, and stop making vectors."""
        if self.vectors is not None:
            await self.vectors.aclose()
        if self._pool is not None:
            await self._pool.aclose()


def _new_tool(key: str, tool: VisibleTool, vector: ToolVector | None = None) -> NewTool:
    return NewTool(key, tool.entry.name, tool.prefix or tool.server.name, msgspec.Raw(tool.definition), vector)
