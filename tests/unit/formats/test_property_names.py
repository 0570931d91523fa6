"""Property names that a provider refuses are replaced, and restored in calls."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fairlead_formats.registry import find, message_format
from fairlead_formats.schema.property_names import other_names, restore_names
from fairlead_formats.tool_format import Action, Options
from fairlead_formats.tools.between import between
from fairlead_mcp.schemas import all_schemas
from oddproperties import ARGUMENTS, LONG, SCHEMA, TOOL, under_other_names

TAKEN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Anthropic's error message: "Property keys should match pattern"."""
DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a b": {"type": "string"},
        "a_b": {"type": "string"},
        "a/b": {"$ref": "#/properties/a b"},
        "in": {
            "type": "array",
            "items": {"type": "object", "properties": {"x y": {"type": "integer"}}, "required": ["x y"]},
        },
        "@type": {"anyOf": [{"type": "object", "properties": {"é": {"type": "null"}}}, {"$ref": "#/$defs/n m"}]},
    },
    "dependentRequired": {"a b": ["a/b"]},
    "allOf": [{"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"]}],
    "required": ["a b"],
    "$defs": {"n m": {"type": "object", "properties": {"": {"type": "integer"}}}},
}
DEEP_ARGUMENTS: dict[str, Any] = {
    "a b": "1",
    "a_b": "2",
    "a/b": "3",
    "in": [{"x y": 4}, {"x y": 5}],
    "@type": {"": 6},
    "$ref": "7",
}


def schema_of(tool: Any) -> Any:
    spec = tool.get("toolSpec", tool)
    schema = spec.get("input_schema") or spec.get("inputSchema") or spec.get("parametersJsonSchema")
    return schema.get("json", schema) if isinstance(schema, dict) else tool["function"]["parameters"]


@pytest.mark.parametrize("schema", [SCHEMA, DEEP], ids=["flat", "deep"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("name", "model"), [("anthropic", None), ("bedrock", None), ("bedrock", "claude-sonnet-5")])
def test_properties_have_names_that_the_provider_takes(name: str, model: str | None, strict: bool, schema: Any) -> None:
    conversion = find(name).convert([{"name": "odd", "inputSchema": schema}], Options(strict=strict, model=model))
    (tool,) = conversion.tools
    for each in all_schemas(schema_of(tool)):
        properties = each.get("properties", {})
        assert all(TAKEN.fullmatch(property_) for property_ in properties)
        assert set(each.get("required", ())) <= properties.keys()
    told = [loss for loss in conversion.report if loss.keyword == "properties" and "was renamed to" in loss.why]
    assert {loss.action for loss in told} == {Action.REWRITTEN}
    assert {json.dumps(given, ensure_ascii=False) for given in conversion.properties["odd"].values()} >= {
        loss.why.removeprefix("property ").partition(" was renamed to ")[0] for loss in told if len(loss.why) < 100
    }
    assert len(told) == len(conversion.properties["odd"])


@pytest.mark.parametrize(("schema", "arguments"), [(SCHEMA, ARGUMENTS), (DEEP, DEEP_ARGUMENTS)], ids=["flat", "deep"])
def test_arguments_come_back_under_their_own_names(schema: Any, arguments: Any) -> None:
    written = under_other_names(arguments, schema)
    assert written != arguments
    assert restore_names(written, other_names(schema)) == arguments
    assert restore_names(arguments, other_names(schema)) == arguments, "a model may know the original names"


def test_names_that_differ_in_what_is_replaced_stay_apart() -> None:
    others = other_names({"type": "object", "properties": {name: {} for name in ("a b", "a/b", "a[b]", "a_b")}})
    assert len(others) == 3
    assert "a_b" not in others


def test_the_alternatives_at_the_root_are_described_with_the_written_property_names() -> None:
    branches = [{"required": ["a b"]}, {"required": ["a/b"]}]
    properties = {"a b": {"type": "string"}, "a/b": {"type": "string"}}
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": properties, "anyOf": branches}}
    (written,) = find("anthropic").convert([tool]).tools
    assert "a b" not in written["description"]
    assert all(name in written["description"] for name in written["input_schema"]["properties"])


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "mcp"])
def test_a_provider_that_takes_any_name_gets_the_original_ones(name: str) -> None:
    conversion = find(name).convert([TOOL])
    assert json.dumps(SCHEMA["properties"]) in json.dumps(conversion.tools)
    assert conversion.properties == {}


def test_a_schema_without_such_names_goes_over_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a.b-c_d": {"type": "string"}}}
    (written,) = find("anthropic").convert([{"name": "t", "inputSchema": schema}]).tools
    assert written["input_schema"] is schema


@pytest.mark.parametrize("field", ["parameters", "parametersJsonSchema"])
def test_gemini_gets_no_property_called_ref(field: Any) -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}, "$top": {"type": "integer"}}}
    conversion = find("gemini").convert([{"name": "t", "inputSchema": schema}], Options(gemini_field=field))
    properties = conversion.tools[0][field]["properties"]
    assert list(properties) == ["ref_0b13baac", "$top"]
    assert conversion.properties == {"t": {"ref_0b13baac": "$ref"}}


@pytest.mark.parametrize("text", [[], [{"type": "text", "text": "a schema"}]], ids=["alone", "beside text"])
@pytest.mark.parametrize("structured", [{"schema": {"$ref": "#/$defs/N"}}, [{"$ref": 1}], {"$ref": {"a": []}}])
def test_gemini_gets_a_result_with_a_key_called_ref_as_text(structured: Any, text: list[Any]) -> None:
    messages = message_format("gemini")
    (call,) = messages.parse_calls([{"functionCall": {"id": "1", "name": "t", "args": {}}}])
    written = messages.write_results([call], [{"content": text, "structuredContent": structured}])
    response = written.messages[0]["parts"][0]["functionResponse"]["response"]
    assert '"$ref":' not in json.dumps(response).replace('\\"', "'")
    assert json.loads(response["output"]) == structured
    assert "$ref" in written.report[-1].why


def test_a_text_that_contains_ref_is_not_a_key() -> None:
    messages = message_format("gemini")
    (call,) = messages.parse_calls([{"functionCall": {"id": "1", "name": "t", "args": {}}}])
    content = {"text": '{"$ref": 1}'}
    written = messages.write_results([call], [{"content": [], "structuredContent": content}])
    assert written.messages[0]["parts"][0]["functionResponse"]["response"] == content


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize("inner", [False, True])
def test_null_in_place_of_the_required_properties_is_as_if_it_were_not_there(name: str, inner: bool) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": None}
    if inner:
        schema = {"type": "object", "properties": {"o": schema}}
    conversion = find(name).convert([{"name": "t", "description": "T.", "inputSchema": schema}])
    assert "required" not in json.dumps(conversion.tools)
    assert [loss.keyword for loss in conversion.report] == ["required"]


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "gemini", "bedrock"])
def test_a_root_without_a_type_is_an_object(name: str) -> None:
    schema = {"properties": {"a": {"type": "string"}}}
    (written,) = find(name).convert([{"name": "t", "description": "T.", "inputSchema": schema}]).tools
    assert schema_of(written)["type"] == "object"


def test_a_conversion_between_formats_says_which_names_it_changed() -> None:
    function = {"type": "function", "function": {"name": "odd", "parameters": SCHEMA}}
    conversion = between([function], find("openai-chat"), find("anthropic"))
    assert set(conversion.properties["odd"].values()) == {"filter[name]", "$top", LONG}
    assert conversion.tools[0]["input_schema"]["properties"].keys() == {*conversion.properties["odd"], "plain"}
