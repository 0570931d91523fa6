"""Limits on the values, messages, parts and calls of a document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_mcp.read_bounds import LONG_BYTES, MAX_ITEMS, MAX_VALUES, explain_excess, is_long, too_many_items

MANY = MAX_ITEMS + 1
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FLOODS: dict[str, dict[str, Any]] = {
    "chat, messages": {"messages": [{"role": "user", "content": "x"}] * MANY},
    "chat, calls": {"messages": [{"role": "assistant", "tool_calls": [CALL] * MANY}]},
    "chat, calls of several messages": {"messages": [{"role": "assistant", "tool_calls": [CALL] * 5_000}] * 3},
    "chat, definitions": {"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}] * MANY},
    "responses, items": {"input": [{"type": "message", "role": "user", "content": "x"}] * MANY},
    "responses, approvals": {"input": [{"type": "mcp_approval_response", "approval_request_id": "a"}] * MANY},
    "messages, results": {"messages": [{"role": "user", "content": [{"type": "tool_result"}] * MANY}]},
    "messages, parts of a result": {
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text"}] * MANY}]}]
    },
    "gemini, parts": {"contents": [{"role": "user", "parts": [{"text": "x"}] * MANY}]},
    "numbers": {"input": [1] * MANY},
    "chat, calls of an answer": {"choices": [{"message": {"tool_calls": [CALL] * MANY}}]},
    "responses, items of a finished answer": {"response": {"output": [{"type": "message", "role": "x"}] * MANY}},
    "gemini, parts of an answer": {"candidates": [{"content": {"parts": [{"text": "x"}] * MANY}}]},
    "rest, calls of a message": {"format": "openai-chat", "message": {"tool_calls": [CALL] * MANY}},
    "rest, events": {"format": "openai-chat", "stream": [{}] * MANY},
    "tools of a choice": {"tool_choice": {"allowed_tools": {"tools": [{}] * MANY}}},
}
HARMLESS: dict[str, dict[str, Any]] = {
    "as many as there may be": {"messages": [{"role": "user", "content": "x"}] * MAX_ITEMS},
    "a result that is JSON": {"messages": [{"role": "tool", "content": json.dumps([{"a": 1, "b": 2}] * MANY)}]},
    "arguments with a list": {
        "messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"rows": [1] * MANY}}]}]
    },
    "a schema with a list": {
        "tools": [{"function": {"name": "f", "parameters": {"properties": {"x": {"enum": [*range(MANY)]}}}}}]
    },
    "a result of Gemini's": {
        "contents": [{"parts": [{"functionResponse": {"response": {"rows": [{"a": 1}] * MANY}}}]}]
    },
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("indent", [None, 1])
def test_items_beyond_the_bound_of_a_conversation_are_counted_wherever_they_are(name: str, indent: int | None) -> None:
    assert too_many_items(json.dumps(FLOODS[name], indent=indent).encode())


@pytest.mark.parametrize("name", HARMLESS)
def test_lists_in_arguments_results_and_schemas_are_not_items(name: str) -> None:
    assert not too_many_items(json.dumps(HARMLESS[name]).encode())


@pytest.mark.parametrize("body", [b"[" * MANY + b"," * MANY, b'{"messages":[' + b"1," * MANY, b"\xff" + b"," * MANY])
def test_a_body_that_cannot_be_read_is_for_the_reader_to_refuse(body: bytes) -> None:
    assert not too_many_items(body)


def test_values_are_counted_outside_of_texts() -> None:
    numbers = b"[" + b"1," * MAX_VALUES + b"1]"
    assert explain_excess(numbers) == "more than 200,000 values"
    assert explain_excess(json.dumps({"x": numbers.decode()}).encode()) is None
    assert explain_excess(b"[" + b"1," * (MAX_VALUES - 3_000) + b"1]") is None


def test_short_documents_are_read_at_once_and_long_ones_beside_the_loop() -> None:
    assert not is_long(json.dumps({"messages": [{"role": "user", "content": "x"}] * 200}).encode())
    assert is_long(b'"' + b"x" * LONG_BYTES + b'"')
    assert is_long(b"[" + b"{}," * 2_000 + b"{}]")
