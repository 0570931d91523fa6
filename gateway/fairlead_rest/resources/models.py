"""REST resource `GET /v1/models`: models, their context windows, and the sources of the windows."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from fairlead_formats.tokens.models import ContextWindow, family_of, shipped_windows
from fairlead_formats.tokens.routes import ModelChoice, format_for
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route

OnlyKnown = Annotated[
    bool,
    Query(
        alias="known",
        description="Must be `true` if providers are configured. Otherwise the answer is the providers' list of "
        "models, in the format of the client's API.",
    ),
]


class ModelDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """Model in the format of OpenAI's list of models, with the properties that plans use."""

    id: str
    object: str
    context_window: int
    """Maximum tokens of input and output together."""
    family: str
    """Model family, whose factors convert token counts."""
    format: str
    """Default format of plans for the model."""
    source: str
    """Source of the window: `configured`, `live`, `file`, `file, as MODEL`, or `default` for unknown models, for which
    a small window is assumed.
    """
    as_of: str | None = None
    """Date of the information, for the sources `file` and `live`."""
    max_input_tokens: int | None = None
    """Maximum tokens of input, if the provider limits it to less than the window."""
    routes: tuple[str, ...] = ()
    """Configured routes that contain the model."""


class LiveState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of the configured model server."""

    models: int
    as_of: str | None = None
    """Time of the last list that was read."""
    error: str | None = None
    """Reason why the last attempt failed; the previous list remains in use."""


class ModelList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Models, sorted by name. For a model that is not in the list, plans use the window of the model whose name has the
    longest common prefix, or `default`; `GET /v1/models/{name}` shows which window they use.
    """

    object: str
    data: list[ModelDocument]
    file_date: str
    """Date of the windows that are part of the package."""
    file_source: str
    live: LiveState | None = None


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/models` and `/v1/models/{name}`."""
    routes = APIRouter(prefix="/v1", tags=["budgets"])

    @routes.get("/models", **describe_route("List models and their context windows", ModelList, examples.MODELS))
    async def list_models(only_known: OnlyKnown = True) -> Response:
        return await context.answer(lambda: list_known(context))

    @routes.get(
        "/models/{name:path}", **describe_route("Show one model, which may be unknown", ModelDocument, examples.MODEL)
    )
    async def show_model(name: str, only_known: OnlyKnown = True) -> Response:
        return await context.answer(lambda: document(context, name))

    return routes


def list_known(context: RestContext) -> ModelList:
    """List all models with a known window, and the models of routes."""
    services = context.services
    windows = services.models.windows
    names = {
        *windows.names(),
        *(_model(choice) for route in services.models.routes.values() for choice in route.models),
    }
    live = services.models.live
    state = None if live is None else LiveState(len(live.models), live.at or None, live.error or None)
    data = [document(context, name) for name in sorted(names)]
    return ModelList("list", data, shipped_windows().date, shipped_windows().source, state)


def document(context: RestContext, name: str) -> ModelDocument:
    """Document of a model, with the properties that plans use."""
    services = context.services
    window = services.models.windows.window(name)
    return ModelDocument(
        name,
        "model",
        window.context,
        family_of(name).name,
        format_for(name),
        window.source,
        _as_of(window, context),
        window.max_input,
        tuple(
            route
            for route, model_route in services.models.routes.items()
            if any(_model(choice) == name for choice in model_route.models)
        ),
    )


def _as_of(window: ContextWindow, context: RestContext) -> str | None:
    if window.source.startswith("file"):
        return shipped_windows().date
    live = context.services.models.live
    return live.at if window.source == "live" and live is not None else None


def _model(choice: ModelChoice | str) -> str:
    return choice if isinstance(choice, str) else choice.model
