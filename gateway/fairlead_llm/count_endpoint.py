"""Endpoint that counts the tokens of a request, including injected tools, without sending the request to a model.

If the model's provider has the client's API, the provider counts the tokens. Otherwise the gateway estimates their
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.tokens.models import family_of
from fairlead_formats.wire.call_ids import with_provider_ids
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadRequest, CountFormat, ModelRound, WireRequest
from fairlead_llm.continuation import Continuations
from fairlead_llm.llm_endpoint import bad_request, caller_key, continue_request, model_request, respond
from fairlead_llm.preparation import RawRequest, RequestPreparation, accepts_format
from fairlead_llm.services import ModelServices
from fairlead_models.provider_requests import ProviderRequest, ProviderUnavailable
from fairlead_models.providers import Provider
from fairlead_offers.documents import encode
from fairlead_web.bodies import JSON

ESTIMATED_HEADER: Final = "x-fairlead-estimated"
"""Response header that marks an estimated count."""


class TokenCountEndpoint:
    """Token counting endpoint for clients of one wire format."""

    def __init__(
        self,
        services: ModelServices,
        preparation: RequestPreparation,
        counting: CountFormat,
        continuations: Continuations | None = None,
    ) -> None:
        """`continuations`: store of responses, for a format whose requests can continue them by id."""
        self._services = services
        self._continuations = continuations
        self._preparation = preparation
        self._counting = counting

    async def answer(self, request: Request, model: str | None = None) -> Response:
        """Respond to a request. `model` comes from the path in formats that have it there."""
        wire, services = self._counting.wire, self._services
        return await respond(request, wire, services, lambda body: self._count(request, body, model))

    async def _count(self, request: Request, body: bytes, model: str | None) -> Response:
        preparation, counting = self._preparation, self._counting
        try:
            wire_request = counting.read(body, model)
            client_request, targets = model_request(
                preparation.providers, request, counting.wire, wire_request, RawRequest(body, model, stream=False)
            )
            client_request, targets = await continue_request(self._continuations, client_request, targets)
        except BadRequest as error:
            raise bad_request(error) from error
        prepared_request = await preparation.prepare_for_counting(client_request, targets)
        target = targets[0]
        definitions = prepared_request.offer.definitions if prepared_request.offer is not None else ()
        provider = preparation.providers.by_name[target.provider]
        if accepts_format(provider, counting.wire):
            request_body = prepared_request.request.body(ModelRound(target.model, injected_tools=definitions))
            body = counting.body(with_provider_ids(request_body), target.model)
            count_request = ProviderRequest(
                counting.path(target.model), body, prepared_request.headers, counting.wire.answer_headers
            )
            return await self._count_at_provider(target.provider, provider, count_request, caller_key(request))
        tokens = await self._estimate(target.model, prepared_request.request, definitions)
        return Response(counting.write(tokens), 200, {ESTIMATED_HEADER: "true"}, JSON)

    async def _count_at_provider(
        self, name: str, provider: Provider, count_request: ProviderRequest, key: str
    ) -> Response:
        """Respond with the provider's count or its error. Raises LlmError."""
        try:
            answer = await self._services.client.send(provider, count_request, key)
            try:
                status, answer_body = answer.status, await answer.read_whole()
            finally:
                answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{name}: {error}", "provider_unavailable") from error
        if status != 200:
            status, answer_body = self._counting.wire.refusal(status if status >= 400 else 502, answer_body)
        return Response(answer_body, status, dict(answer.headers), JSON)

    async def _estimate(self, model: str, request: WireRequest, definitions: Sequence[bytes]) -> int:
        """Estimated tokens of a request with its injected tools, from the gateway's tokenizer and the factors of the
        model's family.
        """
        family = family_of(model)
        conversation = await self._preparation.count_conversation(request)
        text = (conversation.system + conversation.messages) * family.text
        if definitions or request.tool_names:
            tools = b",".join([request.tools, *definitions]).decode("utf-8", "replace")
            measured = await self._services.tools.work.measure([encode({"system": tools})])
            text += measured.tokens.system * family.tools + family.preamble * 1000
        return text // 1000
