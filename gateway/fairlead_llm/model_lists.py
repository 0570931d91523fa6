"""Lists of the models that clients may use. The API of each provider family writes a list in its own form. Pure module.

A list contains no API keys and no addresses of providers.
"""

from __future__ import annotations

from fairlead_formats.tokens.models import ContextWindow, ContextWindows
from fairlead_formats.wire.provider_api import ListedModel
from fairlead_models.providers import ROUTE_PREFIX, Providers, model_of


def list_models(providers: Providers, windows: ContextWindows) -> list[ListedModel]:
    """All routes, and all models that the configuration names in full; name patterns such as `gpt-*` are left out."""
    models = [_listed_model(name, owner, windows.window(name)) for name, owner in providers.list_models().items()]
    return [*models, *(_route(providers, windows, name) for name in providers.routes)]


def find_model(providers: Providers, windows: ContextWindows, model_id: str) -> ListedModel:
    """A model or route by name, or a model that matches a pattern of the configuration. Raises UnknownModel."""
    if model_id.startswith(ROUTE_PREFIX):
        name = model_id.removeprefix(ROUTE_PREFIX)
        if name in providers.routes:
            return _route(providers, windows, name)
        providers.targets(model_id)
    target = providers.target(model_id)
    return _listed_model(model_id, target.provider, windows.window(target.model))


def _route(providers: Providers, windows: ContextWindows, name: str) -> ListedModel:
    """A route, with the largest context window of its models."""
    model_windows = [
        windows.window(providers.target(model_of(choice)).model) for choice in providers.routes[name].models
    ]
    largest_window = max(model_windows, key=lambda window: window.context)
    return _listed_model(f"{ROUTE_PREFIX}{name}", ROUTE_PREFIX.rstrip("/"), largest_window)


def _listed_model(name: str, owner: str, window: ContextWindow) -> ListedModel:
    return ListedModel(name, owner, window.context, window.max_input or window.context)
