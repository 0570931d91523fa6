"""Declaration of Amazon Bedrock's HTTP API, whose paths name the model and the method. Pure module.

Source: Amazon Bedrock API reference: Converse, ConverseStream, CountTokens and ListFoundationModels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.bedrock.event_stream import CONTENT_TYPE
from fairlead_formats.providers.bedrock.paths import COUNT, METHODS, STREAM, read_path
from fairlead_formats.wire.provider_api import ApiOperation, ListedModel, ProviderApi

_MODELS: Final = "/foundation-models"


def _operation(path: str, query: Mapping[str, str]) -> ApiOperation | None:
    target = read_path(path)
    if target is None:
        return None
    if target.method == COUNT:
        return ApiOperation("converse", counts=True, model=target.model)
    return ApiOperation("converse", model=target.model, stream=target.method == STREAM)


def _summary(model: ListedModel) -> dict[str, Any]:
    return {
        "modelArn": f"arn:aws:bedrock:::foundation-model/{model.id}",
        "modelId": model.id,
        "modelName": model.id,
        "providerName": model.owner,
        "responseStreamingSupported": True,
    }


def _model(model: ListedModel) -> dict[str, Any]:
    return {"modelDetails": _summary(model)}


def _models(models: Sequence[ListedModel]) -> dict[str, Any]:
    return {"modelSummaries": [_summary(model) for model in models]}


API: Final = ProviderApi(
    kind="bedrock",
    key_header="authorization",
    key_prefix="Bearer ",
    signing_service="bedrock",
    stream_type=CONTENT_TYPE,
    first_segments=frozenset(("model", _MODELS.removeprefix("/"))),
    segments=frozenset(),
    models_paths=(_MODELS,),
    operations=tuple(f"POST /model/MODEL/{method}" for method in METHODS),
    operation=_operation,
    model=_model,
    models=_models,
)
