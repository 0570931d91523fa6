"""Makes the embedding vectors by which tools are searched, in the background, and stores them.

A process with the lowest priority makes a few vectors at a time, so that calls and searches do not wait for this work.
Until most tools of a catalog have vectors, searches in that catalog rank tools by words alone.
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
from fairlead_search.embedding import (
    EmbeddingConfig,
    EmbedRequest,
    EmbedResult,
    VectorText,
    vector_text,
)
from fairlead_search.index_cache import NewTool
from fairlead_search.index_interfaces import ToolVector
from fairlead_search.indexed_tool import BUILT_IN, BUILT_IN_DIMENSIONS

BATCH: Final = 32
"""Number of tools whose vectors are made and sent to the search index together."""
PIECE_TOOLS: Final = 8
"""Number of tools that the built-in encoder processes at a time, which takes about 50 ms of a core."""
TOOL_SECONDS: Final = 0.006
"""Seconds of a core that the built-in encoder takes for one tool."""
INDEXING_SHARE: Final = 0.1
"""Share of the time in which the built-in encoder works while tools are called and cores are free. Even a process with
the lowest priority slows down the calls that run at the same time, because it uses the CPU's caches and memory
bandwidth. At this share, 10,000 tools take ten minutes; while no tool is called, they take one minute.
"""
CROWDED_SHARE: Final = 0.7
"""Share of the encoder's working time in which it had a core. A lower share shows that calls and servers need all
cores, so that the encoder has to work less (CROWDED_COST).
"""
CROWDED_COST: Final = 50
"""Factor by which the throttle counts a tool more while calls and servers need all cores. The encoder then gets only
part of a core, so a tool takes many times TOOL_SECONDS, and at INDEXING_SHARE the encoder would slow down a tenth of
the calls. With this factor, the encoder slows down about a hundredth of the calls, and most tools wait until no tool is
called.
"""
EMBED_SECONDS: Final = 600.0
"""Maximum seconds in which the process embeds one batch of tools. The limit is high, because a process with the lowest
priority may wait long for a core.
"""
LOAD_BATCH: Final = 250
"""Number of tools whose vectors are loaded from the store at a time."""
MAX_BYTES: Final = 128 << 20
"""Maximum number of bytes of all stored vectors, beyond which further tools are ranked by words alone."""

log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class Embedder(Protocol):
    """Interface of an embedding model."""

    name: str
    """Name of the model."""
    dimensions: int
    """Dimensions of a vector; 0: the model's default."""
    encodes: bool
    """Whether the search process makes the vectors of queries itself."""

    async def tools(self, texts: Sequence[VectorText]) -> list[bytes]:
        """Make one vector per tool. Raises NotDone."""
        ...

    async def queries(self, queries: Sequence[str]) -> Sequence[bytes]:
        """Make one vector per query. Returns an empty sequence if that is not possible."""
        ...

    async def aclose(self) -> None:
        """Cancel running work."""
        ...


class BuiltInEmbedder:
    """Built-in encoder from the wheel `fairlead-search-model`."""

    name = BUILT_IN
    dimensions = BUILT_IN_DIMENSIONS
    encodes = True

    def __init__(self, worker: WorkerThread, throttle: Throttle, *, process: bool) -> None:
        self._worker = worker
        self._throttle = throttle
        self._pool = ProcessPool(1, bulk=True, seconds=EMBED_SECONDS) if process else None
        self._is_crowded = False
        """Whether the last piece of work had to wait for a core."""

    async def tools(self, texts: Sequence[VectorText]) -> list[bytes]:
        vectors: list[bytes] = []
        while len(vectors) < len(texts):
            piece = texts[len(vectors) : len(vectors) + (1 if self._is_crowded else PIECE_TOOLS)]
            await self._throttle.turn(len(piece) * TOOL_SECONDS * (CROWDED_COST if self._is_crowded else 1))
            embedded = await self._embed(piece)
            self._is_crowded = embedded.core_share < CROWDED_SHARE
            vectors += embedded.vectors
        return vectors

    async def _embed(self, texts: Sequence[VectorText]) -> EmbedResult:
        work = _encode(EmbedRequest([*texts]))
        if self._pool is None:
            try:
                return await self._worker.do(lambda: embed(work))
            except (ImportError, OSError, RuntimeError, ValueError) as error:
                raise NotDone(f"the built-in encoder failed: {error}") from error
        return await self._pool.do(EMBED, work)

    async def queries(self, queries: Sequence[str]) -> Sequence[bytes]:
        return ()

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()


