"""Each part of a message or of its results is in the converted message or in the report of losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats import registry
from fairlead_formats.messages.base import MAX_LOSSES
from fairlead_formats.registry import message_format
from fairlead_formats.translate import translate_message, translate_results

FORMATS = sorted(registry.FORMATS)
Blocks = list[dict[str, Any]]


def anthropic(mark: str) -> Blocks:
    return [
        {"type": "text", "text": mark},
        {"type": "thinking", "thinking": mark, "signature": "s"},
        {"type": "redacted_thinking", "data": mark},
        {"type": "server_tool_use", "id": mark, "name": "web_search", "input": {"query": mark}},
        {"type": "web_search_tool_result", "tool_use_id": mark, "content": []},
        {"type": "tool_use", "id": mark, "name": "t", "input": {"a": mark}},
        {"type": "tool_use", "id": "x", "name": "t", "input": {}, "cache_control": {"type": mark}},
        {"type": "text", "text": "cited", "citations": [{"cited_text": mark}]},
        {"type": "hologram", "data": mark},
    ]


def bedrock(mark: str) -> Blocks:
    return [
        {"text": mark},
        {"reasoningContent": {"reasoningText": {"text": mark}}},
        {"toolUse": {"toolUseId": mark, "name": "t", "input": {"a": mark}}},
        {"cachePoint": {"type": mark}},
        {"citationsContent": {"content": [{"text": mark}]}},
    ]


def gemini(mark: str) -> Blocks:
    return [
        {"text": mark},
        {"text": mark, "thought": True},
        {"functionCall": {"id": mark, "name": "t", "args": {"a": mark}}},
        {"functionCall": {"name": "t", "args": {}}, "thoughtSignature": mark},
        {"executableCode": {"code": mark}},
        {"inlineData": {"data": mark}},
    ]


def items(mark: str) -> Blocks:
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": mark}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": mark}]},
        {"type": "message", "role": "assistant", "content": [{"type": "hologram", "x": mark}]},
        {"type": "reasoning", "id": mark, "summary": []},
        {"type": "function_call", "call_id": mark, "name": "t", "arguments": json.dumps({"a": mark})},
        {"type": "custom_tool_call", "call_id": mark, "name": "grammar", "input": mark},
        {"type": "function_call", "call_id": mark, "name": "t", "arguments": "", "status": "in_progress"},
        {"type": "web_search_call", "id": mark, "action": {"query": mark}},
        {"type": "mcp_call", "id": mark, "name": "x"},
    ]


def chat(mark: str) -> Blocks:
    function = {"name": "t", "arguments": json.dumps({"a": mark})}
    return [
        {"content": mark},
        {"content": [{"type": "text", "text": mark}]},
        {"content": [{"type": "image_url", "image_url": {"url": mark}}]},
        {"refusal": mark},
        {"reasoning_content": mark},
        {"audio": {"id": mark}},
        {"tool_calls": [{"id": mark, "type": "function", "function": function}]},
        {"tool_calls": [{"id": mark, "type": "custom", "custom": {"name": "grammar", "input": mark}}]},
        {"tool_calls": [{"id": mark, "type": "hologram", "x": mark}]},
        {"tool_calls": [{"id": "x", "type": "function", "function": function, "extra_content": {"google": mark}}]},
    ]


def live(mark: str) -> Blocks:
    return [
        {"toolCall": {"functionCalls": [{"id": mark, "name": "t", "args": {"a": mark}}]}},
        {"serverContent": {"modelTurn": {"parts": [{"text": mark}]}}},
        {"serverContent": {"modelTurn": {"parts": [{"text": mark, "thought": True}]}}},
        {"toolCallCancellation": {"ids": [mark]}},
    ]


def mcp(mark: str) -> Blocks:
    def request(ident: str, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": {"name": "t", **params}}

    return [
        request(mark, arguments={"a": mark}),
        request("x", arguments={}, _meta={"a": mark}),
        {"jsonrpc": "2.0", "id": mark, "method": "prompts/get", "params": {"name": mark}},
    ]


def merge_parts(members: Blocks) -> dict[str, Any]:
    """Merge parts into one message of OpenAI's chat. Lists under the same name are joined; of other values the first is
    used."""
    message: dict[str, Any] = {"role": "assistant"}
    for member in members:
        for name, value in member.items():
            current = message.setdefault(name, value)
            if current is not value and isinstance(current, list) and isinstance(value, list):
                message[name] = [*current, *value]
    return message


Making = tuple[Callable[[str], Blocks], Callable[[Blocks], Any]]
MAKING: dict[str, Making] = {
    "anthropic": (anthropic, lambda parts: {"role": "assistant", "content": parts}),
    "bedrock-converse": (bedrock, lambda parts: {"output": {"message": {"role": "assistant", "content": parts}}}),
    "gemini": (gemini, lambda parts: {"candidates": [{"content": {"role": "model", "parts": parts}}]}),
    "gemini-live": (live, lambda parts: parts),
    "openai-responses": (items, lambda parts: {"object": "response", "output": parts}),
    "openai-realtime": (items, lambda parts: {"type": "response.done", "response": {"output": parts}}),
    "mcp": (mcp, lambda parts: parts),
    **dict.fromkeys(("openai-chat", "azure-openai"), (chat, merge_parts)),
    "openai-functions": (
        lambda mark: [
            {"content": mark},
            {"function_call": {"name": mark, "arguments": "{}"}},
            {"reasoning_content": mark},
        ],
        merge_parts,
    ),
}


def at(value: Any, pointer: str) -> Any:
    """Value at a JSON Pointer; if its last member is misspelt, the object around that member."""
    for key in pointer.split("/")[1:]:
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
    return value


def readable_text(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).replace("\\", "")


@st.composite
def turns(draw: st.DrawFn) -> tuple[str, str, Any, list[str]]:
    """Source format, target format, a message in the source format, and the marks that its parts contain."""
    source = draw(st.sampled_from(FORMATS))
    target = draw(st.sampled_from(FORMATS))
    make, wrap = MAKING[source]
    kinds = draw(st.lists(st.integers(0, len(make("")) - 1), min_size=1, max_size=6))
    message = wrap([make(f"mark{index}z")[kind] for index, kind in enumerate(kinds)])
    marks = [f"mark{index}z" for index in range(len(kinds)) if f"mark{index}z" in readable_text(message)]
    return source, target, message, marks


@settings(max_examples=examples(1500), deadline=None)
@given(turn=turns())
def test_every_part_of_a_models_message_is_in_the_outcome_or_in_the_report(
    turn: tuple[str, str, Any, list[str]],
) -> None:
    source, target, message, marks = turn
    written = translate_message(message, source, target)
    lost = "".join(readable_text(at({"message": message}, loss.path)) for loss in written.report)
    for mark in marks:
        assert mark in readable_text(written.messages) or mark in lost, (mark, written)


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_every_kind_of_part_alone_is_in_the_outcome_or_in_the_report(source: str, target: str) -> None:
    make, wrap = MAKING[source]
    for part in make("markz"):
        message = wrap([part])
        written = translate_message(message, source, target)
        lost = "".join(readable_text(at({"message": message}, loss.path)) for loss in written.report if loss.lossy)
        assert "markz" in readable_text(written.messages) or "markz" in lost, part


ANSWERS: dict[str, tuple[Any, list[Any]]] = {
    "anthropic": (
        {"type": "tool_use", "id": "c", "name": "t", "input": {}},
        [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": "A", "cache_control": {"type": "B"}},
                    {"type": "text", "text": "C"},
                ],
            },
            {"role": "user", "content": "D"},
        ],
    ),
    "openai-chat": (
        {"tool_calls": [{"id": "c", "function": {"name": "t", "arguments": "{}"}}]},
        [{"role": "tool", "tool_call_id": "c", "content": "A", "x": "B"}, {"role": "user", "content": "C"}],
    ),
    "openai-responses": (
        [{"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}],
        [
            {"type": "function_call_output", "call_id": "c", "output": "A"},
            {"type": "message", "role": "user", "content": "B"},
        ],
    ),
    "gemini": (
        [{"functionCall": {"name": "t", "args": {}}}],
        [{"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"output": "A"}}}, {"text": "B"}]}],
    ),
    "bedrock-converse": (
        [{"toolUse": {"toolUseId": "c", "name": "t", "input": {}}}],
        [{"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "A"}]}}, {"text": "B"}]}],
    ),
    "mcp": (
        [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t"}}],
        [{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "A"}], "_meta": {"x": "B"}}}],
    ),
    "gemini-live": (
        {"toolCall": {"functionCalls": [{"id": "c", "name": "t"}]}},
        [
            {"toolResponse": {"functionResponses": [{"id": "c", "response": {"output": "A"}, "scheduling": "B"}]}},
            {"clientContent": {"turns": [{"parts": [{"text": "C"}]}]}},
        ],
    ),
}


@pytest.mark.parametrize("source", ANSWERS)
@pytest.mark.parametrize("target", FORMATS)
def test_every_part_of_the_answers_is_in_the_outcome_or_in_the_report(source: str, target: str) -> None:
    message, answers = ANSWERS[source]
    written = translate_results(message_format(source).parse_calls(message), answers, source, target)
    lost = "".join(readable_text(at({"results": answers}, loss.path)) for loss in written.report)
    for mark in "ABCD":
        if f'"{mark}"' in readable_text(answers):
            assert f'"{mark}' in readable_text(written.messages) or f'"{mark}"' in lost, (mark, written)


@pytest.mark.parametrize("name", FORMATS)
def test_a_message_that_is_sent_in_its_own_format_is_unchanged(name: str) -> None:
    make, wrap = MAKING[name]
    every = [make(f"x{index}")[index] for index in range(len(make("")))]
    parts = [part for part in every if "in_progress" not in readable_text(part)]
    calls = [part for part in parts if len(message_format(name).parse_calls(wrap([part]))) == 1][:1]
    beside = [part for part in parts if not message_format(name).parse_calls(wrap([part]))]
    written = translate_message(wrap([*beside, *calls]), name, name)
    assert written.report == ()
    sent = [wrap([*beside, *calls])] if make is chat or name == "openai-functions" else [*beside, *calls]
    for part in sent:
        assert readable_text(part) in readable_text(written.messages)


def test_thousands_of_parts_make_a_bounded_report() -> None:
    content = [*[{"type": "hologram"}] * 5000, {"type": "tool_use", "id": "c", "name": "t", "input": {}}]
    written = translate_message(content, "anthropic", "openai")
    assert len(written.report) == MAX_LOSSES + 1
    assert "only the first" in written.report[-1].why
    assert len(written.messages) == 1
