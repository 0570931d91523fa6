"""Routing of requests to model APIs: finds the API that a path belongs to, and its endpoint.

The API determines where the client's SDK sends its key and how the SDK reads errors, also for paths that do not exist.
It follows from the path or, if several APIs share a path, from headers that only one kind of SDK sends. This module is
imported only if the installation has models, because the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from fairlead_formats.pairs.families import CLIENT_FORMATS, COUNTING, FORMAT_OF_KIND
from fairlead_formats.pairs.provider_apis import APIS, kind_of
from fairlead_formats.providers.openai_chat.api import API as OPENAI_API
from fairlead_formats.providers.openai_chat.api import RESPONSES as RESPONSES_PATH
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.tokens.models import ContextWindows
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import WireFormat
from fairlead_formats.wire.provider_api import ApiOperation, ProviderApi, ProviderKind
from fairlead_gateway.core.request import agent_in
from fairlead_gateway.limits.shares import Shares, ShareTaken
from fairlead_llm.count_endpoint import TokenCountEndpoint
from fairlead_llm.llm_endpoint import LlmEndpoint, origin_of
from fairlead_llm.model_lists import find_model, list_models
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

_KNOWN_QUERY: Final = b"known=true"
"""Part of a query for models that selects the REST API's own list of all known models."""
_RETRY: Final = {"retry-after": "1"}
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class LlmEndpoints:
    """All endpoints of model APIs. Each gateway has one instance, and closes it with `aclose`."""

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
        self._apis: Mapping[ProviderKind, ServedApi] = {}

    async def api(self, scope: Scope) -> ServedApi | None:
        """The API of a request; None if the path belongs to no provider's API, or there are no providers. A request
        keeps the providers that were configured when it arrived.
        """
        providers = self._providers()
        if not providers:
            return None
        path, query = scope["path"], scope["query_string"]
        kind = kind_of(scope["method"], path, dict(scope["headers"]), query)
        if kind is None or (_KNOWN_QUERY in query and path.startswith(OPENAI_API.models_paths)):
            return None
        if providers is not self._current_providers:
            self._apis = self._build_apis(providers)
            self._current_providers = providers
        return self._apis[kind]

    def _build_apis(self, providers: Providers) -> Mapping[ProviderKind, ServedApi]:
        services = self._services
        preparation = RequestPreparation(services.tools, providers, services.turns)
        answers = {
            name: LlmEndpoint(services, preparation, wire, self._store_for(wire))
            for name, wire in CLIENT_FORMATS.items()
        }
        counts = {
            kind: TokenCountEndpoint(services, preparation, counting, self._store_for(counting.wire))
            for kind, counting in COUNTING.items()
        }
        response_endpoints = ResponseEndpoints(
            self._response_store, providers, services.client, services.limits.seconds
        )
        return {
            kind: ServedApi(
                api,
                services.tools,
                providers,
                self._response_routes(response_endpoints) if kind == OPENAI_API.kind else (),
                OperationEndpoints(answers, counts.get(kind)),
                self._requests,
                services.records,
            )
            for kind, api in APIS.items()
        }

    def _store_for(self, wire: WireFormat) -> ResponseStore | None:
        """Store of the responses that requests of a client's format can continue."""
        return self._response_store if wire.name == RESPONSES.name else None

    def _response_routes(self, response_endpoints: ResponseEndpoints) -> Sequence[Route]:
        """Routes of the API that stores responses."""
        response = f"{RESPONSES_PATH}/{{response_id}}"
        return (
            Route(response, response_endpoints.retrieve, methods=["GET"]),
            Route(response, response_endpoints.delete, methods=["DELETE"]),
            Route(f"{response}/cancel", response_endpoints.cancel, methods=["POST"]),
            Route(f"{response}/input_items", response_endpoints.input_items, methods=["GET"]),
            *self._extra_routes,
        )

    async def aclose(self) -> None:
        """Close the connections to providers."""
        await self._services.client.aclose()


class OperationEndpoints(NamedTuple):
    """Endpoints for the operations of one API."""

    answers: Mapping[str, LlmEndpoint]
    """By `ApiOperation.wire`."""
    counting: TokenCountEndpoint | None


