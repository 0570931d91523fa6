"""Routing of requests to model APIs: which API a path belongs to, its endpoints, and errors for all other paths.

The API determines where the client's SDK sends its key and how it reads errors. It follows from the path or, if several
APIs share a path, from headers that only one kind of SDK sends. Imported only if the installation has models, because
the HTTP client takes a third of a second to load.
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
from fairlead_gateway.core.request import agent_in
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_llm.count_endpoint import TokenCountEndpoint
from fairlead_llm.gemini_endpoint import GeminiEndpoint
from fairlead_llm.llm_endpoint import LlmEndpoint, origin_of
from fairlead_llm.model_lists import document, find_model, list_models, listing
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.services import ModelServices
from fairlead_llm.stored_responses.endpoints import ResponseEndpoints
from fairlead_llm.stored_responses.store import ResponseStore
from fairlead_models.credentials import take_credential
from fairlead_models.errors import llm_error
from fairlead_models.providers import Providers, UnknownModel
from fairlead_models.request_record import RequestRecords
from fairlead_offers.documents import encode
from fairlead_offers.problems import OVERLOADED, RATE_LIMITED, Problem
from fairlead_offers.services import ToolServices
from fairlead_web.bodies import JSON

MODELS: Final = "models"
OPENAI_VERSION: Final = "v1"
TWICE: Final = "/v1"
"""Path prefix of clients that append a version to a base URL which already has one."""
GEMINI_VERSION: Final = "v1beta"
_SEGMENTS: Final[Mapping[str, ProviderKind | None]] = {
    **dict.fromkeys(("messages", "complete"), "anthropic"),
    **dict.fromkeys(
        (
            "assistants",
            "audio",
            "batches",
            "chat",
            "completions",
            "containers",
            "conversations",
            "edits",
            "embeddings",
            "evals",
            "fine_tuning",
            "images",
            "moderations",
            "realtime",
            "responses",
            "threads",
            "uploads",
            "vector_stores",
            "videos",
        ),
        "openai",
    ),
    **dict.fromkeys(("files", MODELS, "skills"), None),
}
"""First path segments after `/v1`, served or not, with the API that has them; None for segments of several APIs."""
_GEMINI_HEADERS: Final = (b"x-goog-api-key", b"x-goog-api-client")
CHAT_COMPLETIONS: Final = "/v1/chat/completions"
RESPONSES_PATH: Final = "/v1/responses"
_MODELS: Final[Mapping[ProviderKind, tuple[str, ...]]] = {
    "openai": (f"/v1/{MODELS}",),
    "anthropic": (f"/v1/{MODELS}",),
    "gemini": (f"/v1beta/{MODELS}", f"/v1/{MODELS}"),
}
_KNOWN: Final = b"known=true"
"""Part of a query for models that selects the REST API's own list of all known models."""
_RETRY: Final = {"retry-after": "1"}
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


def kind_of(method: str, path: str, headers: Mapping[bytes, bytes], query: bytes) -> ProviderKind | None:
    """The kind of API that a request belongs to; None for a path of no provider's API. Header names are in lower case.
    `/v1/models/MODEL:METHOD` is Gemini's unless the method is GET: newer Gemini clients use that path.
    """
    if path.startswith(f"{TWICE}/{OPENAI_VERSION}/"):
        path = path.removeprefix(TWICE)
    version, _, remaining_path = path.removeprefix("/").partition("/")
    if version == GEMINI_VERSION:
        return "gemini"
    segment = remaining_path.partition("/")[0]
    if version != OPENAI_VERSION or segment not in _SEGMENTS:
        return None
    kind = _SEGMENTS[segment]
    if kind is not None:
        return kind
    if b"anthropic-version" in headers:
        return "anthropic"
    if segment == MODELS and (
        any(name in headers for name in _GEMINI_HEADERS)
        or any(part.startswith(b"key=") for part in query.split(b"&"))
        or (method != "GET" and ":" in remaining_path)
    ):
        return "gemini"
    return "openai"


def segments() -> frozenset[str]:
    """First path segments after `/v1` that belong to providers' APIs."""
    return frozenset(_SEGMENTS)


