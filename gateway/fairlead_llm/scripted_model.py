"""The scripted model as an ASGI application, which speaks the API of the path that is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead_formats.providers.anthropic import fake as anthropic
from fairlead_formats.providers.gemini import fake as gemini
from fairlead_formats.providers.openai_chat import fake as chat
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.scripted_turns import ScriptedTurn


class ScriptedApi(Protocol):
    """One API's form of turns. `number` is that of the request, from 1 on."""

    def write_error(self, turn: ScriptedTurn) -> bytes:
        """Body of an error."""

    def whole(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> bytes:
        """Whole answer."""

    def events(self, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> Iterator[str]:
        """Data of a streamed answer's events."""

    def sse_event(self, data: str) -> str:
        """One event with these data."""

    def asks_for_stream(self, path: str, asked: Mapping[str, Any]) -> bool:
        """Whether the answer is to be streamed."""

    def refusal(self, asked: Mapping[str, Any], headers: Mapping[str, str]) -> bytes | None:
        """Body of the refusal of a request that the API does not take; None where it takes it."""

    def count_tokens(self, path: str, asked: Mapping[str, Any]) -> bytes | None:
        """Answer to a request that only counts its tokens; None for any other."""


_APIS: Final[Mapping[str, Callable[[], ScriptedApi]]] = {
    "/messages": anthropic.AnthropicApi,
    "/models/": gemini.GeminiApi,
}
"""By part of the path; any other is chat's."""


class ScriptedModel:
    """The application. Each request takes the next turn of the script; behind its last one the model says so.
    `requests` are the bodies that came, decoded; `headers` theirs.
    """

    def __init__(self, *turns: ScriptedTurn) -> None:
        self._turns = [*turns]
        self._taken = 0
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answering = 0
        """Answers that are being written."""
        self.about_kept: list[tuple[str, str]] = []
        """Method and path of requests about answers that are kept, which take no turn."""
        self._responses = ResponsesApi()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        path = scope["path"]
        if "/responses/" in path:
            self.about_kept.append((request.method, path))
            status, found = self._responses.answer_stored(request.method, path)
            await _json(found, status)(scope, receive, send)
            return
        asked = json.loads(body)
        self.requests.append(asked)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        found_api: ScriptedApi = next((made() for part, made in _APIS.items() if part in path), chat.ChatApi())
        api = self._responses if path.endswith("/responses") else found_api
        response = self._answer(api, path, asked, dict(request.headers))
        if response is None:
            await asyncio.Event().wait()
            return
        self.answering += 1
        await response(scope, receive, send)
        self.answering -= 1

    def _answer(
        self, api: ScriptedApi, path: str, asked: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Response | None:
        """The answer to a request; None: none comes."""
        refusal = api.refusal(asked, headers)
        if refusal is not None:
            return _json(refusal, 400)
        counted = api.count_tokens(path, asked)
        if counted is not None:
            return _json(counted)
        number = self._taken = self._taken + 1
        turn = self._turns[number - 1] if number <= len(self._turns) else ScriptedTurn("The script is over.")
        if turn.hangs:
            return None
        return scripted_response(turn, number, asked, api, path)


def scripted_response(
    turn: ScriptedTurn, number: int, asked: Mapping[str, Any], api: ScriptedApi | None = None, path: str = ""
) -> Response:
    """The response that says a turn to a request of an API, by default chat's; `number` is the request's, of which ids
    are made.
    """
    api = api or chat.ChatApi()
    if turn.status != 200:
        return _json(api.write_error(turn), turn.status, turn.headers)
    if api.asks_for_stream(path, asked):
        stream = _stream(api, turn, number, asked)
        return StreamingResponse(stream, headers=dict(turn.headers), media_type="text/event-stream")
    return _json(turn.whole.encode() if turn.whole is not None else api.whole(turn, number, asked), 200, turn.headers)


def _json(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, dict(headers or {}), "application/json")


async def _stream(api: ScriptedApi, turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> AsyncIterator[str]:
    for event in turn.events if turn.events is not None else api.events(turn, number, asked):
        yield api.sse_event(event)
    if turn.breaks:
        raise ConnectionAbortedError("the script has this connection break")
    if turn.lingers:
        await asyncio.Event().wait()
