"""The endpoints in front of models: which request goes to which of them, and answers to all others that ask for a path
of a provider's API.

Imported only where the installation has models: the HTTP client takes a third of a second to load.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_llm.chat.format import CHAT
from fairlead_llm.credentials import take_credential
from fairlead_llm.error_forms import error_body
from fairlead_llm.errors import LlmError, of_problem
from fairlead_llm.llm_endpoint import LlmEndpoint, ModelServices
from fairlead_llm.loop import LoopLimits
from fairlead_llm.model_lists import GEMINI_PREFIX, document, found, listing, offered
from fairlead_llm.paths import MODELS, kind_of
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.providers import ProviderKind, Providers, UnknownModel
from fairlead_llm.turns import OpenTurns
from fairlead_llm.upstream import ProviderClient
from fairlead_rest.bodies import JSON, encode
from fairlead_rest.context import RestContext
from fairlead_rest.problems import Problem

CHAT_COMPLETIONS: Final = "/v1/chat/completions"
_MODELS: Final[Mapping[ProviderKind, tuple[str, ...]]] = {
    "openai": (f"/v1/{MODELS}",), "anthropic": (f"/v1/{MODELS}",), "gemini": (f"/v1beta/{MODELS}", f"/v1/{MODELS}")
}  # fmt: skip
_KNOWN: Final = b"known=true"
"""In a query for models: the REST API's own list is asked for, of all models that are known."""
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class LlmEndpoints:
    """All endpoints in front of models. One per gateway; `aclose` it."""

    def __init__(
        self,
        context: RestContext,
        providers: Callable[[], Providers],
        recorder: ContextRecorder,
        rounds: float,
        seconds: float,
    ) -> None:
        """`providers` are those of the configuration as it is now. `rounds` and `seconds` bound one request."""
        self._context = context
        self._providers = providers
        self._turns = OpenTurns(recorder)
        self._limits = LoopLimits(int(rounds), seconds)
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
            self._served, self._apis = providers, self._made(providers)
        return self._apis[kind]

    def _made(self, providers: Providers) -> Mapping[ProviderKind, ProviderApi]:
        preparation = RequestPreparation(self._context, providers, self._turns)
        services = ModelServices(
            self._context, providers, preparation, self._turns, self._client, self._limits
        )  # fmt: skip
        chat = LlmEndpoint(services, CHAT)
        endpoints: dict[ProviderKind, dict[tuple[str, str], Endpoint]] = {
            "openai": {("POST", CHAT_COMPLETIONS): chat.answer}, "anthropic": {}, "gemini": {}
        }  # fmt: skip
        return {kind: ProviderApi(kind, self._context, providers, each) for kind, each in endpoints.items()}

    async def aclose(self) -> None:
        """Close connections to providers."""
        await self._client.aclose()


class ProviderApi:
    """One kind of API in front of the models: its endpoints by method and path, its list of models, and a clear answer
    about all that it does not have.
    """

    def __init__(
        self,
        kind: ProviderKind,
        context: RestContext,
        providers: Providers,
        endpoints: Mapping[tuple[str, str], Endpoint],
    ) -> None:
        self._kind = kind
        self._context = context
        self._providers = providers
        self._endpoints = endpoints

    def credential(self, scope: Scope) -> bytes | None:
        """The credential of a request, wherever an SDK puts it. Raises Problem."""
        return take_credential(scope)

    def refusal(self, problem: Problem) -> Response:
        """A refusal in the form of this API."""
        return self._failed(of_problem(problem))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get((scope["method"], scope["path"]), self._otherwise)
        try:
            response = await endpoint(Request(scope, receive))
        except LlmError as error:
            response = self._failed(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = self._failed(LlmError(500, "the gateway failed; its log says why", "INTERNAL"))
        await response(scope, receive, send)

    async def _otherwise(self, request: Request) -> Response:
        """Answer to what is none of the endpoints: models, or why there is nothing. Raises LlmError."""
        path = request.url.path
        for place in _MODELS[self._kind]:
            if request.method == "GET" and path == place:
                windows = await self._context.worker.do(lambda: self._context.windows)
                return Response(encode(listing(self._kind, offered(self._providers, windows))), 200, None, JSON)
            if request.method == "GET" and path.startswith(f"{place}/"):
                return await self._model(path.removeprefix(f"{place}/"))
        here = [f"{method} {path}" for method, path in self._endpoints]
        here += [f"GET {place}" for place in _MODELS[self._kind][:1]]
        raise LlmError(
            404,
            f"{request.method} {path[:256]} is not offered here; of this API there is {', '.join(here)}",
            "NOT_FOUND",
        )

    async def _model(self, wanted: str) -> Response:
        """Answer about one model. Raises LlmError."""
        windows = await self._context.worker.do(lambda: self._context.windows)
        name = wanted.removeprefix(GEMINI_PREFIX) if self._kind == "gemini" else wanted
        try:
            model = found(self._providers, windows, name)
        except UnknownModel as error:
            raise LlmError(404, str(error), "model_not_found", param="model") from error
        return Response(encode(document(self._kind, model)), 200, None, JSON)

    def _failed(self, error: LlmError) -> Response:
        return Response(error_body(self._kind, error), error.status, error.headers, JSON)
