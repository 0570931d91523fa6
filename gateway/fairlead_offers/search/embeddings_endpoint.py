"""Has an endpoint embed tools, asked by a process, and queries: behind an instruction where the model wants one
(Qwen3), remembered, and for no longer than a search may wait.
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
"""Seconds for the vector of a query, which somebody waits for; after that words alone rank."""
COOL_DOWN: Final = 10.0
"""Seconds after a failure in which queries are not sent: searches do not wait for an endpoint that is away."""
PIECE_SECONDS: Final = 600.0
"""Seconds for one piece of work of a process of lowest priority, which may wait long for a core."""

log = logging.getLogger(__name__)


class EndpointEmbedder:
    """Has a process ask the endpoint about tools, and asks it about queries itself."""

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
        new = self._query_vectors.lacking(queries)
        if new and time.monotonic() - self._failed_at < COOL_DOWN:
            return ()
        instruction = self._config.instruction
        try:
            inputs = [f"Instruct: {instruction}\nQuery:{query}" if instruction else query for query in new]
            made = await self._queries.vectors(inputs) if new else []
        except McpError as error:
            self._failed_at = time.monotonic()
            log.warning("%s made no vector of a query, and words alone rank: %s", self.name, error)
            return ()
        return self._query_vectors.take(queries, dict(zip(new, made, strict=True)))

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
