"""Calls that a model's message requests: each matched to its tool, with the arguments in the form that the tool takes,
and run together, the way of every call (`calls.path.direct`). Nothing here knows the form that results are written in.
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
from fairlead_tools.batch import run_all
from fairlead_tools.refusals import not_allowed
from fairlead_tools.refusals import result as refused_result

MAX_AT_ONCE: Final = 128
Retries = Annotated[int, Meta(ge=0, le=5)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]
ResultTokens = Annotated[int, Meta(ge=LEAST_TOKENS, le=MOST_TOKENS)]


class CarryBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Content that the model takes in results."""

    images: bool = True
    audio: bool = False
    documents: bool = True
    nested_media: bool = False
    status: bool = True


class ToolCallsBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A model's message, or the whole answer that holds it, in a named format."""

    format: str
    message: Any = None
    stream: list[Any] | str | None = None
    """A streamed answer in place of `message`: its events, or its whole body as it came."""
    tier: str | None = None
    strategy: Literal["parallel", "sequential"] = "parallel"
    limit: Annotated[int, Meta(ge=1, le=MAX_AT_ONCE)] = MAX_AT_ONCE
    """Calls at once, of `parallel`."""
    timeout_ms: Milliseconds | None = None
    """For each call; can only shorten what the tool has."""
    timeouts_ms: dict[str, Milliseconds] = {}
    """For single tools, by the name that the model uses."""
    retries: Retries | None = None
    """Attempts after the first, for each call: where nothing was sent, or where the tool is idempotent. At most as many
    as the server allows where it says so; without it, as many as that, or one.
    """
    retries_of: dict[str, Retries] = {}
    """For single tools, by the name that the model uses."""
    names: dict[str, str] = {}
    """Name that the model uses to exposed name or id, where it is neither of these nor a name of `GET /v1/tools`."""
    tools: Any = None
    """The caller's own definitions. With them, a call of an unknown tool is answered with an error; without,
    it is left to the caller.
    """
    tools_format: str | None = None
    """Theirs; that of the message by default."""
    carry: CarryBody = CarryBody()
    result_tokens: ResultTokens | None = None
    """Tokens of each result, at most: of a longer one come beginning, end and shape, and `GET /v1/context` reads on."""


class Planned(msgspec.Struct, frozen=True):
    """One call with the tool that it calls."""

    call: ModelCall
    entry: VisibleTool | None
    arguments: bytes = b"{}"
    timeout: float | None = None
    retries: int | None = None
    theirs: bool = False
    """Whether the caller runs it."""
    own: JsonObject | None = None
    """Definition of the caller's tool, if the request has it."""
    near: str | None = None
    denied: str | None = None
    """Reason of a refusal, for the model; also why policies deny the tool, if the principal may know that."""
    denial: Denial | None = None
    """Decision of policies that denies the tool, for the audit log."""
    unready: ServerEntry | None = None
    """Server without a catalog that may have the tool."""
    recording: str | None = None
    """Session in which the result is stored, for calls by `execute_tool`."""

    @property
    def runs(self) -> bool:
        """Whether the gateway calls a tool for it."""
        return self.entry is not None and self.call.valid


class PlannedCalls(msgspec.Struct, frozen=True):
    """Calls of one message, and the tools among which theirs were looked up."""

    visible: VisibleTools
    calls: Sequence[Planned]


def read_calls(
    catalogs: SubjectCatalogs, seen: SubjectCatalog, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[Planned]]:
    """Parse a body of `/v1/tool-calls` and plan its calls. Raises Problem for an invalid body, message or format."""
    body_read = decode(body, ToolCallsBody)
    visible, planned = plan_requested_calls(catalogs, seen, body_read)
    return body_read, visible, planned


def plan_requested_calls(
    catalogs: SubjectCatalogs, seen: SubjectCatalog, request: ToolCallsBody
) -> tuple[VisibleTools, list[Planned]]:
    """The calls of a parsed body, each with its tool. Raises Problem."""
    format_ = find_format(request.format)
    visible = catalogs.visible(seen, request.tier)
    if (request.message is None) == (request.stream is None):
        raise Problem(INVALID_ARGUMENTS, "the body: give either message or stream")
    if request.stream is None:
        calls = message_format(format_.name).parse_calls(request.message)
    else:
        calls = parse_stream(request.stream, format_.name)
    own = (
        None
        if request.tools is None
        else parse_caller_tools(request.tools, request.tools_format or request.format, visible)
    )
    return visible, [_plan(request, seen, visible, call, own) for call in calls]


