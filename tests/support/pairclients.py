"""Real SDKs in front of a scripted provider of any family, with a pair of wire formats between them and no network.

said = ask("anthropic", "gemini", ScriptedTurn("Hello"), stream=True)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
from anthropic import Anthropic
from google import genai
from google.genai import types

from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.bedrock.fake import BedrockApi
from fairlead_formats.providers.bedrock.format import BEDROCK
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.request_rules.rule import SchemaCheck
from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadAnswer, BadRequest, BadStream, LoopResult, ModelRound, WireFormat
from fairlead_llm.scripted_model import ScriptedApi
from fairlead_tools.validation.schema_draft import draft_error

FORMATS: Mapping[str, WireFormat] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI_EVENTS,
    "bedrock": BEDROCK,
}
APIS: Mapping[str, Callable[[SchemaCheck], ScriptedApi]] = {
    "chat": ChatApi,
    "responses": ResponsesApi,
    "anthropic": AnthropicApi,
    "gemini": GeminiApi,
    "bedrock": BedrockApi,
}
FRONTS = ("chat", "responses", "anthropic", "gemini")
"""Families whose SDK is tested here."""
PAIRS = [(front, provider) for front in FRONTS for provider in FORMATS if front != provider]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "integer"}}}
KEY = "no-key"


def wire_format(front: str, provider: str) -> WireFormat:
    """Format of a single name, or the pair of formats of two names."""
    return FORMATS[front] if front == provider else pair(FORMATS[front], FORMATS[provider])


@dataclass
class Wire:
    """A provider that answers one turn after the other, and records its requests."""

    front: str
    provider: str
    turns: Sequence[ScriptedTurn]
    requests: list[dict[str, Any]] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    cuts: Sequence[int] = ()
    """Lengths of the pieces of the answer, repeated in turn; empty for one piece."""
    alive: bool = False
    """Whether a keep-alive follows every event."""

    def __post_init__(self) -> None:
        self._api = APIS[self.provider](draft_error)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """The answer to a client's request."""
        wire = wire_format(self.front, self.provider)
        path = request.url.path
        named = path.rpartition("/")[2].partition(":")[0] if self.front == "gemini" else None
        streams = path.endswith(":streamGenerateContent") if self.front == "gemini" else None
        try:
            read = wire.read(request.read(), named, streams)
        except BadRequest as error:
            refused = LlmError(400, str(error), "invalid_request", param=error.param)
            return httpx2.Response(400, content=wire.error_body(refused))
        out = json.loads(read.body(ModelRound(read.model, requests_usage=True)))
        self.requests.append(out)
        self.losses = [*(read.losses or ())]
        turn = self.turns[len(self.requests) - 1]
        refusal = self._api.refusal("", out, {"anthropic-version": "2023-06-01"})
        if refusal is not None or turn.status != 200:
            rejection = refusal or (turn.status, self._api.write_error(turn))
            status, body = wire.refusal(*rejection)
            return httpx2.Response(status, content=body, headers=dict(turn.headers))
        theirs = read.tool_names if read.tool_names else None
        if not read.stream:
            try:
                answer = wire.answer(self._api.whole_body(turn, len(self.requests), out), read)
            except BadAnswer as error:
                return httpx2.Response(502, content=wire.error_body(LlmError(502, str(error), "bad_answer")))
            written = answer.write(LoopResult((), answer.usage, theirs, (), {"fairlead": {}}))
            return httpx2.Response(200, content=written, headers={"content-type": "application/json"})
        body = b"".join(self._stream(wire, read, turn, theirs, out))
        content = body if not self.cuts else _in_pieces(body, self.cuts)
        return httpx2.Response(200, content=content, headers={"content-type": "text/event-stream"})

    def _stream(self, wire: WireFormat, read: Any, turn: ScriptedTurn, theirs: Any, out: Any) -> Iterator[bytes]:
        stream = wire.stream(read, theirs)
        try:
            for event in self._events(wire, turn, out):
                yield stream.feed(event)
                yield stream.keep_alive() if self.alive else b""
            if not stream.ended:
                raise BadStream("the provider's stream ended before its final event")
            yield stream.end_round()
            yield stream.finish({"fairlead": {}})
        except BadStream as error:
            yield stream.write_error(LlmError(502, str(error), "bad_answer"), error.error)

    def _events(self, wire: WireFormat, turn: ScriptedTurn, out: Any) -> Sequence[bytes]:
        """Data of the provider's events, or of the events that are equivalent to a document."""
        if turn.ignores_stream:
            whole = self._api.whole_body(turn, len(self.requests), out) if turn.whole is None else turn.whole.encode()
            return wire.whole_events(whole)
        events = turn.events if turn.events is not None else self._api.events(turn, len(self.requests), out)
        return [event.encode() for event in events]


