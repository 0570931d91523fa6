"""`POST /v1/tool-calls`: a model's message in, the messages that answer its calls out.

`requested_calls` reads the message, finds the tools and calls them; here the results are written in the form in which
the calls came.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final, Literal

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_formats.messages.call import META_ERROR, Carry, InvalidCall, ResultLoss
from fairlead_formats.registry import message_format
from fairlead_formats.tool_format import JsonObject
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.request import agent_in
from fairlead_offers.catalogs.visible_tools import VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import encode
from fairlead_offers.plan.caller_tools import arguments_for
from fairlead_offers.plan.prediction import Cost, Guess, PredictedCall, Prediction, guess, predict_cost
from fairlead_offers.problems import INVALID_ARGUMENTS, RATE_LIMITED, STARTING, UNKNOWN_TOOL, Problem
from fairlead_offers.run.requested_calls import (
    CallOutcome,
    Planned,
    PlannedCalls,
    ToolCallsBody,
    read_calls,
    result_for,
    run_calls,
)
from fairlead_rest.context import RestContext
from fairlead_rest.examples import calls as examples
from fairlead_rest.openapi import describe_route
from fairlead_tools.refusal import META_WARNING
from fairlead_web.bodies import answer, while_connected
from fairlead_web.problem_responses import seconds_of

State = Literal["done", "failed", "refused", "invalid", "unknown", "pending"]


class CallDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Outcome of one call. `state`: `done`; `failed` (the tool says so); with a code, `invalid` (its arguments
    cannot be read, or do not fit), `refused` (whatever else kept a tool from answering) and `unknown`; `pending` (the
    caller runs it).
    """

    id: str
    name: str
    """As the model wrote it."""
    state: State
    tool: str | None = None
    """The exposed name, or the caller's own for what is pending."""
    duration_ms: float | None = None
    code: str | None = None
    message: str | None = None
    retry_after_ms: int | None = None
    did_you_mean: str | None = None
    arguments: JsonObject | None = None
    """Arguments of a pending call: decoded, and without the nulls that strict mode asks for."""
    warning: str | None = None
    """A code and a sentence where a result does not fit the tool's `outputSchema`; the model got it as it is."""


class ToolCallsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Messages to append behind the model's, in the order of its calls."""

    format: str
    messages: tuple[JsonObject, ...]
    calls: list[CallDocument]
    pending: tuple[str, ...]
    """Ids of the calls that the caller runs and answers itself."""
    report: tuple[ResultLoss, ...]
    """Parts of the results that the format does not hold as they were."""
    cost: Cost
    """Predicted and measured duration of the batch."""


