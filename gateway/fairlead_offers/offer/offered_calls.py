"""Runs a model's calls of offered tools.

Each call is matched to an offered tool in the worker thread, and then runs like a call of an MCP client. If the tools
of the router endpoint were offered, a call of `execute_tool` is replaced by the inner call in its arguments, and
`search_tools` searches only the tools that the request may use.

A policy with `autoRun` can reserve calls for the client: the gateway then returns such a call to the client, and runs
it only after the client has approved it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import InvalidCall, ModelCall
from fairlead_formats.names import suggest_name
from fairlead_formats.tokens.exposure import SEARCH
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.calls.path.execution import ExecuteArguments
from fairlead_gateway.calls.results.context_recorder import BadSession
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, SEARCH_TOOLS
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import GATEWAY, READER, VisibleTools
from fairlead_offers.documents import encode
from fairlead_offers.offer.offers import OfferWishes, ToolOffer
from fairlead_offers.plan.exposed_tools import ROUTER_TOOLS
from fairlead_offers.run.planned_calls import PlannedCall, PlannedCalls
from fairlead_offers.run.requested_calls import (
    can_match_at_once,
    planned_calls,
    result_for,
    run_calls,
)
from fairlead_offers.services import ToolServices
from fairlead_offers.workers.heavy_work import SMALL

_PORTABLE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern of tool names that every provider accepts."""
_GATEWAY_TOOLS: Final = {entry.name: entry for entry in (*ROUTER_TOOLS, READER)}
AT_ONCE: Final = 32
"""Maximum number of calls of one message that run at the same time."""


class OfferContext(msgspec.Struct, frozen=True):
    """Offer of tools, with the wishes of the request and the format for which the offer was made."""

    offer: ToolOffer
    wishes: OfferWishes
    format_name: str


def plan_offered_calls(
    services: ToolServices,
    catalog: SubjectCatalog,
    visible: VisibleTools,
    context: OfferContext,
    calls: Sequence[ModelCall],
    *,
    approved: bool,
) -> PlannedCalls:
    """Match calls to the offered tools. Calls that policies reserve for the client are refused, unless the client has
    `approved` them.
    """
    offer = context.offer
    inner_calls = [_inner_call(call) if _is_execute_tool(offer, call) else call for call in calls]
    matched_calls = planned_calls(catalog, visible, context.format_name, inner_calls)
    view = None if approved else matched_calls.visible.view
    plans = []
    for call, plan in zip(calls, matched_calls.calls, strict=True):
        if _is_execute_tool(offer, call):
            plans.append(_plan_recorded(services, catalog, call, _check_reachable(offer, plan, view)))
        elif call.wire_name in offer.router_tools:
            plans.append(_plan_gateway_tool(offer.router_tools[call.wire_name], context.wishes, call))
        else:
            plans.append((_check_reachable if offer.way == SEARCH else _check_listed)(offer, plan, view))
    return PlannedCalls(matched_calls.visible, plans)


def manual_inner_calls(
    offer: ToolOffer, calls: Sequence[ModelCall], client_tool_names: Collection[str]
) -> dict[str, ModelCall]:
    """Inner calls of `execute_tool` that policies reserve for the client, by the id of the `execute_tool` call. The
    client gets an inner call instead of the `execute_tool` call, so inner calls are left out if a provider would refuse
    the tool's name, or if the client has a tool of the same name.
    """
    inner_calls = {}
    for call in calls:
        inner_call = _inner_call(call) if _is_execute_tool(offer, call) else call
        is_usable = inner_call.name not in client_tool_names and _PORTABLE_NAME.fullmatch(inner_call.name)
        if inner_call is not call and inner_call.name in offer.manual_reasons and is_usable:
            inner_calls[call.id] = inner_call
    return inner_calls


def _is_execute_tool(offer: ToolOffer, call: ModelCall) -> bool:
    return offer.router_tools.get(call.wire_name) == EXECUTE_TOOL


def _check_listed(offer: ToolOffer, plan: PlannedCall, view: View | None) -> PlannedCall:
    """Check a call for an offer that lists its tools. The tool counts as unknown if it was not offered. The call is
    refused if policies reserve it for the client. `view`: None if the client has approved the call.
    """
    if plan.entry is None:
        return plan
    if plan.call.wire_name in offer.names:
        return _refuse_manual(plan, view)
    return PlannedCall(plan.call, None, similar_name=suggest_name(plan.call.wire_name, offer.names))


