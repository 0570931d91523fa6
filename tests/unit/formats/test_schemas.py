"""The schema engine against odd schemas, bombs, and whatever hypothesis thinks of."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance_offers import RICH_SCHEMA
from examples import examples
from fairlead_formats.providers.gemini.openapi import from_openapi
from fairlead_formats.registry import FORMATS, find
from fairlead_formats.tool_format import Action, Options
from fairlead_formats.tools.definitions import FAULT
from formatrules import violations
from formats.instances import Instances
from formatschemas import ODDITIES, REFUSED, SCHEMAS, bomb, deep

CHOICES = [
    *((name, Options()) for name in sorted(FORMATS) if name != "mcp"),
    ("openai-chat", Options(model="gpt-5")),
    ("openai-chat", Options(strict=True)),
    ("anthropic", Options(strict=True)),
    ("gemini", Options(gemini_field="parameters")),
    ("bedrock-converse", Options(model="claude-sonnet-5")),
    ("bedrock-converse", Options(model="claude-sonnet-5", strict=True)),
]
every_choice = pytest.mark.parametrize(("format_name", "options"), CHOICES)


def tool(schema: Any) -> dict[str, Any]:
    return {"name": "t", "description": "d", "inputSchema": schema}


def schema_in(format_name: str, written: dict[str, Any]) -> dict[str, Any]:
    """The schema in a provider's definition, as JSON Schema."""
    parts = written.get("function") or written.get("toolSpec") or written
    if "parameters" in parts and format_name.startswith("gemini"):
        return from_openapi(parts["parameters"])
    schema = parts.get("parameters") or parts.get("input_schema") or parts.get("parametersJsonSchema")
    schema = schema or parts.get("inputSchema", {}).get("json")
    return schema or {"type": "object", "properties": {}}


@every_choice
@pytest.mark.parametrize("odd", ODDITIES)
def test_an_odd_schema_is_converted_and_breaks_no_rule(format_name: str, options: Options, odd: str) -> None:
    converted = find(format_name).convert([tool(ODDITIES[odd])], options)
    assert len(converted.tools) == 1, converted.report
    assert violations(format_name, converted.tools[0], options.model) == []


@every_choice
def test_the_schema_of_the_conformance_suite_is_converted_and_keeps_its_properties(
    format_name: str, options: Options
) -> None:
    (written,) = find(format_name).convert([tool(RICH_SCHEMA)], options).tools
    assert violations(format_name, written, options.model) == []
    assert schema_in(format_name, written)["properties"].keys() == RICH_SCHEMA["properties"].keys()


@every_choice
@pytest.mark.parametrize("bad", REFUSED)
def test_schemas_that_do_not_describe_an_object_are_refused(format_name: str, options: Options, bad: str) -> None:
    converted = find(format_name).convert([tool(REFUSED[bad])], options)
    assert converted.tools == ()
    assert [loss.action for loss in converted.report] == [Action.REFUSED]


@pytest.mark.parametrize("format_name", ["gemini-live", "bedrock-converse"])
def test_a_schema_bomb_is_refused_and_not_expanded(format_name: str) -> None:
    start = time.process_time()
    converted = find(format_name).convert([tool(bomb())])
    assert converted.tools == ()
    assert "parts" in converted.report[-1].why or "bytes" in converted.report[-1].why
    assert time.process_time() - start < 2


@pytest.mark.parametrize("format_name", ["openai", "anthropic", "gemini"])
def test_a_bomb_that_need_not_be_expanded_goes_over_as_it_is(format_name: str) -> None:
    converted = find(format_name).convert([tool(bomb())])
    assert len(json.dumps(converted.tools)) < 2 * len(json.dumps(bomb()))


@every_choice
def test_a_schema_nested_without_end_is_refused(format_name: str, options: Options) -> None:
    converted = find(format_name).convert([tool(deep(3000))], options)
    assert converted.tools == ()


