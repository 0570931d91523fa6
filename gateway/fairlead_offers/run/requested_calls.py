"""Runs the tool calls in a model's message.

Each call is matched to its tool, and its arguments are converted to the tool's arguments. Then the calls of the message
run together, through `calls.path.direct` like calls of MCP clients. The caller of this module writes the results in the
format of the message.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import CUSTOM, InvalidCall, ModelCall, invalid_result
from fairlead_formats.names import suggest_name
from fairlead_formats.registry import message_format
from fairlead_formats.schema.nulls import remove_nulls
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tool_format import JsonObject
from fairlead_formats.translate import parse_stream
from fairlead_gateway.calls.path.direct import DirectCall, Origin, StartedCall, UnknownToolAnswer
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.calls.translation.errors import TOO_DEEP
from fairlead_gateway.limits.buffers import HeldResponses
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, SubjectCatalogs
from fairlead_offers.catalogs.visible_tools import GATEWAY, VisibleTool, VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import decode, encode
from fairlead_offers.plan.caller_tools import CallerTools, parse_caller_tools
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem
from fairlead_offers.run.planned_calls import CallOutcome, PlannedCall, PlannedCalls
from fairlead_offers.run.tool_calls_body import ToolCallsBody
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import SMALL
from fairlead_tools.batch import run_all
from fairlead_tools.refusal import UPSTREAM_ERROR, Refusal
from fairlead_tools.refusals import not_allowed
from fairlead_tools.refusals import result as refused_result

_decode_result: Final = msgspec.json.Decoder(dict[str, Any]).decode
MAX_MATCHED_AT_ONCE: Final = 16
"""Maximum number of calls of a message that are matched in the event loop, which takes some 15 µs for each."""


def read_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[PlannedCall]]:
    """Parse a body of `/v1/tool-calls` and plan its calls. Raises Problem for an invalid body, message or format."""
    request = decode(body, ToolCallsBody)
    visible, planned = plan_requested_calls(catalogs, catalog, request)
    return request, visible, planned


def read_few_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[PlannedCall]] | None:
    """Like `read_calls`, for the event loop. Returns None if the worker thread has to do it, because it may take long:
    for a long body, a stream, tools of the caller, if the tools of the view have not been compiled yet, or as
    `can_match_at_once` says. Raises Problem.
    """
    if len(body) > SMALL:
        return None
    request = decode(body, ToolCallsBody)
    visible = catalogs.find_visible_tools(catalog, request.tier)
    if visible is None or request.message is None or request.stream is not None or request.tools is not None:
        return None
    calls = message_format(find_format(request.format).name).parse_calls(request.message)
    tools = [visible.find(_name_of(request, visible, call)) for call in calls]
    if not can_match_at_once(tools):
        return None
    plans = [
        _plan(request, catalog, visible, call, None)
        if tool is None or call.kind == CUSTOM
        else _plan_tool(request, call, tool)
        for call, tool in zip(calls, tools, strict=True)
    ]
    return request, visible, plans


def can_match_at_once(tools: Sequence[VisibleTool | None]) -> bool:
    """Whether calls of these tools can be matched in the event loop: they are few, and each tool is visible and was
    called before. A search for a similar name, or the first decoding of a definition, may take milliseconds.
    """
    return len(tools) <= MAX_MATCHED_AT_ONCE and all(tool is not None and tool.is_decoded for tool in tools)


def plan_requested_calls(
    catalogs: SubjectCatalogs, catalog: SubjectCatalog, request: ToolCallsBody
) -> tuple[VisibleTools, list[PlannedCall]]:
    """Match the calls of a parsed body to their tools. Raises Problem."""
    format_ = find_format(request.format)
    visible = catalogs.visible_tools(catalog, request.tier)
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
) -> PlannedCall:
    if call.kind == CUSTOM:  # tools of the gateway do not accept freeform text as arguments
        return PlannedCall(call, None, client_runs=call.valid, client_definition={"name": call.name})
    name = _name_of(request, visible, call)
    entry = visible.find(name) or visible.find_hidden(name)
    definition = None
    if caller_tools is not None and entry is None:
        definition = caller_tools.find(name) or caller_tools.find(call.name)
    if entry is None and definition is None:
        entry = visible.find_reader(name)
    if entry is None:
        denial = None if definition is not None else catalog.denial(visible.view, name)
        denied_reason = None if definition is not None else visible.view.why_denied(name)
        if denied_reason is not None:
            return PlannedCall(call, None, refusal=not_allowed(name, denied_reason), denial=denial)
        unready = None if definition is not None else catalog.unready_of_tool(name)
        if unready is not None:
            return PlannedCall(call, None, unready=unready)
        return PlannedCall(
            call,
            None,
            client_runs=call.valid and (caller_tools is None or definition is not None),
            client_definition=definition,
            similar_name=None if definition is not None else _similar_name(name, visible, caller_tools),
            denial=denial,
        )
    return _plan_tool(request, call, entry)


def _plan_tool(request: ToolCallsBody, call: ModelCall, entry: VisibleTool) -> PlannedCall:
    """Plan the call of a tool of the gateway."""
    if isinstance(call.arguments, InvalidCall):
        return PlannedCall(call, entry)
    arguments, original_names = call.arguments, entry.other_names
    if original_names:
        arguments = restore_names(arguments, original_names)
    raw = encode(arguments)
    if raw.find(b"null") >= 0:  # most arguments have no null, and need not be compared to the schema
        schema = entry.decoded_definition.get("inputSchema")
        raw = encode(remove_nulls(arguments, schema)) if isinstance(schema, dict) else raw
    limit = request.timeouts_ms.get(call.name, request.timeout_ms)
    retries = request.retries_of.get(call.name, request.retries)
    return PlannedCall(call, entry, raw, None if limit is None else limit / 1000, retries)


def _name_of(request: ToolCallsBody, visible: VisibleTools, call: ModelCall) -> str:
    """Exposed name or id of the tool that a call names, if there is such a tool."""
    return request.names.get(call.name) or visible.names.original_name(call.name) or call.name


def _similar_name(name: str, visible: VisibleTools, caller_tools: CallerTools | None) -> str | None:
    """Most similar name among the names of the visible tools and the caller's tools; None if no name is similar."""
    caller_names = (str(tool["name"]) for tool in (caller_tools.tools if caller_tools else ()))
    return suggest_name(name, [*visible.by_name, *caller_names])


