"""Interface of compressors of results, and a factory that imports the HTTP client only for a configured compressor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairlead_gateway.core.search_counts import SearchCounts
from fairlead_offers.workers.heavy_work import WorkerThread
from fairlead_search.result_compression import CompressorConfig


class Compressor(Protocol):
    """Interface of a compressor of texts."""

    model: str

    async def compress(self, question: str, sources: Mapping[str, str], budget_tokens: int) -> Mapping[str, str]:
        """Extract the facts that help with a question from `sources`, the texts by source. Returns shorter texts by
        source. Raises CompressionFailed.
        """
        ...


def compressor(config: CompressorConfig | None, counts: SearchCounts, worker: WorkerThread) -> Compressor | None:
    """Make the compressor of a configuration; None without a configuration. `worker` verifies the model's answers."""
    if config is None:
        return None
    from fairlead_offers.results.chat_compressor import ChatCompressor  # imports the HTTP client

    return ChatCompressor(config, counts, worker)
