"""Calls whose arguments are truncated or not JSON: what clients of each family get, and who runs the calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from fairlead_formats.messages.call import CUT_OFF
from fairlead_formats.neutral.conversation import WRAPPED
from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.registry import message_format
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import LoopResult, ModelRound, WireFormat
from fairlead_mcp.sse import EventParser

FORMATS: Mapping[str, WireFormat] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI_EVENTS,
}
APIS: Mapping[str, Any] = {
    "chat": ChatApi(),
    "responses": ResponsesApi(),
    "anthropic": AnthropicApi(),
    "gemini": GeminiApi(),
}
REQUESTS: Mapping[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "m", "input": "Hi", "tools": [{"type": "function", "name": "theirs", "parameters": {}}]},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}
REASONS = {
    "chat": ["length", "content_filter", "model_length", "insufficient_system_resource", "abort", "error"],
    "responses": ["max_output_tokens", "content_filter", "failed"],
    "anthropic": ["max_tokens", "refusal", "model_context_window_exceeded"],
    "gemini": ["MAX_TOKENS", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "IMAGE_SAFETY"],
}
LENGTH = {name: reasons[0] for name, reasons in REASONS.items()}
WRITTEN_LENGTH = {**LENGTH, "responses": "incomplete"}
PAIRS = [(client, provider) for client in FORMATS for provider in FORMATS]
BROKEN = '{"q": "' + "x" * 3000
TEXTS = [
    (client, provider, stream)
    for client, provider in PAIRS
    for stream in (False, True)
    if client != provider and (provider in ("chat", "responses") or (provider == "anthropic" and stream))
]
"""Pairs of client and provider in which the provider sends arguments as text."""
WHOLE_OR_STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class Exchange:
    """One answer of a provider: as the loop reads it, and as the client gets it."""

    def __init__(
        self,
        client: str,
        provider: str,
        turn: ScriptedTurn,
        *,
        stream: bool,
        client_tools: Collection[str] = ("theirs",),
    ) -> None:
        wire = FORMATS[client] if client == provider else pair(FORMATS[client], FORMATS[provider])
        request = wire.read(json.dumps(REQUESTS[client]).encode(), "m", stream)
        sent = json.loads(request.body(ModelRound("m", requests_usage=True)))
        api, tools = APIS[provider], frozenset(client_tools)
        if stream:
            streamed = wire.stream(request, tools)
            events = [streamed.feed(event.encode()) for event in api.events(turn, 1, sent)]
            events += [streamed.end_round(), streamed.finish({})]
            self.message = streamed.message
            parsed = [event.data for event in EventParser(1 << 20).feed(b"".join(events))]
            self.written: Any = [json.loads(data) for data in parsed if data != b"[DONE]"]
            self.calls, self.reason = STREAMED[client](self.written)
        else:
            answer = wire.answer(api.whole_body(turn, 1, sent), request)
            self.message = answer.message
            self.written = json.loads(answer.write(LoopResult(client_tools=tools)))
            self.calls, self.reason = WHOLE[client](self.written)
        self.losses = [*(request.losses or ())]
        self.calls_to_run = message_format(wire.name).parse_calls(self.message)


def _chat_whole(body: Any) -> tuple[list[Any], Any]:
    choice = body["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    return [each["function"]["arguments"] for each in calls], choice["finish_reason"]


def _chat_streamed(chunks: list[Any]) -> tuple[list[Any], Any]:
    calls: dict[int, str] = {}
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    for entry in [entry for choice in choices for entry in choice["delta"].get("tool_calls") or []]:
        calls[entry["index"]] = calls.get(entry["index"], "") + entry["function"].get("arguments", "")
    return [*calls.values()], choices[-1]["finish_reason"]


def _responses_whole(body: Any) -> tuple[list[Any], Any]:
    return [each["arguments"] for each in body["output"] if each["type"] == "function_call"], body["status"]


def _responses_streamed(events: list[Any]) -> tuple[list[Any], Any]:
    return _responses_whole(events[-1]["response"])


def _anthropic_whole(body: Any) -> tuple[list[Any], Any]:
    return [each["input"] for each in body["content"] if each["type"] == "tool_use"], body["stop_reason"]


def _anthropic_streamed(events: list[Any]) -> tuple[list[Any], Any]:
    calls: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = ""
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            calls[event["index"]] += event["delta"]["partial_json"]
    (end,) = [event for event in events if event["type"] == "message_delta"]
    return [json.loads(text or "{}") for text in calls.values()], end["delta"]["stop_reason"]


def _gemini_whole(body: Any) -> tuple[list[Any], Any]:
    return _gemini_streamed([body])


def _gemini_streamed(events: list[Any]) -> tuple[list[Any], Any]:
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"]["args"] for part in parts if "functionCall" in part]
    return calls, events[-1]["candidates"][0]["finishReason"]


WHOLE: Mapping[str, Any] = {
    "chat": _chat_whole,
    "responses": _responses_whole,
    "anthropic": _anthropic_whole,
    "gemini": _gemini_whole,
}
STREAMED: Mapping[str, Any] = {
    "chat": _chat_streamed,
    "responses": _responses_streamed,
    "anthropic": _anthropic_streamed,
    "gemini": _gemini_streamed,
}


@WHOLE_OR_STREAMED
@pytest.mark.parametrize(
    ("provider", "reason"), [(provider, reason) for provider, reasons in REASONS.items() for reason in reasons]
)
def test_no_call_of_a_truncated_answer_is_run(provider: str, reason: str, stream: bool) -> None:
    calls = [ScriptedCall("ours", {"q": 1}), ScriptedCall("theirs", {"q": 2})]
    exchange = Exchange(provider, provider, ScriptedTurn("Half", calls, finish_reason=reason), stream=stream)
    assert exchange.calls_to_run == []
    assert "ours" not in json.dumps(exchange.written)


@WHOLE_OR_STREAMED
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_clients_get_the_stop_reason_and_their_own_call_of_a_truncated_answer(
    client: str, provider: str, stream: bool
) -> None:
    calls = [ScriptedCall("theirs", {"q": 2}), ScriptedCall("ours", {"q": 1})]
    exchange = Exchange(client, provider, ScriptedTurn("Half", calls, finish_reason=LENGTH[provider]), stream=stream)
    assert exchange.calls_to_run == []
    assert "ours" not in json.dumps(exchange.written)
    assert [json.loads(each) if isinstance(each, str) else each for each in exchange.calls] == [{"q": 2}]
    assert exchange.reason == WRITTEN_LENGTH[client]


@WHOLE_OR_STREAMED
@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("client", FORMATS)
def test_a_call_that_was_truncated_before_its_arguments_has_none_made_up(
    client: str, provider: str, stream: bool
) -> None:
    turn = ScriptedTurn("Half", [ScriptedCall("theirs", "")], finish_reason=LENGTH[provider])
    exchange = Exchange(client, provider, turn, stream=stream)
    assert exchange.calls == [{"chat": "", "responses": "", "anthropic": {}, "gemini": {}}[client]]
    assert exchange.reason == WRITTEN_LENGTH[client]
    assert "call_arguments" not in exchange.losses
    if client == "responses":
        response = exchange.written[-1]["response"] if stream else exchange.written
        assert response["output"][-1]["status"] == "incomplete"


@WHOLE_OR_STREAMED
@pytest.mark.parametrize("reason", ["max_output_tokens", None])
def test_no_client_is_asked_to_approve_a_truncated_call(reason: str | None, stream: bool) -> None:
    turn = ScriptedTurn("", [ScriptedCall("held", '{"q": 1')], finish_reason=reason)
    exchange = Exchange("responses", "responses", turn, stream=stream, client_tools={"held"})
    assert ("mcp_approval_request" in json.dumps(exchange.written)) == (reason is None)


@pytest.mark.parametrize("truncated", [False, True], ids=["ended", "truncated"])
@pytest.mark.parametrize(("client", "provider", "stream"), TEXTS)
def test_arguments_that_are_not_json_reach_clients_complete(
    client: str, provider: str, truncated: bool, stream: bool
) -> None:
    calls = [ScriptedCall("theirs", {"q": 1}), ScriptedCall("theirs", BROKEN)]
    turn = ScriptedTurn("", calls, finish_reason=LENGTH[provider] if truncated else None)
    exchange = Exchange(client, provider, turn, stream=stream)
    holds_text = client in ("chat", "responses")
    assert exchange.calls[1] == (BROKEN if holds_text else {WRAPPED: BROKEN})
    assert ("call_arguments" in exchange.losses) != holds_text


@pytest.mark.parametrize("provider", ["chat", "responses"])
def test_arguments_of_an_eager_tool_flow_as_the_model_writes_them(provider: str) -> None:
    body = {**REQUESTS["anthropic"], "tools": [{"name": "theirs", "input_schema": {}, "eager_input_streaming": True}]}
    wire = pair(ANTHROPIC, FORMATS[provider])
    request = wire.read(json.dumps(body).encode(), "m", True)
    stream = wire.stream(request, frozenset({"theirs"}))
    turn = ScriptedTurn("", [ScriptedCall("theirs", BROKEN)])
    pieces = [stream.feed(event.encode()) for event in APIS[provider].events(turn, 1, {"model": "m"})]
    assert len([piece for piece in pieces if b"input_json_delta" in piece]) > 100
    events = [json.loads(event.data) for event in EventParser(1 << 20).feed(b"".join(pieces))]
    assert "".join(event.get("delta", {}).get("partial_json", "") for event in events) == BROKEN


@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic", "gemini"])
def test_a_truncated_answer_that_programs_read_has_no_call_without_arguments(provider: str) -> None:
    arguments: Any = {} if provider == "gemini" else ""
    turn = ScriptedTurn("", [ScriptedCall("a", {"q": 1}), ScriptedCall("b", arguments)], finish_reason=LENGTH[provider])
    answer = json.loads(APIS[provider].whole_body(turn, 1, {"model": "m"}))
    complete, truncated = message_format(FORMATS[provider].name).parse_calls(answer)
    assert complete.arguments == {"q": 1}
    assert not truncated.valid
    assert getattr(truncated.arguments, "reason", "") == CUT_OFF


@pytest.mark.parametrize("reason", [None, "truncated"])
@pytest.mark.parametrize("provider", ["chat", "responses", "anthropic"])
def test_a_truncated_stream_that_programs_read_has_no_call_without_arguments(provider: str, reason: str | None) -> None:
    calls = [ScriptedCall("a", ""), ScriptedCall("b", "")]
    turn = ScriptedTurn("", calls, finish_reason=reason and LENGTH[provider])
    assembler = message_format(FORMATS[provider].name).assembler()
    assembled = [call for event in APIS[provider].events(turn, 1, {"model": "m"}) for call in assembler.feed(event)]
    assembled += assembler.close()
    assert [call.name for call in assembled] == ["a", "b"]
    assert assembled[-1].valid == (reason is None)


@pytest.mark.parametrize(("reason", "valid"), [("tool_use", True), ("max_tokens", False), (None, True)])
def test_a_truncated_stream_of_bedrock_has_no_call_without_arguments(reason: str | None, valid: bool) -> None:
    use = {"toolUseId": "t", "name": "a"}
    events: list[Any] = [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": use}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
    ]
    events += [] if reason is None else [{"messageStop": {"stopReason": reason}}]
    assembler = message_format("bedrock-converse").assembler()
    assembled = [call for event in events for call in assembler.feed(event)] + assembler.close()
    assert [(call.name, call.valid) for call in assembled] == [("a", valid)]
