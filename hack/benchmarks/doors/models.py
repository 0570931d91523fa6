"""Doors of models: requests in the form of every family, and a provider whose answers are made beforehand.

The answers are those of the fakes of the product (`fairlead_formats`), written to files once, and
`rig/load/httpscript.c` sends them. A model that calls tools calls two, and says its text when the results are there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedApi

CALLS: Final = 2
TOOLS: Final = 12
"""Tools that a request is given."""
TOOL: Final = "legacy__echo"
TEXT: Final = "word " * 16
"""An event each in a stream."""
QUESTION: Final = "Say something."
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
RUN: Final = tuple(ScriptedCall(TOOL, {"text": f"of call {number}"}) for number in range(CALLS))


@dataclass(frozen=True)
class Family:
    """API of one provider."""

    name: str
    path: str
    """Path of requests for whole answers at the gateway, with `MODEL` for the model's name."""
    streamed: str
    """Path of requests for streams."""
    api: ScriptedApi
    provider: dict[str, Any]
    """Members of the provider in the file of routes."""
    below: str
    """Path of its `baseUrl`."""
    result: str
    """Text that a request with results of tools has, and no other."""


FAMILIES: Final = (
    Family(
        "chat",
        "/v1/chat/completions",
        "/v1/chat/completions",
        ChatApi(),
        {"kind": "openai", "responses": False},
        "/v1",
        "tool_call_id",
    ),
    Family(
        "responses",
        "/v1/responses",
        "/v1/responses",
        ResponsesApi(),
        {"kind": "openai", "responses": True},
        "/v1",
        "function_call_output",
    ),
    Family("messages", "/v1/messages", "/v1/messages", AnthropicApi(), {"kind": "anthropic"}, "", "tool_result"),
    Family(
        "gemini",
        "/v1beta/models/MODEL:generateContent",
        "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
        GeminiApi(),
        {"kind": "gemini"},
        "",
        "functionResponse",
    ),
)


@dataclass(frozen=True)
class Conversation:
    """One door: a family, whether answers are streamed, and how many tools the model calls."""

    family: Family
    stream: bool
    calls: int

    @property
    def model(self) -> str:
        """Name of the model that answers so, and of its provider."""
        return f"{self.family.name}-{'streamed' if self.stream else 'whole'}-{self.calls}"

    @property
    def path(self) -> str:
        """Target of a request."""
        return (self.family.streamed if self.stream else self.family.path).replace("MODEL", self.model)

    @property
    def body(self) -> dict[str, Any]:
        """A request."""
        if self.family.name == "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
        if self.family.name == "responses":
            return {"model": self.model, "input": QUESTION, "stream": self.stream}
        request = {"model": self.model, "messages": [{"role": "user", "content": QUESTION}], "stream": self.stream}
        return request | ({"max_tokens": 1000} if self.family.name == "messages" else {})

    def answer(self, turn: ScriptedTurn) -> bytes:
        """A whole response of the provider."""
        request = self.body | {"model": self.model, "stream_options": {"include_usage": True}}
        api = self.family.api
        if not self.stream:
            body = api.whole_body(turn, 1, request)
            return HEAD % (b"application/json", len(body)) + body
        events = [api.stream_event(data) for data in api.events(turn, 1, request)]
        body = b"".join(event.encode() if isinstance(event, str) else event for event in events)
        return HEAD % (api.stream_type.encode(), len(body)) + body

    def script(self, folder: Path) -> list[str | Path]:
        """Arguments of httpscript for the provider of this conversation."""
        words: list[str | Path] = []
        turns = [(self.family.result, ScriptedTurn(text=TEXT)), ("", ScriptedTurn(calls=RUN))]
        for number, (text, turn) in enumerate(turns if self.calls else [("", turns[0][1])]):
            file = folder / f"{self.model}-{number}"
            file.write_bytes(self.answer(turn))
            words += [f"/of-{self.model}/", text, file]
        return words

    def provider(self, port: int) -> dict[str, Any]:
        """Its entry in the file of routes."""
        url = f"http://127.0.0.1:{port}/of-{self.model}{self.family.below}"
        return {**self.family.provider, "baseUrl": url, "models": [self.model]}


CONVERSATIONS: Final = tuple(
    Conversation(family, stream, calls) for family in FAMILIES for calls in (0, CALLS) for stream in (False, True)
)


def routes(port: int) -> str:
    """File of routes, with a provider for each conversation."""
    return json.dumps({"providers": {each.model: each.provider(port) for each in CONVERSATIONS}})
