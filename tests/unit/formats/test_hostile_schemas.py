"""Hostile definitions in every format: the conversion is valid for the provider, or only that definition is left
out."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.providers.gemini.openapi import from_openapi
from fairlead_formats.registry import FORMATS, find
from fairlead_formats.tool_format import Action, ConvertedTools, Options
from fairlead_formats.tools.definitions import FAULT, REJECTED
from formatrules import violations
from formats.instances import Instances
from formatschemas import SCHEMAS
from hostileschemas import KINDS, TOOLS
from providerfaults import provider_fault

CHOICES: dict[str, tuple[str, Options]] = {
    **{name: (name, Options()) for name in sorted(FORMATS) if name != "mcp"},
    "openai-chat gpt-5": ("openai-chat", Options(model="gpt-5")),
    "openai-chat strict": ("openai-chat", Options(strict=True)),
    "anthropic strict": ("anthropic", Options(strict=True)),
    "gemini parameters": ("gemini", Options(gemini_field="parameters")),
    "bedrock-converse claude": ("bedrock-converse", Options(model="claude-sonnet-5")),
    "bedrock-converse claude strict": ("bedrock-converse", Options(model="claude-sonnet-5", strict=True)),
}
LAX = [choice for choice, (_, options) in CHOICES.items() if not options.strict]
GOOD = {"name": "good", "description": "Good.", "inputSchema": {"type": "object", "properties": {}}}
hostile = settings(max_examples=examples(100), deadline=None, suppress_health_check=[*HealthCheck])
SEEDS = st.integers(0, 99)
every_choice = pytest.mark.parametrize("choice", CHOICES)


def tool(schema: Any) -> dict[str, Any]:
    return {"name": "odd", "description": "Odd.", "inputSchema": schema}


def convert(choice: str, *tools: dict[str, Any]) -> ConvertedTools:
    format_name, options = CHOICES[choice]
    return find(format_name).convert(tools, options)


def schema_in(choice: str, *tools: dict[str, Any]) -> dict[str, Any]:
    """The schema of the first converted definition, as JSON Schema."""
    written = convert(choice, *tools).tools[0]
    parts = written.get("function") or written.get("toolSpec") or written
    if "parameters" in parts and choice.startswith("gemini"):
        return from_openapi(parts["parameters"])
    schema = parts.get("parameters") or parts.get("input_schema") or parts.get("parametersJsonSchema")
    schema = schema or parts.get("inputSchema", {}).get("json")
    return schema or {"type": "object", "properties": {}}


def hold_to_the_rules(choice: str, definition: dict[str, Any]) -> None:
    """Assert that a definition is refused or becomes valid for the provider, and that the other definition is
    converted."""
    format_name, options = CHOICES[choice]
    outcome = convert(choice, definition, GOOD)
    *mine, neighbour = outcome.tools
    assert (neighbour,) == convert(choice, GOOD).tools
    refusals = [loss for loss in outcome.report if loss.action is Action.REFUSED]
    assert [loss.tool for loss in refusals] == ([] if mine else ["odd"])
    assert not [loss.why for loss in refusals if loss.why.startswith((FAULT, REJECTED))]
    for written in mine:
        json.dumps(written).encode()
        assert violations(format_name, written, options.model) == []
        assert provider_fault(format_name, written) is None


@pytest.mark.diagonal(1)
@every_choice
@pytest.mark.parametrize("kind", KINDS)
@hostile
@given(data=st.data())
def test_a_hostile_definition_is_valid_for_the_provider_or_left_out_alone(
    choice: str, kind: str, data: st.DataObject
) -> None:
    hold_to_the_rules(choice, tool(data.draw(KINDS[kind])))


@every_choice
@hostile
@given(definition=TOOLS)
def test_a_definition_with_any_value_in_every_member_is_valid_or_left_out_alone(
    choice: str, definition: dict[str, Any]
) -> None:
    hold_to_the_rules(choice, definition)


@pytest.mark.parametrize("choice", LAX)
@hostile
@given(schema=SCHEMAS | KINDS["any combination of keywords"] | KINDS["a combinator at the root"], seed=SEEDS)
def test_a_conversion_that_accepts_less_is_reported_as_narrowed(choice: str, schema: Any, seed: int) -> None:
    outcome = convert(choice, tool(schema))
    if not outcome.tools or outcome.properties or any(loss.action is Action.NARROWED for loss in outcome.report):
        return
    try:
        before = jsonschema_rs.Draft202012Validator(schema)
        source = Instances(schema, Random(seed))
        values = [source.value() for _ in range(6)] + [source.near() for _ in range(6)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, jsonschema_rs.ValidationError):
        return  # the validator or the generator of values does not support this schema
    after = jsonschema_rs.Draft202012Validator(schema_in(choice, tool(schema)))
    for value in values:
        if isinstance(value, dict) and before.is_valid(value):
            assert after.is_valid(value), (value, outcome.report)


A_OR_B: dict[str, Any] = {
    "type": "object",
    "anyOf": [
        {"properties": {"a": {"type": "integer", "minimum": 0}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]},
    ],
}


@pytest.mark.parametrize("choice", ["openai-chat", "anthropic", "gemini", "bedrock-converse"])
def test_an_open_any_of_at_the_root_that_becomes_one_object_is_reported_as_narrowed(choice: str) -> None:
    report = convert(choice, tool(A_OR_B)).report
    (narrowed,) = [loss for loss in report if loss.action is Action.NARROWED]
    assert (narrowed.path, narrowed.keyword) == ("/inputSchema", "anyOf")
    assert '"a" or "b"' in narrowed.why
    closed = [{**branch, "additionalProperties": False} for branch in A_OR_B["anyOf"]]
    report = convert(choice, tool({**A_OR_B, "anyOf": closed})).report
    assert {loss.action for loss in report} <= {Action.DESCRIBED, Action.REWRITTEN, Action.WIDENED}


@pytest.mark.parametrize("choice", ["gemini-live", "gemini parameters"])
def test_a_closed_tuple_for_gemini_keeps_its_length_and_all_of_its_types(choice: str) -> None:
    parts = [{"type": "string"}, {"type": "number"}]
    schema = {"type": "object", "properties": {"a": {"type": "array", "prefixItems": parts, "items": False}}}
    (part,) = schema_in(choice, tool(schema))["properties"].values()
    assert part["maxItems"] == 2
    assert [branch["type"] for branch in part["items"]["anyOf"]] == ["string", "number"]


@pytest.mark.parametrize("choice", LAX)
def test_properties_of_a_pattern_that_is_left_out_are_not_forbidden(choice: str) -> None:
    value = {"type": "object", "patternProperties": {"^(": {"type": "string"}}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"a": value}}
    report = convert(choice, tool(schema)).report
    assert "additionalProperties" not in schema_in(choice, tool(schema))["properties"]["a"]
    assert {loss.action for loss in report} >= {Action.WIDENED, Action.DESCRIBED}


@every_choice
def test_half_a_surrogate_pair_in_a_definition_leaves_it_out_and_is_named(choice: str) -> None:
    half = tool({"type": "object", "properties": {"a": {"type": "string", "description": "\ud800"}}})
    outcome = convert(choice, half, GOOD)
    assert len(outcome.tools) == 1
    assert [loss.why for loss in outcome.report_of("odd") if loss.action is Action.REFUSED] == [
        "a text in the definition has half of a surrogate pair, which UTF-8 cannot hold"
    ]


FAULTY = {
    "counts of matches that are null": {"type": "array", "contains": {}, "minContains": None, "maxContains": "2"},
    "annotations of other types": {"deprecated": None, "readOnly": 1, "examples": {}, "$comment": []},
    "an anchor that is not a name": {"$anchor": "#a", "$dynamicAnchor": 7, "$id": "a#b"},
    "a schema of content that is none": {"type": "string", "contentSchema": {"type": "any"}, "contentEncoding": {}},
    "dependencies of draft 7": {"dependencies": {"a": ["b"], "b": {"minLength": -1}, "c": None}},
    "an allOf within allOf that is empty": {"allOf": [{"type": "object", "allOf": []}, {"required": None}]},
    "a described part of odd types": {"not": {"type": True}, "propertyNames": {"type": [["string"], {}]}},
    "an array beside a reference": {"$ref": "#/$defs/any", "type": "array"},
    "a tuple of draft 7 beside a reference": {"$ref": "#/$defs/any", "items": []},
    "a tuple of draft 7 with parts beside a reference": {"$ref": "#/$defs/any", "items": [{"type": "string"}]},
}


@every_choice
@pytest.mark.parametrize("fault", FAULTY)
def test_a_part_with_malformed_keywords_is_converted_without_them(choice: str, fault: str) -> None:
    schema = {"type": "object", "properties": {"a": FAULTY[fault]}, "$defs": {"any": {}}}
    hold_to_the_rules(choice, tool(schema))
    assert convert(choice, tool(schema)).tools


@every_choice
def test_keywords_without_meaning_at_the_root_are_converted_or_left_out(choice: str) -> None:
    root = {"type": "object", "properties": {}, "items": [], "minLength": 1, "pattern": "(", "description": ""}
    hold_to_the_rules(choice, tool({**root, "contains": {}, "maximum": 1}))


@every_choice
def test_items_of_an_older_draft_beside_an_object_are_left_out(choice: str) -> None:
    schema = {"type": "object", "properties": {}, "additionalItems": {"type": "array"}}
    hold_to_the_rules(choice, tool(schema))
    assert "additionalItems" not in schema_in(choice, tool(schema))


@every_choice
def test_keywords_beside_a_reference_at_the_root_that_cannot_be_merged_are_left_out(choice: str) -> None:
    patterns = {"patternProperties": {"^a": {"type": "string"}}, "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"b": {}}, "$ref": "#/$defs/patterns", "$defs": {"patterns": patterns}}
    hold_to_the_rules(choice, tool(schema))
    assert list(schema_in(choice, tool(schema))["properties"]) == ["a"]
    losses = [loss.why for loss in convert(choice, tool(schema)).report if loss.action is Action.WIDENED]
    assert "the keywords next to a $ref are left out: both schemas have patternProperties" in losses
