"""Endpoint in front of models for clients of one wire format: reads a request, runs its loop of model and tools, and
writes the answer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

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
from fairlead_formats.wire.usage import added
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import IDENTITY
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_llm.continuation import Continuations, FinishedResponse
from fairlead_llm.loop import Prepare, ToolLoop
from fairlead_llm.preparation import ModelRequest, RequestPreparation
from fairlead_llm.round_calls import NO_RESULTS
from fairlead_llm.streaming import StreamedAnswer
from fairlead_llm.tier_choice import AUTO, TierChanges, chosen_tier
from fairlead_llm.turn_keeping import TurnKeeper
from fairlead_llm.turns import TurnStore
from fairlead_mcp.read_bounds import is_long
from fairlead_models.breakers import ModelBreakers
from fairlead_models.credentials import PROVIDER_KEY
from fairlead_models.errors import of_problem, over_budget
from fairlead_models.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel
from fairlead_models.request_record import CLIENT_CLOSED, RequestRecord, RequestRecords
from fairlead_models.settings import LlmSettings
from fairlead_models.upstream import ProviderAnswer, ProviderClient, ProviderUnavailable
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.offer.offers import OfferWishes
from fairlead_offers.problems import INTERNAL, Problem
from fairlead_offers.services import ToolServices
from fairlead_web.bodies import JSON, read_pieces
from fairlead_web.disconnects import while_connected

HEADERS: Final = {
    "tier": "x-fairlead-tier",
    "servers": "x-fairlead-servers",
    "tags": "x-fairlead-tags",
    "tools": "x-fairlead-tools",
    "maxTools": "x-fairlead-max-tools",
}
"""Headers that say what the member `fairlead` says, for clients that cannot add a member. The member counts."""
_LISTS: Final = ("servers", "tags")


class ModelServices(msgspec.Struct, frozen=True):
    """All that endpoints of every wire format share. One per gateway."""

    tools: ToolServices
    providers: Providers
    preparation: RequestPreparation
    turns: TurnStore
    client: ProviderClient
    limits: LlmSettings
    breakers: ModelBreakers
    records: RequestRecords
    counts: LlmCounts
    tier_changes: TierChanges


class LlmEndpoint:
    """Endpoint for clients of one wire format."""

    def __init__(self, services: ModelServices, wire: WireFormat, kept: Continuations | None = None) -> None:
        """`kept`: keeper of answers, in formats that go on from them by their ids."""
        self._services = services
        self._format = wire
        self._kept = kept

    async def answer(self, request: Request, model: str | None = None, stream: bool | None = None) -> Response:
        """The answer to one request; `model` and `stream` are those of the path, in formats that have them there."""
        record = self._services.records.open(origin_of(request), request.url.path)
        held: Response | None = None
        try:
            held = await answered(
                request,
                self._format,
                self._services,
                lambda body: self._held(request, record, body, model, stream),
                record.end,
            )
        finally:
            if not isinstance(held, StreamedAnswer):
                record.end(CLIENT_CLOSED)  # unless it has ended
        return held

    async def _held(
        self, request: Request, record: RequestRecord, body: bytes, model: str | None, stream: bool | None
    ) -> Response:
        asked, loop = await self._begun(request, record, body, model, stream)
        if (refused := record.refusal()) is not None:
            raise over_budget(refused)
        try:
            async with asyncio.timeout(loop.seconds_left()):
                approved = None if self._kept is None else await self._kept.run_approved(loop)
                answer = await loop.ask()
                if answer.status != 200:
                    return await self._refused(answer, loop)
                if not loop.prepared.request.stream:
                    return await self._whole(asked, loop, answer, approved.finished if approved else [])
        except TimeoutError as error:
            raise loop.over() from error
        except Problem as problem:
            found = of_problem(problem)
            found.headers.update(loop.no_retry)
            raise found from problem
        if not answer.streams:
            answer.close()
            raise LlmError(502, "the provider answered a request for a stream with something else", "bad_answer")
        ran = approved.finished if approved else []
        return StreamedAnswer(asked, loop, answer, self._services.turns, self._kept, ran)

    async def _begun(
        self, request: Request, record: RequestRecord, body: bytes, model: str | None, stream: bool | None
    ) -> tuple[ModelRequest, ToolLoop]:
        services = self._services
        try:
            reads = functools.partial(self._format.read, body, model, stream)
            read = await services.tools.work.reading(reads, long=is_long(body))
            asked, targets = model_request(services.providers, request, self._format, read, body, model, stream)
            if self._kept is not None:
                found = await self._kept.resolve(asked.identity, asked.caller_key, read, body, targets)
                asked = msgspec.structs.replace(asked, read=found.read, body=found.body)
                targets = [*found.targets]
            get_catalog = functools.partial(services.tools.catalogs.seen_by, request.scope[IDENTITY])
            asked = await self._in_tier(asked, get_catalog)
            prepare: Prepare = functools.partial(services.preparation.prepared, asked, get_catalog)
            prepared = await prepare(targets)
        except BadRequest as error:
            raise bad_request(error) from error
        record.open_budget(prepared.targets[0], () if prepared.offer is None else prepared.offer.quotas)
        return asked, ToolLoop(
            services.tools,
            services.client.of_caller(caller_key(request)),
            services.providers,
            get_catalog,
            record.origin,
            prepared,
            prepare,
            asked.wishes,
            services.limits,
            services.breakers,
            record,
        )

    async def _in_tier(self, asked: ModelRequest, get_catalog: Callable[[], SubjectCatalog]) -> ModelRequest:
        """The request in the tier that the rules choose, where it asks for that."""
        tools, found = self._services.tools, get_catalog()
        if asked.wishes.tier != AUTO or AUTO in found.tiers:
            return asked
        choice = await tools.work.do(lambda: chosen_tier(tools, found, self._format, asked.read.client_messages))
        if choice is None:
            return msgspec.structs.replace(asked, wishes=msgspec.structs.replace(asked.wishes, tier=None))
        if self._services.tier_changes.is_new(asked.identity.principal, choice):
            self._services.counts.count_tier_change(choice.name)
        wishes = msgspec.structs.replace(asked.wishes, tier=choice.name)
        return msgspec.structs.replace(asked, wishes=wishes, tier_rule=choice.rule)

    async def _whole(
        self, asked: ModelRequest, loop: ToolLoop, answer: ProviderAnswer, ran: Sequence[FinishedCall]
    ) -> Response:
        """The answer of all rounds; `ran` are calls that were run in front of the first."""
        prepared, keeper = loop.prepared, TurnKeeper(loop, self._services.turns, asked.identity)
        before: list[WireAnswer] = []
        ran = [*ran]
        usage: dict[str, object] = {}
        while True:
            said = await self._read(answer, loop)
            usage = added(usage, said.usage)
            if not said.usage:
                loop.record.add_answer_tokens(sum(map(len, said.in_request)) // 4)
            loop.round_finished(usage)
            again, calls, results = loop.repeats(said.malformed_call), await loop.split(said.message), NO_RESULTS
            if calls.unwrapped:
                said.unwrap(calls.unwrapped)
            if not again:
                if await keeper.runs_now(calls, said.in_request):
                    results = await loop.run(calls.gateway_calls)
                    ran += results.finished
                if calls.client_calls or not results.messages:
                    break
                loop.go_on(said.in_request, results.messages)
            before.append(said)
            answer = await loop.ask()
            if answer.status != 200:
                return await self._refused(answer, loop)
        await keeper.keep(calls, said.in_request, results.messages, said.turn_key(before))
        shown = ran if prepared.shows_calls else ()
        written = said.written(LoopResult(before, usage, loop.theirs, shown, {"fairlead": loop.report()}))
        if self._kept is not None:
            rounds = [*before, said]
            finished = FinishedResponse(
                asked.identity, asked.caller_key, asked.read, prepared, rounds, written, results.messages
            )
            await self._kept.keep(finished)
        loop.record.end(loop.outcome)
        return Response(written, 200, {**answer.headers, **loop.headers}, JSON)

    async def _read(self, answer: ProviderAnswer, loop: ToolLoop) -> WireAnswer:
        """A whole answer. Raises LlmError."""
        try:
            body = await answer.whole()
            refused = await self._services.tools.work.excess(body)
            if refused is not None:
                raise BadAnswer(f"the provider's answer holds {refused}")
            loop.long |= is_long(body)
            return await self._services.tools.work.reading(lambda: _answer_of(body, loop), long=loop.long)
        except (ProviderUnavailable, BadAnswer) as error:
            loop.round_broken(error)
            raise LlmError(502, str(error), "bad_answer", headers=loop.no_retry) from error
        finally:
            answer.close()

    async def _refused(self, answer: ProviderAnswer, loop: ToolLoop) -> Response:
        """A provider's refusal, as it said it. Raises LlmError."""
        try:
            body = await answer.whole()
        except ProviderUnavailable as error:
            raise LlmError(502, str(error), "provider_unavailable", headers=loop.no_retry) from error
        finally:
            answer.close()
        loop.record.end(str(answer.status))
        status, body = loop.prepared.wire.refusal(answer.status if answer.status >= 400 else 502, body)
        return Response(body, status, {**answer.headers, **loop.headers, **loop.no_retry}, JSON)


