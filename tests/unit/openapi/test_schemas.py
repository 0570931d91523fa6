"""Schemas of requests and results: dialects, references, cycles, directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from openapidocuments import argument_schema, document, get, only_report, only_tool, post, result_schema


def body_definition(schema: Any, version: str, **components: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    definition, _ = only_tool(document({"/x": post(content)}, version, components={"schemas": components}))
    input_schema: dict[str, Any] = definition["inputSchema"]
    return input_schema


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"allOf": [{"type": "string"}], "nullable": True, "description": "d"},
            {"description": "d", "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        (
            {"type": "string", "const": "a", "nullable": True, "description": "d"},
            {"description": "d", "anyOf": [{"type": "string", "const": "a"}, {"type": "null"}]},
        ),
        ({"anyOf": [{"type": "string"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": False}, {"type": "integer", "maximum": 3}),
        ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
        ({"type": "string", "example": "a" * 300}, {"type": "string"}),
        ({"type": "string", "maxLength": 10.0}, {"type": "string", "maxLength": 10}),
        (
            {"type": "array", "items": {"type": "string", "nullable": True}},
            {"type": "array", "items": {"type": ["string", "null"]}},
        ),
        ({"type": "string", "xml": {}, "externalDocs": {}, "x-own": 1, "discriminator": {}}, {"type": "string"}),
    ],
)
def test_a_schema_of_3_0_becomes_one_of_json_schema(schema: dict[str, Any], made: dict[str, Any]) -> None:
    assert argument_schema(schema, "3.0.3") == made


def test_keywords_of_json_schema_stay_in_3_1() -> None:
    schema = {
        "type": ["string", "null"],
        "exclusiveMinimum": 3,
        "const": "x",
        "examples": ["x"],
        "if": {"const": "x"},
        "then": {"minLength": 1},
        "not": {"const": "y"},
        "prefixItems": [{"type": "string"}],
        "unevaluatedItems": False,
        "patternProperties": {"^x": True},
        "propertyNames": {"maxLength": 3},
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": {"required": ["c"]}},
    }
    assert argument_schema(schema) == schema


def test_siblings_of_a_reference_apply_in_3_1_and_only_describe_in_3_0() -> None:
    schema = {"$ref": "#/components/schemas/A", "description": "d", "maxLength": 3}
    assert argument_schema(schema, A={"type": "string"}) == {"description": "d", "maxLength": 3, "$ref": "#/$defs/A"}
    assert argument_schema(schema, "3.0.3", A={"type": "string"}) == {"description": "d", "$ref": "#/$defs/A"}


def test_nullable_beside_a_reference_adds_null() -> None:
    schema = {"$ref": "#/components/schemas/A", "nullable": True}
    expected = {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}
    assert argument_schema(schema, "3.0.3", A={"type": "string"}) == expected


def test_a_cycle_stays_a_reference() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    schema = body_definition({"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}, "3.1.0", Tree=tree)
    assert schema["properties"]["body"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}


def test_a_body_that_contains_itself_has_arguments_and_a_definition() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Tree"}}}
    schema = body_definition({"$ref": "#/components/schemas/Tree"}, "3.1.0", Tree=tree)
    assert schema["properties"] == {"child": {"$ref": "#/$defs/Tree"}}
    assert schema["$defs"]["Tree"]["properties"] == {"child": {"$ref": "#/$defs/Tree"}}


def test_definitions_are_those_that_the_operation_needs() -> None:
    schema = body_definition(
        {"type": "array", "items": {"$ref": "#/components/schemas/A"}},
        "3.1.0",
        A={"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}},
        B={"type": "string"},
        C={"type": "string"},
    )
    assert sorted(schema["$defs"]) == ["A", "B"]


def test_references_with_the_same_last_step_have_definitions_of_their_own() -> None:
    inner = {"type": "object", "properties": {"id": {"type": "integer"}}}
    schema = body_definition(
        {
            "type": "array",
            "prefixItems": [{"$ref": "#/components/schemas/id"}, {"$ref": "#/components/schemas/A/properties/id"}],
        },
        "3.1.0",
        id={"type": "string"},
        A=inner,
    )
    assert schema["$defs"] == {"id": {"type": "string"}, "id_2": {"type": "integer"}}


def test_names_of_schemas_may_need_escapes() -> None:
    assert argument_schema({"$ref": "#/components/schemas/a~1b%20c"}, "3.1.0", **{"a/b c": {"type": "string"}}) == {
        "$ref": "#/$defs/a_1b_20c"
    }


def test_anchors_and_identifiers_of_3_1_are_followed() -> None:
    components = {
        "A": {"$id": "https://example.com/a", "$defs": {"B": {"$anchor": "b", "type": "string"}}, "type": "integer"}
    }
    schema = body_definition(
        {"type": "array", "prefixItems": [{"$ref": "https://example.com/a"}, {"$ref": "https://example.com/a#b"}]},
        "3.1.0",
        **components,
    )
    assert sorted(definition["type"] for definition in schema["$defs"].values()) == ["integer", "string"]


def test_examples_with_references_and_identifiers_are_data() -> None:
    example = {"$ref": "other.yaml", "$id": "x", "id": 3}
    schema = {"type": "object", "additionalProperties": True, "example": example, "default": example}
    assert argument_schema(schema) == {
        "type": "object",
        "additionalProperties": True,
        "default": example,
        "examples": [example],
    }


def test_a_property_may_be_called_like_a_keyword() -> None:
    properties = {"$ref": {"type": "string"}, "properties": {"type": "string"}, "nullable": {"type": "boolean"}}
    assert (
        argument_schema({"type": "array", "items": {"type": "object", "properties": properties}})["items"]["properties"]
        == properties
    )


def test_a_reference_to_another_file_is_a_loss_that_says_what_to_do() -> None:
    source = document(
        {"/x": post({"application/json": {"schema": {"type": "array", "items": {"$ref": "models.yaml#/Pet"}}}})}
    )
    report = only_report(source)
    assert [(loss.kind, loss.where) for loss in report.losses] == [("reference", "body")]
    assert report.losses[0].message == (
        "`$ref` models.yaml#/Pet is in another document, and these are not read: bundle them, for example with "
        "`npx @redocly/cli bundle`"
    )


def test_a_reference_to_nothing_within_a_definition_is_a_loss_of_the_operations_that_need_it() -> None:
    source = document(
        {
            "/x": post(
                {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}}}
            ),
            "/y": get(),
        },
        components={"schemas": {"A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}}}},
    )
    assert {report.outcome for report in map(only_report, [{**source, "paths": {"/x": source["paths"]["/x"]}}])} == {
        "made with loss"
    }
    assert only_report({**source, "paths": {"/y": source["paths"]["/y"]}}).outcome == "made"


def test_the_document_may_name_itself_in_a_reference() -> None:
    source = document(
        {
            "/x": post(
                {
                    "application/json": {
                        "schema": {"type": "array", "items": {"$ref": "openapi.json#/components/schemas/A"}}
                    }
                }
            )
        },
        components={"schemas": {"A": {"type": "string"}}},
    )
    definition, _ = only_tool(source, url="https://example.com/docs/openapi.json")
    assert definition["inputSchema"]["$defs"] == {"A": {"type": "string"}}


def test_properties_that_are_only_read_never_become_arguments() -> None:
    schema = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}},
    }
    made = body_definition(schema, "3.0.3")
    assert list(made["properties"]) == ["name"]
    assert made["required"] == ["name"]


def test_properties_that_are_only_read_are_found_through_references_and_all_of() -> None:
    made = body_definition(
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {"type": "object", "required": ["id", "name"]}]},
        "3.0.3",
        Base={"type": "object", "properties": {"id": {"$ref": "#/components/schemas/Id"}, "name": {"type": "string"}}},
        Id={"type": "string", "readOnly": True},
    )
    assert list(made["$defs"]["Base"]["properties"]) == ["name"]
    assert made["properties"]["body"]["allOf"][1]["required"] == ["name"]


def test_read_only_beside_a_reference_in_an_all_of_keeps_a_property_from_the_arguments() -> None:
    owner = {"allOf": [{"$ref": "#/components/schemas/User"}, {"readOnly": True}]}
    made = body_definition(
        {"type": "object", "properties": {"owner": owner, "name": {"type": "string"}}},
        "3.0.3",
        User={"type": "object", "properties": {"login": {"type": "string"}}},
    )
    assert list(made["properties"]) == ["name"]


def test_properties_that_are_only_written_are_not_in_results() -> None:
    schema = {
        "type": "object",
        "required": ["secret"],
        "properties": {"secret": {"type": "string", "writeOnly": True}, "id": {"type": "string", "readOnly": True}},
    }
    assert result_schema(schema) == {"type": "object", "properties": {"id": {"type": "string", "readOnly": True}}}


def test_invalid_keywords_that_only_annotate_are_not_losses() -> None:
    annotations = {"title": 1, "format": 2, "readOnly": 3, "contentEncoding": 4, "contentMediaType": 5}
    source = document({"/x": get({"name": "q", "in": "query", "schema": {"type": "string", **annotations}})})
    assert only_report(source).losses == ()


def test_all_of_is_kept() -> None:
    schema = {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}
    assert argument_schema(schema) == schema


def test_invalid_keywords_are_losses_and_the_rest_stays() -> None:
    source = document(
        {"/x": get({"name": "q", "in": "query", "schema": {"type": "strng", "maxLength": "9", "format": "uuid"}})}
    )
    report = only_report(source)
    assert [loss.message for loss in report.losses] == [
        "the value of `maxLength` is invalid: '9'",
        "the value of `type` is invalid: 'strng'",
    ]


def test_a_pattern_that_calls_are_not_checked_by_is_a_loss() -> None:
    source = document({"/x": get({"name": "q", "in": "query", "schema": {"type": "string", "pattern": "^(?!a).*$"}})})
    (loss,) = only_report(source).losses
    assert loss.kind == "unchecked"
    assert "properties/q/pattern is not checked" in loss.message


def test_numbers_beyond_64_bits_are_kept() -> None:
    schema = {"type": "integer", "maximum": 2**70}
    source = document({"/x": get({"name": "q", "in": "query", "schema": schema})})
    result = compile_document(json.dumps(source).encode(), CompileOptions())
    assert json.loads(bytes(result.tools[0].definition))["inputSchema"]["properties"]["q"] == schema
