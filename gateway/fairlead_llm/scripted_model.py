"""Simulated model that answers with prepared turns, as an ASGI application. The path of a request selects the API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead_formats.providers.anthropic import fake as anthropic
from fairlead_formats.providers.bedrock import fake as bedrock
from fairlead_formats.providers.gemini import fake as gemini
from fairlead_formats.providers.openai_chat import fake as chat
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.providers.openai_responses.fake_compaction import CompactionApi
from fairlead_formats.request_rules.rule import SchemaCheck
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_tools.validation.schema_draft import draft_error


class ScriptedApi(Protocol):
    """Writes turns of the script in the form of one provider's API. `number`: the number of the request, from 1."""

    stream_type: str
    """Media type of streams."""

    def write_error(self, turn: ScriptedTurn) -> bytes:
        """Body of an error."""

    def whole_body(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any], /) -> bytes:
        """Body of an answer without a stream."""

    def events(self, turn: ScriptedTurn, number: int, request: Mapping[str, Any], /) -> Iterator[str]:
        """Data of the events of a streamed answer."""

    def stream_event(self, data: str) -> str | bytes:
        """One event of a stream with these data, encoded."""

    def asks_for_stream(self, path: str, request: Mapping[str, Any], /) -> bool:
        """Whether the answer is to be streamed."""

    def refusal(self, path: str, request: Mapping[str, Any], headers: Mapping[str, str], /) -> tuple[int, bytes] | None:
        """Status and body of the error for a request that the API rejects; None if the API accepts the request."""

    def count_tokens(self, path: str, request: Mapping[str, Any], /) -> bytes | None:
        """Answer to a request that only counts tokens; None for all other requests."""


_APIS: Final[Mapping[str, Callable[[SchemaCheck], ScriptedApi]]] = {
    "/messages": anthropic.AnthropicApi,
    "/models/": gemini.GeminiApi,
    "/model/": bedrock.BedrockApi,
    "": chat.ChatApi,
}
"""Provider APIs by a part of the path. The first part that a request's path contains selects the API."""
_RESPONSES_OPERATIONS: Final = ("/responses/compact", "/responses/input_tokens")
"""Paths below `/responses` whose last segment is an operation, not the id of a stored response."""


class ScriptedModel:
    """The simulated model. Each request takes the next turn of the script; after the last turn, the model says that the
    script is over. `requests` are the decoded bodies of requests, `headers` their headers.
    """

    def __init__(self, *turns: ScriptedTurn, strict: bool = True) -> None:
        """`strict`: whether to reject the requests that the real APIs reject."""
        self._strict = strict
        self._turns = [*turns]
        self._taken_total = 0
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answering = 0
        """Number of answers that are being written."""
        self.stored_response_requests: list[tuple[str, str]] = []
        """Method and path of requests for stored responses, which take no turn."""
        self._responses = ResponsesApi(draft_error)
        self._apis = {part: new_api(draft_error) for part, new_api in _APIS.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        path = scope["path"]
        if request.method == "GET" and "/models/" in path:
            await _json(gemini.model_document(path))(scope, receive, send)
            return
        if "/responses/" in path and not path.endswith(_RESPONSES_OPERATIONS):
            self.stored_response_requests.append((request.method, path))
            status, document = self._responses.answer_stored(request.method, path)
            await _json(document, status)(scope, receive, send)
            return
        request_body = json.loads(body)
        self.requests.append(request_body)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        default_api = next(api for part, api in self._apis.items() if part in path)
        if path.endswith("/responses/compact"):
            api: ScriptedApi = CompactionApi(self._responses.stored_items, draft_error)
        else:
            api = self._responses if "/responses" in path else default_api
        response = self._answer(api, path, request_body, dict(request.headers))
        if response is None:
            await asyncio.Event().wait()
            return
        self.answering += 1
        await response(scope, receive, send)
        self.answering -= 1

    def _answer(
        self, api: ScriptedApi, path: str, request: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Response | None:
        """The response to a request; None if the script's turn leaves the request without a response (`hangs`)."""
        refusal = api.refusal(path, request, headers) if self._strict else None
        if refusal is not None:
            status, error = refusal
            return _json(error, status)
        count_body = api.count_tokens(path, request)
        if count_body is not None:
            return _json(count_body)
        number = self._taken_total = self._taken_total + 1
        turn = self._turns[number - 1] if number <= len(self._turns) else ScriptedTurn("The script is over.")
        if turn.hangs:
            return None
        return scripted_response(turn, number, request, api, path)


def scripted_response(
    turn: ScriptedTurn, number: int, request: Mapping[str, Any], api: ScriptedApi | None = None, path: str = ""
) -> Response:
    """Response with a turn of the script, by default in the form of the chat API. Its ids are derived from `number`,
    the number of the request.
    """
    api = api or chat.ChatApi()
    if turn.status != 200:
        return _json(api.write_error(turn), turn.status, turn.headers)
    if api.asks_for_stream(path, request) and not turn.ignores_stream:
        stream = _stream(api, turn, number, request)
        return StreamingResponse(stream, headers=dict(turn.headers), media_type=api.stream_type)
    return _json(
        turn.whole.encode() if turn.whole is not None else api.whole_body(turn, number, request), 200, turn.headers
    )


def _json(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, dict(headers or {}), "application/json")


async def _stream(
    api: ScriptedApi, turn: ScriptedTurn, number: int, request: Mapping[str, Any]
) -> AsyncIterator[str | bytes]:
    for event in turn.events if turn.events is not None else api.events(turn, number, request):
        yield api.stream_event(event)
    if turn.breaks:
        raise ConnectionAbortedError("the script aborts the connection before the end of the stream")
    if turn.lingers:
        await asyncio.Event().wait()
