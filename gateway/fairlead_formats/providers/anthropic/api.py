"""Declaration of Anthropic's HTTP API: paths, headers, and the list of models. Pure module.

Source: Anthropic's API reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_formats.wire.provider_api import ApiOperation, ListedModel, ProviderApi, RequestHead

MESSAGES: Final = "/v1/messages"
COUNT_TOKENS: Final = f"{MESSAGES}/count_tokens"
VERSION: Final = "2023-06-01"
"""`anthropic-version` of requests, unless the provider's `headers` name another version."""
_EPOCH: Final = "1970-01-01T00:00:00Z"
_OPERATIONS: Final = {
    version + path: operation
    for path, operation in (
        (MESSAGES, ApiOperation("messages")),
        (COUNT_TOKENS, ApiOperation("messages", counts=True)),
    )
    for version in ("", "/v1")  # some clients append the version to a base URL that ends with it
}


def _owns(head: RequestHead) -> bool:
    return b"anthropic-version" in head.headers


def _operation(path: str, query: Mapping[str, str]) -> ApiOperation | None:
    return _OPERATIONS.get(path)


def _model(model: ListedModel) -> dict[str, Any]:
    """An entry of the model list. The gateway does not know when a model was created, so `created_at` is 1970."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _EPOCH,
        "max_input_tokens": model.max_input,
    }


def _models(models: Sequence[ListedModel]) -> dict[str, Any]:
    first_id, last_id = (models[0].id, models[-1].id) if models else (None, None)
    return {"data": [_model(model) for model in models], "has_more": False, "first_id": first_id, "last_id": last_id}


API: Final = ProviderApi(
    kind="anthropic",
    base_versions=("/v1",),
    key_header="x-api-key",
    headers={"anthropic-version": VERSION},
    segments=frozenset(
        (
            "agents",
            "complete",
            "deployment_runs",
            "deployments",
            "environments",
            "files",
            "memory_stores",
            "messages",
            "models",
            "organizations",
            "sessions",
            "skills",
            "user_profiles",
            "vaults",
        )
    ),
    owns=_owns,
    models_paths=("/v1/models",),
    operations=tuple(f"POST {path}" for path in _OPERATIONS),
    operation=_operation,
    model=_model,
    models=_models,
)