def _in_pieces(body: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    start = index = 0
    while start < len(body):
        end = start + cuts[index % len(cuts)]
        yield body[start:end]
        start = end
        index = index + 1


@dataclass
class Said:
    """A complete answer, as the client's SDK returns it."""

    text: str = ""
    thoughts: str = ""
    refusal: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    stop: Any = None
    usage: Any = None

    @property
    def meaning(self) -> tuple[Any, ...]:
        """Parts of the answer that have to be equal for all pairs: text, refusal, calls, and reason of the end."""
        return self.text, self.refusal, self.calls, self.stop


def ask(
    front: str,
    provider: str,
    *turns: ScriptedTurn,
    stream: bool,
    cuts: Sequence[int] = (),
    alive: bool = False,
    **members: Any,
) -> tuple[Said, Wire]:
    """Send one request with a family's SDK, with a tool of the caller."""
    wire = Wire(front, provider, turns, cuts=cuts, alive=alive)
    return CLIENTS[front](wire, stream, members), wire


def http(wire: Wire) -> httpx2.Client:
    """An HTTP client whose requests go to the wire."""
    return httpx2.Client(transport=httpx2.MockTransport(wire))


def _chat(wire: Wire, stream: bool, members: Mapping[str, Any]) -> Said:
    client = openai.OpenAI(base_url="http://gateway/v1", api_key=KEY, max_retries=0, http_client=http(wire))
    function = {"name": "theirs", "description": "The caller's", "parameters": SCHEMA}
    options: dict[str, Any] = {
        "model": "scripted",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": function}],
        **members,
    }
    if stream:
        with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as events:
            events.until_done()
            completion: Any = events.current_completion_snapshot
    else:
        completion = client.chat.completions.create(**options)
    choice = completion.choices[0]
    message: Any = choice.message
    calls = message.tool_calls or []
    return Said(
        message.content or "",
        getattr(message, "reasoning_content", None) or "",
        message.refusal or "",
        [_name_and_arguments(call) for call in calls],
        [call.id for call in calls],
        choice.finish_reason,
        completion.usage,
    )


def _responses(wire: Wire, stream: bool, members: Mapping[str, Any]) -> Said:
    client = openai.OpenAI(base_url="http://gateway/v1", api_key=KEY, max_retries=0, http_client=http(wire))
    tool = {"type": "function", "name": "theirs", "description": "The caller's", "parameters": SCHEMA, "strict": False}
    options: dict[str, Any] = {"model": "scripted", "input": "Hi", "tools": [tool], **members}
    response: Any = None
    if stream:
        with client.responses.stream(**options) as events:
            for event in events:
                response = getattr(event, "response", response)
    else:
        response = client.responses.create(**options)
    contents = [part for item in response.output if item.type == "message" for part in item.content]
    calls = [item for item in response.output if item.type in ("function_call", "custom_tool_call")]
    details = response.incomplete_details
    return Said(
        "".join(part.text for part in contents if part.type == "output_text"),
        "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary),
        "".join(part.refusal for part in contents if part.type == "refusal"),
        [(call.name, call.input if call.type == "custom_tool_call" else _json(call.arguments)) for call in calls],
        [call.call_id for call in calls],
        (response.status, details and details.reason),
        response.usage,
    )


def _anthropic(wire: Wire, stream: bool, members: Mapping[str, Any]) -> Said:
    client = Anthropic(base_url="http://gateway", api_key=KEY, max_retries=0, http_client=http(wire))
    options: dict[str, Any] = {
        "model": "scripted",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "theirs", "description": "The caller's", "input_schema": SCHEMA}],
        **members,
    }
    if stream:
        with client.messages.stream(**options) as events:
            message: Any = events.get_final_message()
    else:
        message = client.messages.create(**options)
    calls = [block for block in message.content if block.type == "tool_use"]
    return Said(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        "",
        [(call.name, call.input) for call in calls],
        [call.id for call in calls],
        message.stop_reason,
        message.usage,
    )


def _gemini(wire: Wire, stream: bool, members: Mapping[str, Any]) -> Said:
    options = types.HttpOptions(base_url="http://gateway", httpx_client=http(wire))
    client = genai.Client(api_key=KEY, http_options=options)
    function = types.FunctionDeclaration(name="theirs", description="The caller's", parameters_json_schema=SCHEMA)
    given = dict(members)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[function])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **given.pop("config", {}),
    )
    request: dict[str, Any] = {"model": "scripted", "contents": "Hi", "config": config, **given}
    answers: list[Any] = (
        [*client.models.generate_content_stream(**request)] if stream else [client.models.generate_content(**request)]
    )
    reading = Said()
    for answer in answers:
        candidate = answer.candidates[0]
        for part in (candidate.content and candidate.content.parts) or []:
            if part.function_call:
                reading.calls.append((part.function_call.name, part.function_call.args))
                reading.ids.append(part.function_call.id)
            elif part.thought:
                reading.thoughts += part.text or ""
            else:
                reading.text += part.text or ""
        reading.stop = candidate.finish_reason.name if candidate.finish_reason else reading.stop
        reading.usage = answer.usage_metadata or reading.usage
    return reading


def _name_and_arguments(call: Any) -> tuple[str, Any]:
    """Name and arguments of a Chat Completions call; the text for a custom tool."""
    if call.type == "custom":
        custom = call.custom if isinstance(call.custom, dict) else call.custom.model_dump()  # untyped in streams
        return custom["name"], custom["input"]
    return call.function.name, _json(call.function.arguments)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


CLIENTS: Mapping[str, Callable[[Wire, bool, Mapping[str, Any]], Said]] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
