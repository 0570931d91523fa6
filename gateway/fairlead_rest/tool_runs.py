"""Runs the calls that a model made, together, and says what each gave.

`requested_calls` reads the message and finds the tools; calls go the way of every call (`calls.path.direct`). Nothing
here knows in which form the results are written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from starlette.requests import Request

from fairlead_formats.messages.call import InvalidCall, invalid_result
from fairlead_formats.tool_format import JsonObject
from fairlead_gateway.calls.path.direct import Origin, Unknown
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.limits.buffers import Holding
from fairlead_rest.bodies import encode
from fairlead_rest.context import RestContext
from fairlead_rest.requested_calls import Planned
from fairlead_rest.visible_tools import GATEWAY, VisibleTools
from fairlead_tools.batch import run_all
from fairlead_tools.refusals import result as refused_result

Result = TypeVar("Result")


class CallOutcome(msgspec.Struct, frozen=True):
    """Outcome of one call of a message."""

    result: bytes | None
    """Raw MCP result, refusals included; None: no tool was called."""
    seconds: float = 0
    unknown: str | None = None
    """Why no tool was found."""


async def run_calls(
    context: RestContext,
    origin: Origin,
    shelf: VisibleTools,
    planned: Sequence[Planned],
    holding: Holding,
    *,
    at_once: int,
    result_tokens: int | None = None,
) -> list[CallOutcome]:
    """Call the tools, at most `at_once` at a time; outcomes in the order of the calls. Cancelling cancels all calls."""
    works = [_work(context, origin, shelf, one, holding, result_tokens) for one in planned]
    return await run_all(works, at_once=at_once)


async def while_connected(request: Request, work: Awaitable[Result]) -> Result | None:
    """Do the work; give it up when the client is gone, so that its calls are cancelled upstream: None."""
    batch = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({batch, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not batch.done():
            batch.cancel()
            await asyncio.wait({batch})
            return None
        return await batch
    finally:
        gone.cancel()
        batch.cancel()


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
    context: RestContext,
    origin: Origin,
    shelf: VisibleTools,
    planned: Planned,
    holding: Holding,
    result_tokens: int | None,
) -> Callable[[], Awaitable[CallOutcome]]:
    async def work() -> CallOutcome:
        entry = planned.entry
        if planned.unready is not None:
            refusal = refusal_of(planned.unready, starts=context.starts(planned.unready))
            return CallOutcome(refused_result(refusal))
        if entry is None:
            if planned.denial is not None or not planned.theirs:
                context.caller.unknown(origin, planned.call.wire_name, _raw(planned), planned.denial)
            return CallOutcome(None)
        if not planned.call.valid:
            context.caller.refused(origin, shelf.view, entry.name)
            return CallOutcome(None)
        began = time.monotonic()
        made: Raw | Unknown
        if entry.server == GATEWAY:
            made = await context.caller.answer(origin, shelf.view, entry.name, planned.arguments, holding=holding)
        else:
            made = await context.caller.call(
                origin,
                shelf.view,
                entry.name,
                planned.arguments,
                timeout=planned.timeout,
                retries=planned.retries,
                holding=holding,
                result_tokens=result_tokens,
                recording=planned.recording,
            )
        seconds = time.monotonic() - began
        if isinstance(made, Unknown):
            return CallOutcome(None, seconds, made.message)
        return CallOutcome(bytes(made), seconds)

    return work


def _raw(planned: Planned) -> bytes:
    arguments = planned.call.arguments
    return b"{}" if isinstance(arguments, InvalidCall) else encode(arguments)
