"""Endpoint for clients of Gemini's API, which have the model and the method in the path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.providers.gemini.counting import COUNTING
from fairlead_formats.providers.gemini.format import GEMINI_ARRAY, GEMINI_EVENTS
from fairlead_formats.providers.gemini.paths import COUNT, GENERATE, METHODS, STREAM, read_path
from fairlead_formats.wire.errors import LlmError
from fairlead_llm.count_endpoint import TokenCountEndpoint
from fairlead_llm.llm_endpoint import LlmEndpoint, error_response
from fairlead_llm.preparation import RequestPreparation
from fairlead_llm.services import ModelServices


class GeminiEndpoint:
    """Responds to `models/MODEL:METHOD` of Gemini's API."""

    def __init__(self, services: ModelServices, preparation: RequestPreparation) -> None:
        self._events = LlmEndpoint(services, preparation, GEMINI_EVENTS)
        self._array = LlmEndpoint(services, preparation, GEMINI_ARRAY)
        self._counts = TokenCountEndpoint(services, preparation, COUNTING)
        self._methods: Mapping[str, Callable[[Request, str], Awaitable[Response]]] = {
            GENERATE: self._generate,
            STREAM: self._stream,
            COUNT: self._counts.answer,
        }

    async def answer(self, request: Request) -> Response:
        """Respond to a request, by the method in its path."""
        method_path = read_path(request.scope["path"])
        method = None if method_path is None else self._methods.get(method_path.method)
        if method_path is None or method is None:
            methods = ", ".join(f"models/MODEL:{name}" for name in METHODS)
            error = LlmError(404, f"the path is not a method of Gemini's API; the gateway has {methods}", "NOT_FOUND")
            return error_response(GEMINI_EVENTS, error)
        return await method(request, method_path.model)

    async def _generate(self, request: Request, model: str) -> Response:
        return await self._events.answer(request, model, False)

    async def _stream(self, request: Request, model: str) -> Response:
        asks_for_events = request.query_params.get("alt") == "sse"
        return await (self._events if asks_for_events else self._array).answer(request, model, True)
