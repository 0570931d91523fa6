"""Endpoint that counts the tokens of a request before it is sent, with the tools that it would get: by the provider
where it is of the client's kind, else by the gateway's own estimate.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.provider import ProviderKind
from fairlead_formats.tokens.models import family_of
from fairlead_formats.wire.call_ids import with_provider_ids
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadRequest, ModelRound, WireFormat, WireRequest
from fairlead_gateway.core.identity import IDENTITY
from fairlead_llm.llm_endpoint import ModelServices, answered, bad_request, caller_key, model_request
from fairlead_llm.preparation import PreparedRequest
from fairlead_models.providers import Provider
from fairlead_models.upstream import KeyedClient, ProviderUnavailable
from fairlead_offers.documents import encode
from fairlead_web.bodies import JSON

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

    def read(self, body: bytes, model: str | None) -> WireRequest:
        """The request that a client wants to have counted; `model` is that of the path. Raises BadRequest."""

    def path(self, model: str) -> str:
        """Path below the base of the provider's API."""

    def body(self, request: bytes, model: str) -> bytes:
        """The request for a count, of the body of the request that is counted."""

    def write(self, tokens: int) -> bytes:
        """The answer that there are so many."""


class TokenCountEndpoint:
    """Endpoint for clients of one wire format."""

    def __init__(self, services: ModelServices, counting: CountFormat) -> None:
        self._services = services
        self._counting = counting

    async def answer(self, request: Request, model: str | None = None) -> Response:
        """The answer to one request; `model` is that of the path, in formats that have it there."""
        wire, services = self._counting.wire, self._services
        return await answered(request, wire, services, lambda body: self._counted(request, body, model))

    async def _counted(self, request: Request, body: bytes, model: str | None) -> Response:
        services, counting = self._services, self._counting
        try:
            read = counting.read(body, model)
            asked, targets = model_request(services.providers, request, counting.wire, read, body, model, False)
        except BadRequest as error:
            raise bad_request(error) from error
        get_catalog = functools.partial(services.tools.catalogs.seen_by, request.scope[IDENTITY])
        prepared = await services.preparation.for_counting(asked, get_catalog, targets)
        target = targets[0]
        offered = prepared.offer.definitions if prepared.offer is not None else ()
        provider = services.providers.by_name[target.provider]
        if provider.kind == counting.kind:
            whole = prepared.request.body(ModelRound(target.model, injected=offered))
            body = counting.body(with_provider_ids(whole), target.model)
            client = services.client.of_caller(caller_key(request))
            return await self._asked(client, provider, target.provider, counting.path(target.model), body, prepared)
        tokens = await self._estimated(target.model, prepared.request, offered)
        return Response(counting.write(tokens), 200, {ESTIMATED: "true"}, JSON)

    async def _asked(
        self,
        client: KeyedClient,
        provider: Provider,
        name: str,
        path: str,
        body: bytes,
        prepared: PreparedRequest,
    ) -> Response:
        """The provider's own count, or its refusal. Raises LlmError."""
        wire = self._counting.wire
        try:
            answer = await client.send(provider, path, body, prepared.headers, wire.answer_headers)
            try:
                status, said = answer.status, await answer.whole()
            finally:
                answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{name}: {error}", "provider_unavailable") from error
        if status != 200:
            status, said = wire.refusal(status if status >= 400 else 502, said)
        return Response(said, status, dict(answer.headers), JSON)

    async def _estimated(self, model: str, request: WireRequest, offered: Sequence[bytes]) -> int:
        """Tokens of a request with these tools, by the tokenizer that there is and factors of the model family."""
        family = family_of(model)
        said = await self._services.preparation.count_conversation(request)
        text = (said.system + said.messages) * family.text
        if offered or request.tool_names:
            tools = b",".join([request.tools, *offered]).decode("utf-8", "replace")
            counted = await self._services.tools.work.measured([encode({"system": tools})])
            text += counted.tokens.system * family.tools + family.preamble * 1000
        return text // 1000