def test_a_deep_schema_is_not_made_strict_beyond_ten_levels() -> None:
    closed = find("openai").convert([tool(deep(5)), {**tool(deep(12)), "name": "u"}], Options(strict=True))
    assert [tool["function"]["strict"] for tool in closed.tools] == [True, False]


def test_a_schema_that_is_too_much_for_strict_alone_goes_over_without() -> None:
    many = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(10_001)}}
    (written,) = find("openai").convert([tool(many)], Options(strict=True)).tools
    assert written["function"]["strict"] is False


def test_a_fault_of_the_converter_costs_one_tool(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "inputSchema":
                raise KeyError(key)
            return super().get(key, default)

    converted = find("openai").convert([Odd(name="odd"), tool({"type": "object"})])
    assert [written["function"]["name"] for written in converted.tools] == ["t"]
    assert [loss.why for loss in converted.report_of("odd")] == [f"{FAULT}: KeyError"]
    assert "conversion of the tool 'odd'" in caplog.text


def test_the_schema_given_is_not_changed() -> None:
    for format_name, options in CHOICES:
        for schema in ODDITIES.values():
            before = json.dumps(schema)
            find(format_name).convert([tool(schema)], options)
            assert json.dumps(schema) == before


def test_keywords_that_gemini_lacks_are_told_in_the_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "description": "Tags"},
            "ratio": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            "level": {"type": "integer", "enum": [1, 5]},
        },
    }
    written = find("gemini").convert([tool(schema)], Options(gemini_field="parameters")).tools[0]
    properties = written["parameters"]["properties"]
    assert properties["tags"]["description"] == "Tags. No item twice."
    assert properties["ratio"]["description"] == "Greater than 0. A multiple of 0.5."
    assert properties["ratio"]["minimum"] == 0
    assert properties["level"]["description"] == "One of 1 or 5."


def test_exclusive_bounds_of_draft_4_keep_their_meaning() -> None:
    bounds = {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}
    converted = find("openai").convert([tool({"type": "object", "properties": {"page": bounds}})])
    page = converted.tools[0]["function"]["parameters"]["properties"]["page"]
    assert page == {"type": "integer", "exclusiveMinimum": 0, "maximum": 9}
    assert not any(loss.lossy for loss in converted.report)


@every_choice
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS)
def test_any_schema_is_converted_to_what_the_provider_takes_or_refused(
    format_name: str, options: Options, schema: dict[str, Any]
) -> None:
    converted = find(format_name).convert([tool(schema)], options)
    if not converted.tools:
        assert converted.report[-1].action is Action.REFUSED
        assert not converted.report[-1].why.startswith(FAULT)
        return
    json.dumps(converted.tools)
    assert violations(format_name, converted.tools[0], options.model) == []


LAX = [(name, options) for name, options in CHOICES if not options.strict]


@pytest.mark.parametrize(("format_name", "options"), LAX)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema=SCHEMAS, seed=st.integers(0, 1000))
def test_a_lossless_conversion_accepts_the_same_values_and_an_empty_report_means_equality(
    format_name: str, options: Options, schema: dict[str, Any], seed: int
) -> None:
    format_ = find(format_name)
    converted = format_.convert([tool(schema)], options)
    if not converted.tools or any(loss.lossy for loss in converted.report):
        return
    if not converted.report:
        (read,) = format_.read(converted.tools).tools
        assert spelled(read["inputSchema"]) == spelled(schema)
    other = schema_in(format_name, converted.tools[0])
    before = jsonschema_rs.Draft202012Validator(schema)
    after = jsonschema_rs.Draft202012Validator(other)
    for source in (Instances(schema, Random(seed)), Instances(other, Random(seed))):
        for value in [source.value() for _ in range(8)] + [source.near() for _ in range(8)]:
            assert before.is_valid(value) == after.is_valid(value), (value, other, converted.report)


