"""Vectors by an OpenAI-compatible `POST /v1/embeddings`, such as vLLM's. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_mcp.errors import HttpRefused, ProtocolError
from fairlead_mcp.read_bounds import MAX_VALUES
from fairlead_offers.models.model_api import decode_answer, guarded_api
from fairlead_search.embedding import Embedded, EmbeddingConfig, EmbedRequest
from fairlead_search.vectors import encode

SECONDS: Final = 30.0
MAX_BYTES: Final = 16 << 20
"""Bytes of one answer: 32 vectors of 8,192 numbers each have about 6 MB."""
MAX_INPUT: Final = 8_000
"""Characters of a text that are sent; servers refuse what their window does not hold."""
MAX_DIMENSIONS: Final = 16_384


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Vector]


class EmbeddingsApi:
    """The endpoint itself."""

    def __init__(self, config: EmbeddingConfig, *, seconds: float = SECONDS) -> None:
        self._api = guarded_api(config, seconds=seconds, max_bytes=MAX_BYTES)
        self._config = config
        self._cuts = False
        """Whether the server refuses to cut vectors to the dimensions that are wanted: then it is done here."""

    async def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """One vector per text, in their order. Raises McpError."""
        wanted = self._config.dimensions
        try:
            vectors = await self._ask(texts, 0 if self._cuts else wanted)
        except HttpRefused as error:
            if error.status not in (400, 422) or not wanted or self._cuts:
                raise
            vectors = await self._ask(texts, 0)
            self._cuts = True
        return [encode(vector[:wanted] if wanted else vector) for vector in vectors]

    async def _ask(self, texts: Sequence[str], dimensions: int) -> list[list[float]]:
        body: dict[str, object] = {
            "model": self._config.model,
            "input": [text[:MAX_INPUT] or " " for text in texts],
            "encoding_format": "float",
        }
        if dimensions:
            body["dimensions"] = dimensions
        values = max(MAX_VALUES, len(texts) * MAX_DIMENSIONS)
        answer: _Embeddings = await decode_answer(await self._api.post("/embeddings", body), _Embeddings, values=values)
        by_index = {each.index: each.embedding for each in answer.data}
        if by_index.keys() != set(range(len(texts))):
            raise ProtocolError(f"the model API answered {len(by_index)} vectors for {len(texts)} texts")
        sizes = {len(vector) for vector in by_index.values()}
        if texts and (len(sizes) != 1 or not 0 < min(sizes) <= MAX_DIMENSIONS):
            raise ProtocolError("the model API answered vectors of unusable or unequal lengths")
        return [by_index[index] for index in range(len(texts))]


async def embed_texts(request: EmbedRequest) -> Embedded:
    """Vectors of tools by the endpoint of the request. Raises McpError."""
    assert request.config is not None
    return Embedded(await EmbeddingsApi(request.config).vectors([text.whole for text in request.texts]))
