"""Lists of the models that clients may use, in the form of each kind of API. Pure module.

The lists contain neither keys nor addresses. Creation dates are not known, so they are the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.provider import ProviderKind
from fairlead_formats.tokens.models import ContextWindow, ContextWindows
from fairlead_models.providers import ROUTE_PREFIX, Providers, model_of

GEMINI_PREFIX: Final = "models/"
_EPOCH: Final = "1970-01-01T00:00:00Z"
_GEMINI_METHODS: Final = ("generateContent", "streamGenerateContent")


class OfferedModel(msgspec.Struct, frozen=True):
    """A model that clients may use, or a route over several models."""

    id: str
    owner: str
    """Name of the model's provider; `fairlead` for a route."""
    window: ContextWindow


def list_models(providers: Providers, windows: ContextWindows) -> list[OfferedModel]:
    """All models that are configured by name, and all routes."""
    models = [OfferedModel(name, owner, windows.window(name)) for name, owner in providers.list_models().items()]
    return [*models, *(_route(providers, windows, name) for name in providers.routes)]


def find_model(providers: Providers, windows: ContextWindows, model_id: str) -> OfferedModel:
    """A model or route by name, or a model that matches a pattern of the configuration. Raises UnknownModel."""
    if model_id.startswith(ROUTE_PREFIX):
        name = model_id.removeprefix(ROUTE_PREFIX)
        if name in providers.routes:
            return _route(providers, windows, name)
        providers.targets(model_id)
    target = providers.target(model_id)
    return OfferedModel(model_id, target.provider, windows.window(target.model))


def _route(providers: Providers, windows: ContextWindows, name: str) -> OfferedModel:
    """A route, with the largest context window of its models."""
    each = [windows.window(providers.target(model_of(choice)).model) for choice in providers.routes[name].models]
    return OfferedModel(f"{ROUTE_PREFIX}{name}", ROUTE_PREFIX.rstrip("/"), max(each, key=lambda window: window.context))


def document(kind: ProviderKind, model: OfferedModel) -> Mapping[str, Any]:
    """One model in the form of an API."""
    return _DOCUMENTS[kind](model)


def listing(kind: ProviderKind, models: Sequence[OfferedModel]) -> Mapping[str, Any]:
    """All models in the form of an API, on one page."""
    data = [document(kind, model) for model in models]
    if kind == "gemini":
        return {"models": data}
    if kind == "openai":
        return {"object": "list", "data": data}
    first, last = (models[0].id, models[-1].id) if models else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}


def _openai(model: OfferedModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "object": "model",
        "created": 0,
        "owned_by": model.owner,
        "context_window": model.window.context,
    }


def _anthropic(model: OfferedModel) -> dict[str, Any]:
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": _EPOCH,
        "max_input_tokens": model.window.max_input or model.window.context,
    }


def _gemini(model: OfferedModel) -> dict[str, Any]:
    return {
        "name": f"{GEMINI_PREFIX}{model.id}",
        "displayName": model.id,
        "inputTokenLimit": model.window.max_input or model.window.context,
        "supportedGenerationMethods": _GEMINI_METHODS,
    }


_DOCUMENTS: Final[Mapping[ProviderKind, Callable[[OfferedModel], dict[str, Any]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