class LlmEndpoints:
    """All endpoints of model APIs. One per gateway; `aclose` it."""

    def __init__(
        self,
        services: ModelServices,
        providers: Callable[[], Providers],
        responses: ResponseStore,
        requests: Shares,
        extra_routes: Sequence[Route] = (),
    ) -> None:
        """`providers` returns the providers of the current configuration, `requests` limits concurrent requests, and
        `extra_routes` has further routes of OpenAI's API.
        """
        self._services = services
        self._providers = providers
        self._response_store = responses
        self._requests = requests
        self._extra_routes = extra_routes
        self._current_providers: Providers | None = None
        self._apis: Mapping[ProviderKind, ProviderApi] = {}

    async def api(self, scope: Scope) -> ProviderApi | None:
        """The API of a request; None if the path belongs to no provider's API, or there are no providers. A request
        keeps the providers that were configured when it arrived.
        """
        providers = self._providers()
        if not providers:
            return None
        path, query = scope["path"], scope["query_string"]
        kind = kind_of(scope["method"], path, dict(scope["headers"]), query)
        if kind is None or (_KNOWN in query and path.startswith(_MODELS["openai"])):
            return None
        if providers is not self._current_providers:
            self._apis = self._build_apis(providers)
            self._current_providers = providers
        return self._apis[kind]

    def _build_apis(self, providers: Providers) -> Mapping[ProviderKind, ProviderApi]:
        services = self._services
        preparation = RequestPreparation(services.tools, providers, services.turns)
        chat = LlmEndpoint(services, preparation, CHAT)
        anthropic = LlmEndpoint(services, preparation, ANTHROPIC)
        gemini = GeminiEndpoint(services, preparation)
        responses = LlmEndpoint(services, preparation, RESPONSES, self._response_store)
        stored = ResponseEndpoints(self._response_store, providers, services.client, services.limits.seconds)
        counts = TokenCountEndpoint(services, preparation, COUNTING)
        response_path = f"{RESPONSES_PATH}/{{response_id}}"
        routes: dict[ProviderKind, list[Route]] = {
            "openai": [
                Route(CHAT_COMPLETIONS, chat.answer, methods=["POST"]),
                Route(RESPONSES_PATH, responses.answer, methods=["POST"]),
                Route(response_path, stored.retrieve, methods=["GET"]),
                Route(response_path, stored.delete, methods=["DELETE"]),
                Route(f"{response_path}/cancel", stored.cancel, methods=["POST"]),
                Route(f"{response_path}/input_items", stored.input_items, methods=["GET"]),
                *self._extra_routes,
            ],
            "anthropic": [
                Route(front + path, answer, methods=["POST"])
                for path, answer in ((MESSAGES, anthropic.answer), (COUNT_TOKENS, counts.answer))
                for front in ("", TWICE)
            ],
            "gemini": [
                Route(f"{prefix}/{{method:path}}", gemini.answer, methods=["POST"]) for prefix in _MODELS["gemini"]
            ],
        }
        return {
            kind: ProviderApi(kind, services.tools, providers, each, self._requests, services.records)
            for kind, each in routes.items()
        }

    async def aclose(self) -> None:
        """Close the connections to providers."""
        await self._services.client.aclose()


class ProviderApi:
    """One kind of model API: its endpoints, its list of models, and errors for all other paths."""

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
        """`endpoints` have priority over the list of models. `requests` limits concurrent requests, in all and per
        agent; refused ones are added to `records`.
        """
        self._records = records
        self._requests = requests
        self._kind = kind
        self._tools = tools
        self._providers = providers
        lists = [Route(path, self._list, methods=["GET"]) for path in _MODELS[kind]]
        models = [Route(f"{path}/{{model:path}}", self._show, methods=["GET"]) for path in _MODELS[kind]]
        self._routes = (*endpoints, *lists, *models)

    def credential(self, scope: Scope) -> bytes | None:
        """The credential of a request, at the location that the SDK uses. Raises Problem."""
        return take_credential(scope)

    def refusal(self, problem: Problem) -> Response:
        """An error response in the form of this API."""
        return self._error_response(llm_error(problem))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._requests.hold(agent_in(scope)):
                await self._answer(scope, receive, send)
        except ShareTaken as reached:
            refused = _share_error(reached)
            self._records.open(origin_of(Request(scope)), scope["path"]).end(refused.code)
            await self._error_response(refused)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(scope)(Request(scope, receive))
        except LlmError as error:
            response = self._error_response(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = self._error_response(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))
        await response(scope, receive, send)

    def _endpoint(self, scope: Scope) -> Endpoint:
        """The endpoint of a request. Its path parameters are added to the scope. Raises LlmError."""
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                scope.update(child)
                return cast("Endpoint", route.endpoint)
        here = ", ".join(f"{method} {route.path}" for route in self._routes for method in _methods(route))
        request_line = f"{scope['method']} {scope['path'][:256]}"
        raise LlmError(404, f"{request_line} is not served; this API has {here}", "NOT_FOUND")

    async def _list(self, _: Request) -> Response:
        """Respond with all models."""
        models = list_models(self._providers, await self._windows())
        return Response(encode(listing(self._kind, models)), 200, None, JSON)

    async def _show(self, request: Request) -> Response:
        """Respond with one model. Raises LlmError."""
        name = request.path_params["model"]
        try:
            model = find_model(self._providers, await self._windows(), name)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        return Response(encode(document(self._kind, model)), 200, None, JSON)

    async def _windows(self) -> ContextWindows:
        return await self._tools.work.do(lambda: self._tools.models.windows)

    def _error_response(self, error: LlmError) -> Response:
        return Response(FORMAT_OF_KIND[self._kind].error_body(error), error.status, error.headers, JSON)


def _share_error(reached: ShareTaken) -> LlmError:
    if reached.bound == "agent":
        message = f"you have {reached.most} model requests in progress, which is the limit per agent; retry later"
        return LlmError(429, message, RATE_LIMITED, headers=_RETRY)
    message = f"the gateway has {reached.most} model requests in progress, which is its limit; retry later"
    return LlmError(503, message, OVERLOADED, headers=_RETRY)


def _methods(route: Route) -> list[str]:
    return sorted((route.methods or set()) - {"HEAD"})
