"""The compressor of results that a configuration names, without the HTTP client of its endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_search.compression import CompressorConfig


class Compressor(Protocol):
    """Compresses texts for a question."""

    model: str

    async def compress(self, question: str, sources: Mapping[str, str], budget_tokens: int) -> Mapping[str, str]:
        """Facts of texts that help with a question, by source. Raises CompressionFailed."""
        ...


def compressor(config: CompressorConfig | None, counts: SearchCounts, worker: WorkerThread) -> Compressor | None:
    """The compressor of a configuration; `worker` checks what the model says."""
    if config is None:
        return None
    from fairlead_offers.results.chat_compressor import ChatCompressor  # with the HTTP client

    return ChatCompressor(config, counts, worker)
