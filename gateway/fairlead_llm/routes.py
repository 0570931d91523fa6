"""The endpoints as routes beside the REST API, and refusals in their own form where nobody got as far as a route.

Imported only where the installation has providers: the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.routing import BaseRoute

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_llm.anthropic.counting import COUNT_TOKENS, COUNTING
from fairlead_llm.anthropic.format import ANTHROPIC, MESSAGES
from fairlead_llm.breakers import ModelBreakers
from fairlead_llm.chat.format import CHAT
from fairlead_llm.count_endpoint import TokenCountEndpoint
from fairlead_llm.gemini.format import GEMINI_EVENTS
from fairlead_llm.gemini.paths import read_path
from fairlead_llm.gemini_endpoint import GeminiEndpoint
from fairlead_llm.llm_endpoint import LlmEndpoint, ModelServices, refuser
from fairlead_llm.loop import LoopLimits
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.providers import Providers
from fairlead_llm.request_record import ModelLedger
from fairlead_llm.responses.format import RESPONSES
from fairlead_llm.responses.kept import KeptResponses
from fairlead_llm.responses.stored import StoredResponses
from fairlead_llm.turns import OpenTurns
from fairlead_llm.upstream import ProviderClient
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem

CHAT_COMPLETIONS: Final = "/v1/chat/completions"
TWICE: Final = "/v1"
"""In front of paths of clients that add a version to a base URL that ends with one."""
RESPONSES_PATH: Final = "/v1/responses"


class LlmEndpoints:
    """All endpoints in front of models. One per gateway; `aclose` it."""

    def __init__(
        self,
        context: RestContext,
        providers: Providers,
        recorder: ContextRecorder,
        limits: LoopLimits,
        breakers: ModelBreakers,
        ledger: ModelLedger,
    ) -> None:
        """`limits` bound one request."""
        turns, self._client = OpenTurns(recorder), ProviderClient()
        preparation = RequestPreparation(context, providers, turns)
        services = ModelServices(context, providers, preparation, turns, self._client, limits, breakers, ledger)
        chat, anthropic = LlmEndpoint(services, CHAT), LlmEndpoint(services, ANTHROPIC)
        kept = KeptResponses(recorder)
        responses, gemini = LlmEndpoint(services, RESPONSES, kept), GeminiEndpoint(services)
        counts = TokenCountEndpoint(services, COUNTING)
        router = APIRouter(include_in_schema=False)

        @router.post(CHAT_COMPLETIONS)
        async def chat_completions(request: Request) -> Response:
            return await chat.answer(request)

        @router.post(MESSAGES)
        @router.post(TWICE + MESSAGES)
        async def messages(request: Request) -> Response:
            return await anthropic.answer(request)

        @router.post(COUNT_TOKENS)
        @router.post(TWICE + COUNT_TOKENS)
        async def count_tokens(request: Request) -> Response:
            return await counts.answer(request)

        @router.post("/v1beta/models/{rest:path}")
        @router.post("/v1/models/{rest:path}")  # where newer clients ask
        async def generate_content(request: Request, rest: str) -> Response:
            return await gemini.answer(request)

        @router.post(RESPONSES_PATH)
        async def create_response(request: Request) -> Response:
            return await responses.answer(request)

        _stored(router, StoredResponses(kept, providers, self._client))
        self.routes: list[BaseRoute] = [*router.routes]

    def refusal(self, path: str) -> Callable[[Problem], Response] | None:
        """The form of refusals that come before a route is found, such as of an unknown key; None for other paths."""
        if path == CHAT_COMPLETIONS:
            return refuser(CHAT)
        if path == RESPONSES_PATH or path.startswith(f"{RESPONSES_PATH}/"):
            return refuser(RESPONSES)
        if path in (MESSAGES, COUNT_TOKENS) or path.removeprefix(TWICE) in (MESSAGES, COUNT_TOKENS):
            return refuser(ANTHROPIC)
        return refuser(GEMINI_EVENTS) if read_path(path) is not None else None

    async def aclose(self) -> None:
        """Close connections to providers."""
        await self._client.aclose()


def _stored(router: APIRouter, stored: StoredResponses) -> None:
    """Routes of answers that are kept."""
    path = f"{RESPONSES_PATH}/{{response_id}}"

    @router.get(path)
    async def retrieve_response(request: Request, response_id: str) -> Response:
        return await stored.retrieve(request, response_id)

    @router.delete(path)
    async def delete_response(request: Request, response_id: str) -> Response:
        return await stored.delete(request, response_id)

    @router.post(path)  # such as `compact` and `input_tokens`
    async def not_offered(response_id: str) -> Response:
        return stored.not_offered(response_id)

    @router.post(f"{path}/cancel")
    async def cancel_response(request: Request, response_id: str) -> Response:
        return await stored.cancel(request, response_id)

    @router.get(f"{path}/input_items")
    async def list_input_items(request: Request, response_id: str) -> Response:
        return await stored.input_items(request, response_id)