async def run_calls(
    services: ToolServices,
    origin: Origin,
    planned: PlannedCalls,
    held_responses: HeldResponses,
    *,
    at_once: int,
    result_tokens: int | None = None,
) -> list[CallOutcome]:
    """Call the tools, at most `at_once` at a time. Returns outcomes in the order of the calls. Cancellation cancels all
    calls.
    """
    run = _MessageRun(services, origin, planned.visible.view, held_responses, result_tokens)
    calls = planned.calls
    if at_once >= len(calls) and not any(plan.entry is not None and plan.entry.server == GATEWAY for plan in calls):
        return await run.all_together(calls)
    return await run_all([partial(run.run_call, plan) for plan in calls], at_once=at_once)


def result_for(plan: PlannedCall, outcome: CallOutcome) -> JsonObject | None:
    """Result for the model; None if the caller runs the call."""
    if outcome.result is not None:
        try:
            return _decode_result(outcome.result)
        except RecursionError:
            return _decode_result(refused_result(Refusal(UPSTREAM_ERROR, TOO_DEEP)))
    if not plan.call.valid:
        return invalid_result(plan.call)
    if plan.client_runs:
        return None
    message = outcome.unknown_tool_message or plan.refusal or f"Unknown tool: {plan.call.wire_name}"
    if plan.similar_name is not None:
        message += f". Did you mean {plan.similar_name}?"
    return {"content": [{"type": "text", "text": message}], "isError": True}


class _MessageRun:
    """Run of the calls of one message."""

    __slots__ = ("_caller", "_catalogs", "_held_responses", "_origin", "_result_tokens", "_view")

    def __init__(
        self,
        services: ToolServices,
        origin: Origin,
        view: View,
        held_responses: HeldResponses,
        result_tokens: int | None,
    ) -> None:
        self._caller = services.caller
        self._catalogs = services.catalogs
        self._origin = origin
        self._view = view
        self._held_responses = held_responses
        self._result_tokens = result_tokens

    async def all_together(self, calls: Sequence[PlannedCall]) -> list[CallOutcome]:
        """Run calls of servers' tools, all at the same time. The calls need no tasks, because all calls are started
        before the first call is awaited.
        """
        runs: list[StartedCall | CallOutcome] = []
        try:
            for plan in calls:
                runs.append(self._start(plan))
            return [run if isinstance(run, CallOutcome) else await _outcome(run) for run in runs]
        except BaseException:
            for run in runs:
                if not isinstance(run, CallOutcome):
                    run.cancel()
            raise

    async def run_call(self, plan: PlannedCall) -> CallOutcome:
        """Run one call."""
        if plan.entry is None or plan.entry.server != GATEWAY or not plan.call.valid:
            run = self._start(plan)
            return run if isinstance(run, CallOutcome) else await _outcome(run)
        began = time.monotonic()
        result = await self._caller.answer(
            self._origin, self._view, plan.entry.name, plan.arguments, held_responses=self._held_responses
        )
        return CallOutcome(bytes(result), time.monotonic() - began)

    def _start(self, plan: PlannedCall) -> StartedCall | CallOutcome:
        """Start a call of a server's tool. Returns the outcome instead if the call is not run."""
        entry, caller, origin = plan.entry, self._caller, self._origin
        if plan.unready is not None:
            return CallOutcome(refused_result(refusal_of(plan.unready, starts=self._catalogs.starts(plan.unready))))
        if entry is None:
            if plan.denial is not None or not plan.client_runs:
                caller.record_unknown(origin, plan.call.wire_name, _raw_arguments(plan), plan.denial)
            return CallOutcome(None)
        if not plan.call.valid:
            caller.record_refusal(origin, self._view, entry.name)
            return CallOutcome(None)
        call = DirectCall(entry.name, plan.arguments, plan.timeout, plan.retries, self._result_tokens, plan.recording)
        started_call = caller.start(origin, self._view, call, self._held_responses)
        return (
            CallOutcome(None, 0, started_call.message) if isinstance(started_call, UnknownToolAnswer) else started_call
        )


async def _outcome(run: StartedCall) -> CallOutcome:
    result = await run.result()
    return CallOutcome(result, run.seconds)


def _raw_arguments(plan: PlannedCall) -> bytes:
    arguments = plan.call.arguments
    return b"{}" if isinstance(arguments, InvalidCall) else msgspec.json.encode(arguments)
