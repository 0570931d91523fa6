"""MCP results for values that a handler returns and exceptions that it raises."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from typing import Any

import mcp_types
import pydantic
import pytest

from fairlead_tools.handlers.problems import Unusable
from fairlead_tools.handlers.results import failure, result


class Model(pydantic.BaseModel):
    a: int = 1
    none: str | None = None


@dataclasses.dataclass
class Stock:
    item: str
    on: date


TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def of(value: Any) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(result(value))
    return members


def json_result(value: Any) -> dict[str, Any]:
    """The result for JSON that is not MCP content: a text, and `structuredContent` for an object."""
    text = {"content": [{"type": "text", "text": json.dumps(value, separators=(",", ":"))}]}
    return {**text, "structuredContent": value} if isinstance(value, dict) else text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hello", {"content": [TEXT]}),
        ("", {"content": [{"type": "text", "text": ""}]}),
        (None, {"content": []}),
        (3, json_result(3)),
        (False, json_result(False)),
        ([], json_result([])),
        ([1, "a"], json_result([1, "a"])),
        ({"a": 1}, json_result({"a": 1})),
        (Model(), json_result({"a": 1, "none": None})),
        ([Model()], json_result([{"a": 1, "none": None}])),
        (Stock("rope", date(2026, 1, 2)), json_result({"item": "rope", "on": "2026-01-02"})),
        (TEXT, {"content": [TEXT]}),
        ([TEXT, IMAGE], {"content": [TEXT, IMAGE]}),
        ({"content": [TEXT]}, {"content": [TEXT]}),
        ({"content": [TEXT], "isError": True}, {"content": [TEXT], "isError": True}),
        (
            {"content": [], "structuredContent": {"a": 1}, "_meta": {"b": 2}},
            {"content": [], "structuredContent": {"a": 1}, "_meta": {"b": 2}},
        ),
        (mcp_types.TextContent(text="hello"), {"content": [TEXT]}),
        ([mcp_types.TextContent(text="hello")], {"content": [TEXT]}),
        ({"content": [TEXT], "pages": 3}, json_result({"content": [TEXT], "pages": 3})),
        ({"content": ["a", "b"]}, json_result({"content": ["a", "b"]})),
        ([{"type": "text", "body": "an article"}], json_result([{"type": "text", "body": "an article"}])),
        ([TEXT, {"type": "car"}], json_result([TEXT, {"type": "car"}])),
    ],
)
def test_a_returned_value_becomes_a_result(value: Any, expected: dict[str, Any]) -> None:
    assert of(value) == expected


def test_a_result_of_the_sdk_is_taken_as_it_is() -> None:
    members = of(mcp_types.CallToolResult(content=[mcp_types.TextContent(text="hello")], is_error=True))
    assert members == {"content": [TEXT], "isError": True}


@pytest.mark.parametrize("value", [object(), {"a": object()}, [len], {1, object()}, "\ud800", {"a": "\ud800"}])
def test_values_that_are_not_json_are_refused(value: Any) -> None:
    with pytest.raises(Unusable):
        result(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Unusable):
        result(value)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError("Connection refused"), "Connection refused"),
        (KeyError("email"), "KeyError: 'email'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (ValueError("\ud800"), "?"),
    ],
)
def test_an_exception_becomes_a_failed_result_with_its_words(error: Exception, text: str) -> None:
    assert json.loads(failure(error)) == {"content": [{"type": "text", "text": text}], "isError": True}
