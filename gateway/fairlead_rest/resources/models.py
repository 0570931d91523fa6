"""`GET /v1/models`: which models are known, how much each holds, and who says so."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from fairlead_formats.tokens.models import ContextWindow, family_of, shipped_windows
from fairlead_formats.tokens.routes import ModelChoice, format_for
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route

Known = Annotated[
    bool,
    Query(
        alias="known",
        description="`true` is needed where providers are configured: without it the answer is about models that can "
        "be asked for, in the form of the client's kind of API.",
    ),
]


class ModelDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model, in the form of OpenAI's list of models, with what a plan reckons with."""

    id: str
    object: str
    context_window: int
    """Tokens of input and output together."""
    family: str
    """Family whose factors convert its tokens."""
    format: str
    """The format that a plan uses where none is named."""
    source: str
    """`configured`, `live`, `file`, `file, as MODEL`, or `default`: nothing is known, and little is assumed."""
    as_of: str | None = None
    """When that was so; of `file` and `live`."""
    max_input_tokens: int | None = None
    """Where the provider bounds the input below the window."""
    routes: tuple[str, ...] = ()
    """Routes of the configuration that name it."""


class LiveState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model server of the configuration."""

    models: int
    as_of: str | None = None
    """The last list that could be read."""
    error: str | None = None
    """Why the last attempt brought none; what was known stays."""


class ModelList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Models by name. What is in no list is planned for with the window of the longest beginning of its name, or with
    `default`: `GET /v1/models/{name}` says which.
    """

    object: str
    data: list[ModelDocument]
    file_date: str
    """Date of the figures that ship with the package."""
    file_source: str
    live: LiveState | None = None


def router(context: RestContext) -> APIRouter:
    """The resources `/v1/models` and below."""
    routes = APIRouter(prefix="/v1", tags=["budgets"])

    @routes.get("/models", **describe_route("List models and their windows", ModelList, examples.MODELS))
    async def list_models(only_known: Known = True) -> Response:
        return await context.answer(lambda: listed(context))

    @routes.get("/models/{name:path}", **describe_route("Show one model, known or not", ModelDocument, examples.MODEL))
    async def show_model(name: str, only_known: Known = True) -> Response:
        return await context.answer(lambda: document(context, name))

    return routes


def listed(context: RestContext) -> ModelList:
    """Every model that something is known of, and those of the routes."""
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
    """Properties of a model that a plan uses."""
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
