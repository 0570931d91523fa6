"""REST resource `POST /v1/tool-calls`: runs the calls in a model's message, and returns the messages with the results.

`requested_calls` reads the message, finds the tools and calls them. This module writes the results in the format of the
message.
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
from fairlead_gateway.core.identity import IDENTITY
from fairlead_gateway.core.request import agent_in
from fairlead_offers.catalogs.visible_tools import VisibleTools
from fairlead_offers.conversion.formats import find_format
from fairlead_offers.documents import encode
from fairlead_offers.plan.caller_tools import arguments_for
from fairlead_offers.plan.prediction import Cost, Guess, PredictedCall, Prediction, guess, predict_cost
from fairlead_offers.problems import INVALID_ARGUMENTS, RATE_LIMITED, STARTING, UNKNOWN_TOOL, Problem
from fairlead_offers.run.planned_calls import CallOutcome, PlannedCall, PlannedCalls
from fairlead_offers.run.requested_calls import MAX_MATCHED_AT_ONCE, read_calls, read_few_calls, result_for, run_calls
from fairlead_offers.run.tool_calls_body import ToolCallsBody
from fairlead_offers.workers.heavy_work import SMALL
from fairlead_rest.context import RestContext
from fairlead_rest.examples import calls as examples
from fairlead_rest.openapi import describe_route
from fairlead_tools.refusal import META_WARNING
from fairlead_web.bodies import answer, while_connected
from fairlead_web.problem_responses import seconds_of

State = Literal["done", "failed", "refused", "invalid", "unknown", "pending"]


class CallDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Outcome of one call. Values of `state`:

    - `done`: the tool succeeded.
    - `failed`: the tool reported an error.
    - `invalid`: the arguments cannot be read, or do not match the schema; `code` is set.
    - `refused`: the tool did not answer for another reason; `code` is set.
    - `unknown`: the tool does not exist; `code` is set.
    - `pending`: the caller runs the call.
    """

    id: str
    name: str
    """Name of the tool as the model wrote it."""
    state: State
    tool: str | None = None
    """Exposed name of the tool; for a pending call, the caller's name of its tool."""
    duration_ms: float | None = None
    code: str | None = None
    message: str | None = None
    retry_after_ms: int | None = None
    sign_in_url: str | None = None
    """Page at which the caller has to sign in at the server first, for SIGN_IN_REQUIRED."""
    did_you_mean: str | None = None
    arguments: JsonObject | None = None
    """Decoded arguments of a pending call, without the nulls that strict mode requires."""
    warning: str | None = None
    """Code and message if the result does not match the tool's `outputSchema`. The model gets the result unchanged."""
    claims: str | None = None
    """With CREDENTIAL_UNAVAILABLE, JSON that the caller passes on as `claims` in its next authorization request, if
    Microsoft Entra requires further authentication of the user.
    """


class ToolCallsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Messages to append after the model's message, in the order of its calls."""

    format: str
    messages: tuple[JsonObject, ...]
    calls: list[CallDocument]
    pending: tuple[str, ...]
    """Ids of the calls that the caller must run and answer."""
    report: tuple[ResultLoss, ...]
    """Parts of the results that the format cannot represent without a change."""
    cost: Cost
    """Predicted and measured duration of the batch."""


