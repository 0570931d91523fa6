"""Endpoint in front of models for clients of one wire format: reads a request, runs its loop of model and tools, and
writes the answer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Final

import msgspec
from fastapi import Request, Response

from fairlead_gateway.calls.direct import Origin
from fairlead_gateway.core.identity import IDENTITY
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_llm.breakers import ModelBreakers
from fairlead_llm.credentials import PROVIDER_KEY
from fairlead_llm.errors import LlmError, of_problem
from fairlead_llm.loop import LoopLimits, Prepare, ToolLoop
from fairlead_llm.offers import OfferWishes
from fairlead_llm.preparation import ModelRequest, RequestPreparation
from fairlead_llm.providers import ProviderKeyRefused, Providers, UnknownModel
from fairlead_llm.request_record import LEFT, ModelLedger, RequestRecord
from fairlead_llm.streaming import StreamedAnswer
from fairlead_llm.tier_choice import AUTO, chosen_tier
from fairlead_llm.turns import OpenTurns
from fairlead_llm.upstream import ProviderAnswer, ProviderClient, ProviderUnavailable
from fairlead_llm.usage import added
from fairlead_llm.wire import BadAnswer, BadRequest, FinishedCall, KeptTurn, WireAnswer, WireFormat, WireRequest
from fairlead_rest.bodies import JSON, read_pieces
from fairlead_rest.context import RestContext
from fairlead_rest.problems import INTERNAL, Problem
from fairlead_rest.subject_catalog import SubjectCatalog
from fairlead_rest.tool_runs import while_connected

MAX_BODY: Final = 32 << 20
"""Bytes of a request: images come in them."""
HEADERS: Final = {
    "tier": "x-fairlead-tier", "servers": "x-fairlead-servers", "tags": "x-fairlead-tags",
    "tools": "x-fairlead-tools", "maxTools": "x-fairlead-max-tools",
}  # fmt: skip
"""Headers that say what the member `fairlead` says, for clients that cannot add a member. The member counts."""
_LISTS: Final = ("servers", "tags")


class ModelServices(msgspec.Struct, frozen=True):
    """All that endpoints of every wire format share. One per gateway."""

    context: RestContext
    providers: Providers
    preparation: RequestPreparation
    turns: OpenTurns
    client: ProviderClient
    limits: LoopLimits
    breakers: ModelBreakers
    ledger: ModelLedger
    counts: LlmCounts


class LlmEndpoint:
    """Endpoint for clients of one wire format."""

    def __init__(self, services: ModelServices, wire: WireFormat) -> None:
        self._services = services
        self._format = wire

    async def answer(self, request: Request, model: str | None = None, stream: bool | None = None) -> Response:
        """The answer to one request; `model` and `stream` are those of the path, in formats that have them there."""
        address = request.client.host if request.client else ""
        origin = Origin(address, dict(request.headers.raw), request.scope[IDENTITY])
        record = self._services.ledger.open(origin, request.url.path)
        held: Response | None = None
        try:
            body = b"".join(await read_pieces(request, MAX_BODY))
            held = await while_connected(request, self._held(request, record, origin, body, model, stream))
        except LlmError as error:
            record.end(error.code)
            return self.failed(error)
        except Problem as problem:
            found = of_problem(problem)
            record.end(found.code)
            return self.failed(found)
        except Exception:
            record.end(INTERNAL)
            raise
        finally:
            if not isinstance(held, StreamedAnswer):
                record.end(LEFT)  # unless it has ended
        return Response(status_code=499) if held is None else held

    def failed(self, error: LlmError) -> Response:
        """The response that says so, in the client's format."""
        return Response(self._format.error_body(error), error.status, error.headers, JSON)

    async def _held(
        self,
        request: Request,
        record: RequestRecord,
        origin: Origin,
        body: bytes,
        model: str | None,
        stream: bool | None,
    ) -> Response:
        loop = await self._begun(request, record, origin, body, model, stream)
        try:
            async with asyncio.timeout(loop.left()):
                answer = await loop.ask()
                if answer.status != 200:
                    return await self._refused(answer, loop)
                if not loop.prepared.request.stream:
                    return await self._whole(request, loop, answer)
        except TimeoutError as error:
            raise loop.over() from error
        except Problem as problem:
            found = of_problem(problem)
            found.headers.update(loop.no_retry)
            raise found from problem
        if not answer.streams:
            answer.close()
            raise LlmError(502, "the provider answered a request for a stream with something else", "bad_answer")
        return StreamedAnswer(loop, answer, self._services.turns, request.scope[IDENTITY])

    async def _begun(
        self,
        request: Request,
        record: RequestRecord,
        origin: Origin,
        body: bytes,
        model: str | None,
        stream: bool | None,
    ) -> ToolLoop:
        services = self._services
        try:
            read = self._format.read(body, model, stream)
            wishes = _wishes(read, request)
            key = request.scope.get(PROVIDER_KEY, "")
            route, targets = services.providers.targets(read.model, keyed=bool(key))
        except BadRequest as error:
            raise _bad(error) from error
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        identity, headers = request.scope[IDENTITY], dict(request.headers)
        seen = functools.partial(services.context.seen, request)
        wishes, rule = await self._in_tier(read, wishes, seen)
        asked = ModelRequest(self._format, read, body, model, stream, headers, identity, wishes, route, rule)
        prepare: Prepare = functools.partial(services.preparation.prepared, asked, seen)
        try:
            prepared = await prepare(targets)
        except BadRequest as error:
            raise _bad(error) from error
        record.begun(prepared.targets[0], () if prepared.offer is None else prepared.offer.quotas)
        return ToolLoop(
            services.context, services.client.of_caller(key), services.providers, seen, origin, prepared, prepare,
            wishes, services.limits, services.breakers, record,
        )  # fmt: skip

    async def _in_tier(
        self, read: WireRequest, wishes: OfferWishes, seen: Callable[[], SubjectCatalog]
    ) -> tuple[OfferWishes, str]:
        """The wishes with the tier that the rules choose, and the rule, where a request asks for that."""
        context, found = self._services.context, seen()
        if wishes.tier != AUTO or AUTO in found.tiers:
            return wishes, ""
        choice = await context.worker.do(lambda: chosen_tier(context, found, self._format, read.asked))
        if choice is None:
            return msgspec.structs.replace(wishes, tier=None), ""
        if choice.changed:
            self._services.counts.tier_changed(choice.name)
        return msgspec.structs.replace(wishes, tier=choice.name), choice.rule

    async def _whole(self, request: Request, loop: ToolLoop, answer: ProviderAnswer) -> Response:
        prepared = loop.prepared
        before: list[WireAnswer] = []
        ran: list[FinishedCall] = []
        usage: dict[str, object] = {}
        while True:
            said = await self._read(answer, loop)
            usage = added(usage, said.usage)
            if not said.usage:
                loop.record.heard(sum(map(len, said.in_request)) // 4)
            loop.told(usage)
            calls = loop.split(said.message)
            if not calls.ours or loop.final:
                break
            results = await loop.run(calls.ours)
            ran += results.finished
            if calls.theirs:
                turn = KeptTurn(prepared.wire.name, [*loop.before, *said.in_request], results.messages)
                identity = request.scope[IDENTITY]
                await self._services.turns.keep(identity, prepared.wire, prepared.request.asked, calls.theirs, turn)
                break
            before.append(said)
            loop.go_on(said.in_request, results.messages)
            answer = await loop.ask()
            if answer.status != 200:
                return await self._refused(answer, loop)
        shown = ran if prepared.shows_calls else ()
        written = said.written(before, usage, loop.theirs, shown, {"fairlead": loop.report()})
        loop.record.end(loop.outcome)
        return Response(written, 200, {**answer.headers, **loop.headers}, JSON)

    async def _read(self, answer: ProviderAnswer, loop: ToolLoop) -> WireAnswer:
        """A whole answer. Raises LlmError."""
        try:
            return loop.prepared.wire.answer(await answer.whole())
        except (ProviderUnavailable, BadAnswer) as error:
            loop.broke_off(error)
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


def _bad(error: BadRequest) -> LlmError:
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
