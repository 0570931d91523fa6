"""Runs the tool calls in a model's message.

Each call is matched to its tool, and its arguments are converted to the tool's arguments. Then the calls of the message
run together, through `calls.path.direct` like calls of MCP clients. The caller of this module writes the results in the
format of the message.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw

from fairlead_api.documents.servers import ServerEntry
from fairlead_formats.messages.call import CUSTOM, InvalidCall, ModelCall, invalid_result
from fairlead_formats.names import did_you_mean
from fairlead_formats.registry import message_format
from fairlead_formats.schema.nulls import un_null
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tool_format import JsonObject
from fairlead_formats.translate import parse_stream
from fairlead_gateway.calls.path.direct import DirectCall, Origin, Unknown
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.core.long_results import LEAST_TOKENS, MOST_TOKENS
from fairlead_gateway.limits.buffers import Holding
from fairlead_gateway.policy.decision import Denial
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, SubjectCatalogs
from fairlead_offers.catalogs.visible_tools import GATEWAY, VisibleTool, VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import decode, encode
from fairlead_offers.plan.caller_tools import CallerTools, parse_caller_tools
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import SMALL
from fairlead_tools.batch import run_all
from fairlead_tools.refusals import not_allowed
from fairlead_tools.refusals import result as refused_result

MAX_AT_ONCE: Final = 128
FEW: Final = 16
"""Maximum number of calls of a message that are matched in the event loop, which takes some 15 µs for each."""
Retries = Annotated[int, Meta(ge=0, le=5)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
ResultTokens = Annotated[int, Meta(ge=LEAST_TOKENS, le=MOST_TOKENS)]


class CarryBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Kinds of content that the model accepts in results."""

    images: bool = True
    audio: bool = False
    documents: bool = True
    """PDF files."""
    nested_media: bool = False
    """For Gemini 3 and later: whether media are inside the function response, instead of in a message after it."""
    status: bool = True
    """For Bedrock: whether the model reads `toolResult.status`; otherwise errors are stated in the text."""


class ToolCallsBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model's message with calls, or the whole answer that contains the message, in a named format."""

    format: str
    message: Any = None
    stream: list[Any] | str | None = None
    """Streamed answer instead of `message`: its events, or its whole body."""
    tier: str | None = None
    strategy: Literal["parallel", "sequential"] = "parallel"
    limit: Annotated[int, Meta(ge=1, le=MAX_AT_ONCE)] = MAX_AT_ONCE
    """Maximum number of calls at a time, for `parallel`."""
    timeout_ms: Milliseconds | None = None
    """Timeout of each call. It can only shorten the timeout of the tool."""
    timeouts_ms: dict[str, Milliseconds] = {}
    """Timeouts for individual tools, by the name that the model uses."""
    retries: Retries | None = None
    """Maximum number of attempts after the first for each call, if nothing was sent or the tool is idempotent. Limited
    by the server's setting, which is also the default; for servers without the setting it is 1.
    """
    retries_of: dict[str, Retries] = {}
    """Retries for individual tools, by the name that the model uses."""
    names: dict[str, str] = {}
    """Exposed names or ids of tools, by the name that the model uses. Needed only if the model's name for a tool is not
    the exposed name, the id, or a name that `GET /v1/tools` has returned.
    """
    tools: Any = None
    """Definitions of the caller's tools. If present, a call of an unknown tool is answered with an error; otherwise
    such a call is left to the caller.
    """
    tools_format: str | None = None
    """Format of `tools`; None: the format of the message."""
    carry: CarryBody = CarryBody()
    result_tokens: ResultTokens | None = None
    """Maximum number of tokens of each result. Longer results are cut to their beginning, end and shape; `GET
    /v1/context` reads the rest.
    """


class Planned(msgspec.Struct, frozen=True):
    """Call of the model with the tool that it calls, or with the reason why it cannot run."""

    call: ModelCall
    entry: VisibleTool | None
    """Tool of the gateway; None if the call is refused, unknown, or run by the caller."""
    arguments: bytes = b"{}"
    timeout: float | None = None
    """Seconds; None: the timeout of the tool."""
    retries: int | None = None
    """Maximum attempts after the first; None: the setting of the server."""
    client_runs: bool = False
    """Whether the caller runs the call."""
    client_definition: JsonObject | None = None
    """Definition of the caller's tool, if the request has one."""
    similar_name: str | None = None
    """Name of a tool that was probably meant, for a call of an unknown tool."""
    denied: str | None = None
    """Sentence for the model about why the call is refused. It names the reason of a policy only if the principal may
    know that reason.
    """
    denial: Denial | None = None
    """Decision of a policy that denies the tool, for the audit log."""
    unready: ServerEntry | None = None
    """Server without a catalog yet that may have the tool."""
    recording: str | None = None
    """Id of the session in which the result of a call by `execute_tool` is stored."""

    @property
    def runs(self) -> bool:
        """Whether the gateway runs the call."""
        return self.entry is not None and self.call.valid