def _check_reachable(offer: ToolOffer, plan: PlannedCall, view: View | None) -> PlannedCall:
    """Check a call for an offer in which the model searches its tools. The tool counts as unknown if the search cannot
    find it. The call is refused if policies reserve it for the client. `view`: None if the client has approved the
    call.

    A model may also call such a tool without `execute_tool`, because it may have seen the tool in a list earlier in the
    conversation.
    """
    if plan.entry is None:
        return plan
    if plan.entry.name in offer.reachable:
        return _refuse_manual(plan, view)
    return PlannedCall(plan.call, None, similar_name=suggest_name(plan.call.wire_name, offer.reachable))


def _refuse_manual(plan: PlannedCall, view: View | None) -> PlannedCall:
    reason = view.why_manual(plan.entry.name) if view is not None and plan.entry is not None else ""
    return PlannedCall(plan.call, None, refusal=reason) if reason else plan


def _inner_call(call: ModelCall) -> ModelCall:
    """Inner call in the arguments of an `execute_tool` call, with the id of the `execute_tool` call."""
    execution = _execution(call)
    if execution is None:
        return call
    arguments = msgspec.json.decode(execution.arguments)
    return ModelCall(call.id, execution.name, arguments or {}, made_id=call.made_id, kind=call.kind)


def _execution(call: ModelCall) -> ExecuteArguments | None:
    if isinstance(call.arguments, InvalidCall):
        return None
    try:
        execution = msgspec.json.decode(encode(call.arguments), type=ExecuteArguments)
    except msgspec.ValidationError:
        return None
    return execution if bytes(execution.arguments)[:1] in (b"{", b"n") else None


def _plan_recorded(services: ToolServices, catalog: SubjectCatalog, call: ModelCall, plan: PlannedCall) -> PlannedCall:
    """Plan the inner call of an `execute_tool` call, with the session in which its result is stored."""
    if not call.valid:
        return PlannedCall(call, None)
    execution = _execution(call)
    if execution is None:
        return PlannedCall(call, None, refusal=f"{EXECUTE_TOOL} takes name, arguments (an object) and session_id")
    try:
        session = services.results.recorder.session(catalog.identity, execution.session_id)
    except BadSession as error:
        return PlannedCall(call, None, refusal=str(error))
    if plan.entry is None:
        return plan
    services.counts.count_call(catalog.identity.principal, plan.entry.name)
    return msgspec.structs.replace(plan, recording=session)


def _plan_gateway_tool(name: str, wishes: OfferWishes, call: ModelCall) -> PlannedCall:
    """Plan a call of a router tool other than `execute_tool`. `search_tools` is restricted to the servers and tags of
    the request.
    """
    if isinstance(call.arguments, InvalidCall):
        return PlannedCall(call, _GATEWAY_TOOLS[name])
    arguments = dict(call.arguments)
    for member, allowed_names in (("servers", wishes.servers), ("tags", wishes.tags)) if name == SEARCH_TOOLS else ():
        restricted_names = _restrict(arguments.get(member), allowed_names)
        if restricted_names is not None and not restricted_names:
            return PlannedCall(
                call, None, refusal=f"{SEARCH_TOOLS}: use one of these {member}: {', '.join(allowed_names)}"
            )
        if restricted_names is not None:
            arguments[member] = restricted_names
    return PlannedCall(call, _GATEWAY_TOOLS[name], encode(arguments))


def _restrict(names: Any, allowed_names: Sequence[str]) -> list[str] | None:
    """Restrict the names in a call to the allowed names; a call without names gets all allowed names. Returns None if
    `allowed_names` is empty: the request then allows every name.
    """
    if not allowed_names:
        return None
    if not names or not isinstance(names, list):
        return [*allowed_names]
    return [name for name in allowed_names if name in names]


