"""Endpoint for clients of one wire format: reads the request, runs the loop of model and tools, writes the response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.providers.openai_responses.compaction import COMPACTION, NEEDS_RESPONSES
from fairlead_formats.wire.call_ids import ProviderCallIds
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import (
    BadAnswer,
    BadRequest,
    FinishedCall,
    LoopResult,
    WireAnswer,
    WireFormat,
    WireRequest,
)
from fairlead_formats.wire.raw_json import add_usage
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import IDENTITY
from fairlead_llm.continuation import Continuations, FinishedResponse
from fairlead_llm.loop import NO_RESULTS, ToolLoop
from fairlead_llm.preparation import ModelRequest, RawRequest, RequestPreparation, accepts_format
from fairlead_llm.services import ModelServices
from fairlead_llm.stream_documents import ReceivedStream, read_document
from fairlead_llm.streaming import StreamedAnswer
from fairlead_llm.tier_choice import AUTO, choose_tier
from fairlead_llm.turn_keeping import TurnKeeper
from fairlead_mcp.misread_values import explain_misreading
from fairlead_mcp.read_bounds import is_long
from fairlead_models.credentials import PROVIDER_KEY
from fairlead_models.errors import budget_error, llm_error
from fairlead_models.provider_requests import ProviderAnswer, ProviderUnavailable
from fairlead_models.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel
from fairlead_models.request_record import CLIENT_CLOSED, RequestRecord
from fairlead_offers.offer.offers import OfferWishes
from fairlead_offers.problems import INTERNAL, Problem
from fairlead_web.bodies import JSON, read_pieces, while_connected

HEADERS: Final = {
    "tier": "x-fairlead-tier",
    "servers": "x-fairlead-servers",
    "tags": "x-fairlead-tags",
    "tools": "x-fairlead-tools",
    "maxTools": "x-fairlead-max-tools",
}
"""Members of the object `fairlead` in a request's body, each with the header for clients that cannot add members to the
body. If a request has both, the member applies.
"""
_LISTS: Final = ("servers", "tags")


class LlmEndpoint:
    """Model endpoint for clients of one wire format."""

    def __init__(
        self,
        services: ModelServices,
        preparation: RequestPreparation,
        wire: WireFormat,
        continuations: Continuations | None = None,
    ) -> None:
        """`continuations`: store of responses, for a format whose requests can continue them by id."""
        self._own_api_only = wire is COMPACTION
        self._services = services
        self._preparation = preparation
        self._format = wire
        self._continuations = continuations

    async def answer(self, request: Request, model: str | None = None, stream: bool | None = None) -> Response:
        """Respond to a request. `model` and `stream` come from the path in formats that have them there."""
        record = self._services.records.open(origin_of(request), request.url.path)
        response: Response | None = None
        try:
            response = await respond(
                request,
                self._format,
                self._services,
                lambda body: self._respond(request, record, RawRequest(body, model, stream)),
                record.end,
            )
        finally:
            if not isinstance(response, StreamedAnswer):
                record.end(CLIENT_CLOSED)  # no effect if the record has ended
        return response

    async def _respond(self, request: Request, record: RequestRecord, raw: RawRequest) -> Response:
        client_request, loop = await self._begin(request, record, raw)
        if (quota_refusal := record.refusal()) is not None:
            raise budget_error(quota_refusal)
        try:
            async with asyncio.timeout(loop.seconds_left()):
                approved_results = None if self._continuations is None else await self._continuations.run_approved(loop)
                answer = await loop.next_answer()
                if answer.status != 200:
                    return await self._relay_refusal(answer, loop)
                if not loop.prepared_request.request.stream:
                    return await self._run_rounds(
                        client_request, loop, answer, approved_results.finished_calls if approved_results else []
                    )
                events = None if answer.streams else await self._read_document(answer, loop)
        except TimeoutError as error:
            raise loop.timeout_error() from error
        except Problem as problem:
            refusal = llm_error(problem)
            refusal.headers.update(loop.no_retry)
            raise refusal from problem
        finished_calls = approved_results.finished_calls if approved_results else []
        return StreamedAnswer(
            client_request,
            loop,
            ReceivedStream(answer, events),
            self._services,
            self._continuations,
            finished_calls,
        )

    async def _read_document(self, answer: ProviderAnswer, loop: ToolLoop) -> Sequence[bytes]:
        """Data of the events for a document that the provider sent in place of a stream. Raises LlmError."""
        try:
            return await read_document(answer, loop, self._services.tools.work)
        except (ProviderUnavailable, BadAnswer) as error:
            raise _fail_round(loop, error) from error
        finally:
            answer.close()

    async def _begin(self, request: Request, record: RequestRecord, raw: RawRequest) -> tuple[ModelRequest, ToolLoop]:
        services, preparation = self._services, self._preparation
        try:
            wire, wire_request = await services.tools.work.process_document(
                lambda: self._parse(raw), long=is_long(raw.body)
            )
            client_request, targets = model_request(preparation.providers, request, wire, wire_request, raw)
            client_request, targets = await continue_request(self._continuations, client_request, targets)
            if self._own_api_only:
                targets = self._targets_with_operation(targets)
            client_request = await self._apply_auto_tier(client_request)
            prepared_request = await preparation.prepare(client_request, targets)
        except BadRequest as error:
            raise bad_request(error) from error
        record.open_budget(
            prepared_request.targets[0], () if prepared_request.offer is None else prepared_request.offer.quotas
        )
        return client_request, ToolLoop(services, preparation, client_request, prepared_request, record)

    def _targets_with_operation(self, targets: Sequence[ModelTarget]) -> list[ModelTarget]:
        """The models whose API has the client's operation. Raises BadRequest if there are none."""
        by_name = self._preparation.providers.by_name
        targets_with_operation = [
            target for target in targets if accepts_format(by_name[target.provider], self._format)
        ]
        if not targets_with_operation:
            first_target = targets[0]
            raise BadRequest(
                f"model: {first_target.provider}/{first_target.model} cannot compact a conversation: {NEEDS_RESPONSES}",
                "model",
            )
        return targets_with_operation

    def _parse(self, raw: RawRequest) -> tuple[WireFormat, WireRequest]:
        """A client's request, and the format that it is in. Raises BadRequest."""
        wire = self._format.older_format(raw.body) or self._format
        return wire, raw.parse(wire)

    async def _apply_auto_tier(self, client_request: ModelRequest) -> ModelRequest:
        """The request with the tier that the rules choose, if it requests the tier `auto`."""
        tools, wishes = self._services.tools, client_request.wishes
        catalog = tools.catalogs.seen_by(client_request.identity)
        if wishes.tier != AUTO or AUTO in catalog.tiers:
            return client_request
        messages = client_request.wire_request.client_messages
        choice = await tools.work.do(lambda: choose_tier(tools, catalog, self._format, messages))
        if choice is None:
            return msgspec.structs.replace(client_request, wishes=msgspec.structs.replace(wishes, tier=None))
        if self._services.tier_changes.is_new(client_request.identity.principal, choice):
            self._services.counts.count_tier_change(choice.name)
        return msgspec.structs.replace(
            client_request, wishes=msgspec.structs.replace(wishes, tier=choice.name), tier_rule=choice.rule
        )

    async def _run_rounds(
        self,
        client_request: ModelRequest,
        loop: ToolLoop,
        answer: ProviderAnswer,
        finished_calls: Sequence[FinishedCall],
    ) -> Response:
        """Respond to a request without `stream`. `finished_calls`: tool calls that the client approved and that ran
        before the first round.
        """
        prepared_request, keeper = (
            loop.prepared_request,
            TurnKeeper(loop, self._services.turns, client_request.identity),
        )
        earlier_answers: list[WireAnswer] = []
        finished_calls = [*finished_calls]
        usage: dict[str, object] = {}
        while True:
            wire_answer = await self._read_answer(answer, loop)
            usage = add_usage(usage, wire_answer.usage)
            if not wire_answer.usage:
                loop.record.add_answer_tokens(sum(map(len, wire_answer.request_messages)) // 4)
            loop.finish_round(usage)
            repeats, calls, results = (
                loop.should_repeat(wire_answer.malformed_call),
                await loop.split_calls(wire_answer.message),
                NO_RESULTS,
            )
            if calls.inner_calls:
                wire_answer.unwrap(calls.inner_calls)
            if not repeats:
                if await keeper.may_run_now(calls, wire_answer.request_messages):
                    results = await loop.run(calls.gateway_calls)
                    finished_calls += results.finished_calls
                if calls.client_calls or not results.messages:
                    break
                loop.append_results(wire_answer.request_messages, results.messages)
            earlier_answers.append(wire_answer)
            answer = await loop.next_answer()
            if answer.status != 200:
                return await self._relay_refusal(answer, loop)
        await keeper.keep(calls, wire_answer.request_messages, results.messages, wire_answer.turn_key(earlier_answers))
        shown_calls = finished_calls if prepared_request.shows_calls else ()
        response_body = wire_answer.write(
            LoopResult(earlier_answers, usage, loop.client_tools, shown_calls, {"fairlead": loop.report()})
        )
        if self._continuations is not None:
            rounds = [*earlier_answers, wire_answer]
            finished_response = FinishedResponse(
                client_request.identity,
                client_request.caller_key,
                client_request.wire_request,
                prepared_request,
                rounds,
                response_body,
                results.messages,
            )
            await self._continuations.keep(finished_response)
        loop.record.end(loop.outcome)
        return Response(response_body, 200, {**answer.headers, **loop.headers}, JSON)

    async def _read_answer(self, answer: ProviderAnswer, loop: ToolLoop) -> WireAnswer:
        """Read the provider's whole answer and parse it. Raises LlmError."""
        try:
            body = await answer.read_whole()
            excess = await self._services.tools.work.excess(body)
            if excess is not None:
                raise BadAnswer(f"the provider's answer holds {excess}")
            loop.long |= is_long(body)
            return await self._services.tools.work.process_document(lambda: _parse_answer(body, loop), long=loop.long)
        except (ProviderUnavailable, BadAnswer) as error:
            raise _fail_round(loop, error) from error
        finally:
            answer.close()

    async def _relay_refusal(self, answer: ProviderAnswer, loop: ToolLoop) -> Response:
        """Respond with a provider's error in the client's format. Raises LlmError."""
        try:
            body = await answer.read_whole()
        except ProviderUnavailable as error:
            message = f"{loop.target.provider}: {error}"
            raise LlmError(502, message, "provider_unavailable", headers=loop.no_retry) from error
        finally:
            answer.close()
        loop.record.end(str(answer.status))
        status, body = loop.prepared_request.wire.refusal(answer.status if answer.status >= 400 else 502, body)
        return Response(body, status, {**answer.headers, **loop.headers, **loop.no_retry}, JSON)


def _fail_round(loop: ToolLoop, error: ProviderUnavailable | BadAnswer) -> LlmError:
    """Record that the round's answer cannot be read, and return the error for the client."""
    loop.fail_round(error)
    return LlmError(502, f"{loop.target.provider}: {error}", "bad_answer", headers=loop.no_retry)


def _parse_answer(body: bytes, loop: ToolLoop) -> WireAnswer:
    """Parse a provider's answer. Raises BadAnswer."""
    if loop.client_tools is not None:
        body = ProviderCallIds(keepable=loop.prepared_request.keeps_turns).replace(body)
    return loop.prepared_request.wire.answer(body, loop.prepared_request.request)


def caller_key(request: Request) -> str:
    """The client's own API key for the provider; empty if it sent none."""
    return str(request.scope.get(PROVIDER_KEY, ""))


def origin_of(request: Request) -> Origin:
    """Client address, headers and identity of a request."""
    address = request.client.host if request.client else ""
    return Origin(address, dict(request.headers.raw), request.scope[IDENTITY])


def _ignore(code: str) -> None:
    """Ignore an error code, for requests that are not recorded."""


async def respond(
    request: Request,
    wire: WireFormat,
    services: ModelServices,
    work: Callable[[bytes], Awaitable[Response]],
    report_error: Callable[[str], None] = _ignore,
) -> Response:
    """Response that `work` returns for the request's body. Errors are written in the client's format, and
    `report_error` is called with their codes. The work is cancelled if the client disconnects.
    """
    try:
        body = b"".join(await read_pieces(request, services.limits.request_bytes))
        excess = await services.tools.work.excess(body)
        if excess is not None:
            raise LlmError(400, f"the body has {excess}: send fewer", "invalid_request")
        received_body = await services.tools.work.process_document(lambda: wire.receive(body), long=is_long(body))
        response = await while_connected(request, work(received_body))
    except LlmError as error:
        report_error(error.code)
        return error_response(wire, error)
    except Problem as problem:
        refusal = llm_error(problem)
        report_error(refusal.code)
        return error_response(wire, refusal)
    except Exception:
        report_error(INTERNAL)
        raise
    return Response(status_code=499) if response is None else response


def model_request(
    providers: Providers,
    request: Request,
    wire: WireFormat,
    wire_request: WireRequest,
    raw: RawRequest,
) -> tuple[ModelRequest, list[ModelTarget]]:
    """The request with options from its headers, and the models of its `model`. Raises BadRequest, LlmError."""
    wishes, key = _read_wishes(wire_request, request), caller_key(request)
    try:
        route, targets = providers.targets(wire_request.model, keyed=bool(key))
    except UnknownModel as error:
        raise LlmError(404, str(error), "model_not_found", param="model") from error
    except ProviderKeyRefused as error:
        raise LlmError(error.status, str(error), "provider_key") from error
    identity, headers = request.scope[IDENTITY], dict(request.headers)
    client_request = ModelRequest(wire, wire_request, raw, headers, identity, wishes, route, caller_key=key)
    return client_request, targets


async def continue_request(
    continuations: Continuations | None, client_request: ModelRequest, targets: Sequence[ModelTarget]
) -> tuple[ModelRequest, list[ModelTarget]]:
    """The request, combined with the response that it continues, and the models that can answer it. Raises LlmError if
    the response is unknown or expired.
    """
    if continuations is None:
        return client_request, [*targets]
    continued_request = await continuations.resolve(
        client_request.identity,
        client_request.caller_key,
        client_request.wire_request,
        client_request.raw.body,
        targets,
    )
    raw = msgspec.structs.replace(client_request.raw, body=continued_request.body)
    return msgspec.structs.replace(client_request, wire_request=continued_request.wire_request, raw=raw), [
        *continued_request.targets
    ]


def error_response(wire: WireFormat, error: LlmError) -> Response:
    """An error response in the client's format."""
    return Response(wire.error_body(error), error.status, error.headers, JSON)


def bad_request(error: BadRequest) -> LlmError:
    """The error for a request that cannot be parsed; its status is usually 400."""
    return LlmError(error.status, str(error), error.code, param=error.param)


def _read_wishes(wire_request: WireRequest, request: Request) -> OfferWishes:
    """Options in the member `fairlead` and in headers. Raises BadRequest."""
    wishes: dict[str, object] = {}
    for member, header in HEADERS.items():
        value = request.headers.get(header, "").strip()
        if value:
            wishes[member] = [word.strip() for word in value.split(",") if word.strip()] if member in _LISTS else value
    try:
        if "maxTools" in wishes:
            wishes["maxTools"] = msgspec.json.decode(str(wishes["maxTools"]), type=int)
        wishes |= msgspec.json.decode(wire_request.gateway_options, type=dict[str, object])
        return msgspec.convert(wishes, OfferWishes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"fairlead: {explain_misreading(error, 'the member')}", "fairlead") from error
