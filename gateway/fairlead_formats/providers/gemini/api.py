"""Declaration of Gemini's HTTP API, whose paths name the model and the method. Pure module.

Source: Google's API reference, v1beta; newer clients use v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.gemini.paths import COUNT, GENERATE, METHODS, STREAM, read_path
from fairlead_formats.wire.provider_api import ApiOperation, ListedModel, ProviderApi, RequestHead

_MODELS: Final = "models"
_KEY_HEADER: Final = "x-goog-api-key"
_HEADERS: Final = (_KEY_HEADER.encode(), b"x-goog-api-client")


_RESOURCES: Final = frozenset(
    (
        _MODELS,
        "auth_tokens",
        "batches",
        "cachedContents",
        "corpora",
        "fileSearchStores",
        "files",
        "generatedFiles",
        "interactions",
        "operations",
        "tunedModels",
        "tuningJobs",
    )
)


def _owns(head: RequestHead) -> bool:
    """Whether a request is Gemini's: it has a header of Google's, the query member `key`, or a path `…:METHOD`."""
    return (
        any(name in head.headers for name in _HEADERS)
        or any(part.startswith(b"key=") for part in head.query.split(b"&"))
        or (head.segment == _MODELS and head.method != "GET" and ":" in head.rest)
    )


def _operation(path: str, query: Mapping[str, str]) -> ApiOperation | None:
    target = read_path(path)
    if target is None:
        return None
    if target.method == COUNT:
        return ApiOperation("gemini", counts=True, model=target.model)
    if target.method == GENERATE:
        return ApiOperation("gemini", model=target.model, stream=False)
    if target.method == STREAM:
        wire = "gemini" if query.get("alt") == "sse" else "gemini-array"
        return ApiOperation(wire, model=target.model, stream=True)
    return None


def _model(model: ListedModel) -> dict[str, Any]:
    return {
        "name": f"{_MODELS}/{model.id}",
        "displayName": model.id,
        "inputTokenLimit": model.max_input,
        "supportedGenerationMethods": (GENERATE, STREAM),
    }


def _models(models: Sequence[ListedModel]) -> dict[str, Any]:
    return {_MODELS: [_model(model) for model in models]}


API: Final = ProviderApi(
    kind="gemini",
    base_versions=("/v1beta", "/v1"),
    key_header=_KEY_HEADER,
    first_segments=frozenset(("v1alpha", "v1beta", "upload", "download")),
    segments=_RESOURCES,
    owns=_owns,
    speech=True,
    models_paths=(f"/v1beta/{_MODELS}", f"/v1/{_MODELS}"),
    operations=tuple(f"POST /v1beta/{_MODELS}/MODEL:{method}" for method in METHODS),
    operation=_operation,
    model=_model,
    models=_models,
)