def spelled(schema: Any) -> Any:
    """The schema with `{}` for `true`, which is the same (JSON Schema 2020-12, 4.3.2)."""
    if not isinstance(schema, dict):
        return {} if schema is True else schema
    out = {}
    for keyword, value in schema.items():
        if keyword in {"anyOf", "oneOf", "allOf", "prefixItems"} and isinstance(value, list):
            value = [spelled(part) for part in value]
        elif keyword in {"properties", "patternProperties", "$defs"} and isinstance(value, dict):
            value = {name: spelled(part) for name, part in value.items()}
        elif keyword in {"items", "additionalProperties", "not"}:
            value = spelled(value)
        out[keyword] = value
    return out


def nested(levels: int) -> dict[str, Any]:
    """A schema of so many levels, the last of which is a string."""
    schema: dict[str, Any] = {"type": "string"}
    for level in range(levels - 1, 0, -1):
        schema = {"type": "object", "properties": {f"p{level}": schema}, "required": [f"p{level}"]}
    return schema


def value(levels: int, last: Any) -> Any:
    for level in range(levels - 1, 0, -1):
        last = {f"p{level}": last}
    return last


def test_gemini_gets_what_is_too_deep_in_definitions_and_means_the_same() -> None:
    converted = find("gemini").convert([tool(nested(12))])
    assert violations("gemini", converted.tools[0]) == []
    schema = converted.tools[0]["parametersJsonSchema"]
    judge = jsonschema_rs.Draft202012Validator(schema)
    assert judge.is_valid(value(12, "x"))
    assert not judge.is_valid(value(12, 1))
    assert {loss.action for loss in converted.report} == {Action.REWRITTEN}


def test_gemini_live_gets_what_is_too_deep_in_words() -> None:
    converted = find("gemini-live").convert([tool(nested(7))])
    assert violations("gemini-live", converted.tools[0]) == []
    (loss,) = converted.report
    assert (loss.action, loss.path) == (
        Action.DESCRIBED,
        "/inputSchema/properties/p1/properties/p2/properties/p3/properties/p4",
    )
    here = converted.tools[0]["parameters"]
    for name in ("p1", "p2", "p3", "p4"):
        here = here["properties"][name]
    assert here == {"type": "object", "description": "An object with p5 (an object)."}


def test_five_levels_go_to_gemini_as_they_are() -> None:
    for name in ("gemini", "gemini-live"):
        assert find(name).convert([tool(nested(5))]).report == ()


def test_lists_of_lists_are_told_where_they_are_too_deep() -> None:
    polygon = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}}
    geometry = {"type": "object", "properties": {"kind": {"type": "string"}, "coordinates": polygon}}
    schema = {"type": "object", "properties": {"geometry": geometry}}
    converted = find("gemini-live").convert([tool(schema)])
    assert violations("gemini-live", converted.tools[0]) == []
    told = converted.tools[0]["parameters"]["properties"]["geometry"]
    assert told["type"] == "object"
    assert "coordinates? (an array)" in told["description"]


def enumerated(count: int, length: int) -> dict[str, Any]:
    values = [f"{i:0{length}}" for i in range(count)]
    return {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": values}},
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(("count", "length", "strict"), [(250, 100, True), (251, 59, True), (251, 60, False)])
def test_a_long_enum_is_strict_for_openai_while_its_text_is_short(count: int, length: int, strict: bool) -> None:
    (written,) = find("openai-chat").convert([tool(enumerated(count, length))], Options(strict=True)).tools
    assert written["function"]["strict"] is strict
    claimed = {"type": "function", "function": {**written["function"], "strict": True}}
    assert (violations("openai-chat", claimed) == []) is strict


def test_anthropic_gets_no_more_strict_tools_than_a_request_may_hold() -> None:
    tools = [{"name": f"t{i}", "inputSchema": {"type": "object", "properties": {}}} for i in range(22)]
    converted = find("anthropic").convert(tools, Options(strict=True))
    assert ["strict" in written for written in converted.tools] == [True] * 20 + [False] * 2
    left = [loss.tool for loss in converted.report if loss.action is Action.NON_STRICT]
    assert left == ["t20", "t21"]
