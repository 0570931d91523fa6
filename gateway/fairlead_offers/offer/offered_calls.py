"""Calls of a model of the tools that it was offered: matched to those tools, and run as every call is.

Where the model was offered the tools of the router endpoint, `execute_tool` becomes the call that its arguments name,
and `search_tools` searches what the request may use. Matching runs in the thread for heavy work.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import InvalidCall, ModelCall
from fairlead_formats.names import did_you_mean
from fairlead_formats.tokens.exposure import SEARCH
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.calls.path.execution import ExecuteArguments
from fairlead_gateway.calls.results.context_recorder import BadSession
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, SEARCH_TOOLS
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import GATEWAY, READER
from fairlead_offers.documents import encode
from fairlead_offers.offer.offers import OfferWishes, ToolOffer
from fairlead_offers.plan.exposed_tools import ROUTER_TOOLS
from fairlead_offers.run.requested_calls import Planned, PlannedCalls, planned_calls, result_for, run_calls
from fairlead_offers.services import ToolServices

_FIT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every provider accepts."""
_OWN: Final = {entry.name: entry for entry in (*ROUTER_TOOLS, READER)}
AT_ONCE: Final = 32
"""Most calls of one message that run at the same time."""


class OfferContext(msgspec.Struct, frozen=True):
    """An offer, with the wishes and the format that it was made for."""

    offer: ToolOffer
    wishes: OfferWishes
    format_name: str


def plan_offered_calls(
    services: ToolServices, seen: SubjectCatalog, context: OfferContext, calls: Sequence[ModelCall], *, approved: bool
) -> PlannedCalls:
    """The calls, each with the tool of the offer that it means. Those that were not `approved` are refused where
    policies do not let them run by themselves. Raises Problem.
    """
    offer = context.offer
    inner_calls = [_inner(call) if _executes(offer, call) else call for call in calls]
    matched = planned_calls(services.catalogs, seen, context.wishes.tier, context.format_name, inner_calls)
    view = None if approved else matched.visible.view
    planned = []
    for call, plan in zip(calls, matched.calls, strict=True):
        if _executes(offer, call):
            planned.append(_plan_recorded(services, seen, call, _check_reachable(offer, plan, view)))
        elif call.wire_name in offer.own:
            planned.append(_plan_own(offer.own[call.wire_name], context.wishes, call))
        else:
            planned.append((_check_reachable if offer.way == SEARCH else _check_listed)(offer, plan, view))
    return PlannedCalls(matched.visible, planned)


def manual_inner_calls(offer: ToolOffer, calls: Sequence[ModelCall], taken: Collection[str]) -> dict[str, ModelCall]:
    """Inner calls of `execute_tool` that policies do not let run by themselves, by the id of the outer call: the caller
    gets them in its place. Left out are tools whose names an API refuses, or that the caller has itself (`taken`).
    """
    inside = {}
    for call in calls:
        inner = _inner(call) if _executes(offer, call) else call
        if inner is not call and inner.name in offer.manual and inner.name not in taken and _FIT.fullmatch(inner.name):
            inside[call.id] = inner
    return inside


def _executes(offer: ToolOffer, call: ModelCall) -> bool:
    return offer.own.get(call.wire_name) == EXECUTE_TOOL


def _check_listed(offer: ToolOffer, plan: Planned, view: View | None) -> Planned:
    """The call; that of an unknown tool if its tool was not offered. Refused if policies have stopped it from running
    by itself since the request began.
    """
    if plan.entry is None:
        return plan
    if plan.call.wire_name in offer.names:
        return _refuse_manual(plan, view)
    return Planned(plan.call, None, near=did_you_mean(plan.call.wire_name, offer.names))


def _check_reachable(offer: ToolOffer, plan: Planned, view: View | None) -> Planned:
    """The call; that of an unknown tool if search cannot find its tool. Refused if policies do not let it run by
    itself. A model may call a tool by its own name, as it may remember that from when it was listed.
    """
    if plan.entry is None:
        return plan
    if plan.entry.name in offer.reachable:
        return _refuse_manual(plan, view)
    return Planned(plan.call, None, near=did_you_mean(plan.call.wire_name, offer.reachable))


def _refuse_manual(plan: Planned, view: View | None) -> Planned:
    manual = view.manual(plan.entry.name) if view is not None and plan.entry is not None else ""
    return Planned(plan.call, None, denied=manual) if manual else plan


def _inner(call: ModelCall) -> ModelCall:
    """The call that a call of `execute_tool` asks for, under the id of the outer call."""
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