class OfferedRun(msgspec.Struct, frozen=True):
    """Call of an offered tool after it was run, refused, or left to the client."""

    plan: PlannedCall
    result: Mapping[str, Any] | None
    """MCP result, which may be a refusal; None if the client runs the call."""
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.result and self.result.get("isError"))

    @property
    def tool(self) -> str | None:
        """Exposed name of the called tool; None for a refused call."""
        return self.plan.entry.name if self.plan.runs and self.plan.entry is not None else None

    @property
    def repeatable(self) -> bool:
        """Whether the call may be repeated without harm."""
        return _repeatable(self.plan)

    @property
    def result_tokens(self) -> int:
        """Estimated number of tokens of the result's texts."""
        content = (self.result or {}).get("content")
        parts = content if isinstance(content, list) else []
        texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return sum(map(len, texts)) // 4


async def run_offered(
    services: ToolServices,
    origin: Origin,
    context: OfferContext,
    calls: Sequence[ModelCall],
    *,
    already_run: int = 0,
    approved: bool = False,
) -> list[OfferedRun]:
    """Run calls together, under the current policies. Cancellation cancels all calls. Raises Problem.

    Calls beyond the limit `max_calls` in the wishes are refused; `already_run` earlier calls count towards the limit.
    `approved`: whether the client has approved the calls that policies reserve for it.
    """
    all_plans = await _plan(services, origin.identity, context, calls, approved=approved)
    plans = PlannedCalls(all_plans.visible, _limit_calls(all_plans.calls, context.wishes.max_calls, already_run))
    with services.caller.hold_responses(origin) as held_responses:
        outcomes = await run_calls(services, origin, plans, held_responses, at_once=AT_ONCE)
        results = [result_for(plan, outcome) for plan, outcome in zip(plans.calls, outcomes, strict=True)]
    return [
        OfferedRun(plan, result, outcome.seconds)
        for plan, outcome, result in zip(plans.calls, outcomes, results, strict=True)
    ]


async def all_repeatable(
    services: ToolServices, identity: Identity, context: OfferContext, calls: Sequence[ModelCall]
) -> bool:
    """Whether all these calls may be repeated without harm. Raises Problem."""
    plans = await _plan(services, identity, context, calls, approved=False)
    return all(map(_repeatable, plans.calls))


async def _plan(
    services: ToolServices,
    identity: Identity,
    context: OfferContext,
    calls: Sequence[ModelCall],
    *,
    approved: bool,
) -> PlannedCalls:
    """Match calls to the offered tools under the current policies: at once if that takes microseconds, otherwise in the
    thread. Raises Problem.
    """
    catalogs, tier = services.catalogs, context.wishes.tier
    catalog = catalogs.seen_by(identity)
    visible = catalogs.find_visible_tools(catalog, tier)
    if visible is not None and _is_quick(context.offer, visible, calls):
        return plan_offered_calls(services, catalog, visible, context, calls, approved=approved)

    def plan() -> PlannedCalls:
        catalog = catalogs.seen_by(identity)
        return plan_offered_calls(
            services, catalog, catalogs.visible_tools(catalog, tier), context, calls, approved=approved
        )

    return await services.work.do(plan)


def _is_quick(offer: ToolOffer, visible: VisibleTools, calls: Sequence[ModelCall]) -> bool:
    """Whether calls can be matched in the event loop: they are of tools that the offer lists, have short arguments, and
    `can_match_at_once` allows it.
    """
    tools = [visible.by_name.get(visible.names.original_name(call.name) or call.name) for call in calls]
    if not can_match_at_once(tools) or any(call.wire_name not in offer.names for call in calls):
        return False
    arguments = (call.arguments for call in calls if not isinstance(call.arguments, InvalidCall))
    return sum(len(encode(value)) for value in arguments) <= SMALL


def _repeatable(plan: PlannedCall) -> bool:
    """Whether the call may be repeated without harm: it calls a tool of the gateway itself, a tool whose trusted
    annotations declare it idempotent, or no tool.
    """
    return not plan.runs or plan.entry is None or plan.entry.server == GATEWAY or plan.entry.tool.idempotent


def _limit_calls(plans: Sequence[PlannedCall], max_calls: int | None, already_run: int) -> Sequence[PlannedCall]:
    """Replace calls beyond `max_calls` by refusals."""
    if max_calls is None:
        return plans
    calls_left = max(max_calls - already_run, 0)
    refusal = f"The call was not run, because this request may run at most {max_calls} calls (max_tool_calls)"
    return [*plans[:calls_left], *(PlannedCall(plan.call, None, refusal=refusal) for plan in plans[calls_left:])]
