"""Arguments generated from a schema: they are always valid, and every schema of a usual kind gets some."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_operator.calibration.minimal import Unsatisfied, minimal_arguments

Schema = dict[str, Any]
UNHURRIED = settings(deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["a", "b", "c", "d"])


def with_one(schema: Schema, **more: Any) -> Schema:
    """A tool with one required argument."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, {}),
        ({"type": "object", "properties": {"x": {"type": "string"}}}, {}),
        (with_one({"type": "string"}), {"x": "test"}),
        (with_one({"type": "string", "maxLength": 2}), {"x": "te"}),
        (with_one({"type": "string", "minLength": 6}), {"x": "testxx"}),
        (with_one({"type": "string", "format": "date"}), {"x": "2026-01-01"}),
        (with_one({"type": "string", "pattern": "^[0-9]+$"}), {"x": "1"}),
        (with_one({"type": "integer"}), {"x": 1}),
        (with_one({"type": "integer", "minimum": 10, "multipleOf": 4}), {"x": 12}),
        (with_one({"type": "integer", "maximum": -3}), {"x": -3}),
        (with_one({"type": "integer", "exclusiveMinimum": 7}), {"x": 8}),
        (with_one({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}), {"x": 0.5}),
        (with_one({"type": "boolean"}), {"x": False}),
        (with_one({"type": ["null", "string"]}), {"x": None}),
        (with_one({"enum": ["metric", "imperial"]}), {"x": "metric"}),
        (with_one({"const": 7}), {"x": 7}),
        (with_one({"type": "string", "examples": ["Europe/Warsaw"]}), {"x": "Europe/Warsaw"}),
        (with_one({"type": "integer", "default": 40}), {"x": 40}),
        (with_one({"type": "integer", "default": "forty"}), {"x": 0}),
        (with_one({"type": "array", "items": {"type": "integer"}}), {"x": []}),
        (
            with_one({"type": "array", "minItems": 2, "uniqueItems": True, "items": {"type": "string"}}),
            {"x": ["test", "a"]},
        ),
        (with_one({"type": "object", "properties": {"y": {"type": "integer"}}, "required": ["y"]}), {"x": {"y": 1}}),
        (with_one({"$ref": "#/$defs/unit"}, **{"$defs": {"unit": {"enum": ["m"]}}}), {"x": "m"}),
        (with_one({"allOf": [{"type": "integer"}, {"minimum": 4}]}), {"x": 4}),
        (with_one({"anyOf": [{"type": "integer"}, {"type": "null"}]}), {"x": 1}),
        ({"type": "object", "minProperties": 1, "properties": {"q": {"type": "string"}}}, {"q": "test"}),
        ({"type": "object", "required": ["free"]}, {"free": "test"}),
    ],
)
def test_arguments_have_the_required_members_only(schema: Schema, expected: Schema) -> None:
    assert minimal_arguments(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        with_one({"type": "string", "pattern": "^[A-Z]{5}-[0-9]{9}$"}),
        with_one(False),  # type: ignore[arg-type]  # a schema may be false
        with_one({"type": "integer", "minimum": 2, "maximum": 1}),
        with_one({"$ref": "#/properties/x"}),
        with_one({"$ref": "https://example.com/schema.json"}),
        with_one({"$ref": "#/nowhere"}),
        with_one({"type": "string", "minLength": 10_000_000}),
        with_one({"type": "array", "minItems": 10_000_000}),
        with_one({"not": {}}),
        {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#"}}},
        {"type": "array"},
        {"type": "wrong"},
        [],
        None,
    ],
)
def test_schemas_that_cannot_be_satisfied_are_refused(schema: Any) -> None:
    with pytest.raises(Unsatisfied):
        minimal_arguments(schema)


def sort_pair(pair: tuple[int, int]) -> tuple[int, int]:
    return (min(pair), max(pair))


SMALL = st.tuples(st.integers(-50, 50), st.integers(-50, 50)).map(sort_pair)
LENGTHS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sort_pair)
LEAVES = st.one_of(
    SMALL.map(lambda b: {"type": "integer", "minimum": b[0], "maximum": b[1]}),
    SMALL.map(lambda b: {"type": "number", "exclusiveMinimum": b[0], "exclusiveMaximum": b[1] + 1}),
    LENGTHS.map(lambda b: {"type": "string", "minLength": b[0], "maxLength": b[1]}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.lists(st.integers() | st.text(max_size=5), min_size=1, max_size=3).map(lambda values: {"enum": values}),
    st.just({}),
    st.just({"$ref": "#/$defs/shared"}),
)


def usual(depth: int) -> st.SearchStrategy[Schema]:
    """Satisfiable schemas with the keywords that tools usually have."""
    if depth == 0:
        return LEAVES
    below = usual(depth - 1)
    return st.one_of(
        LEAVES,
        objects(below),
        st.lists(below, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
        st.tuples(below, st.integers(0, 3)).map(lambda p: {"type": "array", "items": p[0], "minItems": p[1]}),
    )


def objects(below: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.dictionaries(NAMES, below, max_size=4).flatmap(
        lambda properties: st.lists(st.sampled_from(sorted(properties) or ["a"]), unique=True).map(
            lambda required: {
                "type": "object",
                "properties": properties or {"a": {}},
                "required": required,
                "additionalProperties": False,
            }
        )
    )


@UNHURRIED
@given(objects(usual(2)))
def test_every_schema_of_the_usual_kinds_gets_arguments_that_it_takes(schema: Schema) -> None:
    schema = {**schema, "$defs": {"shared": {"type": "string", "maxLength": 3}}}
    made = minimal_arguments(schema)
    assert jsonschema_rs.is_valid(schema, made)
    assert set(made) == set(schema["required"])


WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "$ref",
        "items",
        "minItems",
        "prefixItems",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "format",
        "default",
        "examples",
        "minProperties",
        "uniqueItems",
        "additionalProperties",
        "x",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["string", "object", "#"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(WORDS, below, max_size=5),
    max_leaves=25,
)


@UNHURRIED
@given(st.dictionaries(WORDS, ANYTHING, max_size=6))
def test_any_schema_of_a_server_is_satisfied_or_refused(schema: Schema) -> None:
    try:
        made = minimal_arguments(schema)
    except Unsatisfied:
        return
    assert jsonschema_rs.validator_for(schema, offline=True).is_valid(made)
