"""Requests without the reasoning that only the model that produced it accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.protocol import WireFormat
from fairlead_llm.refused_thoughts import remove_thoughts, reports_refused_thoughts

SIGNED_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "n", "arguments": "{}"},
    "extra_content": {"google": {"thought_signature": "c2VhbGVk"}},
}


def test_chat_gives_googles_calls_the_value_that_it_documents_and_drops_details() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [SIGNED_CALL], "reasoning_details": [{"data": "x"}]}
    body = {"model": "m", "messages": [message, message], "x": 1.0}
    rewritten = json.loads(remove_thoughts(CHAT, json.dumps(body).encode(), 1) or b"")
    stand_in = {**SIGNED_CALL, "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
    assert rewritten["messages"] == [{"role": "assistant", "content": "", "tool_calls": [stand_in]}, message]
    assert rewritten["x"] == 1.0


PLAIN: dict[str, tuple[WireFormat, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [{"role": "user", "content": "Hi"}]}),
    "anthropic": (ANTHROPIC, {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]}),
    "responses": (RESPONSES, {"input": [{"role": "user", "content": "Hi"}]}),
    "a text": (RESPONSES, {"input": "Hi"}),
    "gemini": (GEMINI_EVENTS, {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    "nothing": (GEMINI_EVENTS, {}),
    "no messages": (ANTHROPIC, {"messages": [7]}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_request_without_thoughts_is_unchanged(name: str) -> None:
    wire, body = PLAIN[name]
    assert remove_thoughts(wire, json.dumps(body).encode(), 0) is None


REFUSALS = {
    "code": ({"code": "invalid_encrypted_content", "message": "no"}, True),
    "openai": ({"message": "The encrypted content gAAA could not be verified."}, True),
    "an item of another account": ({"message": "Item with id 'rs_1a' not found."}, True),
    "anthropic": ({"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}, True),
    "gemini": ({"message": "Corrupted thought signature."}, True),
    "another item": ({"message": "Item with id 'msg_1' not found."}, False),
    "a signature that is missing": ({"message": "Function call is missing a thought_signature"}, False),
    "no message": ({"message": None}, False),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_of_thoughts_are_known_by_code_and_words(name: str) -> None:
    error, refuses = REFUSALS[name]
    assert reports_refused_thoughts(json.dumps({"error": error}).encode()) is refuses


def test_refusal_of_thoughts_is_not_read_from_bodies_that_are_not_errors() -> None:
    assert not reports_refused_thoughts(b'{"error": "Corrupted thought signature."}')
    assert not reports_refused_thoughts(b"[")
