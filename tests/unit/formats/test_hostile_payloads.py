"""Conversion of tools, messages and results between formats, with arbitrary JSON as input."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.registry import FORMATS, find, message_format
from fairlead_formats.tool_format import Action
from fairlead_formats.tools.between import between
from fairlead_formats.tools.definitions import FAULT
from hostileschemas import JSON, KINDS

hostile = settings(max_examples=examples(200), deadline=None, suppress_health_check=[*HealthCheck])
MEMBERS = st.sampled_from(
    (
        *("type", "name", "function", "functions", "tools", "tool_calls", "parameters", "input_schema", "id", "args"),
        *("inputSchema", "functionDeclarations", "parametersJsonSchema", "toolSpec", "json", "toolConfig", "session"),
        *("content", "message", "choices", "output", "input", "arguments", "call_id", "candidates", "parts", "role"),
        *("functionCall", "functionResponse", "toolUse", "toolResult", "tool_use_id", "item", "toolCall", "custom"),
    )
)
WORDS = st.sampled_from(("function", "tool_use", "tool_result", "function_call", "custom", "text", "a", "object", "{}"))
PAYLOADS = st.recursive(
    JSON | WORDS | KINDS["a root without a type"],
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.diagonal(1)
@pytest.mark.parametrize("source", sorted(FORMATS))
@pytest.mark.parametrize("target", sorted(FORMATS))
@hostile
@given(payload=PAYLOADS)
def test_tools_of_any_json_are_converted_or_refused_one_by_one(source: str, target: str, payload: Any) -> None:
    conversion = between(payload, find(source), find(target))
    msgspec.json.encode(conversion)
    assert not [loss.why for loss in conversion.report if loss.action is Action.REFUSED and FAULT in loss.why]


@pytest.mark.parametrize("name", sorted(name for name in FORMATS if name != "mcp"))
@hostile
@given(message=PAYLOADS)
def test_any_json_is_read_as_calls_and_answers_without_an_error(name: str, message: Any) -> None:
    format_ = message_format(name)
    msgspec.json.encode([call.__class__.__name__ for call in format_.parse_calls(message)])
    list(format_.answers(message))
    list(format_.parts(message))
