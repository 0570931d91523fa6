"""Counts of the tokens that a request would have, with the tools that would be injected: by its provider where that
counts in the client's format, else as they are counted here.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Final, Protocol

from fastapi import Request, Response

from fairlead_formats.tokens.families import family_of
from fairlead_llm.errors import LlmError
from fairlead_llm.llm_endpoint import ModelServices, answered, bad_request, model_request
from fairlead_llm.preparation import ModelRequest
from fairlead_llm.providers import ModelTarget
from fairlead_llm.upstream import ProviderUnavailable
from fairlead_llm.wire import BadRequest, WireFormat, WireRequest
from fairlead_llm.wire_formats import speaks
from fairlead_rest.bodies import JSON

ESTIMATED: Final = "x-fairlead-estimated"
"""Header of a count that no provider made."""


class CountingFormat(WireFormat, Protocol):
    """Wire format whose API counts tokens."""

    def read_count(self, body: bytes, model: str | None = None) -> WireRequest:
        """A client's request for a count, as the request that it is about. Raises BadRequest."""

    def count_path(self, model: str) -> str:
        """Path of a request for a count below the base of the provider's API."""

    def count_body(self, request: WireRequest, model: str, injected: Sequence[bytes]) -> bytes:
        """The request for a count to the provider."""

    def counted(self, tokens: int) -> bytes:
        """The answer with a count made here."""


class TokenCounts:
    """Endpoint for requests for a count, of clients of one wire format."""

    def __init__(self, services: ModelServices, wire: CountingFormat) -> None:
        self._services = services
        self._format = wire

    async def answer(self, request: Request, model: str | None = None) -> Response:
        """The count of one request; `model` is that of the path, in formats that have it there."""
        return await answered(request, self._format, lambda body: self._counted(request, body, model))

    async def _counted(self, request: Request, body: bytes, model: str | None) -> Response:
        providers, wire = self._services.providers, self._format
        try:
            read = wire.read_count(body, model)
            asked, targets = model_request(providers, request, wire, read, body, model, False)
            if speaks(providers.by_name[targets[0].provider], wire):
                return await self._sent(asked, request, targets)
        except BadRequest as error:
            raise bad_request(error) from error
        counted = wire.counted(await self._estimated(asked, request, targets))
        return Response(counted, 200, {ESTIMATED: "true"}, JSON)

    async def _sent(self, asked: ModelRequest, request: Request, targets: Sequence[ModelTarget]) -> Response:
        """The provider's count. Raises LlmError."""
        services, wire = self._services, self._format
        seen = functools.partial(services.context.seen, request)
        prepared = await services.preparation.prepared(asked, seen, targets[:1])
        injected = prepared.offer.definitions if prepared.offer is not None else ()
        target = prepared.targets[0]
        body = wire.count_body(prepared.request, target.model, injected)
        provider = services.providers.by_name[target.provider]
        try:
            async with asyncio.timeout(services.limits.seconds):
                answer = await services.client.send(
                    provider, wire.count_path(target.model), body, prepared.headers, wire.answer_headers
                )
                try:
                    said = await answer.whole()
                finally:
                    answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{target.provider}: {error}", "provider_unavailable") from error
        except TimeoutError as error:
            raise LlmError(504, "the time for this request is over", "timeout") from error
        status = answer.status
        if status != 200:
            status, said = wire.refusal(status if status >= 400 else 502, said)
        return Response(said, status, dict(answer.headers), JSON)

    async def _estimated(self, asked: ModelRequest, request: Request, targets: Sequence[ModelTarget]) -> int:
        """The count that is made here, of the request in the client's format, by the factors of the model's family."""
        services, read = self._services, asked.read
        conversation = await services.preparation.conversation(read)
        definitions: Sequence[bytes] = ()
        if asked.wishes.tools == "inject" and not read.plain:
            seen = functools.partial(services.context.seen, request)
            offer = await services.preparation.offered(asked, self._format, read, seen, targets[:1])
            definitions = offer.definitions
        texts = [each.decode("utf-8", "replace") for each in (read.tools, *definitions)]
        context = services.context
        tools = await context.worker.do(lambda: sum(map(context.sizes().counter.count, texts)))
        family = family_of(targets[0].model)
        said = (conversation.system + conversation.messages) * family.text
        shown = tools * family.tools + 1000 * family.preamble if definitions or read.tool_names else 0
        return (said + shown) // 1000
