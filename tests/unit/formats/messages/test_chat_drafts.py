"""Calls of Chat Completions: read alone they are the same as among all parts of the message."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_formats.registry import message_format

FUNCTION = {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CUSTOM = {"id": "b", "type": "custom", "custom": {"name": "run", "input": "x"}}
OTHER = {"id": "c", "type": "web_search"}
LEGACY = {"name": "add", "arguments": "{}"}
MESSAGES: tuple[Any, ...] = (
    [FUNCTION, CUSTOM, None, 1],
    {"tool_calls": [FUNCTION, CUSTOM, OTHER, {"id": "d"}, None, "x"]},
    {"content": "text", "refusal": "no", "tool_calls": [FUNCTION], "function_call": LEGACY, "reasoning": "because"},
    {"function_call": LEGACY},
    {"function_call": "add"},
    {"tool_calls": [], "function_call": LEGACY},
    {"tool_calls": "add", "function_call": LEGACY},
    {"message": {"tool_calls": [FUNCTION]}, "finish_reason": "stop"},
    {"choices": [{"message": {"tool_calls": [FUNCTION]}}, {"message": {"tool_calls": [CUSTOM]}}]},
    {"choices": []},
    {},
    None,
    "text",
    7,
)


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
@pytest.mark.parametrize("name", ["openai", "openai-functions", "azure-openai"])
def test_calls_alone_are_those_among_all_parts(name: str, message: object) -> None:
    format_ = message_format(name)
    drafts = [part.draft for part in format_.parts(message) if part.draft is not None]
    assert [*format_.drafts(message)] == drafts
