"""Configures and runs the computation of vectors of tools and queries. Pure module."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import msgspec

from fairlead_search.index_cache import NewTool
from fairlead_search.indexed_tool import vector_key

ENCODER_MODULES: Final = ("numpy", "onnxruntime", "tokenizers", "fairlead_search_model")
"""Modules that the built-in encoder needs."""
ENDPOINT_MODULES: Final = ("numpy",)
DISK_MODULES: Final = ("numpy", "lancedb", "pyarrow")


class EmbeddingConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """Source of vectors: the embeddings endpoint at `url`, or the built-in encoder without a `url`."""

    url: str = ""
    """Base URL of an OpenAI-compatible API, such as `http://vllm.models:8000/v1`."""
    model: str = ""
    key: str = ""
    """Bearer token."""
    dimensions: int = 0
    """Dimensions to request; 0 for the model's default."""
    instruction: str = ""
    """Instruction that precedes a query, for models that were trained with an instruction."""
    allowed_urls: tuple[str, ...] = ()
    """Egress rule for the addresses of the endpoint, like the three members that follow; see `fairlead_mcp.egress`."""
    denied_networks: tuple[str, ...] = ()
    confined: bool | None = None
    namespace: str = ""


class VectorText(msgspec.Struct, frozen=True):
    """The two texts of a tool from which its vector is computed (`IndexedTool.vector_texts`), and the vector's key."""

    key: str
    whole: str
    name: str


class EmbedRequest(msgspec.Struct, frozen=True):
    """Request to compute vectors of tools."""

    texts: list[VectorText]
    config: EmbeddingConfig | None = None
    """The endpoint to use; None for the built-in encoder."""


class EmbedResult(msgspec.Struct, frozen=True):
    """Vectors in the format `vectors.WIRE`, in the order of the texts."""

    vectors: list[bytes]
    core_share: float = 1.0
    """Share of the computing time for which the thread had a CPU core; a low share means that the machine is busy."""


def vector_text(tool: NewTool, model: str, dimensions: int) -> VectorText:
    """Create the texts of a tool, with the key of the vector that a model computes from them. `dimensions`: number of
    the vector's dimensions."""
    whole, name = tool.record().vector_texts()
    return VectorText(vector_key(model, dimensions, (whole, name)), whole, name)


def missing_modules(needed: Sequence[str] = ENCODER_MODULES) -> list[str]:
    """Those modules in `needed` that are not installed."""
    return [name for name in needed if find_spec(name) is None]


def embed(texts: Sequence[VectorText]) -> EmbedResult:
    """Compute vectors with the built-in encoder. Raises ModuleNotFoundError if one of `ENCODER_MODULES` is missing."""
    from fairlead_search.encoder import encoder
    from fairlead_search.hybrid_ranking import tool_vectors
    from fairlead_search.vectors import encode

    began, worked_s = time.perf_counter(), time.thread_time()
    rows = encoder().encode([part for text in texts for part in (text.whole, text.name)])
    share = (time.thread_time() - worked_s) / max(time.perf_counter() - began, 1e-6)
    return EmbedResult([encode(vector) for vector in tool_vectors(rows[0::2], rows[1::2])], min(share, 1.0))
