"""Paths of providers' APIs, and which kind of API a request to one of them means. Pure module.

Clients put their key where their SDK has it, and read errors in its form: both are decided here, by the path and, where
several APIs have a path of that name, by headers that only one kind of SDK sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_formats.provider import ProviderKind

MODELS: Final = "models"
OPENAI_VERSION: Final = "v1"
TWICE: Final = "/v1"
"""In front of paths of clients that add a version to a base URL that ends with one."""
GEMINI_VERSION: Final = "v1beta"
_SEGMENTS: Final[Mapping[str, ProviderKind | None]] = {
    **dict.fromkeys(("messages", "complete"), "anthropic"),
    **dict.fromkeys(
        (
            "assistants",
            "audio",
            "batches",
            "chat",
            "completions",
            "containers",
            "conversations",
            "edits",
            "embeddings",
            "evals",
            "fine_tuning",
            "images",
            "moderations",
            "realtime",
            "responses",
            "threads",
            "uploads",
            "vector_stores",
            "videos",
        ),
        "openai",
    ),
    **dict.fromkeys(("files", MODELS, "skills"), None),
}
"""First segments below `/v1`, with the API that has them; None: several do. Whether offered here or not."""
_GEMINI_HEADERS: Final = (b"x-goog-api-key", b"x-goog-api-client")


def kind_of(method: str, path: str, headers: Mapping[bytes, bytes], query: bytes) -> ProviderKind | None:
    """The kind of API that a request is one of; None for a path that no provider's API has. Header names are in lower
    case. `/v1/models/MODEL:METHOD` is Gemini's unless it is a GET: newer Gemini clients use that path.
    """
    if path.startswith(f"{TWICE}/{OPENAI_VERSION}/"):
        path = path.removeprefix(TWICE)
    version, _, rest = path.removeprefix("/").partition("/")
    if version == GEMINI_VERSION:
        return "gemini"
    segment = rest.partition("/")[0]
    if version != OPENAI_VERSION or segment not in _SEGMENTS:
        return None
    kind = _SEGMENTS[segment]
    if kind is not None:
        return kind
    if b"anthropic-version" in headers:
        return "anthropic"
    if segment == MODELS and (
        any(name in headers for name in _GEMINI_HEADERS)
        or any(part.startswith(b"key=") for part in query.split(b"&"))
        or (method != "GET" and ":" in rest)
    ):
        return "gemini"
    return "openai"


def segments() -> frozenset[str]:
    """First segments below `/v1` that are providers' APIs."""
    return frozenset(_SEGMENTS)
