"""Makes vectors of the tools that are searched, in the background, and keeps them.

The work is done by a process of lowest priority, a few tools at a time, so that calls and searches wait for none of it;
until most tools of a catalog have a vector, its searches rank by words alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from fairlead_mcp.backoff import Backoff
from fairlead_offers.search.jobs import EMBED, embed
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone
from fairlead_offers.workers.throttle import Throttle
from fairlead_search.catalogs import NewTool
from fairlead_search.embedding import (
    Embedded,
    EmbeddingConfig,
    EmbedRequest,
    VectorText,
    vector_text,
)
from fairlead_search.record import BUILT_IN, BUILT_IN_DIMENSIONS
from fairlead_search.search_index import ToolVector

BATCH: Final = 32
"""Tools whose vectors are made, and taken to where tools are searched, together."""
PIECE: Final = 8
"""Tools that the built-in encoder reads at a time: about 50 ms of a core."""
TOOL_SECONDS: Final = 0.006
"""Seconds of a core for one tool."""
INDEXING_SHARE: Final = 0.1
"""Part of the time that the built-in encoder works while tools are called and cores are left: 10,000 tools take ten
minutes then, and one while none is called. Even a process of lowest priority costs a call the caches and the bandwidth
that it takes; a call that began in the other nine tenths does not notice.
"""
CROWDED: Final = 0.7
"""Part of the time that the encoder had a core, below which calls and servers want all cores that there are."""
CROWDED_COST: Final = 50
"""How many times as much a tool costs where cores are crowded, and one is read at a time. There the encoder has what is
left of a core, and is at work for many times as long as its own seconds: at a tenth of the time, one call in ten would
meet it. So about one in a hundred does, and most of the tools wait for a pause in the calls.
"""
EMBED_SECONDS: Final = 600.0
"""Seconds for one piece of work: a process of lowest priority may wait long for a core."""
STORED: Final = 250
"""Tools that are asked for at once whether their vectors are stored."""
MAX_BYTES: Final = 128 << 20
"""Bytes of all vectors that are kept; beyond them tools are ranked by words alone."""

log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class Embedder(Protocol):
    """Makes vectors."""

    name: str
    """Model, as people call it."""
    dimensions: int
    """Numbers in a vector; 0 where the model decides."""
    encodes: bool
    """Whether the process that searches makes those of queries."""

    async def tools(self, texts: Sequence[VectorText]) -> list[bytes]:
        """One vector per tool. Raises NotDone."""
        ...

    async def queries(self, queries: Sequence[str]) -> Sequence[bytes]:
        """One vector per query; empty where they cannot be made."""
        ...

    async def aclose(self) -> None:
        """End what is being done."""
        ...


class BuiltInEmbedder:
    """The encoder of the wheel `fairlead-search-model`."""

    name = BUILT_IN
    dimensions = BUILT_IN_DIMENSIONS
    encodes = True

    def __init__(self, worker: WorkerThread, throttle: Throttle, *, process: bool) -> None:
        self._worker = worker
        self._throttle = throttle
        self._pool = ProcessPool(1, bulk=True, seconds=EMBED_SECONDS) if process else None
        self._crowded = False
        """Whether the last piece waited for a core."""

    async def tools(self, texts: Sequence[VectorText]) -> list[bytes]:
        made: list[bytes] = []
        while len(made) < len(texts):
            piece = texts[len(made) : len(made) + (1 if self._crowded else PIECE)]
            await self._throttle.turn(len(piece) * TOOL_SECONDS * (CROWDED_COST if self._crowded else 1))
            done = await self._embed(piece)
            self._crowded = done.core_share < CROWDED
            made += done.vectors
        return made

    async def _embed(self, texts: Sequence[VectorText]) -> Embedded:
        work = _encode(EmbedRequest([*texts]))
        if self._pool is None:
            try:
                return await self._worker.do(lambda: embed(work))
            except (ImportError, OSError, RuntimeError, ValueError) as error:
                raise NotDone(f"the encoder fails: {error}") from error
        return await self._pool.do(EMBED, work)

    async def queries(self, queries: Sequence[str]) -> Sequence[bytes]:
        return ()

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()


class ToolVectors:
    """Vectors of tools: each is made once for its texts, whatever else of a definition changes. Belongs to the loop of
    its first use.
    """

    def __init__(
        self,
        embedder: Embedder,
        push: Callable[[Mapping[str, ToolVector]], Awaitable[None]],
        stored: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]] | None = None,
        limit: int = MAX_BYTES,
    ) -> None:
        """`push` takes new vectors, by the key of their tool, to where tools are searched; `stored` has those that were
        kept through a restart, by the key of their texts; `limit` is in bytes.
        """
        self.embedder = embedder
        self.made = 0
        """Vectors that were made since the start."""
        self._push = push
        self._stored = stored
        self._new: dict[str, VectorText] = {}
        """Texts of `_wanted` that were not looked up in `stored`."""
        self._limit = limit
        self._vectors: dict[str, bytes] = {}
        """Vectors by the key of their texts."""
        self._bytes = 0
        self._texts: dict[str, str] = {}
        """Key of the texts by that of the tool."""
        self._wanted: dict[str, VectorText] = {}
        """Vectors by the key of the tool."""
        self._full = False
        self._task: asyncio.Task[None] | None = None

    def get(self, tool: str) -> ToolVector | None:
        """The vector of a tool, where there is one."""
        text = self._texts.get(tool, "")
        vector = self._vectors.get(text)
        return None if vector is None else ToolVector(vector, text)

    def lacking(self, tools: Iterable[str]) -> list[str]:
        """Tools that have no vector, and of which none is being made; none where there is no room for more."""
        if self._full:
            return []
        return [key for key in tools if key not in self._wanted and self.get(key) is None]

    def text(self, tool: NewTool) -> VectorText:
        """Texts of a tool, for `want`."""
        return vector_text(tool, self.embedder.name, self.embedder.dimensions)

    def want(self, texts: Mapping[str, VectorText], current: Collection[str]) -> None:
        """Have vectors made of these tools. Where there is no room for all that were ever made, those of the tools
        `current` stay.
        """
        self._wanted.update(texts)
        if self._stored is not None:
            self._new.update(texts)
        if self._bytes > self._limit:
            self._sweep(current)
        if self._wanted and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="vectors of tools")

    async def _run(self) -> None:
        backoff = Backoff(random.random, base=1.0)
        while self._wanted:
            if self._stored is not None:
                await self._recall(self._stored)
            batch = [*islice(self._wanted.items(), BATCH)]
            missing = {text.key: text for _, text in batch if text.key not in self._vectors}
            try:
                made = await self.embedder.tools([*missing.values()]) if missing else []
            except NotDone as error:
                pause = backoff.after(0)
                log.warning("%s made no vectors, try again in %.0f s: %s", self.embedder.name, pause, error)
                await asyncio.sleep(pause)
                continue
            backoff.failures = 0
            self._vectors.update(zip(missing, made, strict=True))
            self._bytes += sum(map(len, made))
            self.made += len(made)
            await self._have(batch)

    async def _recall(self, stored: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]) -> None:
        """Take what was kept through a restart of the tools that are new."""
        while self._new:
            piece = dict(islice(self._new.items(), STORED))
            stored_vectors = await stored([text.key for text in piece.values() if text.key not in self._vectors])
            self._vectors.update(stored_vectors)
            self._bytes += sum(map(len, stored_vectors.values()))
            for tool in piece:
                self._new.pop(tool, None)
            here = [(tool, text) for tool, text in piece.items() if text.key in self._vectors]
            if here:
                await self._have(here)

    async def _have(self, tools: Collection[tuple[str, VectorText]]) -> None:
        """Tell of tools whose vectors are there now."""
        for tool, text in tools:
            self._wanted.pop(tool, None)
            self._texts[tool] = text.key
        await self._push({tool: ToolVector(self._vectors[text.key], text.key) for tool, text in tools})

    def _sweep(self, current: Collection[str]) -> None:
        self._texts = {tool: key for tool, key in self._texts.items() if tool in current}
        used = {*self._texts.values(), *(text.key for text in self._wanted.values())}
        self._vectors = {key: vector for key, vector in self._vectors.items() if key in used}
        self._bytes = sum(map(len, self._vectors.values()))
        if self._bytes > self._limit:
            log.warning("vectors of %d tools fill their room: further tools are found by words", len(self._vectors))
            self._full = True
            self._wanted.clear()
            self._new.clear()

    async def aclose(self) -> None:
        """Make no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.embedder.aclose()


def embedder(config: EmbeddingConfig, worker: WorkerThread, throttle: Throttle, *, process: bool) -> Embedder:
    """The maker of vectors that a configuration names; `throttle` spaces out what is done on this machine."""
    if not config.url:
        return BuiltInEmbedder(worker, throttle, process=process)
    from fairlead_offers.search.embeddings_endpoint import EndpointEmbedder  # with the HTTP client

    return EndpointEmbedder(config, process=process)
