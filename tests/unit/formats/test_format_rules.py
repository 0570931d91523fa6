"""The rule set that judges conversions is itself proven by payloads that providers refused."""

from __future__ import annotations

from typing import Any

import pytest

from formatfailures import FAILURES, Failure
from formatrules import violations


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: f"{failure.format}: {failure.seen}")
def test_what_was_refused_in_the_field_is_refused_by_the_rule_set(failure: Failure) -> None:
    found = violations(failure.format, failure.tool, failure.model)
    assert any(failure.says in sentence for sentence in found), found


def test_at_least_forty_failures_of_the_field_are_kept() -> None:
    assert len(FAILURES) >= 40


SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "x"}}, "required": ["a"]}
GOOD: dict[str, dict[str, Any]] = {
    "openai-chat": {"type": "function", "function": {"name": "t", "description": "d", "parameters": SCHEMA}},
    "azure-openai": {"type": "function", "function": {"name": "t", "description": "d", "parameters": SCHEMA}},
    "openai-functions": {"name": "t", "description": "d", "parameters": SCHEMA},
    "openai-responses": {"type": "function", "name": "t", "parameters": SCHEMA, "strict": False},
    "openai-realtime": {"type": "function", "name": "t", "description": "d", "parameters": SCHEMA},
    "anthropic": {"name": "t", "description": "d", "input_schema": SCHEMA},
    "gemini": {"name": "t", "description": "d", "parameters": SCHEMA},
    "gemini-live": {"name": "t", "description": "d", "parameters": SCHEMA},
    "bedrock-converse": {"toolSpec": {"name": "t", "description": "d", "inputSchema": {"json": SCHEMA}}},
}


@pytest.mark.parametrize("format_name", sorted(GOOD))
def test_an_ordinary_tool_breaks_no_rule(format_name: str) -> None:
    assert violations(format_name, GOOD[format_name]) == []
