"""Nulls of strict mode are removed where they stand for "left out", and nowhere else; `nullable` allows null."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.registry import find
from fairlead_formats.schema.nulls import remove_nulls, with_null
from fairlead_formats.tool_format import Options
from formats.instances import Instances
from formatschemas import SCHEMAS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "needed": {"type": "string"},
        "optional": {"type": "string"},
        "nullable": {"type": ["string", "null"]},
        "inner": {"type": "object", "properties": {"optional": {"type": "integer"}}},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
        "choice": {"anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}}, {"type": "string"}]},
    },
    "required": ["needed"],
    "$defs": {"Row": {"type": "object", "properties": {"id": {"type": "integer"}, "next": {"$ref": "#/$defs/Row"}}}},
}


def test_an_optional_property_that_is_null_was_left_out() -> None:
    assert remove_nulls({"needed": "a", "optional": None}, SCHEMA) == {"needed": "a"}


def test_a_null_that_the_original_allows_stays() -> None:
    assert remove_nulls({"nullable": None}, SCHEMA) == {"nullable": None}


def test_a_required_null_stays_for_the_validator_to_refuse() -> None:
    assert remove_nulls({"needed": None}, SCHEMA) == {"needed": None}


def test_a_null_that_nothing_describes_stays() -> None:
    assert remove_nulls({"extra": None}, SCHEMA) == {"extra": None}


def test_nulls_are_taken_out_below_objects_arrays_references_and_alternatives() -> None:
    arguments = {
        "inner": {"optional": None},
        "rows": [{"id": None, "next": {"id": None, "next": None}}],
        "choice": {"x": None},
    }
    assert remove_nulls(arguments, SCHEMA) == {"inner": {}, "rows": [{"next": {}}], "choice": {}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["string", "integer"]},
        {"type": "string", "enum": ["a"]},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "string", "const": "a"},
        {"const": "a", "enum": ["a", "b"]},
        {"type": "string", "anyOf": [{"const": "a"}, {"const": "b"}]},
        {"anyOf": [{"const": "a"}]},
        {"oneOf": [{"const": "a"}, {"const": "b"}], "description": "d"},
        {"allOf": [{"type": "string"}]},
        {"not": {"const": None}},
        {"if": True, "then": {"type": "string"}},
    ],
    ids=str,
)
def test_a_nullable_schema_allows_null_and_otherwise_what_it_allowed(schema: dict[str, Any]) -> None:
    made = with_null(schema)
    assert jsonschema_rs.is_valid(made, None)
    others: list[Any] = ["a", "b", "c", 1, [], {}]
    for value in others:
        assert jsonschema_rs.is_valid(made, value) == jsonschema_rs.is_valid(schema, value), value
    assert with_null(schema) == made, "the schema itself is not changed"
    assert len({str(each) for each in made.get("enum", ())}) == len(made.get("enum", ()))


def test_the_passed_arguments_are_not_changed() -> None:
    arguments = {"inner": {"optional": None}}
    remove_nulls(arguments, SCHEMA)
    assert arguments == {"inner": {"optional": None}}


def test_a_schema_of_alternatives_without_end_ends() -> None:
    circle: dict[str, Any] = {"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}}}
    assert remove_nulls({"a": {"b": None}}, {**circle, "properties": {"a": {"$ref": "#/$defs/A"}}}) == {
        "a": {"b": None}
    }


@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(schema=SCHEMAS, seed=st.integers(0, 1000))
def test_values_of_a_strict_schema_are_valid_for_the_original_once_the_nulls_are_out(
    schema: dict[str, Any], seed: int
) -> None:
    tool = {"name": "t", "description": "d", "inputSchema": schema}
    converted = find("openai").convert([tool], Options(strict=True)).tools
    if not converted or not converted[0]["function"]["strict"]:
        return
    strict = converted[0]["function"]["parameters"]
    before = jsonschema_rs.Draft202012Validator(schema)
    after = jsonschema_rs.Draft202012Validator(strict)
    source = Instances(strict, Random(seed))
    for value in [source.value() for _ in range(10)] + [source.near() for _ in range(10)]:
        if isinstance(value, dict) and after.is_valid(value):
            assert before.is_valid(remove_nulls(value, schema)), (value, strict)
