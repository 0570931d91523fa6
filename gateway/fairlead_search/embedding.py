"""Who makes vectors of tools and queries, and the work of making them. Pure module."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

import msgspec

from fairlead_search.catalogs import NewTool
from fairlead_search.record import vector_key

NEEDED: Final = ("numpy", "onnxruntime", "tokenizers", "fairlead_search_model")
"""Modules of the built-in encoder."""
NEEDED_BY_ENDPOINTS: Final = ("numpy",)
NEEDED_ON_DISK: Final = ("numpy", "lancedb", "pyarrow")


class EmbeddingConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who makes the vectors: the built-in encoder, or an endpoint where there is a `url`."""

    url: str = ""
    """Base of an OpenAI-compatible API, such as `http://vllm.models:8000/v1`."""
    model: str = ""
    key: str = ""
    """Bearer token."""
    dimensions: int = 0
    """Numbers in a vector; 0: as many as the model makes."""
    instruction: str = ""
    """Task of a query, for models that were trained with one."""
    allowed_urls: tuple[str, ...] = ()
    denied_networks: tuple[str, ...] = ()
    confined: bool | None = None
    namespace: str = ""
    """Rules of where the endpoint may be, as `fairlead_mcp.egress` has them."""


class VectorText(msgspec.Struct, frozen=True):
    """Texts of a tool, as `IndexedTool.vector_texts` has them, and the key of the vector that they make."""

    key: str
    whole: str
    name: str


class EmbedRequest(msgspec.Struct, frozen=True):
    """Tools to make vectors of."""

    texts: list[VectorText]
    config: EmbeddingConfig | None = None
    """The endpoint that makes them; None: the built-in encoder."""


class Embedded(msgspec.Struct, frozen=True):
    """Vectors in the form of `vectors.WIRE`, in the order of the texts."""

    vectors: list[bytes]
    core_share: float = 1.0
    """Part of the time in which they were made that their thread had a core; where little, others wanted it too."""


def vector_text(tool: NewTool, model: str, dimensions: int) -> VectorText:
    """Texts of a tool, for a model of so many dimensions."""
    whole, name = tool.record().vector_texts()
    return VectorText(vector_key(model, dimensions, (whole, name)), whole, name)


def missing_modules(needed: Sequence[str] = NEEDED) -> list[str]:
    """Modules that are not installed, of those of the built-in encoder as a rule."""
    return [name for name in needed if find_spec(name) is None]


def embed(texts: Sequence[VectorText]) -> Embedded:
    """Vectors by the built-in encoder. Raises ModuleNotFoundError where `missing_modules` names some."""
    from fairlead_search.encoder import encoder
    from fairlead_search.hybrid import tool_vectors
    from fairlead_search.vectors import encode

    began, worked = time.perf_counter(), time.thread_time()
    made = encoder().encode([text for each in texts for text in (each.whole, each.name)])
    share = (time.thread_time() - worked) / max(time.perf_counter() - began, 1e-6)
    return Embedded([encode(vector) for vector in tool_vectors(made[0::2], made[1::2])], min(share, 1.0))
