"""The endpoints in front of models: which request goes to which of them, and answers to all others that ask for a path
of a provider's API.

Imported only where the installation has models: the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from fairlead_formats.pairs.families import FORMAT_OF_KIND
from fairlead_formats.provider import ProviderKind
from fairlead_formats.providers.anthropic.counting import COUNT_TOKENS, COUNTING
from fairlead_formats.providers.anthropic.format import ANTHROPIC, MESSAGES
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.core.llm_counts import LlmCounts
from fairlead_gateway.core.request import agent_in
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_llm.count_endpoint import TokenCountEndpoint
from fairlead_llm.gemini_endpoint import GeminiEndpoint
from fairlead_llm.llm_endpoint import LlmEndpoint, ModelServices, origin_of
from fairlead_llm.model_lists import document, found, listing, offered
from fairlead_llm.paths import MODELS, TWICE, kind_of
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.stored_responses.kept import KeptResponses
from fairlead_llm.stored_responses.resources import StoredResponses
from fairlead_llm.tier_choice import TierChanges
from fairlead_llm.turns import TurnStore
from fairlead_models.breakers import ModelBreakers
from fairlead_models.credentials import take_credential
from fairlead_models.errors import of_problem
from fairlead_models.providers import Providers, UnknownModel
from fairlead_models.request_record import RequestRecords
from fairlead_models.settings import LlmSettings
from fairlead_models.upstream import ProviderClient
from fairlead_offers.documents import encode
from fairlead_offers.problems import OVERLOADED, RATE_LIMITED, Problem
from fairlead_offers.services import ToolServices
from fairlead_web.bodies import JSON

CHAT_COMPLETIONS: Final = "/v1/chat/completions"
RESPONSES_PATH: Final = "/v1/responses"
_MODELS: Final[Mapping[ProviderKind, tuple[str, ...]]] = {
    "openai": (f"/v1/{MODELS}",),
    "anthropic": (f"/v1/{MODELS}",),
    "gemini": (f"/v1beta/{MODELS}", f"/v1/{MODELS}"),
}
_KNOWN: Final = b"known=true"
"""In a query for models: the REST API's own list is asked for, of all models that are known."""
_RETRY: Final = {"retry-after": "1"}
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class LlmEndpoints:
    """All endpoints in front of models. One per gateway; `aclose` it."""

    def __init__(
        self,
        tools: ToolServices,
        providers: Callable[[], Providers],
        recorder: ContextRecorder,
        limits: LlmSettings,
        breakers: ModelBreakers,
        records: RequestRecords,
        counts: LlmCounts,
        requests: Shares,
        more: Sequence[Route] = (),
    ) -> None:
        """`providers` are those of the configuration as it is now. `limits` bound one request, `requests` those in
        progress. `more` are further paths of OpenAI's API.
        """
        self._requests = requests
        self._tools = tools
        self._providers = providers
        self._tier_changes = TierChanges()
        self._turns = TurnStore(recorder)
        self._kept = KeptResponses(recorder)
        self._limits = limits
        self._breakers = breakers
        self._records = records
        self._counts = counts
        self._more = more
        self._client = ProviderClient()
        self._served: Providers | None = None
        self._apis: Mapping[ProviderKind, ProviderApi] = {}

    def api(self, scope: Scope) -> ProviderApi | None:
        """The API that a request is one of; None where it is none of a provider's, or there are no providers. A
        request goes on with the providers that there were when it came.
        """
        providers = self._providers()
        if not providers:
            return None
        path, query = scope["path"], scope["query_string"]
        kind = kind_of(scope["method"], path, dict(scope["headers"]), query)
        if kind is None or (_KNOWN in query and path.startswith(_MODELS["openai"])):
            return None
        if providers is not self._served:
            self._apis = self._made(providers)
            self._served = providers
        return self._apis[kind]

    def _made(self, providers: Providers) -> Mapping[ProviderKind, ProviderApi]:
        preparation = RequestPreparation(self._tools, providers, self._turns)
        services = ModelServices(
            self._tools,
            providers,
            preparation,
            self._turns,
            self._client,
            self._limits,
            self._breakers,
            self._records,
            self._counts,
            self._tier_changes,
        )
        chat = LlmEndpoint(services, CHAT)
        anthropic = LlmEndpoint(services, ANTHROPIC)
        gemini = GeminiEndpoint(services)
        responses = LlmEndpoint(services, RESPONSES, self._kept)
        stored = StoredResponses(self._kept, providers, self._client, self._limits.seconds)
        counts = TokenCountEndpoint(services, COUNTING)
        one = f"{RESPONSES_PATH}/{{response_id}}"
        routes: dict[ProviderKind, list[Route]] = {
            "openai": [
                Route(CHAT_COMPLETIONS, chat.answer, methods=["POST"]),
                Route(RESPONSES_PATH, responses.answer, methods=["POST"]),
                Route(one, stored.retrieve, methods=["GET"]),
                Route(one, stored.delete, methods=["DELETE"]),
                Route(f"{one}/cancel", stored.cancel, methods=["POST"]),
                Route(f"{one}/input_items", stored.input_items, methods=["GET"]),
                *self._more,
            ],
            "anthropic": [
                Route(front + path, answer, methods=["POST"])
                for path, answer in ((MESSAGES, anthropic.answer), (COUNT_TOKENS, counts.answer))
                for front in ("", TWICE)
            ],
            "gemini": [
                Route(f"{place}/{{method:path}}", gemini.answer, methods=["POST"]) for place in _MODELS["gemini"]
            ],
        }
        return {
            kind: ProviderApi(kind, self._tools, providers, each, self._requests, self._records)
            for kind, each in routes.items()
        }

    async def aclose(self) -> None:
        """Close connections to providers."""
        await self._client.aclose()


