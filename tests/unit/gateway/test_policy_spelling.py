"""Arguments with misspelt names that a lenient server may accept for names of a policy's schema, and the limit of the
check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_mcp.members import canonical_forms
from fairlead_tools.validation.checker import MAX_VALUE_BYTES
from fairlead_tools.validation.constraint import MAX_VALUES, Constraint, allowance
from fairlead_tools.validation.spelling import TOO_INTRICATE, Spelling

FEW = {"maximum": 5}


def refusal(schema: dict[str, Any], arguments: bytes | str | dict[str, Any], *, quote_rules: bool = True) -> str:
    """Message of a constraint; empty if it allows the arguments."""
    text = json.dumps(arguments) if isinstance(arguments, dict) else arguments
    raw = text.encode() if isinstance(text, str) else text
    refused = Constraint([allowance("r", schema)], quote_rules=quote_rules).refusal(raw)
    return "" if refused is None else refused.message


NAMED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"properties": {"limit": FEW}}, {"Limit": 9}),
    ({"properties": {"limit": FEW}}, {"LIM\u0131T": 9}),
    ({"properties": {"limit": FEW}}, {"limit\0": 9}),
    ({"properties": {"größe": FEW}}, {"GRÖSSE": 9}),
    ({"properties": {"größe": FEW}}, {"gro\u0308ße": 9}),
    ({"not": {"required": ["force"]}}, {"Force": True}),
    ({"dependentRequired": {"a": ["by"]}}, {"By": 1}),
    ({"allOf": [{"properties": {"limit": FEW}}]}, {"Limit": 9}),
    ({"if": {"properties": {"mode": {"const": "w"}}, "required": ["mode"]}, "then": False}, {"Mode": "w"}),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"limit": FEW}}}}, {"Limit": 9}),
    ({"properties": {"page": {"properties": {"limit": FEW}}}}, {"page": {"Limit": 9}}),
    ({"properties": {"page": {"properties": {"limit": FEW}}}}, {"Page": {"limit": 9}}),
    ({"properties": {"all": {"items": {"properties": {"limit": FEW}}}}}, {"all": [{"limit": 1}, {"Limit": 9}]}),
    ({"properties": {"all": {"prefixItems": [{"properties": {"limit": FEW}}]}}}, {"all": [{"Limit": 9}]}),
    ({"additionalProperties": {"properties": {"limit": FEW}}}, {"any": {"Limit": 9}}),
    ({"patternProperties": {"^a": {"properties": {"limit": FEW}}}}, {"any": {"Limit": 9}}),
    (
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"n": FEW, "down": {"$ref": "#/$defs/tree"}}}}},
        {"down": {"down": {"down": {"N": 9}}}},
    ),
]


@pytest.mark.parametrize(("schema", "arguments"), NAMED)
def test_a_member_that_may_be_taken_for_a_named_one_is_refused(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert "which some parsers read as" in refusal(schema, arguments)
    assert refusal(schema, arguments, quote_rules=False) == "No policy allows a call of the tool with these arguments"


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"limit": FEW}}, {"limit": 5, "other": {"Limit": 9}}),
        ({"properties": {"limit": FEW}}, {"text": '"Limit": 9', "limits": 9}),
        ({"properties": {"path": {"type": "string"}}}, {"path": "a", "headers": {"Path": "x"}}),
        ({"properties": {"a": FEW, "A": FEW}}, {"A": 1}),
        ({"properties": {"page": {"properties": {"limit": FEW}}}}, {"Limit": 9, "page": {"limit": 5}}),
        ({}, {"Limit": 9}),
    ],
)
def test_names_that_the_schema_does_not_mean_there_are_free(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert refusal(schema, arguments) == ""


def test_a_rule_that_allows_a_member_is_enough() -> None:
    both = Constraint([allowance("few", {"properties": {"limit": FEW}}), allowance("any", {})], quote_rules=True)
    assert both.refusal(b'{"Limit":9}') is None


def test_arguments_are_bounded_before_they_are_read() -> None:
    text = '{"a":"' + "x" * (MAX_VALUE_BYTES - 8) + '"}'
    assert refusal({"properties": {"a": {}}}, text) == ""
    assert f"more than {MAX_VALUE_BYTES} bytes" in refusal({"properties": {"a": {}}}, text[:-2] + 'xx"}')
    assert f"more than {MAX_VALUE_BYTES} bytes" in refusal({}, b"[" * (MAX_VALUE_BYTES + 1))
    many = '{"a":[' + "{}," * (MAX_VALUES // 2 - 2) + "{}]}"
    assert refusal({}, many) == ""
    assert f"more than {MAX_VALUES} values" in refusal({}, many.replace("[{}", "[{},{},{}"))
    assert "nested too deeply" in refusal({}, b"[" * MAX_VALUES)


def test_a_value_that_takes_long_to_be_compared_is_refused() -> None:
    deep: dict[str, Any] = {"properties": {"a": {"items": {"properties": {"limit": FEW}}}}}
    value = json.dumps({"a": [{"x": 1, "y": 2} for _ in range(500)], "b": {"Limit": 1}})
    text, alike = canonical_forms(value.encode())
    assert Spelling(deep).errors(value.encode(), text, alike) is None
    assert Spelling(deep, max_steps=1000).errors(value.encode(), text, alike) == TOO_INTRICATE
