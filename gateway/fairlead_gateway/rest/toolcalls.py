"""`POST /v1/tool-calls`: a model's message in, the messages that answer its calls out.

Calls go the way of every call (`calls.direct`); here the message is read, the tools are found, and the results are
written in the form in which the calls came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta

from fairlead_gateway.calls.batch import run_all
from fairlead_gateway.calls.direct import Origin, Unknown
from fairlead_gateway.calls.refusals import META_WARNING, not_allowed
from fairlead_gateway.formats.format import JsonObject
from fairlead_gateway.formats.messages.call import META_ERROR, Carry, Invalid, ResultLoss, ToolCall, invalid_result
from fairlead_gateway.formats.messages.registry import message_format, parse_stream
from fairlead_gateway.formats.names import did_you_mean
from fairlead_gateway.formats.schema.nulls import un_null
from fairlead_gateway.rest import examples
from fairlead_gateway.rest.bodies import answer, decode, encode, read
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane, format_called
from fairlead_gateway.rest.predicting import Cost, Guess, PredictedCall, Prediction, guess, priced
from fairlead_gateway.rest.problems import INVALID_ARGUMENTS, RATE_LIMITED, UNKNOWN_TOOL, Problem, seconds_of
from fairlead_gateway.rest.provided import Provided, arguments_for, provided
from fairlead_gateway.rest.seen import Seen
from fairlead_gateway.rest.shelf import Entry, Shelf

MAX_AT_ONCE: Final = 128
Retries = Annotated[int, Meta(ge=0, le=5)]
Milliseconds = Annotated[int, Meta(ge=1, le=3_600_000)]


State = Literal["done", "failed", "refused", "invalid", "unknown", "pending"]


class CarryBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What the model takes in results."""

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
    """The caller's own definitions. With them, a call of a tool that nobody knows is answered with an error; without,
    it is left to the caller.
    """
    tools_format: str | None = None
    """Theirs; that of the message by default."""
    carry: CarryBody = CarryBody()


class CallDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of one call. `state`: `done`; `failed` (the tool says so); with a code, `invalid` (its arguments
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
    """Of what is pending: read, and without the nulls that strict mode asks for."""
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
    """What of the results the format does not hold as it was."""
    cost: Cost
    """What the batch should have taken, and what it took."""


class _Planned(msgspec.Struct, frozen=True):
    """One call with the tool that it means."""

    call: ToolCall
    entry: Entry | None
    arguments: bytes = b"{}"
    timeout: float | None = None
    retries: int | None = None
    theirs: bool = False
    """The caller's to run."""
    own: JsonObject | None = None
    """Its definition, where the caller sent that."""
    near: str | None = None
    denied: str | None = None
    """Why it is kept from whoever asks, where that may be told."""

    @property
    def runs(self) -> bool:
        """Whether a tool of ours is called for it."""
        return self.entry is not None and self.call.valid


_NOTHING: Final = Guess(None, None, "unknown")


class _Outcome(msgspec.Struct, frozen=True):
    result: bytes | None
    seconds: float = 0
    unknown: str | None = None


def router(plane: Plane) -> APIRouter:
    """The resource `/v1/tool-calls`."""
    routes = APIRouter(prefix="/v1", tags=["calls"])

    @routes.post(
        "/tool-calls",
        **described("Run a model's tool calls", ToolCallsAnswer, examples.RESULTS, ToolCallsBody, examples.CALLS),
    )
    async def tool_calls(request: Request) -> Response:
        seen = plane.seen(request)
        body = await read(request, plane.max_body)
        asked, shelf, planned = await plane.worker.do(lambda: _planned(plane, seen, body))
        at_once = 1 if asked.strategy == "sequential" else asked.limit
        origin = Origin(request.client.host if request.client else "", dict(request.headers.raw), seen.identity)
        works = [_work(plane, origin, shelf, one) for one in planned]
        began = time.monotonic()
        outcomes = await _while_connected(request, run_all(works, at_once=at_once))
        cost = _cost(asked, shelf, planned, (time.monotonic() - began) * 1000)
        return await plane.worker.do(lambda: _response(_answer(asked, planned, outcomes, cost)))

    @routes.post(
        "/tool-calls/predict",
        **described(
            "Say what a model's tool calls would take", Prediction, examples.PREDICTED, ToolCallsBody, examples.CALLS
        ),
    )
    async def predict(request: Request) -> Response:
        seen = plane.seen(request)
        body = await read(request, plane.max_body)
        return answer(await plane.worker.do(lambda: encode(_predicted(plane, seen, body))))

    return routes


def _predicted(plane: Plane, seen: Seen, body: bytes) -> Prediction:
    """Nothing is called, counted or checked against a schema."""
    asked, shelf, planned = _planned(plane, seen, body)
    calls = []
    for plan in planned:
        own, known = plan.entry, guess(plan.entry, plan.timeout) if plan.runs and plan.entry else _NOTHING
        tool = None if own is None else own.name
        calls.append(PredictedCall(known.usual_ms, known.slow_ms, known.basis, plan.call.id, plan.call.wire_name, tool))
    return Prediction(format_called(asked.format).name, calls, _cost(asked, shelf, planned))


def _cost(asked: ToolCallsBody, shelf: Shelf, planned: list[_Planned], actual_ms: float | None = None) -> Cost:
    at_once = 1 if asked.strategy == "sequential" else asked.limit
    calls = [(plan.entry.name, guess(plan.entry, plan.timeout)) for plan in planned if plan.runs and plan.entry]
    return priced(shelf, asked.strategy, at_once, calls, actual_ms)


def _planned(plane: Plane, seen: Seen, body: bytes) -> tuple[ToolCallsBody, Shelf, list[_Planned]]:
    asked = decode(body, ToolCallsBody)
    format_ = format_called(asked.format)
    shelf = plane.shelf(seen, asked.tier)
    if (asked.message is None) == (asked.stream is None):
        raise Problem(INVALID_ARGUMENTS, "the body: give either message or stream")
    if asked.stream is None:
        calls = message_format(format_.name).parse_calls(asked.message)
    else:
        calls = parse_stream(asked.stream, format_.name)
    own = None if asked.tools is None else provided(asked.tools, asked.tools_format or asked.format, shelf)
    return asked, shelf, [_plan(asked, shelf, call, own) for call in calls]


def _plan(asked: ToolCallsBody, shelf: Shelf, call: ToolCall, own: Provided | None) -> _Planned:
    name = asked.names.get(call.name) or shelf.names.original(call.name) or call.name
    entry = shelf.find(name) or shelf.unlisted(name)
    if entry is None:
        mine = None if own is None else own.find(name) or own.find(call.name)
        denied = None if mine is not None else shelf.view.denied(name)
        if denied is not None:
            return _Planned(call, None, denied=not_allowed(name, denied))
        near = None if mine is not None else _near(name, shelf, own)
        return _Planned(call, None, theirs=call.valid and (own is None or mine is not None), own=mine, near=near)
    if isinstance(call.arguments, Invalid):
        return _Planned(call, entry)
    schema = entry.decoded.get("inputSchema")
    arguments = un_null(call.arguments, schema) if isinstance(schema, dict) else call.arguments
    limit = asked.timeouts_ms.get(call.name, asked.timeout_ms)
    retries = asked.retries_of.get(call.name, asked.retries)
    return _Planned(call, entry, encode(arguments), None if limit is None else limit / 1000, retries)


def _near(name: str, shelf: Shelf, own: Provided | None) -> str | None:
    """Of all that the model may call: what it sees of ours, and what the caller sent."""
    return did_you_mean(name, [*shelf.by_name, *(str(tool["name"]) for tool in (own.tools if own else ()))])


def _work(plane: Plane, origin: Origin, shelf: Shelf, planned: _Planned) -> Callable[[], Awaitable[_Outcome]]:
    async def work() -> _Outcome:
        entry = planned.entry
        if entry is None:
            if not planned.theirs:
                plane.caller.unknown(origin, planned.call.wire_name)
            return _Outcome(None)
        if not planned.call.valid:
            plane.caller.refused(shelf.view, entry.name)
            return _Outcome(None)
        began = time.monotonic()
        made = await plane.caller.call(
            origin, shelf.view, entry.name, planned.arguments, timeout=planned.timeout, retries=planned.retries
        )
        seconds = time.monotonic() - began
        if isinstance(made, Unknown):
            return _Outcome(None, seconds, made.message)
        return _Outcome(bytes(made), seconds)

    return work


async def _while_connected(request: Request, work: Awaitable[list[_Outcome]]) -> list[_Outcome]:
    """Do the work; give it up when the client is gone, so that its calls are cancelled upstream."""
    batch = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({batch, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not batch.done():
            batch.cancel()
        return await batch
    finally:
        gone.cancel()
        batch.cancel()


def _answer(asked: ToolCallsBody, planned: list[_Planned], outcomes: list[_Outcome], cost: Cost) -> ToolCallsAnswer:
    results: list[JsonObject | None] = []
    documents = []
    for plan, outcome in zip(planned, outcomes, strict=True):
        result = _result(plan, outcome)
        results.append(result)
        documents.append(_document(plan, outcome, result))
    carry = asked.carry
    write = message_format(asked.format).write_results
    written = write(
        [plan.call for plan in planned],
        results,
        Carry(carry.images, carry.audio, carry.documents, carry.nested_media, carry.status),
    )
    return ToolCallsAnswer(
        format_called(asked.format).name, written.messages, documents, written.pending, written.report, cost
    )


def _response(made: ToolCallsAnswer) -> Response:
    """The answer; where some calls were too many, with `Retry-After`. Raises Problem where all were: nothing was done,
    and the same request can be made again.
    """
    limited = [one for one in made.calls if one.code == RATE_LIMITED]
    after = max((one.retry_after_ms or 0 for one in limited), default=0)
    if limited and len(limited) == len(made.calls):
        raise Problem(RATE_LIMITED, limited[0].message or "too many calls", retry_after_ms=after or 1000)
    response = answer(encode(made))
    if limited:
        response.headers["Retry-After"] = seconds_of(after or 1000)
    return response


def _result(plan: _Planned, outcome: _Outcome) -> JsonObject | None:
    """What the model is told; None: the caller tells it."""
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


def _document(plan: _Planned, outcome: _Outcome, result: JsonObject | None) -> CallDocument:
    call = plan.call
    tool = plan.entry.name if plan.entry is not None else None
    if result is None:
        own = plan.own or {"name": None}
        return CallDocument(
            call.id, call.wire_name, "pending", own["name"],
            arguments=arguments_for(own, call.arguments), did_you_mean=plan.near,
        )  # fmt: skip
    if isinstance(call.arguments, Invalid):
        return CallDocument(
            call.id, call.wire_name, "invalid", tool, code=INVALID_ARGUMENTS, message=call.arguments.reason
        )
    state: State
    took = round(outcome.seconds * 1000, 3)
    if outcome.result is None:
        text = result["content"][0]["text"]
        return CallDocument(call.id, call.wire_name, "unknown", code=UNKNOWN_TOOL, message=text, did_you_mean=plan.near)
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
    """The gateway's own refusal in a result. A server that writes one itself is told by its shape, and believed."""
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