class ProviderApi:
    """One kind of API in front of the models: its endpoints, its list of models, and a clear answer about all that it
    does not have.
    """

    public = False
    own_pages = False

    def __init__(
        self,
        kind: ProviderKind,
        tools: ToolServices,
        providers: Providers,
        endpoints: Sequence[Route],
        requests: Shares,
        records: RequestRecords,
    ) -> None:
        """`endpoints` are functions of a request, and come before the list of models. `requests` counts those in
        progress, for each agent; `records` has those that are one too many.
        """
        self._records = records
        self._requests = requests
        self._kind = kind
        self._tools = tools
        self._providers = providers
        lists = [Route(place, self._list, methods=["GET"]) for place in _MODELS[kind]]
        models = [Route(f"{place}/{{model:path}}", self._show, methods=["GET"]) for place in _MODELS[kind]]
        self._routes = (*endpoints, *lists, *models)

    def credential(self, scope: Scope) -> bytes | None:
        """The credential of a request, wherever an SDK puts it. Raises Problem."""
        return take_credential(scope)

    def refusal(self, problem: Problem) -> Response:
        """A refusal in the form of this API."""
        return self._failed(of_problem(problem))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._requests.hold(agent_in(scope)):
                await self._answer(scope, receive, send)
        except ShareTaken as reached:
            refused = _crowded(reached)
            self._records.open(origin_of(Request(scope)), scope["path"]).end(refused.code)
            await self._failed(refused)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(scope)(Request(scope, receive))
        except LlmError as error:
            response = self._failed(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = self._failed(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))
        await response(scope, receive, send)

    def _endpoint(self, scope: Scope) -> Endpoint:
        """The endpoint of a request, whose scope gets the parameters of its path. Raises LlmError."""
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                scope.update(child)
                return cast("Endpoint", route.endpoint)
        here = ", ".join(f"{method} {route.path}" for route in self._routes for method in _methods(route))
        asked = f"{scope['method']} {scope['path'][:256]}"
        raise LlmError(404, f"{asked} is not offered here; of this API there is {here}", "NOT_FOUND")

    async def _list(self, _: Request) -> Response:
        """Answer about all models."""
        models = offered(self._providers, await self._windows())
        return Response(encode(listing(self._kind, models)), 200, None, JSON)

    async def _show(self, request: Request) -> Response:
        """Answer about one model. Raises LlmError."""
        name = request.path_params["model"]
        try:
            model = found(self._providers, await self._windows(), name)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        return Response(encode(document(self._kind, model)), 200, None, JSON)

    async def _windows(self) -> ContextWindows:
        return await self._tools.work.do(lambda: self._tools.models.windows)

    def _failed(self, error: LlmError) -> Response:
        return Response(FORMAT_OF_KIND[self._kind].error_body(error), error.status, error.headers, JSON)


def _crowded(reached: ShareTaken) -> LlmError:
    if reached.bound == "agent":
        message = f"{reached.most} of your requests to models are in progress, the most of one agent"
        return LlmError(429, message, RATE_LIMITED, headers=_RETRY)
    message = f"{reached.most} requests to models are in progress, the most of this gateway"
    return LlmError(503, message, OVERLOADED, headers=_RETRY)


def _methods(route: Route) -> list[str]:
    return sorted((route.methods or set()) - {"HEAD"})
