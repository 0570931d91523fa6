"""Declaration of OpenAI's HTTP API, with Chat Completions and Responses. Pure module.

Source: OpenAI's API reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_formats.wire.provider_api import ApiOperation, ListedModel, ProviderApi

CHAT_COMPLETIONS: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
COMPACT: Final = f"{RESPONSES}/compact"
INPUT_TOKENS: Final = f"{RESPONSES}/input_tokens"
_OPERATIONS: Final = {
    CHAT_COMPLETIONS: ApiOperation("chat"),
    RESPONSES: ApiOperation("responses"),
    COMPACT: ApiOperation("compaction"),
    INPUT_TOKENS: ApiOperation("responses", counts=True),
}


def _operation(path: str, query: Mapping[str, str]) -> ApiOperation | None:
    return _OPERATIONS.get(path)


def _model(model: ListedModel) -> dict[str, Any]:
    """An entry of the model list. The gateway does not know when a model was created, so `created` is 1970."""
    return {
        "id": model.id,
        "object": "model",
        "created": 0,
        "owned_by": model.owner,
        "context_window": model.context,
    }


def _models(models: Sequence[ListedModel]) -> dict[str, Any]:
    return {"object": "list", "data": [_model(model) for model in models]}


API: Final = ProviderApi(
    kind="openai",
    key_header="authorization",
    key_prefix="Bearer ",
    segments=frozenset(
        (
            "agents",
            "assistants",
            "audio",
            "batches",
            "chat",
            "chatkit",
            "completions",
            "containers",
            "conversations",
            "edits",
            "embeddings",
            "evals",
            "files",
            "fine_tuning",
            "images",
            "models",
            "moderations",
            "organization",
            "realtime",
            "responses",
            "skills",
            "threads",
            "uploads",
            "vaults",
            "vector_stores",
            "videos",
        )
    ),
    speech=True,
    models_paths=("/v1/models",),
    operations=tuple(f"POST {path}" for path in _OPERATIONS),
    operation=_operation,
    model=_model,
    models=_models,
)
