"""Requests vectors from an OpenAI-compatible `POST /v1/embeddings`, such as vLLM's. Needs numpy (extra `search`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_mcp.errors import HttpRefused, ProtocolError
from fairlead_mcp.read_bounds import MAX_VALUES
from fairlead_offers.models.model_api import decode_answer, guarded_api
from fairlead_search.embedding import EmbeddingConfig, EmbedRequest, EmbedResult
from fairlead_search.vectors import encode

SECONDS: Final = 30.0
MAX_BYTES: Final = 16 << 20
"""Maximum number of bytes of an answer. 32 vectors with 8,192 dimensions take about 6 MB."""
MAX_INPUT: Final = 8_000
"""Maximum number of characters of a text. Longer texts are cut before they are sent, because servers refuse texts
beyond their context window."""
MAX_DIMENSIONS: Final = 16_384


class _Vector(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Vector]


class EmbeddingsApi:
    """Client of an embeddings endpoint."""

    def __init__(self, config: EmbeddingConfig, *, seconds: float = SECONDS) -> None:
        self._api = guarded_api(config, seconds=seconds, max_bytes=MAX_BYTES)
        self._config = config
        self._truncates = False
        """Whether the server has refused the member `dimensions`. If so, the gateway truncates the vectors."""

    async def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """Request one vector per text, in the order of the texts. Raises McpError."""
        dimensions = self._config.dimensions
        try:
            vectors = await self._request(texts, 0 if self._truncates else dimensions)
        except HttpRefused as error:
            if error.status not in (400, 422) or not dimensions or self._truncates:
                raise
            vectors = await self._request(texts, 0)
            self._truncates = True
        return [encode(vector[:dimensions] if dimensions else vector) for vector in vectors]

    async def _request(self, texts: Sequence[str], dimensions: int) -> list[list[float]]:
        body: dict[str, object] = {
            "model": self._config.model,
            "input": [text[:MAX_INPUT] or " " for text in texts],
            "encoding_format": "float",
        }
        if dimensions:
            body["dimensions"] = dimensions
        values = max(MAX_VALUES, len(texts) * MAX_DIMENSIONS)
        answer: _Embeddings = await decode_answer(
            await self._api.post("/embeddings", body), _Embeddings, max_values=values
        )
        by_index = {each.index: each.embedding for each in answer.data}
        if by_index.keys() != set(range(len(texts))):
            raise ProtocolError(f"the model API answered with {len(by_index)} vectors for {len(texts)} texts")
        sizes = {len(vector) for vector in by_index.values()}
        if texts and (len(sizes) != 1 or not 0 < min(sizes) <= MAX_DIMENSIONS):
            raise ProtocolError(
                f"the vectors from the model API differ in length, are empty, or have over {MAX_DIMENSIONS} numbers"
            )
        return [by_index[index] for index in range(len(texts))]


async def embed_texts(request: EmbedRequest) -> EmbedResult:
    """Request the vectors of tools from the configured endpoint. Raises McpError."""
    assert request.config is not None
    return EmbedResult(await EmbeddingsApi(request.config).vectors([text.whole for text in request.texts]))