class ServedApi:
    """One kind of model API: its endpoints, its list of models, and errors for all other paths."""

    public = False
    """Requests need a credential (see `fairlead_web.guard`)."""
    own_pages = False
    any_origin = False
    """Requests do not come from pages of this gateway, so the origin must be in the list of allowed origins."""

    def __init__(
        self,
        api: ProviderApi,
        tools: ToolServices,
        providers: Providers,
        routes: Sequence[Route],
        endpoints: OperationEndpoints,
        requests: Shares,
        records: RequestRecords,
    ) -> None:
        """`routes` are served besides the API's operations and its list of models. `requests` limits the requests in
        progress, in total and per agent; `records` records the requests that this limit refuses.
        """
        self._records = records
        self._requests = requests
        self._api = api
        self._endpoints = endpoints
        self._tools = tools
        self._providers = providers
        lists = [Route(path, self._list, methods=["GET"]) for path in api.models_paths]
        models = [Route(f"{path}/{{model:path}}", self._show, methods=["GET"]) for path in api.models_paths]
        self._routes = (*routes, *lists, *models)

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
        except ShareTaken as taken_share:
            error = _share_error(taken_share)
            self._records.open(origin_of(Request(scope)), scope["path"]).end(error.code)
            await self._error_response(error)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._endpoint(scope)(Request(scope, receive))
        except LlmError as error:
            response = self._error_response(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("The model request %s %s failed", scope["method"], scope["path"])
            response = self._error_response(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))
        await response(scope, receive, send)

    def _endpoint(self, scope: Scope) -> Endpoint:
        """The endpoint of a request. Its path parameters are added to the scope. Raises LlmError."""
        if scope["method"] == "POST":
            operation = self._api.operation(scope["path"], dict(parse_qsl(scope["query_string"].decode("latin-1"))))
            if operation is not None:
                return partial(self._operate, operation)
        for route in self._routes:
            match, child = route.matches(scope)
            if match is Match.FULL:
                scope.update(child)
                return cast("Endpoint", route.endpoint)
        served_paths = ", ".join(
            (*self._api.operations, *(f"{method} {route.path}" for route in self._routes for method in _methods(route)))
        )
        request_line = f"{scope['method']} {scope['path'][:256]}"
        raise LlmError(404, f"{request_line} is not served; this API has {served_paths}", "NOT_FOUND")

    async def _operate(self, operation: ApiOperation, request: Request) -> Response:
        if not operation.counts:
            return await self._endpoints.answers[operation.wire].answer(request, operation.model, operation.stream)
        assert self._endpoints.counting is not None, "an API that has an operation that counts has a format for it"
        return await self._endpoints.counting.answer(request, operation.model)

    async def _list(self, _: Request) -> Response:
        """Respond with all models."""
        models = list_models(self._providers, await self._windows())
        return Response(encode(self._api.models(models)), 200, None, JSON)

    async def _show(self, request: Request) -> Response:
        """Respond with one model. Raises LlmError."""
        name = request.path_params["model"]
        try:
            model = find_model(self._providers, await self._windows(), name)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        return Response(encode(self._api.model(model)), 200, None, JSON)

    async def _windows(self) -> ContextWindows:
        return await self._tools.work.do(lambda: self._tools.models.windows)

    def _error_response(self, error: LlmError) -> Response:
        return Response(FORMAT_OF_KIND[self._api.kind].error_body(error), error.status, error.headers, JSON)


def _share_error(taken_share: ShareTaken) -> LlmError:
    if taken_share.bound == "agent":
        message = (
            f"you have {taken_share.limit} model requests in progress, which is the limit for one agent; retry later"
        )
        return LlmError(429, message, RATE_LIMITED, headers=_RETRY)
    message = f"the gateway has {taken_share.limit} model requests in progress, which is its limit; retry later"
    return LlmError(503, message, OVERLOADED, headers=_RETRY)


def _methods(route: Route) -> list[str]:
    return sorted((route.methods or set()) - {"HEAD"})
