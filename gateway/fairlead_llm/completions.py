"""`POST /v1/chat/completions`: reads a request, runs its loop of model and tools, and writes the answer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Final

import msgspec
from fastapi import Request, Response

from fairlead_formats import registry
from fairlead_formats.registry import OPENAI_CHAT
from fairlead_formats.tokens.conversation import ConversationTokens
from fairlead_formats.tokens.fit import PlanLimits, RouteModel
from fairlead_formats.tokens.routes import ModelRoute
from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.calls.direct import Origin
from fairlead_gateway.core.identity import IDENTITY
from fairlead_llm.chat.answer import BadAnswer, ChatAnswer
from fairlead_llm.chat.request import BadRequest, ChatRequest
from fairlead_llm.credentials import PROVIDER_KEY
from fairlead_llm.errors import LlmError, of_problem
from fairlead_llm.loop import LoopLimits, ToolLoop
from fairlead_llm.offers import Offers, OfferWishes, ToolOffer
from fairlead_llm.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel
from fairlead_llm.streaming import StreamedAnswer
from fairlead_llm.turns import OpenTurns
from fairlead_llm.upstream import ProviderAnswer, ProviderClient, ProviderUnavailable
from fairlead_llm.usage import added
from fairlead_rest.bodies import JSON, read_pieces
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem
from fairlead_rest.tool_runs import while_connected

MAX_BODY: Final = 32 << 20
"""Bytes of a request: images come in them."""
HEADERS: Final = {
    "tier": "x-fairlead-tier", "servers": "x-fairlead-servers", "tags": "x-fairlead-tags",
    "tools": "x-fairlead-tools", "maxTools": "x-fairlead-max-tools",
}  # fmt: skip
"""Headers that say what the member `fairlead` says, for clients that cannot add a member. The member counts."""
_LISTS: Final = ("servers", "tags")


class Completions:
    """The endpoint, over the providers of one reading of the configuration."""

    def __init__(
        self,
        context: RestContext,
        client: ProviderClient,
        providers: Providers,
        recorder: ContextRecorder,
        limits: LoopLimits,
    ) -> None:
        self._context = context
        self._providers = providers
        self._limits = limits
        self._offers = Offers(context, OPENAI_CHAT)
        self._turns = OpenTurns(recorder)
        self._client = client

    async def answer(self, request: Request) -> Response:
        """The answer to one request."""
        try:
            body = b"".join(await read_pieces(request, MAX_BODY))
            held = await while_connected(request, self._held(request, body))
        except LlmError as error:
            return failed(error)
        except Problem as problem:
            return failed(of_problem(problem))
        return Response(status_code=499) if held is None else held

    async def _held(self, request: Request, body: bytes) -> Response:
        loop, chat = await self._begun(request, body)
        try:
            async with asyncio.timeout(loop.left()):
                answer = await loop.ask()
                if answer.status != 200:
                    return await passed_on(answer, loop)
                if not chat.stream:
                    return await self._whole(request, loop, chat, answer)
        except TimeoutError as error:
            raise loop.over() from error
        except Problem as problem:
            found = of_problem(problem)
            found.headers.update(loop.no_retry)
            raise found from problem
        if not answer.streams:
            answer.close()
            raise LlmError(502, "the provider answered a request for a stream with something else", "bad_answer")
        return StreamedAnswer(loop, chat, answer, self._turns, request.scope[IDENTITY])

    async def _begun(self, request: Request, body: bytes) -> tuple[ToolLoop, ChatRequest]:
        try:
            chat = ChatRequest(body)
            wishes = _wishes(chat, request)
            key = request.scope.get(PROVIDER_KEY, "")
            route, targets = self._providers.targets(chat.model, keyed=bool(key))
        except BadRequest as error:
            raise LlmError(400, str(error), "invalid_request", param=error.param) from error
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        identity = request.scope[IDENTITY]
        chat.messages = await self._turns.restored(identity, chat.messages)
        offer = None
        if wishes.tools == "inject" and not chat.plain:
            offer = await self._offered(request, chat, body, wishes, route, targets)
        place = 0 if offer is None else offer.model
        origin = Origin(request.client.host if request.client else "", dict(request.headers.raw), identity)
        return ToolLoop(
            self._context, self._client.of_caller(key), self._providers,
            functools.partial(self._context.seen, request), origin, chat, targets[place:], offer, wishes.tier,
            self._limits,
        ), chat  # fmt: skip

    async def _offered(
        self,
        request: Request,
        chat: ChatRequest,
        body: bytes,
        wishes: OfferWishes,
        route: ModelRoute,
        targets: Sequence[ModelTarget],
    ) -> ToolOffer:
        """The offer for a request. No text has more tokens than bytes: only where the bytes of a conversation do not
        fit are its tokens counted, which takes milliseconds.
        """
        known = registry.find(OPENAI_CHAT)
        windows = await self._context.worker.do(lambda: self._context.windows)
        models = [RouteModel(each.model, windows.window(each.model), OPENAI_CHAT, known.max_tools) for each in targets]
        limits = PlanLimits(wishes.max_tools, wishes.tool_tokens, 0).within(route.limits)
        make = functools.partial(
            self._offers.made, self._context.seen(request), wishes, models, limits, chat.tool_names
        )
        most = ConversationTokens(0, len(body) + chat.restored)
        offer = await self._context.done(lambda: make(most, exact=False))
        if offer is None:
            found = await self._context.measured([body])
            beside = (len(chat.tools) + chat.restored) // 3
            counted = ConversationTokens(found.tokens.system, found.tokens.messages + beside)
            offer = await self._context.done(lambda: make(counted, exact=True))
        assert offer is not None
        return offer

    async def _whole(self, request: Request, loop: ToolLoop, chat: ChatRequest, answer: ProviderAnswer) -> Response:
        texts: list[str] = []
        first: ChatAnswer | None = None
        usage: dict[str, object] = {}
        while True:
            said = await _read(answer, loop)
            first = first or said
            usage = added(usage, said.usage)
            mine, theirs = loop.split(said.message)
            if not mine or loop.final:
                break
            results = await loop.run(said.message)
            if theirs:
                before = [*loop.before, said.in_request]
                await self._turns.keep(request.scope[IDENTITY], chat.asked, theirs, before, results)
                break
            texts += [said.text] if said.text else []
            loop.go_on(said.in_request, results)
            answer = await loop.ask()
            if answer.status != 200:
                return await passed_on(answer, loop)
        more = {"fairlead": loop.report()}
        return Response(said.written(first, texts, usage, loop.is_theirs, more), 200, dict(answer.headers), JSON)


async def _read(answer: ProviderAnswer, loop: ToolLoop) -> ChatAnswer:
    """A whole answer. Raises LlmError."""
    try:
        return ChatAnswer(await answer.whole())
    except (ProviderUnavailable, BadAnswer) as error:
        raise LlmError(502, str(error), "bad_answer", headers=loop.no_retry) from error
    finally:
        answer.close()


async def passed_on(answer: ProviderAnswer, loop: ToolLoop) -> Response:
    """A provider's refusal, as it said it. Raises LlmError."""
    try:
        body = await answer.whole()
    except ProviderUnavailable as error:
        raise LlmError(502, str(error), "provider_unavailable", headers=loop.no_retry) from error
    finally:
        answer.close()
    status = answer.status if answer.status >= 400 else 502
    return Response(body, status, {**answer.headers, **loop.no_retry}, JSON)


def failed(error: LlmError) -> Response:
    """The response that says so."""
    return Response(error.body, error.status, error.headers, JSON)


def _wishes(chat: ChatRequest, request: Request) -> OfferWishes:
    """Wishes in the body and in headers. Raises BadRequest."""
    said: dict[str, object] = {}
    for member, header in HEADERS.items():
        value = request.headers.get(header, "").strip()
        if value:
            said[member] = [word.strip() for word in value.split(",") if word.strip()] if member in _LISTS else value
    try:
        if "maxTools" in said:
            said["maxTools"] = msgspec.json.decode(str(said["maxTools"]), type=int)
        said |= msgspec.json.decode(chat.own, type=dict[str, object])
        return msgspec.convert(said, OfferWishes)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"fairlead: {error}", "fairlead") from error
