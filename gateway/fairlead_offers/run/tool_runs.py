"""Runs the calls that a model made, together, and says what each gave.

`requested_calls` reads the message and finds the tools; calls go the way of every call (`calls.path.direct`). Nothing
here knows in which form the results are written.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import InvalidCall, invalid_result
from fairlead_formats.tool_format import JsonObject
from fairlead_gateway.calls.path.direct import DirectCall, Origin, Unknown
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.limits.buffers import Holding
from fairlead_offers.catalogs.visible_tools import GATEWAY, VisibleTools
from fairlead_offers.run.requested_calls import Planned
from fairlead_offers.services import ToolServices
from fairlead_tools.batch import run_all
from fairlead_tools.refusals import result as refused_result


class CallOutcome(msgspec.Struct, frozen=True):
    """Outcome of one call of a message."""

    result: bytes | None
    """Raw MCP result, refusals included; None: no tool was called."""
    seconds: float = 0
    unknown: str | None = None
    """Why no tool was found."""


async def run_calls(
    services: ToolServices,
    origin: Origin,
    visible: VisibleTools,
    planned: Sequence[Planned],
    holding: Holding,
    *,
    at_once: int,
    result_tokens: int | None = None,
) -> list[CallOutcome]:
    """Call the tools, at most `at_once` at a time; outcomes in the order of the calls. Cancelling cancels all calls."""
    works = [_work(services, origin, visible, plan, holding, result_tokens) for plan in planned]
    return await run_all(works, at_once=at_once)


def result_for(plan: Planned, outcome: CallOutcome) -> JsonObject | None:
    """Result for the model; None where the caller answers the call."""
    if outcome.result is not None:
        return msgspec.json.decode(outcome.result, type=dict[str, Any])
    if not plan.call.valid:
        return invalid_result(plan.call)
    if plan.theirs:
        return None
    message = outcome.unknown or plan.denied or f"Unknown tool: {plan.call.wire_name}"
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
                services.caller.unknown(origin, planned.call.wire_name, _raw(planned), planned.denial)
            return CallOutcome(None)
        if not planned.call.valid:
            services.caller.record_refusal(origin, visible.view, entry.name)
            return CallOutcome(None)
        began = time.monotonic()
        made: Raw | Unknown
        if entry.server == GATEWAY:
            made = await services.caller.answer(origin, visible.view, entry.name, planned.arguments, holding=holding)
        else:
            direct_call = DirectCall(
                entry.name, planned.arguments, planned.timeout, planned.retries, result_tokens, planned.recording
            )
            made = await services.caller.call(origin, visible.view, direct_call, holding)
        seconds = time.monotonic() - began
        if isinstance(made, Unknown):
            return CallOutcome(None, seconds, made.message)
        return CallOutcome(bytes(made), seconds)

    return work


def _raw(planned: Planned) -> bytes:
    arguments = planned.call.arguments
    return b"{}" if isinstance(arguments, InvalidCall) else msgspec.json.encode(arguments)
