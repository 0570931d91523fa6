"""REST resources `GET /v1/tools` and `GET /v1/tools/{name}`: visible tools in MCP's or a provider's format.
`POST /v1/tools` lists the visible tools together with the caller's tools.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from msgspec import Meta

from fairlead_formats import registry
from fairlead_formats.tokens.routes import PlanLimits
from fairlead_formats.tool_format import GEMINI_JSON_SCHEMA, GeminiField, Options
from fairlead_gateway.policy.hidden_tools_notice import HiddenTools
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.tool_document import ToolDocument, document
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import decode, encode
from fairlead_offers.plan.caller_tools import parse_caller_tools
from fairlead_offers.plan.offered_tools import OfferedTools, convert_tools, fit_tools, single_model
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.context import RestContext
from fairlead_rest.examples import tools as examples
from fairlead_rest.openapi import describe_route
from fairlead_rest.queries import words
from fairlead_web.bodies import answer

Positive = Annotated[int, Meta(ge=1)]


class ToolsAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Visible tools sorted by name. Includes the gateway's `read_result` if the results of any tool are limited."""

    tools: list[ToolDocument]
    hidden: HiddenTools | None = None
    """Matching tools that the tier hides; absent if there are none."""


class ToolsBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Parameters of `GET /v1/tools`, and the caller's tools."""

    format: str
    tools: Any
    """Definitions of the caller's tools: a list, one tool, or a request that contains tools. They are counted, and
    never left out.
    """
    tools_format: str | None = None
    """Format of `tools`; default: `format`."""
    tier: str | None = None
    model: str | None = None
    max_tools: Positive | None = None
    tool_tokens: Positive | None = None
    strict: bool = False
    gemini_field: GeminiField = GEMINI_JSON_SCHEMA
    tags: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()


class ToolsQuery(msgspec.Struct, frozen=True):
    """Parameters of `GET` or `POST /v1/tools`."""

    format: str | None
    tier: str | None
    model: str | None
    limits: PlanLimits
    strict: bool
    gemini_field: GeminiField
    tags: frozenset[str]
    servers: frozenset[str]
    caller_tools: Any = None
    caller_format: str = registry.MCP


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/tools` and `/v1/tools/{name}`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["tools"])

    @routes.get("/tools", **describe_route("List tools", ToolsAnswer | OfferedTools, examples.TOOLS))
    async def list_tools(
        request: Request,
        format: Annotated[str | None, Query(description="Format of a provider; default: MCP definitions.")] = None,  # noqa: A002 - the name in the URL
        tier: Annotated[
            str | None, Query(description="Latency tier; default: the default tier, or all tools if there is none.")
        ] = None,
        model: Annotated[
            str | None,
            Query(description="Model that receives the tools; sets context window and definition rules."),
        ] = None,
        max_tools: Annotated[int | None, Query(alias="maxTools", ge=1)] = None,
        tool_tokens: Annotated[
            int | None, Query(alias="toolTokens", ge=1, description="Token limit, in the model's tokens.")
        ] = None,
        strict: Annotated[bool, Query(description="Strict mode, for tools whose schema it does not change.")] = False,
        gemini_field: Annotated[GeminiField, Query(alias="geminiField")] = GEMINI_JSON_SCHEMA,
        tags: Annotated[
            list[str] | None, Query(description="Tools with one of these tags; comma-separated or repeated.")
        ] = None,
        servers: Annotated[
            list[str] | None, Query(description="Tools of one of these servers, by `namespace/name`, name or prefix.")
        ] = None,
    ) -> Response:
        limits = PlanLimits(max_tools, tool_tokens, reserved_output=0)
        tools_query = ToolsQuery(format, tier, model, limits, strict, gemini_field, words(tags), words(servers))
        return answer(
            await context.when_ready(
                request,
                lambda catalog: services.work.run_in_steps(lambda: list_encoded(services, catalog, tools_query)),
            )
        )

    @routes.post(
        "/tools",
        **describe_route(
            "List the gateway's tools and the caller's own", OfferedTools, examples.CARRIED, ToolsBody, examples.CARRY
        ),
    )
    async def list_tools_with_own(request: Request) -> Response:
        body = await context.read(request)
        return answer(
            await context.when_ready(
                request,
                lambda catalog: services.work.run_in_steps(
                    lambda: list_encoded(services, catalog, read_query(decode(body, ToolsBody)))
                ),
            )
        )

    @routes.get("/tools/{name:path}", **describe_route("Show one tool, by name or id", ToolDocument, examples.TOOL))
    async def show_tool(request: Request, name: str, tier: Annotated[str | None, Query()] = None) -> Response:
        return await context.answer_when_ready(
            request, lambda catalog: document(services.catalogs.visible_tools(catalog, tier).tool(name))
        )

    return routes


def read_query(body: ToolsBody) -> ToolsQuery:
    """Convert a body to a query."""
    return ToolsQuery(
        body.format,
        body.tier,
        body.model,
        PlanLimits(body.max_tools, body.tool_tokens, reserved_output=0),
        body.strict,
        body.gemini_field,
        frozenset(body.tags),
        frozenset(body.servers),
        body.tools,
        body.tools_format or body.format,
    )


async def list_encoded(services: ToolServices, catalog: SubjectCatalog, tools_query: ToolsQuery) -> bytes:
    """Answer a query and encode the answer. Must be awaited in `run_in_steps`. Raises Problem."""
    visible = services.catalogs.visible_tools(catalog, tools_query.tier)
    entries = visible.add_reader(visible.select(tools_query.tags, tools_query.servers))
    hidden = visible.hidden_tools(tools_query.tags, tools_query.servers)
    is_limited = (
        tools_query.model is not None
        or tools_query.limits.max_tools is not None
        or tools_query.limits.tool_tokens is not None
    )
    if tools_query.format is None:
        if is_limited:
            raise Problem(INVALID_ARGUMENTS, "model, maxTools and toolTokens require format, for example `mcp`")
        return encode(ToolsAnswer([document(entry) for entry in with_pauses(entries)], hidden))
    format_ = find_format(tools_query.format)
    offline = tuple(entry.name for entry in entries if entry.offline)
    entries = [entry for entry in entries if not entry.offline]
    options = Options(strict=tools_query.strict, model=tools_query.model, gemini_field=tools_query.gemini_field)
    caller_tools = parse_caller_tools(tools_query.caller_tools, tools_query.caller_format, visible)
    if not is_limited or not (entries or caller_tools.tools):
        offer = await convert_tools(services.work, visible, entries, format_, options, caller_tools=caller_tools)
        return encode(msgspec.structs.replace(offer, offline=offline, hidden=hidden))
    plan = await fit_tools(
        services.work,
        entries,
        single_model(services.models, format_, tools_query.model),
        tools_query.limits,
        caller_tools,
    )
    names = frozenset(plan.tools)
    offer = await convert_tools(
        services.work,
        visible,
        [entry for entry in entries if entry.name in names],
        format_,
        options,
        caller_tools=caller_tools,
    )
    return encode(msgspec.structs.replace(offer, offline=offline, cut=plan.cut, numbers=plan.numbers, hidden=hidden))