class ToolVectors:
    """Stores the vectors of tools, and makes missing vectors in the background. A vector depends only on the texts of a
    tool, and remains valid if other parts of the definition change. Must be used in one event loop only.
    """

    def __init__(
        self,
        embedder: Embedder,
        push: Callable[[Mapping[str, ToolVector]], Awaitable[None]],
        read_stored: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]] | None = None,
        limit: int = MAX_BYTES,
    ) -> None:
        """`push`: sends new vectors, by key of the tool, to the search index. `read_stored`: loads vectors from
        before a restart, by key of the texts. `limit`: maximum bytes of all vectors.
        """
        self.embedder = embedder
        self.made = 0
        """Number of vectors that were made since the start."""
        self._push = push
        self._read_stored = read_stored
        self._new_texts: dict[str, VectorText] = {}
        """Texts in `_pending` for which `read_stored` has not been called yet, by key of the tool."""
        self._limit = limit
        self._vectors: dict[str, bytes] = {}
        """Vectors by key of the texts."""
        self._bytes = 0
        self._texts: dict[str, str] = {}
        """Key of the texts by key of the tool."""
        self._pending: dict[str, VectorText] = {}
        """Texts of tools that wait for their vector, by key of the tool."""
        self._is_full = False
        """Whether `limit` is reached, so that no further vectors are made."""
        self._task: asyncio.Task[None] | None = None

    def get(self, tool: str) -> ToolVector | None:
        """Vector of a tool; None if it has not been made."""
        text = self._texts.get(tool, "")
        vector = self._vectors.get(text)
        return None if vector is None else ToolVector(vector, text)

    def select_new(self, tools: Iterable[str]) -> list[str]:
        """Select the tools, by key, whose vector is neither made nor requested. Empty if the store is full."""
        if self._is_full:
            return []
        return [key for key in tools if key not in self._pending and self.get(key) is None]

    def text(self, tool: NewTool) -> VectorText:
        """Texts of a tool for `request`."""
        return vector_text(tool, self.embedder.name, self.embedder.dimensions)

    def request(self, texts: Mapping[str, VectorText], current_tools: Collection[str]) -> None:
        """Request vectors for texts, by key of the tool. If the store is full, vectors of tools that are not in
        `current_tools` are dropped first.
        """
        self._pending.update(texts)
        if self._read_stored is not None:
            self._new_texts.update(texts)
        if self._bytes > self._limit:
            self._sweep(current_tools)
        if self._pending and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="vectors of tools")

    async def _run(self) -> None:
        backoff = Backoff(random.random, base=1.0)
        while self._pending:
            if self._read_stored is not None:
                await self._recall(self._read_stored)
            batch = [*islice(self._pending.items(), BATCH)]
            missing_texts = {text.key: text for _, text in batch if text.key not in self._vectors}
            try:
                new_vectors = await self.embedder.tools([*missing_texts.values()]) if missing_texts else []
            except NotDone as error:
                pause = backoff.delay_after(0)
                log.warning(
                    "Tools are searched by words only, because %s could not make vectors; retrying in %.0f s: %s",
                    self.embedder.name,
                    pause,
                    error,
                )
                await asyncio.sleep(pause)
                continue
            backoff.failures = 0
            self._vectors.update(zip(missing_texts, new_vectors, strict=True))
            self._bytes += sum(map(len, new_vectors))
            self.made += len(new_vectors)
            await self._publish(batch)

    async def _recall(self, read_stored: Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]) -> None:
        """Load those vectors of new tools that an earlier run of the gateway has stored."""
        while self._new_texts:
            piece = dict(islice(self._new_texts.items(), LOAD_BATCH))
            stored_vectors = await read_stored([text.key for text in piece.values() if text.key not in self._vectors])
            self._vectors.update(stored_vectors)
            self._bytes += sum(map(len, stored_vectors.values()))
            for tool in piece:
                self._new_texts.pop(tool, None)
            loaded_tools = [(tool, text) for tool, text in piece.items() if text.key in self._vectors]
            if loaded_tools:
                await self._publish(loaded_tools)

    async def _publish(self, tools: Collection[tuple[str, VectorText]]) -> None:
        """Send the vectors of tools to the search index."""
        for tool, text in tools:
            self._pending.pop(tool, None)
            self._texts[tool] = text.key
        await self._push({tool: ToolVector(self._vectors[text.key], text.key) for tool, text in tools})

    def _sweep(self, current_tools: Collection[str]) -> None:
        self._texts = {tool: key for tool, key in self._texts.items() if tool in current_tools}
        used_keys = {*self._texts.values(), *(text.key for text in self._pending.values())}
        self._vectors = {key: vector for key, vector in self._vectors.items() if key in used_keys}
        self._bytes = sum(map(len, self._vectors.values()))
        if self._bytes > self._limit:
            log.warning(
                "Further tools are searched by words only, because the vectors of %d tools fill %d MiB",
                len(self._vectors),
                self._limit >> 20,
            )
            self._is_full = True
            self._pending.clear()
            self._new_texts.clear()

    async def aclose(self) -> None:
        """Cancel the task and the embedder's work."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.embedder.aclose()


def embedder(config: EmbeddingConfig, worker: WorkerThread, throttle: Throttle, *, process: bool) -> Embedder:
    """Make the embedder of a configuration. `throttle`: limits the CPU time of the built-in encoder."""
    if not config.url:
        return BuiltInEmbedder(worker, throttle, process=process)
    from fairlead_offers.search.embeddings_endpoint import EndpointEmbedder  # imports the HTTP client

    return EndpointEmbedder(config, process=process)
