"""REST resource `POST /v1/plan`: chooses the model for a conversation, and the tools that the model gets.

`fairlead_formats.tokens.plan` makes the choice. This module counts the tokens of the conversation and of the tools for
the choice, and writes the chosen tools in the model's format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta

from fairlead_formats import registry
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.exposure import ExposedTools, ExposureAdvice
from fairlead_formats.tokens.fit import Fit
from fairlead_formats.tokens.outcome import Cut, Numbers, SkippedModel
from fairlead_formats.tokens.plan import plan
from fairlead_formats.tokens.routes import (
    RESERVED_OUTPUT_TOKENS,
    ModelChoice,
    ModelRoute,
    PlanLimits,
    RouteModel,
    models_for,
)
from fairlead_formats.tool_format import Options
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.conversion.jobs import TWICE, UNCHANGED
from fairlead_offers.documents import decode, encode
from fairlead_offers.models.model_facts import ModelFacts
from fairlead_offers.plan.caller_tools import parse_caller_tools
from fairlead_offers.plan.exposed_tools import (
    PlannedTask,
    compare_exposures,
    exposure_options,
    requested_tools,
    tools_of_other_tiers,
    without_offline,
)
from fairlead_offers.plan.offered_tools import OfferedTools, candidates, convert_tools, require_plan
from fairlead_offers.problems import INVALID_ARGUMENTS, UNKNOWN_FORMAT, UNKNOWN_ROUTE, Problem
from fairlead_offers.services import ToolServices
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer

MAX_MODELS = 32
Positive = Annotated[int, Meta(ge=1)]


class PlanBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Conversation, and the models that may be used for it: a configured route, or models in order of preference."""

    models: Annotated[tuple[ModelChoice | str, ...], Meta(max_length=MAX_MODELS)] = ()
    route: str | None = None
    messages: Any = None
    """Messages of the conversation in any provider's format."""
    system: Any = None
    tier: str | None = None
    tags: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    """Exposed names or ids of tools that are listed first and never left out."""
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    reserved_output_tokens: Annotated[int, Meta(ge=0)] | None = None
    shorten_descriptions: bool = False
    strict: bool = False
    tools: Any = None
    """Definitions of the caller's tools. They are counted, converted, and never left out."""
    tools_format: str = registry.MCP
    task: PlannedTask | None = None
    """Task for which the costs of lists, tiers and search are compared; `{}` is a task with one call."""


class PlanAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Model to use, with the tools in its format."""

    model: str
    offer: OfferedTools
    shortened: tuple[str, ...]
    """Tools whose descriptions were shortened."""
    cut: tuple[Cut, ...]
    offline: tuple[str, ...]
    """Tools that were left out because their server is offline."""
    skipped: tuple[SkippedModel, ...]
    """Preferred models that were skipped, with the reasons."""
    numbers: Numbers
    exposure: ExposureAdvice | None = None
    """Costs of the request's `task` by list, tier and search; absent without a task."""


def router(context: RestContext) -> APIRouter:
    """Make the route of `/v1/plan`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["budgets"])

    @routes.post(
        "/plan",
        **describe_route("Plan a request's model and tools", PlanAnswer, examples.PLANNED, PlanBody, examples.PLAN),
    )
    async def plan_request(request: Request) -> Response:
        body = await context.pieces(request)
        conversation = await services.work.measure(body)
        if conversation.repeats:
            raise Problem(INVALID_ARGUMENTS, TWICE)
        document = b"".join(body) if conversation.rest == UNCHANGED else bytes(conversation.rest)
        plan_body = decode(document, PlanBody)
        return answer(
            await context.when_ready(
                request,
                lambda catalog: services.work.run_in_steps(
                    lambda: plan_calls(services, catalog, plan_body, conversation.tokens)
                ),
            )
        )

    return routes


async def plan_calls(
    services: ToolServices, catalog: SubjectCatalog, body: PlanBody, conversation: ConversationTokens
) -> bytes:
    """Plan a conversation and encode the answer. Must be awaited in `run_in_steps`. Raises Problem."""
    route = _route(services.models, body)
    visible = services.catalogs.visible_tools(catalog, body.tier)
    tags, servers = frozenset(body.tags), frozenset(body.servers)
    pins = {visible.tool(name).name for name in body.pinned}
    entries = requested_tools(visible, tags, servers, pins)
    offline = tuple(entry.name for entry in entries if entry.offline)
    entries = without_offline(entries)
    caller_tools = parse_caller_tools(body.tools, body.tools_format, visible)
    ways: Sequence[ExposedTools] = ()
    if body.task is not None:
        tiers = tools_of_other_tiers(services.catalogs, catalog, visible.view.tier, (tags, servers))
        ways = await exposure_options(services.work, visible.view.tier, entries, tiers, caller_tools)
    models, limits = _models(services.models, route), _limits(body).combine_with(route.limits)
    counted_tools = await candidates(services.work, entries, pins, caller_tools)
    outcome = require_plan(plan(models, counted_tools, conversation, limits, services.work.sizes.counter.name))
    names = frozenset(outcome.tools)
    offer = await convert_tools(
        services.work,
        visible,
        [entry for entry in entries if entry.name in names],
        find_format(outcome.format),
        Options(strict=body.strict, model=outcome.model),
        short=frozenset(outcome.shortened),
        caller_tools=caller_tools,
    )
    offer = msgspec.structs.replace(offer, hidden=visible.hidden_tools(tags, servers))
    exposure = None
    if body.task is not None:
        model = next(each for each in models if (each.name, each.format) == (outcome.model, outcome.format))
        exposure = compare_exposures(body.task, Fit(model, conversation, limits), ways, services.models.prices)
    return encode(
        PlanAnswer(
            outcome.model, offer, outcome.shortened, outcome.cut, offline, outcome.skipped, outcome.numbers, exposure
        )
    )


def _route(models: ModelFacts, body: PlanBody) -> ModelRoute:
    if (body.route is None) == (not body.models):
        raise Problem(INVALID_ARGUMENTS, "the body must have either route or models")
    if body.route is None:
        return ModelRoute(body.models, reserved_output_tokens=0)
    route = models.routes.get(body.route)
    if route is None:
        advice = "" if models.routes else ": this gateway has no routes; declare them in the file of --routes"
        detail = f"the route {body.route[:64]!r} does not exist{advice}"
        raise Problem(UNKNOWN_ROUTE, detail, existing=tuple(models.routes))
    return route


def _models(models: ModelFacts, route: ModelRoute) -> list[RouteModel]:
    max_tools = {name: format_.max_tools for name, format_ in registry.FORMATS.items()}
    try:
        return models_for(route.models, models.windows, max_tools)
    except registry.UnknownFormat as error:
        raise Problem(UNKNOWN_FORMAT, str(error), existing=error.known) from error


def _limits(body: PlanBody) -> PlanLimits:
    reserved = body.reserved_output_tokens
    if reserved is None:
        reserved = RESERVED_OUTPUT_TOKENS if body.route is None else 0
    return PlanLimits(body.max_tools, body.tool_tokens, reserved, body.shorten_descriptions)