def planned_calls(
    catalogs: SubjectCatalogs, seen: SubjectCatalog, tier: str | None, format_name: str, calls: Sequence[ModelCall]
) -> PlannedCalls:
    """Parsed calls, none of them of the caller's own tools, each with its tool. Raises Problem."""
    request = ToolCallsBody(format_name, tier=tier)
    visible = catalogs.visible(seen, tier)
    own = parse_caller_tools([], format_name, visible)
    return PlannedCalls(visible, [_plan(request, seen, visible, call, own) for call in calls])


def _plan(
    request: ToolCallsBody, seen: SubjectCatalog, visible: VisibleTools, call: ModelCall, own: CallerTools | None
) -> Planned:
    if call.kind == CUSTOM:  # freeform: no tool of ours takes text in place of arguments
        return Planned(call, None, theirs=call.valid, own={"name": call.name})
    name = request.names.get(call.name) or visible.names.original(call.name) or call.name
    entry = visible.find(name) or visible.unlisted(name)
    mine = None if own is None or entry is not None else own.find(name) or own.find(call.name)
    if entry is None and mine is None:
        entry = visible.reader(name)
    if entry is None:
        denial = None if mine is not None else seen.denial(visible.view, name)
        denied = None if mine is not None else visible.view.denied(name)
        if denied is not None:
            return Planned(call, None, denied=not_allowed(name, denied), denial=denial)
        unready = None if mine is not None else seen.unready_of_tool(name)
        if unready is not None:
            return Planned(call, None, unready=unready)
        near = None if mine is not None else _near(name, visible, own)
        return Planned(
            call, None, theirs=call.valid and (own is None or mine is not None), own=mine, near=near, denial=denial
        )
    if isinstance(call.arguments, InvalidCall):
        return Planned(call, entry)
    schema, others = entry.decoded.get("inputSchema"), entry.other_names
    arguments = restore_names(call.arguments, others) if others else call.arguments
    arguments = un_null(arguments, schema) if isinstance(schema, dict) else arguments
    limit = request.timeouts_ms.get(call.name, request.timeout_ms)
    retries = request.retries_of.get(call.name, request.retries)
    return Planned(call, entry, encode(arguments), None if limit is None else limit / 1000, retries)


def _near(name: str, visible: VisibleTools, own: CallerTools | None) -> str | None:
    """Nearest name among the tools that the model may call: those visible to it, and the caller's."""
    return did_you_mean(name, [*visible.by_name, *(str(tool["name"]) for tool in (own.tools if own else ()))])


class CallOutcome(msgspec.Struct, frozen=True):
    """Outcome of one call of a message."""

    result: bytes | None
    """Raw MCP result, also of a refusal; None: no tool was called."""
    seconds: float = 0
    record_unknown: str | None = None
    """Message about a tool that was not found."""


async def run_calls(
    services: ToolServices,
    origin: Origin,
    planned: PlannedCalls,
    holding: Holding,
    *,
    at_once: int,
    result_tokens: int | None = None,
) -> list[CallOutcome]:
    """Call the tools, at most `at_once` at a time; outcomes in the order of the calls. Cancelling cancels all calls."""
    works = [_work(services, origin, planned.visible, plan, holding, result_tokens) for plan in planned.calls]
    return await run_all(works, at_once=at_once)


def result_for(plan: Planned, outcome: CallOutcome) -> JsonObject | None:
    """Result for the model; None where the caller answers the call."""
    if outcome.result is not None:
        return msgspec.json.decode(outcome.result, type=dict[str, Any])
    if not plan.call.valid:
        return invalid_result(plan.call)
    if plan.theirs:
        return None
    message = outcome.record_unknown or plan.denied or f"Unknown tool: {plan.call.wire_name}"
    if plan.near is not None:
        message += f". Did you mean {plan.near}?"
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
            if planned.denial is not None or not planned.theirs:
                services.caller.record_unknown(origin, planned.call.wire_name, _raw(planned), planned.denial)
            return CallOutcome(None)
        if not planned.call.valid:
            services.caller.record_refusal(origin, visible.view, entry.name)
            return CallOutcome(None)
        began = time.monotonic()
        made: Raw | Unknown
        if entry.server == GATEWAY:
            made = await services.caller.answer(origin, visible.view, entry.name, planned.arguments, holding=holding)
        else:
            call = DirectCall(
                entry.name, planned.arguments, planned.timeout, planned.retries, result_tokens, planned.recording
            )
            made = await services.caller.call(origin, visible.view, call, holding)
        seconds = time.monotonic() - began
        if isinstance(made, Unknown):
            return CallOutcome(None, seconds, made.message)
        return CallOutcome(bytes(made), seconds)

    return work


def _raw(planned: Planned) -> bytes:
    arguments = planned.call.arguments
    return b"{}" if isinstance(arguments, InvalidCall) else msgspec.json.encode(arguments)