_NO_GUESS: Final = Guess(None, None, "unknown")


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/tool-calls`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["calls"])

    @routes.post(
        "/tool-calls",
        **describe_route("Run a model's tool calls", ToolCallsAnswer, examples.RESULTS, ToolCallsBody, examples.CALLS),
    )
    async def tool_calls(request: Request) -> Response:
        body = await context.read(request)
        request_body, visible, plans = await _read_when_ready(context, request, body)
        at_once = 1 if request_body.strategy == "sequential" else request_body.limit
        address = request.client.host if request.client else ""
        origin = Origin(address, dict(request.scope["headers"]), request.scope[IDENTITY])
        with services.caller.hold_responses(origin) as held_responses:
            began = time.monotonic()
            runs = run_calls(
                services,
                origin,
                PlannedCalls(visible, plans),
                held_responses,
                at_once=at_once,
                result_tokens=request_body.result_tokens,
            )
            outcomes = await while_connected(request, runs)
            if outcomes is None:
                return Response(status_code=499)  # the client is gone; an exception would be logged with a traceback
            cost = _cost(request_body, visible, plans, (time.monotonic() - began) * 1000)
            return await services.work.process_document(
                lambda: _response(_answer(request_body, plans, outcomes, cost)), long=_are_long(outcomes)
            )

    @routes.post(
        "/tool-calls/predict",
        **describe_route(
            "Predict the duration of a model's tool calls",
            Prediction,
            examples.PREDICTED,
            ToolCallsBody,
            examples.CALLS,
        ),
    )
    async def predict(request: Request) -> Response:
        body = await context.read(request)
        request_calls = await _read_when_ready(context, request, body)
        return await context.answer(lambda: _predict(*request_calls))

    return routes


async def _read_when_ready(
    context: RestContext, request: Request, body: bytes
) -> tuple[ToolCallsBody, VisibleTools, list[PlannedCall]]:
    """Match the calls of a body to their tools, after waiting for servers that are starting. Raises Problem."""
    services = context.services
    end = time.monotonic() + services.catalogs.startup_wait.seconds
    while True:
        catalog = context.catalog(request)
        matched_calls = read_few_calls(services.catalogs, catalog, body)
        if matched_calls is None:
            matched_calls = await services.work.do(partial(read_calls, services.catalogs, catalog, body))
        starting_server = next(
            (plan.unready for plan in matched_calls[2] if services.catalogs.starts(plan.unready)), None
        )
        seconds_left, agent = end - time.monotonic(), agent_in(request.scope)
        if starting_server is None or not await services.catalogs.startup_wait.wait(
            starting_server.key, seconds_left, agent
        ):
            return matched_calls


def _predict(body: ToolCallsBody, visible: VisibleTools, plans: list[PlannedCall]) -> Prediction:
    """Predict the cost of calls, without running or counting them or checking their arguments by a schema."""
    calls = []
    for plan in plans:
        entry, prediction = plan.entry, guess(plan.entry, plan.timeout) if plan.runs and plan.entry else _NO_GUESS
        tool = None if entry is None else entry.name
        calls.append(
            PredictedCall(
                prediction.usual_ms, prediction.slow_ms, prediction.basis, plan.call.id, plan.call.wire_name, tool
            )
        )
    return Prediction(find_format(body.format).name, calls, _cost(body, visible, plans))


def _cost(body: ToolCallsBody, visible: VisibleTools, plans: list[PlannedCall], actual_ms: float | None = None) -> Cost:
    at_once = 1 if body.strategy == "sequential" else body.limit
    calls = [(plan.entry, plan.timeout) for plan in plans if plan.runs and plan.entry]
    return predict_cost(visible, body.strategy, at_once, calls, actual_ms)


def _are_long(outcomes: list[CallOutcome]) -> bool:
    """Whether writing the answer may take long and belongs outside the event loop."""
    return len(outcomes) > MAX_MATCHED_AT_ONCE or sum(len(outcome.result or b"") for outcome in outcomes) > SMALL


def _answer(body: ToolCallsBody, plans: list[PlannedCall], outcomes: list[CallOutcome], cost: Cost) -> ToolCallsAnswer:
    results: list[JsonObject | None] = []
    documents = []
    for plan, outcome in zip(plans, outcomes, strict=True):
        result = result_for(plan, outcome)
        results.append(result)
        documents.append(_document(plan, outcome, result))
    carry = body.carry
    write = message_format(body.format).write_results
    written_messages = write(
        [plan.call for plan in plans],
        results,
        Carry(carry.images, carry.audio, carry.documents, carry.nested_media, carry.status),
    )
    return ToolCallsAnswer(
        find_format(body.format).name,
        written_messages.messages,
        documents,
        written_messages.pending,
        written_messages.report,
        cost,
    )


def _response(body: ToolCallsAnswer) -> Response:
    """Make the response. It has `Retry-After` if calls were rate-limited or their server is starting. Raises Problem if
    this applies to all calls: then nothing was done, and the client can repeat the request.
    """
    limited_calls = [call for call in body.calls if call.code in (RATE_LIMITED, STARTING)]
    wait_ms = max((call.retry_after_ms or 0 for call in limited_calls), default=0)
    if limited_calls and len(limited_calls) == len(body.calls):
        code = RATE_LIMITED if any(call.code == RATE_LIMITED for call in limited_calls) else STARTING
        raise Problem(code, limited_calls[0].message or "too many calls: retry later", retry_after_ms=wait_ms or 1000)
    response = answer(encode(body))
    if limited_calls:
        response.headers["Retry-After"] = seconds_of(wait_ms or 1000)
    return response


def _document(plan: PlannedCall, outcome: CallOutcome, result: JsonObject | None) -> CallDocument:
    call = plan.call
    tool = plan.entry.name if plan.entry is not None else None
    if result is None:
        definition = plan.client_definition or {"name": None}
        return CallDocument(
            call.id,
            call.wire_name,
            "pending",
            definition["name"],
            arguments=arguments_for(definition, call.arguments),
            did_you_mean=plan.similar_name,
        )
    if isinstance(call.arguments, InvalidCall):
        return CallDocument(
            call.id, call.wire_name, "invalid", tool, code=INVALID_ARGUMENTS, message=call.arguments.reason
        )
    state: State
    duration_ms = round(outcome.seconds * 1000, 3)
    if outcome.result is None:
        text = result["content"][0]["text"]
        return CallDocument(
            call.id, call.wire_name, "unknown", code=UNKNOWN_TOOL, message=text, did_you_mean=plan.similar_name
        )
    error = _refusal(result)
    if error is not None:
        state = "invalid" if error["code"] == INVALID_ARGUMENTS else "refused"
        return CallDocument(
            call.id,
            call.wire_name,
            state,
            tool,
            duration_ms,
            error["code"],
            error["message"],
            error["retryAfterMs"],
            claims=error["claims"],
            sign_in_url=error["signInUrl"],
        )
    state = "failed" if result.get("isError") else "done"
    return CallDocument(call.id, call.wire_name, state, tool, duration_ms, warning=_warning(result))


def _warning(result: JsonObject) -> str | None:
    meta = result.get("_meta")
    warning = meta.get(META_WARNING) if isinstance(meta, dict) else None
    return f"{warning.get('code')}: {warning.get('message')}" if isinstance(warning, dict) else None


def _refusal(result: JsonObject) -> JsonObject | None:
    """Extract the gateway's refusal from a result. A server's result in the same form counts as a refusal too."""
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, dict) and result.get("isError") is True else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return None
    after, claims, link = error.get("retryAfterMs"), error.get("claims"), error.get("signInUrl")
    return {
        "code": error["code"],
        "message": str(error.get("message", "")),
        "retryAfterMs": after if isinstance(after, int) else None,
        "claims": claims if isinstance(claims, str) else None,
        "signInUrl": link if isinstance(link, str) else None,
    }
