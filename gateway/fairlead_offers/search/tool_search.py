"""Searches the visible tools: keeps the indices of a process of its own in step with what is served.

The process is told the hash over a catalog's tools. One that it knows is searched at once; of another it gets the tools
by which that differs from one that it knows. It may end at any time: the next one says that it knows nothing.
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
from fairlead_search.catalogs import (
    HYBRID,
    MAX_CATALOGS,
    NewTool,
    NewVectors,
    SearchRequest,
    SearchResult,
    StoredRequest,
    interleave,
)
from fairlead_search.search_index import ToolVector

MAX_SEARCHES: Final = 100_000
"""Searches of one process before another takes its place."""

log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class RankedTools:
    """Tools that were found, with their scores, the best first."""

    tools: list[tuple[VisibleTool, float]]
    ranking: str
    """`bm25` or `hybrid`."""
    note: str = ""
    """Why words alone ranked although vectors are wanted, or why these are not kept where they should be."""


class ToolSearch:
    """Searches catalogs as subjects see them."""

    def __init__(
        self,
        worker: WorkerThread,
        *,
        process: bool,
        embedder: Embedder | None = None,
        folder: Path | None = None,
        shares: ShareCounts | None = None,
    ) -> None:
        """Without an `embedder`, tools are ranked by words alone. The process stores vectors in the `folder`. `shares`
        counts searches that are refused because too many of their agent wait.
        """
        self._worker = worker
        self._pool = ProcessPool(1, pieces=MAX_SEARCHES, counts=shares) if process else None
        keeps = process and embedder is not None and folder is not None
        self._folder = str(folder) if keeps else ""
        self.vectors = None
        if embedder is not None:
            self.vectors = ToolVectors(embedder, self._push, self._stored_vectors if keeps else None)
        self._keys: OrderedDict[str, frozenset[str]] = OrderedDict()
        """Tools of the catalogs that were searched, by the hash over them."""

    @property
    def pids(self) -> list[int]:
        """Process id of the idle process; empty where there is none."""
        return [] if self._pool is None else self._pool.pids

    async def find(
        self, tools: VisibleTools, queries: Sequence[str], limit: int, among: Collection[VisibleTool] | None = None
    ) -> RankedTools:
        """At most `limit` tools; those of several queries in turn. Raises Overloaded."""
        vectors = self.vectors
        made = () if vectors is None else await vectors.embedder.queries(queries)
        encodes = vectors is not None and vectors.embedder.encodes

        def wished() -> SearchRequest:
            keys = None if among is None else [entry.key for entry in among]
            return SearchRequest(
                tools.catalog, queries, limit, keys, encodes=encodes, vectors=made, folder=self._folder
            )

        request = await self._worker.do(wished)
        result = await self._ask([_encode(request)])
        cached = result.cached_catalogs
        if cached is not None:
            result = await self._ask(await self._worker.do(lambda: self._with_tools(request, tools.by_key, cached)))
        note = await self._embed(tools, result) if vectors is not None else ""
        hits = [(tools.by_key[hit.key], hit.score) for hit in interleave(result.hits, limit)]
        return RankedTools(hits, result.ranking, "; ".join(filter(None, (result.note, note))))

    async def _embed(self, tools: VisibleTools, result: SearchResult) -> str:
        """Have vectors made that the catalog lacks; what that means for this search."""
        vectors, every = self.vectors, tools.by_key
        assert vectors is not None
        if result.vectors < len(every):
            new = await self._worker.do(
                lambda: {key: vectors.text(_new(key, every[key])) for key in with_pauses(vectors.select_new(every))}
            )
            vectors.request(new, every.keys())
        if result.ranking == HYBRID:
            return ""
        if result.vectors >= len(every):
            return f"the query has no vector by {vectors.embedder.name}; words alone ranked"
        return f"{result.vectors} of {len(every)} tools have vectors by {vectors.embedder.name}; words alone ranked"

    async def _push(self, new: Mapping[str, ToolVector]) -> None:
        work = _encode(NewVectors({**new}, self._folder))
        if self._pool is None:
            await self._worker.do(lambda: take_vectors(work))
            return
        try:
            await self._pool.do(VECTORS, work)
        except NotDone as error:  # one that takes its place gets them with the first catalog
            log.warning("The process that searches took no vectors: %s", error)

    async def _stored_vectors(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        assert self._pool is not None
        try:
            work = _encode(StoredRequest([*texts], self._folder))
            return (await self._pool.do(STORED, work)).vectors
        except NotDone as error:
            log.warning("The process that searches told of no stored vectors, and they are made again: %s", error)
            return {}

    async def _ask(self, work: list[bytes]) -> SearchResult:
        if self._pool is not None:
            try:
                return await self._pool.do(SEARCH, work)
            except Overloaded:
                raise
            except NotDone as error:
                log.warning("The process that searches failed, and the search is done in the gateway itself: %s", error)
        return await self._worker.do(lambda: search(b"".join(work), disk=False))

    def _with_tools(self, request: SearchRequest, tools: dict[str, VisibleTool], cached: Sequence[str]) -> list[bytes]:
        """The search with the tools that the process lacks: by the nearest catalog that it knows, or all of them. In
        the worker only.
        """
        keys = frozenset(tools)
        base, old = "", frozenset[str]()
        for name in cached:
            theirs = self._keys.get(name)
            if theirs is not None and len(keys ^ theirs) < len(keys ^ old):
                base, old = name, theirs
        known_vector = (lambda key: None) if self.vectors is None else self.vectors.get
        added = [_new(key, tools[key], known_vector(key)) for key in with_pauses(keys - old)]
        self._keys[request.catalog] = keys
        self._keys.move_to_end(request.catalog)
        if len(self._keys) > MAX_CATALOGS:
            self._keys.popitem(last=False)
        return [_encode(msgspec.structs.replace(request, base=base, added=added, removed=list(old - keys)))]

    async def aclose(self) -> None:
        """End the process."""
        if self.vectors is not None:
            await self.vectors.aclose()
        if self._pool is not None:
            await self._pool.aclose()


def _new(key: str, tool: VisibleTool, vector: ToolVector | None = None) -> NewTool:
    return NewTool(key, tool.entry.name, tool.prefix or tool.server.name, msgspec.Raw(tool.definition), vector)