_NOTHING: Final = Guess(None, None, "unknown")


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/tool-calls`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["calls"])

    @routes.post(
        "/tool-calls",
        **describe_route("Run a model's tool calls", ToolCallsAnswer, examples.RESULTS, ToolCallsBody, examples.CALLS),
    )
    async def tool_calls(request: Request) -> Response:
        body = await context.read(request)
        request_body, visible, planned = await _patiently_read(context, request, body)
        seen = context.seen(request)
        at_once = 1 if request_body.strategy == "sequential" else request_body.limit
        origin = Origin(request.client.host if request.client else "", dict(request.headers.raw), seen.identity)
        with services.caller.holding(origin) as holding:
            began = time.monotonic()
            runs = run_calls(
                services,
                origin,
                PlannedCalls(visible, planned),
                holding,
                at_once=at_once,
                result_tokens=request_body.result_tokens,
            )
            outcomes = await while_connected(request, runs)
            if outcomes is None:
                return Response(status_code=499)  # nobody reads it; an exception would be logged with its traceback
            cost = _cost(request_body, visible, planned, (time.monotonic() - began) * 1000)
            return await services.work.do(lambda: _response(_answer(request_body, planned, outcomes, cost)))

    @routes.post(
        "/tool-calls/predict",
        **describe_route(
            "Say what a model's tool calls would take", Prediction, examples.PREDICTED, ToolCallsBody, examples.CALLS
        ),
    )
    async def predict(request: Request) -> Response:
        body = await context.read(request)
        read = await _patiently_read(context, request, body)
        return await context.answer(lambda: _predict(*read))

    return routes


async def _patiently_read(
    context: RestContext, request: Request, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[Planned]]:
    """The calls of a body with their tools, after a wait for the servers of some that start. Raises Problem."""
    services = context.services
    end = time.monotonic() + services.catalogs.patience.seconds
    while True:
        read = await services.work.do(partial(read_calls, services.catalogs, context.seen(request), body))
        starting = next((plan.unready for plan in read[2] if services.catalogs.starts(plan.unready)), None)
        left, agent = end - time.monotonic(), agent_in(request.scope)
        if starting is None or not await services.catalogs.patience.wait(starting.key, left, agent):
            return read


def _predict(body: ToolCallsBody, visible: VisibleTools, planned: list[Planned]) -> Prediction:
    """Nothing is called, counted or checked against a schema."""
    calls = []
    for plan in planned:
        own, prediction = plan.entry, guess(plan.entry, plan.timeout) if plan.runs and plan.entry else _NOTHING
        tool = None if own is None else own.name
        calls.append(
            PredictedCall(
                prediction.usual_ms, prediction.slow_ms, prediction.basis, plan.call.id, plan.call.wire_name, tool
            )
        )
    return Prediction(find_format(body.format).name, calls, _cost(body, visible, planned))


def _cost(body: ToolCallsBody, visible: VisibleTools, planned: list[Planned], actual_ms: float | None = None) -> Cost:
    at_once = 1 if body.strategy == "sequential" else body.limit
    calls = [(plan.entry, plan.timeout) for plan in planned if plan.runs and plan.entry]
    return predict_cost(visible, body.strategy, at_once, calls, actual_ms)


def _answer(body: ToolCallsBody, planned: list[Planned], outcomes: list[CallOutcome], cost: Cost) -> ToolCallsAnswer:
    results: list[JsonObject | None] = []
    documents = []
    for plan, outcome in zip(planned, outcomes, strict=True):
        result = result_for(plan, outcome)
        results.append(result)
        documents.append(_document(plan, outcome, result))
    carry = body.carry
    write = message_format(body.format).write_results
    written = write(
        [plan.call for plan in planned],
        results,
        Carry(carry.images, carry.audio, carry.documents, carry.nested_media, carry.status),
    )
    return ToolCallsAnswer(
        find_format(body.format).name, written.messages, documents, written.pending, written.report, cost
    )


def _response(made: ToolCallsAnswer) -> Response:
    """The answer; where some calls were too many or came before their server, with `Retry-After`. Raises Problem where
    all did: nothing was done, and the same request can be made again.
    """
    limited = [call for call in made.calls if call.code in (RATE_LIMITED, STARTING)]
    after = max((call.retry_after_ms or 0 for call in limited), default=0)
    if limited and len(limited) == len(made.calls):
        code = RATE_LIMITED if any(call.code == RATE_LIMITED for call in limited) else STARTING
        raise Problem(code, limited[0].message or "too many calls", retry_after_ms=after or 1000)
    response = answer(encode(made))
    if limited:
        response.headers["Retry-After"] = seconds_of(after or 1000)
    return response


def _document(plan: Planned, outcome: CallOutcome, result: JsonObject | None) -> CallDocument:
    call = plan.call
    tool = plan.entry.name if plan.entry is not None else None
    if result is None:
        own = plan.client_definition or {"name": None}
        return CallDocument(
            call.id,
            call.wire_name,
            "pending",
            own["name"],
            arguments=arguments_for(own, call.arguments),
            did_you_mean=plan.similar_name,
        )
    if isinstance(call.arguments, InvalidCall):
        return CallDocument(
            call.id, call.wire_name, "invalid", tool, code=INVALID_ARGUMENTS, message=call.arguments.reason
        )
    state: State
    took = round(outcome.seconds * 1000, 3)
    if outcome.result is None:
        text = result["content"][0]["text"]
        return CallDocument(
            call.id, call.wire_name, "unknown", code=UNKNOWN_TOOL, message=text, did_you_mean=plan.similar_name
        )
    error = _refusal(result)
    if error is not None:
        state = "invalid" if error["code"] == INVALID_ARGUMENTS else "refused"
        return CallDocument(
            call.id, call.wire_name, state, tool, took, error["code"], error["message"], error.get("retryAfterMs")
        )
    state = "failed" if result.get("isError") else "done"
    return CallDocument(call.id, call.wire_name, state, tool, took, warning=_warning(result))


def _warning(result: JsonObject) -> str | None:
    meta = result.get("_meta")
    warning = meta.get(META_WARNING) if isinstance(meta, dict) else None
    return f"{warning.get('code')}: {warning.get('message')}" if isinstance(warning, dict) else None


def _refusal(result: JsonObject) -> JsonObject | None:
    """The gateway's own refusal in a result. A server's own result in that form is taken for one."""
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, dict) and result.get("isError") is True else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return None
    after = error.get("retryAfterMs")
    return {
        "code": error["code"],
        "message": str(error.get("message", "")),
        "retryAfterMs": after if isinstance(after, int) else None,
    }
