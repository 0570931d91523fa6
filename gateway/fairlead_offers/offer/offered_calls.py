"""Calls of a model with the tools that they mean, among those that it was offered.

Where it was offered the tools of the router endpoint, `execute_tool` becomes the call that its arguments name, and
`search_tools` finds what the request may have. Nothing is called here. Runs in the worker of REST.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import InvalidCall, ModelCall
from fairlead_formats.names import did_you_mean
from fairlead_formats.tokens.exposure import SEARCH
from fairlead_gateway.calls.path.execution import ExecuteArguments
from fairlead_gateway.calls.results.context_recorder import BadSession
from fairlead_gateway.core.meta_tools import EXECUTE_TOOL, SEARCH_TOOLS
from fairlead_gateway.policy.view import View
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import READER, VisibleTools
from fairlead_offers.documents import encode
from fairlead_offers.offer.offers import OfferWishes, ToolOffer
from fairlead_offers.plan.exposed_tools import ROUTER_TOOLS
from fairlead_offers.run.requested_calls import Planned, planned_calls
from fairlead_offers.services import ToolServices

_FIT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that every provider takes."""
_OWN: Final = {entry.name: entry for entry in (*ROUTER_TOOLS, READER)}


def offered_calls(
    services: ToolServices,
    seen: SubjectCatalog,
    wishes: OfferWishes,
    offer: ToolOffer,
    format_name: str,
    calls: Sequence[ModelCall],
    *,
    approved: bool = False,
) -> tuple[VisibleTools, list[Planned]]:
    """The calls in their order, and the tools that the tier shows. Those that were not `approved` are refused where
    policies do not let them run by themselves. Raises Problem.
    """
    visible, calls_found = planned_calls(
        services.catalogs,
        seen,
        wishes.tier,
        format_name,
        [_inner(call) if _executes(offer, call) else call for call in calls],
    )
    view = None if approved else visible.view
    planned = []
    for call, plan in zip(calls, calls_found, strict=True):
        if _executes(offer, call):
            planned.append(_recorded(services, seen, call, _reachable(offer, plan, view)))
        elif call.wire_name in offer.own:
            planned.append(_own_call(offer.own[call.wire_name], wishes, call))
        else:
            planned.append((_reachable if offer.way == SEARCH else _listed)(offer, plan, view))
    return visible, planned


def held_inside(offer: ToolOffer, calls: Sequence[ModelCall], taken: Collection[str]) -> dict[str, ModelCall]:
    """Calls that calls of `execute_tool` name and that policies do not let run by themselves, by id: the caller gets
    these in their place. `taken` are names of its own tools; those, and names that no API takes, are not told.
    """
    inside = {}
    for call in calls:
        inner = _inner(call) if _executes(offer, call) else call
        if inner is not call and inner.name in offer.manual and inner.name not in taken and _FIT.fullmatch(inner.name):
            inside[call.id] = inner
    return inside


def _executes(offer: ToolOffer, call: ModelCall) -> bool:
    return offer.own.get(call.wire_name) == EXECUTE_TOOL


def _listed(offer: ToolOffer, plan: Planned, view: View | None) -> Planned:
    """The call, of an unknown tool where that was not offered: over budget, or of another server. One that policies
    keep from running by itself since the request began is refused.
    """
    if plan.entry is None:
        return plan
    if plan.call.wire_name in offer.names:
        return _by_itself(plan, view)
    return Planned(plan.call, None, near=did_you_mean(plan.call.wire_name, offer.names))


def _reachable(offer: ToolOffer, plan: Planned, view: View | None) -> Planned:
    """The call, of an unknown tool where search does not find that, refused where policies do not let it run by itself.
    A model that remembers a tool, from when it was listed, may call it by its own name.
    """
    if plan.entry is None:
        return plan
    if plan.entry.name in offer.reachable:
        return _by_itself(plan, view)
    return Planned(plan.call, None, near=did_you_mean(plan.call.wire_name, offer.reachable))


def _by_itself(plan: Planned, view: View | None) -> Planned:
    manual = view.manual(plan.entry.name) if view is not None and plan.entry is not None else ""
    return Planned(plan.call, None, denied=manual) if manual else plan


def _inner(call: ModelCall) -> ModelCall:
    """The call that a call of `execute_tool` asks for, under the id of that."""
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


def _recorded(services: ToolServices, seen: SubjectCatalog, call: ModelCall, plan: Planned) -> Planned:
    """The inner call, with the session that its result is kept in."""
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


def _own_call(name: str, wishes: OfferWishes, call: ModelCall) -> Planned:
    """A call of one of the gateway's other own tools; a search only among what the request wants."""
    if isinstance(call.arguments, InvalidCall):
        return Planned(call, _OWN[name])
    arguments = dict(call.arguments)
    for member, wanted in (("servers", wishes.servers), ("tags", wishes.tags)) if name == SEARCH_TOOLS else ():
        narrowed = _narrowed(arguments.get(member), wanted)
        if narrowed is not None and not narrowed:
            return Planned(call, None, denied=f"{SEARCH_TOOLS}: there are only {member} {', '.join(wanted)} here")
        if narrowed is not None:
            arguments[member] = narrowed
    return Planned(call, _OWN[name], encode(arguments))


def _narrowed(given: Any, wanted: Sequence[str]) -> list[str] | None:
    """Names that both want; None where the request wants all."""
    if not wanted:
        return None
    return [*wanted] if not given or not isinstance(given, list) else [each for each in wanted if each in given]