class PlannedCalls(msgspec.Struct, frozen=True):
    """Calls of one message, and the visible tools to which they were matched."""

    visible: VisibleTools
    calls: Sequence[Planned]


def read_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[Planned]]:
    """Parse a body of `/v1/tool-calls` and plan its calls. Raises Problem for an invalid body, message or format."""
    request = decode(body, ToolCallsBody)
    visible, planned = plan_requested_calls(catalogs, catalog, request)
    return request, visible, planned


def read_few_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[Planned]] | None:
    """Like `read_calls`, for the event loop. Returns None if the worker thread has to do it, because it may take long:
    for a long body, a stream, tools of the caller, if the tools of the view have not been compiled yet, or as
    `can_match_at_once` says. Raises Problem.
    """
    if len(body) > SMALL:
        return None
    request = decode(body, ToolCallsBody)
    visible = catalogs.compiled(catalog, request.tier)
    if visible is None or request.message is None or request.stream is not None or request.tools is not None:
        return None
    calls = message_format(find_format(request.format).name).parse_calls(request.message)
    if not can_match_at_once([visible.find(_name_of(request, visible, call)) for call in calls]):
        return None
    return request, visible, [_plan(request, catalog, visible, call, None) for call in calls]


def can_match_at_once(tools: Sequence[VisibleTool | None]) -> bool:
    """Whether calls of these tools can be matched in the event loop: they are few, and each tool is visible and was
    called before. A search for a similar name, or the first decoding of a definition, may take milliseconds.
    """
    return len(tools) <= FEW and all(tool is not None and tool.is_decoded for tool in tools)


def plan_requested_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, request: ToolCallsBody
) -> tuple[VisibleTools, list[Planned]]:
    """Match the calls of a parsed body to their tools. Raises Problem."""
    format_ = find_format(request.format)
    visible = catalogs.visible(catalog, request.tier)
    if (request.message is None) == (request.stream is None):
        raise Problem(INVALID_ARGUMENTS, "the body must have either message or stream")
    if request.stream is None:
        calls = message_format(format_.name).parse_calls(request.message)
    else:
        calls = parse_stream(request.stream, format_.name)
    caller_tools = (
        None
        if request.tools is None
        else parse_caller_tools(request.tools, request.tools_format or request.format, visible)
    )
    return visible, [_plan(request, catalog, visible, call, caller_tools) for call in calls]


def planned_calls(
    catalog: SubjectCatalog, visible: VisibleTools, format_name: str, calls: Sequence[ModelCall]
) -> PlannedCalls:
    """Match parsed calls to the visible tools, when the caller has no tools."""
    request = ToolCallsBody(format_name)
    caller_tools = CallerTools(names=visible.names)
    return PlannedCalls(visible, [_plan(request, catalog, visible, call, caller_tools) for call in calls])


def _plan(
    request: ToolCallsBody,
    catalog: SubjectCatalog,
    visible: VisibleTools,
    call: ModelCall,
    caller_tools: CallerTools | None,
) -> Planned:
    if call.kind == CUSTOM:  # tools of the gateway do not accept freeform text as arguments
        return Planned(call, None, client_runs=call.valid, client_definition={"name": call.name})
    name = _name_of(request, visible, call)
    entry = visible.find(name) or visible.find_hidden(name)
    definition = None
    if caller_tools is not None and entry is None:
        definition = caller_tools.find(name) or caller_tools.find(call.name)
    if entry is None and definition is None:
        entry = visible.find_reader(name)
    if entry is None:
        denial = None if definition is not None else catalog.denial(visible.view, name)
        denied = None if definition is not None else visible.view.denied(name)
        if denied is not None:
            return Planned(call, None, denied=not_allowed(name, denied), denial=denial)
        unready = None if definition is not None else catalog.unready_of_tool(name)
        if unready is not None:
            return Planned(call, None, unready=unready)
        return Planned(
            call,
            None,
            client_runs=call.valid and (caller_tools is None or definition is not None),
            client_definition=definition,
            similar_name=None if definition is not None else _similar_name(name, visible, caller_tools),
            denial=denial,
        )
    if isinstance(call.arguments, InvalidCall):
        return Planned(call, entry)
    schema, others = entry.decoded.get("inputSchema"), entry.other_names
    arguments = restore_names(call.arguments, others) if others else call.arguments
    arguments = un_null(arguments, schema) if isinstance(schema, dict) else arguments
    limit = request.timeouts_ms.get(call.name, request.timeout_ms)
    retries = request.retries_of.get(call.name, request.retries)
    return Planned(call, entry, encode(arguments), None if limit is None else limit / 1000, retries)


