"""Endpoint that counts the tokens of a request before it is sent, with the tools that it would get: by the provider
where it is of the client's kind, else by the gateway's own estimate.
"""

from __future__ import annotations

import functools
from typing import Final, Protocol

import msgspec
from fastapi import Request, Response
from msgspec import Raw

from fairlead_formats.tokens.families import family_of
from fairlead_llm.errors import LlmError, of_problem
from fairlead_llm.llm_endpoint import MAX_BODY, ModelServices, bad_request, read_request
from fairlead_llm.preparation import PreparedRequest
from fairlead_llm.providers import Provider, ProviderKind
from fairlead_llm.upstream import ProviderUnavailable
from fairlead_llm.wire import BadRequest, WireFormat
from fairlead_rest.bodies import JSON, encode, read_pieces
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem
from fairlead_rest.tool_runs import while_connected

ESTIMATED: Final = "x-fairlead-estimated"
"""Header of an answer that no provider gave."""


class CountFormat(Protocol):
    """How a model API is asked for the tokens of a request."""

    @property
    def wire(self) -> WireFormat:
        """Format of the request."""

    @property
    def kind(self) -> ProviderKind:
        """Providers that count."""

    def path(self, model: str) -> str:
        """Path below the base of the provider's API."""

    def written(self, tokens: int) -> bytes:
        """The answer that there are so many."""


class _Tools(msgspec.Struct):
    tools: Raw = Raw(b"")


class TokenCountEndpoint:
    """Endpoint for clients of one wire format."""

    def __init__(self, services: ModelServices, counting: CountFormat) -> None:
        self._services = services
        self._counting = counting

    async def answer(self, request: Request) -> Response:
        """The answer to one request."""
        try:
            body = b"".join(await read_pieces(request, MAX_BODY))
            held = await while_connected(request, self._counted(request, body))
        except LlmError as error:
            return self._failed(error)
        except BadRequest as error:
            return self._failed(bad_request(error))
        except Problem as problem:
            return self._failed(of_problem(problem))
        return Response(status_code=499) if held is None else held

    async def _counted(self, request: Request, body: bytes) -> Response:
        services, counting = self._services, self._counting
        asked, targets = read_request(services, counting.wire, request, body)
        seen = functools.partial(services.context.seen, request)
        prepared = await services.preparation.unsent(asked, seen, targets)
        target = targets[0]
        offered = prepared.offer.definitions if prepared.offer is not None else ()
        out = prepared.request.body(target.model, (), offered, usage=False)
        provider = services.providers.by_name[target.provider]
        if provider.kind == counting.kind:
            return await self._asked(provider, target.provider, counting.path(target.model), out, prepared)
        tokens = await estimated(services.context, target.model, out)
        return Response(counting.written(tokens), 200, {ESTIMATED: "true"}, JSON)

    async def _asked(
        self, provider: Provider, name: str, path: str, body: bytes, prepared: PreparedRequest
    ) -> Response:
        """The provider's own count, or its refusal. Raises LlmError."""
        wire = self._counting.wire
        try:
            answer = await self._services.client.send(provider, path, body, prepared.headers, wire.answer_headers)
            try:
                status, said = answer.status, await answer.whole()
            finally:
                answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{name}: {error}", "provider_unavailable") from error
        if status != 200:
            status, said = wire.refusal(status if status >= 400 else 502, said)
        return Response(said, status, dict(answer.headers), JSON)

    def _failed(self, error: LlmError) -> Response:
        return Response(self._counting.wire.error_body(error), error.status, error.headers, JSON)


async def estimated(context: RestContext, model: str, body: bytes) -> int:
    """Tokens of a request with `system`, `messages` and `tools`, by the tokenizer that there is and the factors of the
    model's family.
    """
    family = family_of(model)
    said = (await context.measured([body])).tokens
    tools = bytes(msgspec.json.decode(body, type=_Tools).tools)
    text = (said.system + said.messages) * family.text
    if tools:
        counted = await context.measured([encode({"system": tools.decode()})])
        text += counted.tokens.system * family.tools + family.preamble * 1000
    return text // 1000
