"""Validation by schemas: messages about values, costs, and unusable parts of a schema."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from fairlead_tools.validation.checker import MAX_EXPLAINED, MAX_VALUE_BYTES, PATTERN_BYTES, TOO_DEEP
from fairlead_tools.validation.schema_cache import Checks
from fairlead_tools.validation.schema_compiler import (
    MAX_SCHEMA_BYTES,
    NOT_A_SCHEMA,
    PATTERN,
    REMOTE_REFERENCE,
    TOO_INTRICATE,
    TOO_LARGE,
    compile_schema,
)

STOCK = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "minLength": 2},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"enum": ["m", "kg"]},
        "lines": {"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["name"]}},
        "by": {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"who": {"type": "string"}}}]},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
    },
    "required": ["item"],
    "additionalProperties": False,
}


def wrong(schema: Any, value: Any) -> str | None:
    checker = compile_schema(schema).checker
    assert checker is not None
    return checker.errors(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"item": "rope"}, None),
        ({"item": "rope", "by": {"who": "me"}, "code": "AB", "count": 9}, None),
        ({}, "item: required, but missing"),
        ({"item": 3}, "item: expected string, got a number"),
        ({"item": "r"}, 'item: expected at least 2 characters, got "r"'),
        ({"item": "rope", "count": 10}, "count: expected at most 9, got 10"),
        ({"item": "rope", "count": "three"}, "count: expected integer, got a string"),
        ({"item": "rope", "unit": "ell"}, 'unit: expected one of "m", "kg", got "ell"'),
        ({"item": "rope", "lines": [{"name": 1}, {}]}, "lines[1].name: required, but missing"),
        ({"item": "rope", "code": "abc"}, 'code: expected a string that matches ^[A-Z]{2}$, got "abc"'),
        ({"item": "rope", "colour": 1}, 'top level: unknown member "colour"'),
        (
            {"item": "rope", "by": {"who": 7}},
            "by: matches none of 2 alternatives; for the closest, by.who: expected string, got a number",
        ),
    ],
)
def test_a_model_is_told_where_and_what_was_expected(value: Any, message: str | None) -> None:
    assert wrong(STOCK, value) == message


def test_validation_errors_come_at_once_and_no_more_than_a_few() -> None:
    message = wrong(STOCK, {"count": 0, "unit": 1})
    assert message is not None
    assert set(message.split("\n")) == {
        "count: expected at least 1, got 0",
        "item: required, but missing",
        'unit: expected one of "m", "kg", got 1',
    }
    many = wrong({"items": {"type": "string"}}, list(range(40)))
    assert many is not None
    assert len(many.split("\n")) == 6
    assert many.endswith("there are more errors")


def test_the_text_stays_short_whatever_the_arguments_are() -> None:
    message = wrong({"properties": {"a": {"enum": [f"{i}" * 1000 for i in range(40)]}}}, {"a": "y" * 5000, "z": 1})
    assert message is not None
    assert len(message) < 500
    unknown = wrong({"additionalProperties": False}, {f"{i}" * 300: 1 for i in range(50)})
    assert unknown is not None
    assert len(unknown) < 500


def blow_up(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(steps)
    }
    return {"$defs": {**definitions, f"d{steps}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def unevaluated_schema(steps: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    for _ in range(steps):
        schema = {"anyOf": [schema, {"type": "string"}], "unevaluatedProperties": False}
    return schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "objekt"}, NOT_A_SCHEMA),
        ({"properties": []}, NOT_A_SCHEMA),
        ({"$schema": "http://example.com/meta"}, REMOTE_REFERENCE),
        ({"$ref": "http://127.0.0.1:1/x.json"}, REMOTE_REFERENCE),
        ({"$ref": "file:///etc/passwd"}, REMOTE_REFERENCE),
        ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, REMOTE_REFERENCE),
        ({"$ref": "#"}, TOO_INTRICATE),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, TOO_INTRICATE),
        (blow_up(60), TOO_INTRICATE),
        (unevaluated_schema(20), TOO_INTRICATE),
        ({"enum": ["x" * MAX_SCHEMA_BYTES]}, TOO_LARGE),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_and_checks_nothing(schema: Any, reason: str) -> None:
    made = compile_schema(schema)
    assert made.checker is None
    assert [part.reason for part in made.left_out] == [reason]
    assert made.left_out[0].message


@pytest.mark.parametrize("raw", [b"[]", b'"x"', b"{", b"true", b"[" * 5000])
def test_values_that_are_not_objects_are_not_schemas(raw: bytes) -> None:
    assert [part.reason for part in compile_schema(raw).left_out] == [NOT_A_SCHEMA]


def test_a_small_number_of_shared_definitions_is_fine() -> None:
    assert wrong(blow_up(4), 3) is not None
    assert wrong(unevaluated_schema(3), {"a": 1}) is None
    assert wrong(unevaluated_schema(3), {"b": 1}) is not None


HANGING = ["^(?!x)a+$", r"(a)\1", "((a+)+)+$(?=b)", "a{1000}{1000}"]


@pytest.mark.parametrize("pattern", HANGING)
def test_a_pattern_that_needs_back_tracking_is_left_out_and_the_rest_is_checked(pattern: str) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}, "b": {"type": "string", "pattern": "^b$"}}}
    made = compile_schema(schema)
    assert [part.reason for part in made.left_out] == [PATTERN]
    assert "properties/a/pattern" in made.left_out[0].message
    assert made.checker is not None
    assert made.checker.errors(b'{"a":"zzz","b":"b"}') is None
    assert made.checker.errors(b'{"a":1,"b":"b"}') == "a: expected string, got a number"
    assert made.checker.errors(b'{"a":"","b":"c"}') is not None


def test_a_pattern_of_names_that_is_left_out_takes_what_stands_on_it_along() -> None:
    schema = {"patternProperties": {"^(?!x)": {"type": "integer"}}, "additionalProperties": False, "maxProperties": 2}
    made = compile_schema(schema)
    assert [part.reason for part in made.left_out] == [PATTERN]
    assert made.checker is not None
    assert made.checker.errors(b'{"a":1}') is None
    assert made.checker.errors(b'{"a":1,"b":1,"c":1}') is not None


def test_the_classic_of_exponential_patterns_ends_at_once() -> None:
    assert wrong({"pattern": "^(a+)+$"}, "a" * 4000 + "!") is not None
    assert wrong({"pattern": "^(a|a)*$"}, "a" * 4000 + "!") is not None


def test_patterns_are_not_checked_in_large_values_and_the_rest_is() -> None:
    checker = compile_schema({"properties": {"a": {"pattern": "^b"}, "n": {"type": "integer"}}}).checker
    assert checker is not None
    assert checker.errors(b'{"a":"c"}') is not None
    large = "c" * PATTERN_BYTES
    assert checker.errors(json.dumps({"a": large, "n": 1}).encode()) is None
    assert checker.errors(json.dumps({"a": large, "n": "x"}).encode()) == "n: expected integer, got a string"


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("^[a-z]+$", 60_000, 70_000),
        (r"^[\w.-]{1,64}$", 10_000, 20_000),
        (r"^[\w.]{1,64}@[\w.]{1,255}$", 2_000, 5_000),
        ("(a|b)*a(a|b){300}c", 500, 2_000),
        ("((a|b){9}c){9}", 5_000, 9_000),
    ],
)
def test_the_larger_a_pattern_the_smaller_the_values_that_it_is_checked_in(pattern: str, least: int, most: int) -> None:
    checker = compile_schema({"properties": {"a": {"pattern": pattern}}}).checker
    assert checker is not None
    assert checker.errors(json.dumps({"a": "!" * least}).encode()) is not None
    assert checker.errors(json.dumps({"a": "!" * most}).encode()) is None


def test_patterns_beyond_the_bound_are_all_left_out() -> None:
    made = compile_schema({"properties": {f"p{i}": {"pattern": f"^{i}"} for i in range(100)}, "required": ["p0"]})
    assert [part.reason for part in made.left_out] == [PATTERN]
    assert made.checker is not None
    assert made.checker.errors(b'{"p0":"x"}') is None
    assert made.checker.errors(b"{}") == "p0: required, but missing"


def nest(depth: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_schema_that_refers_to_itself_is_followed_as_deep_as_can_be_bounded() -> None:
    checker = compile_schema({"type": "object", "properties": {"a": {"$ref": "#"}}}).checker
    assert checker is not None
    assert checker.errors(json.dumps(nest(20, {})).encode()) is None
    assert checker.errors(json.dumps(nest(20, {"a": 1})).encode()) is not None
    assert checker.errors(json.dumps(nest(200, {"a": 1})).encode()) is None
    assert checker.unchecked == 1


def test_a_schema_that_doubles_with_each_level_ends_on_deep_values() -> None:
    twice = {"anyOf": [{"properties": {"a": {"$ref": "#"}, "x": {"const": i}}, "required": ["x"]} for i in (1, 2)]}
    checker = compile_schema(twice).checker
    assert checker is not None
    assert checker.errors(json.dumps({"x": 3}).encode()) is not None
    assert checker.errors(json.dumps(nest(60, {"x": 3})).encode()) is None
    assert checker.unchecked == 1


@pytest.mark.parametrize("levels", [300, 900])
@pytest.mark.parametrize("all_errors", [True, False])
def test_a_value_that_is_nested_too_deeply_to_be_explained_does_not_fit(levels: int, all_errors: bool) -> None:
    checker = compile_schema({"required": ["zz"]}).checker
    assert checker is not None
    value = json.dumps({"x": nest(levels, 1), "y": "" if all_errors else "y" * MAX_EXPLAINED}).encode()
    assert checker.errors(value) == TOO_DEEP
    assert checker.find_error_or_excess(value) == TOO_DEEP


def test_a_property_called_pattern_is_a_property() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}, "required": ["pattern"]}
    assert wrong(schema, {"pattern": "(?!x)", "$ref": "http://example.com"}) is None
    assert wrong(schema, {"pattern": 1}) == "pattern: expected string, got a number"


@pytest.mark.parametrize("value", [b'{"a":1e999}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":' * 5000])
def test_a_value_that_cannot_be_read_is_for_the_server_to_refuse(value: bytes) -> None:
    checker = compile_schema({"required": ["zz"]}).checker
    assert checker is not None
    assert checker.errors(value) is None
    assert checker.unchecked == 1


def test_a_value_that_takes_long_to_read_is_not_looked_at() -> None:
    checker = compile_schema({"required": ["zz"]}).checker
    assert checker is not None
    assert checker.errors(json.dumps({"a": "x" * (MAX_VALUE_BYTES - 20)}).encode()) is not None
    assert checker.errors(json.dumps({"a": "x" * MAX_VALUE_BYTES}).encode()) is None
    assert checker.unchecked == 1


def test_an_older_draft_is_read_as_that_draft() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    assert wrong(schema, [1, "x"]) is None
    assert wrong(schema, ["x"]) is not None


def test_formats_are_notes_and_refuse_nothing() -> None:
    assert wrong({"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"}, "no email") is None


def definition(name: str, **schemas: Any) -> bytes:
    return json.dumps({"name": name, **schemas}).encode()


def test_tools_of_one_definition_are_compiled_once_and_at_the_first_call() -> None:
    checks = Checks()
    raw = definition("get", inputSchema=STOCK)
    first = checks.of("a/x", "get", raw, "h1")
    other = checks.of("a/y", "get", raw, "h1")
    assert checks.compiled == 0
    assert first.arguments(b'{"item":"rope"}') is None
    assert other.arguments(None) == "item: required, but missing"
    assert other.arguments(b"null") == "item: required, but missing"
    assert checks.compiled == 1


def test_a_large_definition_is_told_once_of_those_that_are_compiled_before_any_call() -> None:
    checks = Checks()
    properties = {f"p{i}": {"type": "string", "description": "d" * 50} for i in range(200)}
    large = definition("get", inputSchema={"type": "object", "properties": properties})
    check = checks.of("a/x", "get", large)
    assert checks.of("a/y", "get", large) is check
    checks.of("a/x", "put", definition("put", inputSchema={"type": "object"}))
    assert checks.take_large() == [check]
    assert checks.take_large() == []
    checks.compile(check)
    assert check.arguments(b'{"p7":1}') == "p7: expected string, got a number"
    assert checks.compiled == 1


def test_definitions_without_a_hash_are_told_apart() -> None:
    checks = Checks()
    strict = checks.of("a/x", "get", definition("get", inputSchema=STOCK))
    open_ = checks.of("a/x", "put", definition("put", inputSchema={"type": "object"}))
    assert strict.arguments(b"{}") is not None
    assert open_.arguments(b'{"any":1}') is None


def test_compiled_schemas_are_bounded_and_compiled_again_when_needed() -> None:
    raws = [definition(f"t{i}", inputSchema={"type": "object", "required": [f"k{i}"]}) for i in range(20)]
    checks = Checks(max_bytes=len(raws[0]) * 5)
    held = [checks.of("a/x", f"t{i}", raw) for i, raw in enumerate(raws)]
    for i, check in enumerate(held):
        assert check.arguments(b"{}") == f"k{i}: required, but missing"
    assert checks.compiled_now <= 5
    assert held[0].arguments(b"{}") == "k0: required, but missing"
    assert checks.compiled == 21


def test_schema_parts_left_out_are_logged_once_per_definition_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    raw = definition("get", inputSchema={"type": "objekt"}, outputSchema={"$ref": "http://example.com/x"})
    checks = Checks(max_bytes=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert checks.of("a/x", "get", raw).arguments(b"{}") is None
            checks.of("a/x", "other", definition("other", inputSchema=STOCK)).arguments(b"{}")
    assert checks.left_out == {NOT_A_SCHEMA: 1, REMOTE_REFERENCE: 1}
    assert [record.getMessage().split(": ")[0] for record in caplog.records] == [
        "Values are checked against only part of the inputSchema of the tool get of a/x",
        "Values are checked against only part of the outputSchema of the tool get of a/x",
    ]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (b'{"content":[],"structuredContent":{"n":1}}', None),
        (b'{"content":[],"structuredContent":{"n":"1"}}', "n: expected integer, got a string"),
        (b'{"content":[]}', "structuredContent is missing, which the outputSchema requires"),
        (b'{"resultType":"input_required"}', None),
        (b'{"resultType":"complete","structuredContent":{}}', "n: required, but missing"),
    ],
)
def test_structured_content_is_held_against_the_output_schema(result: bytes, message: str | None) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    check = Checks().of("a/x", "get", definition("get", inputSchema={}, outputSchema=schema))
    assert check.declares_output
    assert check.result(result) == message


def test_a_tool_without_an_output_schema_has_no_say_in_results() -> None:
    check = Checks().of("a/x", "get", definition("get", inputSchema={}))
    assert not check.declares_output
    assert check.result(b'{"content":[]}') is None
