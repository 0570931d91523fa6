"""Arguments that are also sent in headers, and annotations for which a tool is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.inbound import find_invalid_x_mcp_header

from fairlead_mcp.parameters import InvalidAnnotation, parameters

REGION = {"type": "string", "x-mcp-header": "Region"}


def definition(schema: Any) -> bytes:
    return json.dumps({"name": "x", "inputSchema": schema}).encode()


def test_annotated_arguments_are_found_however_deep_their_objects_are() -> None:
    below = {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry-Run"}}}
    annotated = parameters(definition({"type": "object", "properties": {"region": REGION, "opts": below}}))
    assert sorted(annotated) == [(("opts", "dry"), "Dry-Run", "boolean"), (("region",), "Region", "string")]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}},
        {"properties": {"a": {"x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A B"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A\r\nX: y"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 1}}},
        {"properties": {"a": REGION, "b": {**REGION, "x-mcp-header": "REGION"}}},
        {"type": "string", "x-mcp-header": "A"},
        {"properties": {"a": {"type": "array", "items": REGION}}},
        {"properties": {"a": {"anyOf": [REGION, {"type": "null"}]}}},
        {"$defs": {"r": REGION}, "properties": {"a": {"$ref": "#/$defs/r"}}},
        {"if": {"properties": {"a": REGION}}},
        {"patternProperties": {"^a": REGION}},
        {"additionalProperties": {"properties": {"a": REGION}}},
    ],
)
def test_an_annotation_that_breaks_the_rules_has_its_tool_refused_as_by_the_sdk(schema: dict[str, Any]) -> None:
    assert find_invalid_x_mcp_header(schema) is not None
    with pytest.raises(InvalidAnnotation):
        parameters(definition(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "object", "default": REGION, "enum": [REGION]}}},
        {"properties": {"x-mcp-header": {"type": "string"}}},
        {"properties": {"properties": {"type": "object"}}, "examples": [{"x-mcp-header": 1}]},
        {"items": [REGION], "additionalItems": REGION, "dependencies": {"a": REGION}},
        {"properties": []},
        True,
        None,
    ],
)
def test_data_that_looks_like_an_annotation_is_not_one(schema: Any) -> None:
    assert find_invalid_x_mcp_header(schema) is None
    assert parameters(definition(schema)) == ()


def test_a_deep_schema_has_no_parameters() -> None:
    deep = b'{"name":"x-mcp-header","inputSchema":' + b'{"not":' * 900 + b"{}" + b"}" * 900 + b"}"
    assert parameters(deep) == ()
