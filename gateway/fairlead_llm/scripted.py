"""A model that says what a script says, behind OpenAI's chat API: for trying the endpoints without a provider, and for
tests.

An ASGI application. Each request takes the next turn of the script; behind its last one the model says so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

CREATED: Final = 1_700_000_000
PIECE: Final = 5
"""Characters of a text or of arguments in one chunk."""


class ScriptedCall(msgspec.Struct, frozen=True):
    """A call that the model makes."""

    name: str
    arguments: Mapping[str, Any] | str = {}
    """A text stands as it is, valid or not."""
    id: str = ""
    """Made from its place without one."""

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class ScriptedTurn(msgspec.Struct, frozen=True):
    """One answer."""

    text: str = ""
    calls: Sequence[ScriptedCall] = ()
    status: int = 200
    """Other than 200: an error with that status."""
    headers: Mapping[str, str] = {}
    cut: bool = False
    """The stream ends before its end is said."""
    finish_reason: str | None = None
    """By what there is, without one."""
    lingers: bool = False
    """The connection stays open behind the stream's end."""
    hangs: bool = False
    """No answer comes."""
    events: Sequence[str] | None = None
    """Data of the stream's events word for word, in place of all else."""


class ScriptedModel:
    """The application. `requests` are the bodies that came, decoded; `headers` theirs."""

    def __init__(self, *turns: ScriptedTurn) -> None:
        self._turns = [*turns]
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answering = 0
        """Answers that are being written."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        asked = json.loads(body)
        self.requests.append(asked)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        number = len(self.requests)
        turn = self._turns[number - 1] if number <= len(self._turns) else ScriptedTurn("The script is over.")
        if turn.hangs:
            await asyncio.Event().wait()
        self.answering += 1
        await scripted_response(turn, number, asked)(scope, receive, send)
        self.answering -= 1


def scripted_response(turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> Response:
    """The response that says a turn to a request; `number` is the request's, of which ids are made."""
    if turn.status != 200:
        error = {"message": turn.text or "scripted error", "type": "api_error", "param": None, "code": "scripted"}
        return JSONResponse({"error": error}, turn.status, dict(turn.headers))
    if asked.get("stream"):
        return StreamingResponse(
            _stream(turn, number, asked), headers=dict(turn.headers), media_type="text/event-stream"
        )
    return JSONResponse(_completion(turn, number, asked), headers=dict(turn.headers))


def _reason(turn: ScriptedTurn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.calls else "stop")


def _usage(turn: ScriptedTurn) -> dict[str, Any]:
    """Round figures, so that sums are told apart from single ones."""
    said = 10 + 10 * len(turn.calls)
    details = {"cached_tokens": 40}
    return {
        "prompt_tokens": 100, "completion_tokens": said, "total_tokens": 100 + said, "prompt_tokens_details": details
    }  # fmt: skip


def _ids(turn: ScriptedTurn, number: int) -> list[str]:
    return [call.id or f"call_scripted_{number:04}_{place:04}" for place, call in enumerate(turn.calls)]


def _completion(turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.calls:
        message["tool_calls"] = [
            {"id": ident, "type": "function", "function": {"name": call.name, "arguments": call.text}}
            for ident, call in zip(_ids(turn, number), turn.calls, strict=True)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn)}
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": CREATED + number,
        "model": asked.get("model"), "choices": [choice], "usage": _usage(turn), "service_tier": "default",
    }  # fmt: skip


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


async def _stream(turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> Any:
    for event in turn.events if turn.events is not None else _events(turn, number, asked):
        yield f"data: {event}\n\n"
    if turn.lingers:
        await asyncio.Event().wait()


def _events(turn: ScriptedTurn, number: int, asked: Mapping[str, Any]) -> Iterator[str]:
    head = {
        "id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": CREATED + number,
        "model": asked.get("model"),
    }  # fmt: skip

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> str:
        return json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": piece}) for piece in _pieces(turn.text))
    for place, (ident, call) in enumerate(zip(_ids(turn, number), turn.calls, strict=True)):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": place, "id": ident, "type": "function", "function": function}]})
        for piece in _pieces(call.text):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    if turn.cut:
        return
    yield chunk({}, _reason(turn))
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield json.dumps({**head, "choices": [], "usage": _usage(turn)})
    yield "[DONE]"