def _name_of(request: ToolCallsBody, visible: VisibleTools, call: ModelCall) -> str:
    """Exposed name or id of the tool that a call names, if there is such a tool."""
    return request.names.get(call.name) or visible.names.original(call.name) or call.name


def _similar_name(name: str, visible: VisibleTools, caller_tools: CallerTools | None) -> str | None:
    """Most similar name among the names of the visible tools and the caller's tools; None if no name is similar."""
    caller_names = (str(tool["name"]) for tool in (caller_tools.tools if caller_tools else ()))
    return did_you_mean(name, [*visible.by_name, *caller_names])


class CallOutcome(msgspec.Struct, frozen=True):
    """Outcome of one call of a message."""

    result: bytes | None
    """Raw MCP result, which may be a refusal; None: no tool was called."""
    seconds: float = 0
    unknown_tool_message: str | None = None
    """Message for the model about an unknown tool; None for other outcomes."""


async def run_calls(
    services: ToolServices,
    origin: Origin,
    planned: PlannedCalls,
    holding: Holding,
    *,
    at_once: int,
    result_tokens: int | None = None,
) -> list[CallOutcome]:
    """Call the tools, at most `at_once` at a time. Returns outcomes in the order of the calls. Cancellation cancels all
    calls.
    """
    works = [_work(services, origin, planned.visible, plan, holding, result_tokens) for plan in planned.calls]
    return await run_all(works, at_once=at_once)


def result_for(plan: Planned, outcome: CallOutcome) -> JsonObject | None:
    """Result for the model; None if the caller runs the call."""
    if outcome.result is not None:
        return msgspec.json.decode(outcome.result, type=dict[str, Any])
    if not plan.call.valid:
        return invalid_result(plan.call)
    if plan.client_runs:
        return None
    message = outcome.unknown_tool_message or plan.denied or f"Unknown tool: {plan.call.wire_name}"
    if plan.similar_name is not None:
        message += f". Did you mean {plan.similar_name}?"
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _work(
    services: ToolServices,
    origin: Origin,
    visible: VisibleTools,
    planned: Planned,
    holding: Holding,
    result_tokens: int | None,
) -> Callable[[], Awaitable[CallOutcome]]:
    async def work() -> CallOutcome:
        entry = planned.entry
        if planned.unready is not None:
            refusal = refusal_of(planned.unready, starts=services.catalogs.starts(planned.unready))
            return CallOutcome(refused_result(refusal))
        if entry is None:
            if planned.denial is not None or not planned.client_runs:
                services.caller.record_unknown(origin, planned.call.wire_name, _raw(planned), planned.denial)
            return CallOutcome(None)
        if not planned.call.valid:
            services.caller.record_refusal(origin, visible.view, entry.name)
            return CallOutcome(None)
        began = time.monotonic()
        answer: Raw | Unknown
        if entry.server == GATEWAY:
            answer = await services.caller.answer(origin, visible.view, entry.name, planned.arguments, holding=holding)
        else:
            call = DirectCall(
                entry.name, planned.arguments, planned.timeout, planned.retries, result_tokens, planned.recording
            )
            answer = await services.caller.call(origin, visible.view, call, holding)
        seconds = time.monotonic() - began
        if isinstance(answer, Unknown):
            return CallOutcome(None, seconds, answer.message)
        return CallOutcome(bytes(answer), seconds)

    return work


def _raw(planned: Planned) -> bytes:
    arguments = planned.call.arguments
    return b"{}" if isinstance(arguments, InvalidCall) else msgspec.json.encode(arguments)
