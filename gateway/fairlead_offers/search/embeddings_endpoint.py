"""Embedder whose vectors come from an embeddings endpoint. A worker process requests the vectors of tools, and the
gateway process requests the vectors of queries.

If the model needs an instruction (Qwen3), the instruction precedes the query. Vectors of queries are cached. A request
for the vector of a query may take only as long as a search may wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_mcp.errors import McpError
from fairlead_offers.search.embeddings_api import EmbeddingsApi, embed_texts
from fairlead_offers.search.jobs import EMBED
from fairlead_offers.workers.pool import ProcessPool
from fairlead_offers.workers.process import NotDone
from fairlead_search.embedding import EmbeddingConfig, EmbedRequest, VectorText
from fairlead_search.query_vectors import QueryVectors

QUERY_SECONDS: Final = 3.0
"""Maximum seconds that a search waits for the vector of its query. After that, tools are ranked by words alone."""
COOL_DOWN: Final = 10.0
"""Seconds after a failure during which no queries are sent, so that searches do not wait for an
unavailable endpoint.
"""
PIECE_SECONDS: Final = 600.0
"""Maximum seconds in which the worker process embeds one batch of tools. The limit is high, because a process with the
lowest priority may wait long for a core.
"""

log = logging.getLogger(__name__)


class EndpointEmbedder:
    """Embedder whose model is served by an endpoint."""

    encodes = False

    def __init__(self, config: EmbeddingConfig, *, process: bool) -> None:
        self.name = config.model
        self.dimensions = config.dimensions
        self._config = config
        self._pool = ProcessPool(1, bulk=True, seconds=PIECE_SECONDS) if process else None
        self._queries = EmbeddingsApi(config, seconds=QUERY_SECONDS)
        self._query_vectors = QueryVectors()
        self._failed_at = float("-inf")

    async def tools(self, texts: Sequence[VectorText]) -> list[bytes]:
        request = EmbedRequest([*texts], self._config)
        if self._pool is not None:
            return (await self._pool.do(EMBED, msgspec.json.encode(request))).vectors
        try:
            return (await embed_texts(request)).vectors
        except McpError as error:
            raise NotDone(str(error)) from error

    async def queries(self, queries: Sequence[str]) -> Sequence[bytes]:
        new_queries = self._query_vectors.missing_from_cache(queries)
        if new_queries and time.monotonic() - self._failed_at < COOL_DOWN:
            return ()
        instruction = self._config.instruction
        try:
            inputs = [f"Instruct: {instruction}\nQuery:{query}" if instruction else query for query in new_queries]
            vectors = await self._queries.vectors(inputs) if new_queries else []
        except McpError as error:
            self._failed_at = time.monotonic()
            log.warning("Tools are ranked by words alone, because %s could not embed a query: %s", self.name, error)
            return ()
        return self._query_vectors.take(queries, dict(zip(new_queries, vectors, strict=True)))

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