def _plan_recorded(services: ToolServices, seen: SubjectCatalog, call: ModelCall, plan: Planned) -> Planned:
    """The inner call of `execute_tool`, with the session in which its result is stored."""
    if not call.valid:
        return Planned(call, None)
    execution = _execution(call)
    if execution is None:
        return Planned(call, None, denied=f"{EXECUTE_TOOL} takes name, arguments (an object) and session_id")
    try:
        session = services.results.recorder.session(seen.identity, execution.session_id)
    except BadSession as error:
        return Planned(call, None, denied=str(error))
    if plan.entry is None:
        return plan
    services.counts.count_call(seen.identity.principal, plan.entry.name)
    return msgspec.structs.replace(plan, recording=session)


def _plan_own(name: str, wishes: OfferWishes, call: ModelCall) -> Planned:
    """A call of another tool of the gateway; a search is narrowed to the servers and tags of the request."""
    if isinstance(call.arguments, InvalidCall):
        return Planned(call, _OWN[name])
    arguments = dict(call.arguments)
    for member, wanted in (("servers", wishes.servers), ("tags", wishes.tags)) if name == SEARCH_TOOLS else ():
        narrowed = _narrow(arguments.get(member), wanted)
        if narrowed is not None and not narrowed:
            return Planned(call, None, denied=f"{SEARCH_TOOLS}: there are only {member} {', '.join(wanted)} here")
        if narrowed is not None:
            arguments[member] = narrowed
    return Planned(call, _OWN[name], encode(arguments))


def _narrow(given: Any, wanted: Sequence[str]) -> list[str] | None:
    """Names that the call and the request have in common; None if the request names none."""
    if not wanted:
        return None
    return [*wanted] if not given or not isinstance(given, list) else [each for each in wanted if each in given]


class OfferedRun(msgspec.Struct, frozen=True):
    """One call that was run, or refused."""

    plan: Planned
    result: Mapping[str, Any] | None
    """MCP result; also of a refusal."""
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.result and self.result.get("isError"))

    @property
    def tool(self) -> str | None:
        """Exposed name of the tool that was called; None for a refused call."""
        return self.plan.entry.name if self.plan.runs and self.plan.entry is not None else None

    @property
    def repeatable(self) -> bool:
        """Whether the call may be made again without harm."""
        return _repeatable(self.plan)

    @property
    def result_tokens(self) -> int:
        """Estimated tokens of the result's texts."""
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
    """Run calls together, each by what policies say now; cancelling this cancels all of them. Those are refused that
    exceed the wished `max_calls`, of which `already_run` are used up. `approved`: the client approved calls that
    policies do not let run by themselves. Raises Problem.
    """
    planned = await services.work.do(
        lambda: plan_offered_calls(
            services, services.catalogs.seen_by(origin.identity), context, calls, approved=approved
        )
    )
    planned = PlannedCalls(planned.visible, _limit_calls(planned.calls, context.wishes.max_calls, already_run))
    with services.caller.holding(origin) as holding:
        outcomes = await run_calls(services, origin, planned, holding, at_once=AT_ONCE)
        results = [result_for(plan, outcome) for plan, outcome in zip(planned.calls, outcomes, strict=True)]
    return [
        OfferedRun(plan, result, outcome.seconds)
        for plan, outcome, result in zip(planned.calls, outcomes, results, strict=True)
    ]


async def all_repeatable(
    services: ToolServices, identity: Identity, context: OfferContext, calls: Sequence[ModelCall]
) -> bool:
    """Whether all these calls may be made twice without harm. Raises Problem."""
    planned = await services.work.do(
        lambda: plan_offered_calls(services, services.catalogs.seen_by(identity), context, calls, approved=False)
    )
    return all(map(_repeatable, planned.calls))


def _repeatable(plan: Planned) -> bool:
    """Whether the call runs no tool of a server, or one that trusted annotations call idempotent."""
    return not plan.runs or plan.entry is None or plan.entry.server == GATEWAY or plan.entry.tool.idempotent


def _limit_calls(planned: Sequence[Planned], max_calls: int | None, already_run: int) -> Sequence[Planned]:
    """The calls, of which those beyond `max_calls` are refused."""
    if max_calls is None:
        return planned
    room = max(max_calls - already_run, 0)
    why = f"The call was not run: this request may run {max_calls} calls (max_tool_calls)"
    return [*planned[:room], *(Planned(plan.call, None, denied=why) for plan in planned[room:])]