def _answer_of(body: bytes, loop: ToolLoop) -> WireAnswer:
    """A provider's answer that was read. Raises BadAnswer."""
    if loop.theirs is not None:
        body = ProviderCallIds(kept=loop.prepared.keeps_turns).replaced(body)
    return loop.prepared.wire.answer(body, loop.prepared.request)


def caller_key(request: Request) -> str:
    """The provider's key that a request brings; empty without one."""
    return str(request.scope.get(PROVIDER_KEY, ""))


def origin_of(request: Request) -> Origin:
    """Where a request comes from."""
    address = request.client.host if request.client else ""
    return Origin(address, dict(request.headers.raw), request.scope[IDENTITY])


def _unheard(code: str) -> None:
    """Take the code of an error that nobody counts."""


async def answered(
    request: Request,
    wire: WireFormat,
    services: ModelServices,
    work: Callable[[bytes], Awaitable[Response]],
    broken: Callable[[str], None] = _unheard,
) -> Response:
    """Response of the `work` on a request's body, until the client is gone; errors in the client's format, and their
    codes for `broken`.
    """
    try:
        body = b"".join(await read_pieces(request, services.limits.request_bytes))
        refused = await services.tools.work.excess(body)
        if refused is not None:
            raise LlmError(400, f"the body holds {refused}: send fewer", "invalid_request")
        received = await services.tools.work.reading(lambda: wire.received(body), long=is_long(body))
        held = await while_connected(request, work(received))
    except LlmError as error:
        broken(error.code)
        return failed(wire, error)
    except Problem as problem:
        found = of_problem(problem)
        broken(found.code)
        return failed(wire, found)
    except Exception:
        broken(INTERNAL)
        raise
    return Response(status_code=499) if held is None else held


