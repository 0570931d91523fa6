"""The inputSchema that clients see for a tool with renamed and hidden arguments.

The oracle: for every set of arguments that a client can send, the shaped schema accepts it if and only if the original
schema accepts the arguments that the gateway makes of it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema_rs
import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import ToolShape
from fairlead_gateway.calls.routes.tool_call_shape import ToolCallShape
from fairlead_operator.discovery.shaped_schema import ArgumentPlan, ShapedSchema, UnshapeableTool

ABSENT = object()
STRING, NUMBER = {"type": "string"}, {"type": "integer"}
PROPERTIES = {"a": STRING, "b": STRING, "c": NUMBER}
VALUES = ("x", "y", 1)

SCHEMAS: dict[str, dict[str, Any]] = {
    "required": {"required": ["a", "c"]},
    "closed": {"required": ["a"], "additionalProperties": False},
    "oneOf": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "anyOf": {"anyOf": [{"required": ["a", "c"]}, {"properties": {"b": {"const": "y"}}, "required": ["b"]}]},
    "allOf": {"allOf": [{"required": ["b"]}, {"properties": {"a": {"enum": ["x"]}}}]},
    "not": {"not": {"required": ["a", "b"]}},
    "if": {
        "if": {"properties": {"a": {"const": "x"}}, "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"required": ["c"]},
    },
    "dependentRequired": {"dependentRequired": {"a": ["b"], "b": ["c"]}},
    "dependentSchemas": {"dependentSchemas": {"a": {"required": ["c"]}, "c": {"properties": {"b": {"const": "x"}}}}},
    "dependencies": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "dependencies": {"a": ["c"], "b": {"required": ["a"]}},
    },
    "$defs": {
        "$ref": "#/$defs/Both",
        "$defs": {"Both": {"required": ["a", "b"], "properties": {"a": {"const": "x"}}}},
    },
    "cycle": {
        "allOf": [{"$ref": "#/$defs/Loop"}],
        "$defs": {
            "Loop": {"required": ["b"], "anyOf": [{"required": ["a"]}, {"$ref": "#/$defs/Next"}]},
            "Next": {"required": ["c"]},
        },
    },
    "counts": {"minProperties": 2, "maxProperties": 2},
    "propertyNames": {"propertyNames": {"enum": ["a", "b", "c"]}},
}
PLANS: dict[str, ArgumentPlan] = {
    "renamed": ArgumentPlan(client_names={"a": "first", "c": "count"}),
    "swapped": ArgumentPlan(client_names={"a": "b", "b": "a"}),
    "value": ArgumentPlan(hidden=frozenset({"a"}), values={"a": "x"}),
    "other value": ArgumentPlan(hidden=frozenset({"a"}), values={"a": "y"}, client_names={"b": "a"}),
    "hidden": ArgumentPlan(hidden=frozenset({"b"}), client_names={"a": "first"}),
}


def whole(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": PROPERTIES, **part}


def call_shape(plan: ArgumentPlan) -> ToolCallShape:
    return ToolCallShape(
        ToolShape(
            definition=Raw(b"{}"),
            arguments={new: old for old, new in plan.client_names.items()},
            hidden=tuple(plan.hidden),
            values=dict(plan.values),
            defaults=dict(plan.defaults),
        ),
        (),
    )


def calls_of(plan: ArgumentPlan) -> list[dict[str, Any]]:
    """Every set of arguments that a client can send."""
    shown = [plan.name(name) for name in PROPERTIES if name not in plan.hidden]
    return [
        {name: value for name, value in zip(shown, values, strict=True) if value is not ABSENT}
        for values in itertools.product((ABSENT, *VALUES), repeat=len(shown))
    ]


def accepted_calls(original: dict[str, Any], plan: ArgumentPlan, calls: list[dict[str, Any]]) -> list[bool]:
    """For each call: whether the server accepts the arguments that the gateway makes of it."""
    shape, valid = call_shape(plan), jsonschema_rs.validator_for(original).is_valid
    return [valid(json.loads(bytes(shape.to_server(json.dumps(call).encode())))) for call in calls]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("part", SCHEMAS.values(), ids=SCHEMAS)
def test_the_shaped_schema_accepts_what_the_server_accepts(part: dict[str, Any], plan: ArgumentPlan) -> None:
    original, calls = whole(part), calls_of(plan)
    expected = accepted_calls(original, plan, calls)
    try:
        shaped = ShapedSchema(original, plan).schema
    except UnshapeableTool:
        assert not any(expected)
        return
    valid = jsonschema_rs.validator_for(shaped).is_valid
    assert [valid(call) for call in calls] == expected


@pytest.mark.parametrize("name", ["required", "closed", "oneOf", "anyOf", "allOf", "not", "if", "cycle"])
def test_a_default_makes_an_argument_optional_wherever_it_is_required(name: str) -> None:
    plan, original = ArgumentPlan(defaults={"c": 1}), whole(SCHEMAS[name])
    calls = calls_of(plan)
    valid = jsonschema_rs.validator_for(ShapedSchema(original, plan).schema).is_valid
    assert [valid(call) for call in calls] == accepted_calls(original, plan, calls)


def test_nested_values_keep_their_names_also_where_they_refer_to_the_root() -> None:
    root = whole({"required": ["a"]})
    root["properties"] = {
        **PROPERTIES,
        "children": {"type": "array", "items": {"$ref": "#"}},
        "like": {"$ref": "#/properties/a"},
        "nested": {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
    }
    shaped = ShapedSchema(root, ArgumentPlan(client_names={"a": "first"})).schema
    valid = jsonschema_rs.validator_for(shaped).is_valid
    assert valid({"first": "x", "children": [{"a": "y", "children": [{"a": "z"}]}], "nested": {"a": "n"}, "like": "l"})
    assert not valid({"first": "x", "children": [{"first": "y"}]})
    assert not valid({"first": "x", "nested": {"first": "n"}})
    assert not valid({"first": "x", "like": 1})
    assert not valid({"a": "x"})


def test_a_definition_that_nested_values_use_too_stays_as_it_is_for_them() -> None:
    part = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"properties": {"a": STRING, "next": {"$ref": "#/$defs/Node"}}, "required": ["a"]}},
    }
    shaped = ShapedSchema({"type": "object", **part}, ArgumentPlan(client_names={"a": "first"})).schema
    valid = jsonschema_rs.validator_for(shaped).is_valid
    assert valid({"first": "x", "next": {"a": "y"}})
    assert not valid({"first": "x", "next": {"first": "y"}})


def test_descriptions_and_defaults_are_shown_and_the_rest_of_an_argument_stays() -> None:
    root = whole({"required": ["a", "c"]})
    root["properties"] = {**PROPERTIES, "c": {"type": "integer", "x-mcp-header": "Count", "description": "old"}}
    plan = ArgumentPlan(client_names={"c": "count"}, descriptions={"c": "How many"}, defaults={"c": 5})
    shaped = ShapedSchema(root, plan).schema
    assert shaped["properties"]["count"] == {
        "type": "integer",
        "x-mcp-header": "Count",
        "description": "How many",
        "default": 5,
    }
    assert shaped["required"] == ["a"]


@pytest.mark.parametrize(
    ("part", "plan", "why"),
    [
        (
            {"required": ["a"]},
            ArgumentPlan(hidden=frozenset("a")),
            "the hidden argument 'a' is required and has no value",
        ),
        ({}, ArgumentPlan(hidden=frozenset("c"), values={"c": "x"}), "the value of the argument 'c' does not match"),
        ({}, ArgumentPlan(defaults={"c": "x"}), "the default of the argument 'c' does not match"),
        ({}, ArgumentPlan(client_names={"a": "b"}), "the arguments 'a' and 'b' would both be called 'b'"),
        ({"patternProperties": {"^a": {}}}, ArgumentPlan(client_names={"a": "first"}), "by the pattern '^a'"),
        ({"propertyNames": {"pattern": "^.$"}}, ArgumentPlan(client_names={"a": "first"}), "propertyNames"),
        ({"enum": [{"a": "x"}]}, ArgumentPlan(client_names={"a": "first"}), "uses enum"),
        (
            {"$ref": "https://example.com/s"},
            ArgumentPlan(client_names={"a": "first"}),
            "refers to https://example.com/s",
        ),
        ({"$ref": "#/$defs/gone"}, ArgumentPlan(client_names={"a": "first"}), "refers to #/$defs/gone, which"),
    ],
)
def test_a_schema_that_cannot_be_shaped_is_refused_with_the_reason(
    part: dict[str, Any], plan: ArgumentPlan, why: str
) -> None:
    with pytest.raises(UnshapeableTool) as error:
        ShapedSchema(whole(part), plan)
    assert why in str(error.value)


def test_examples_of_arguments_have_the_clients_names() -> None:
    part = {"examples": [{"a": "x", "b": "y"}], "default": {"a": "z"}}
    plan = ArgumentPlan(client_names={"a": "first"}, hidden=frozenset("b"))
    shaped = ShapedSchema(whole(part), plan).schema
    assert (shaped["examples"], shaped["default"]) == ([{"first": "x"}], {"first": "z"})
