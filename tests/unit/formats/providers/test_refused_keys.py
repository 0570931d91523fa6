"""Refusals of API keys: clients do not receive the provider's message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.neutral.provider_errors import refusal_of
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.bedrock.tools import BEDROCK
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.errors import reports_refused_key
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses, WireFormat

WORDS = {"message": "Incorrect API key provided: sk-proj-abcd****wxyz", "code": "invalid_api_key"}
ERROR = {"type": "invalid_request_error", **WORDS}


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, ANTHROPIC, GEMINI_EVENTS], ids=lambda wire: wire.name)
def test_a_refusal_of_a_key_reaches_no_caller_in_the_providers_words(wire: WireFormat) -> None:
    status, body = wire.refusal(401, json.dumps({"error": ERROR}).encode())
    assert status == 401
    assert b"abcd" not in body
    assert json.loads(body)["error"]["message"] == "the provider refused the API key"
    assert wire.refusal(400, b'{"error": {"message": "too hot"}}') == (400, b'{"error": {"message": "too hot"}}')


def test_an_error_of_a_stream_that_names_a_key_is_one_of_keys() -> None:
    raw = json.dumps(ERROR).encode()
    assert reports_refused_key(raw)
    assert not reports_refused_key(b'{"type": "overloaded_error", "message": "busy"}')
    assert refusal_of(None, raw).message == "the provider refused the API key"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_request_with_more_than_20000_messages_is_not_translated(name: str) -> None:
    family = FAMILIES[name]
    contents: dict[str, Any] = {"gemini": {"parts": [{"text": "a"}]}, BEDROCK: {"content": [{"text": "a"}]}}
    message = {"role": "user", **contents.get(name, {"content": "a"})}
    body = {"model": "m", "max_tokens": 9, family.messages_member: [message] * 20_000}
    if name == "openai-responses":
        body.pop("max_tokens")
    turns = family.requests.read_request(body, "m", False, TranslationLosses()).turns
    assert sum(len(turn.parts) for turn in turns) == 20_000
    body[family.messages_member] = [message] * 20_001
    with pytest.raises(BadRequest, match="20001 entries exceed the limit of 20000"):
        family.requests.read_request(body, "m", False, TranslationLosses())