def model_request(
    providers: Providers,
    request: Request,
    wire: WireFormat,
    read: WireRequest,
    body: bytes,
    model: str | None,
    stream: bool | None,
) -> tuple[ModelRequest, list[ModelTarget]]:
    """A request that was read, with what its headers say of it, and the models that it asks for. Raises BadRequest,
    LlmError.
    """
    wishes, key = _wishes(read, request), caller_key(request)
    try:
        route, targets = providers.targets(read.model, keyed=bool(key))
    except UnknownModel as error:
        raise LlmError(404, str(error), "model_not_found", param="model") from error
    except ProviderKeyRefused as error:
        raise LlmError(error.status, str(error), "provider_key") from error
    identity, headers = request.scope[IDENTITY], dict(request.headers)
    asked = ModelRequest(wire, read, body, model, stream, headers, identity, wishes, route, caller_key=key)
    return asked, targets


def failed(wire: WireFormat, error: LlmError) -> Response:
    """The response that says so, in a client's format."""
    return Response(wire.error_body(error), error.status, error.headers, JSON)


def bad_request(error: BadRequest) -> LlmError:
    """The error for a request that cannot be read."""
    return LlmError(400, str(error), "invalid_request", param=error.param)


def _wishes(read: WireRequest, request: Request) -> OfferWishes:
    """Wishes in the body and in headers. Raises BadRequest."""
    said: dict[str, object] = {}
    for member, header in HEADERS.items():
        value = request.headers.get(header, "").strip()
        if value:
            said[member] = [word.strip() for word in value.split(",") if word.strip()] if member in _LISTS else value
    try:
        if "maxTools" in said:
            said["maxTools"] = msgspec.json.decode(str(said["maxTools"]), type=int)
        said |= msgspec.json.decode(read.own, type=dict[str, object])
        return msgspec.convert(said, OfferWishes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"fairlead: {error}", "fairlead") from error
