"""Arguments for request bodies: media types, flattening, forms, bytes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.operations import OperationBody, PartEncoding
from fairlead_openapi.compiling.media_types import choose
from openapidocuments import OK, document, only_report, only_tool, post

PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "tag": {"type": "string"}}}


def write(content: dict[str, Any], *, required: bool = True) -> tuple[dict[str, Any], OperationBody]:
    definition, operation = only_tool(document({"/x": post(content, required=required)}))
    assert operation.body is not None
    input_schema: dict[str, Any] = definition["inputSchema"]
    return input_schema, operation.body


def test_properties_of_a_plain_object_become_arguments() -> None:
    schema, body = write({"application/json": {"schema": PET}})
    assert schema["properties"] == PET["properties"]
    assert schema["required"] == ["name"]
    assert body == OperationBody(
        media_type="application/json", properties={"name": "name", "tag": "tag"}, required=True
    )


def test_a_property_that_is_called_like_a_parameter_gets_another_name() -> None:
    path = post(
        {"application/json": {"schema": PET}},
        parameters=[{"name": "name", "in": "query", "schema": {"type": "string"}}],
    )
    definition, operation = only_tool(document({"/x": path}))
    assert operation.body is not None
    assert operation.body.properties == {"body_name": "name", "tag": "tag"}
    assert definition["inputSchema"]["required"] == ["body_name"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "string"},
        {"type": "object"},
        {**PET, "additionalProperties": True},
        {**PET, "additionalProperties": {"type": "string"}},
        {**PET, "minProperties": 1},
        {"oneOf": [PET, {"type": "object"}]},
        {"allOf": [PET]},
        {**PET, "required": ["other"]},
    ],
)
def test_any_other_schema_is_one_argument(schema: dict[str, Any]) -> None:
    made, body = write({"application/json": {"schema": schema}})
    assert made["properties"] == {"body": schema}
    assert made["required"] == ["body"]
    assert body.argument == "body"


def test_an_optional_body_with_required_properties_is_one_optional_argument() -> None:
    schema, body = write({"application/json": {"schema": PET}}, required=False)
    assert schema["properties"] == {"body": PET}
    assert "required" not in schema
    assert body.required is False


def test_an_optional_body_without_required_properties_has_arguments() -> None:
    schema, body = write({"application/json": {"schema": {**PET, "required": []}}}, required=False)
    assert sorted(schema["properties"]) == ["name", "tag"]
    assert body.required is False


def test_an_empty_form_has_no_arguments() -> None:
    schema, body = write({"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {}}}})
    assert schema["properties"] == {}
    assert body.properties == {}


@pytest.mark.parametrize(
    ("media_types", "chosen"),
    [
        (["application/xml", "application/json"], "application/json"),
        (["application/vnd.api+json", "multipart/form-data"], "application/vnd.api+json"),
        (["application/json-patch+json", "application/merge-patch+json"], "application/merge-patch+json"),
        (["application/json-patch+json", "application/xml"], "application/json-patch+json"),
        (["application/vnd.api+json", "application/json; charset=utf-8"], "application/json; charset=utf-8"),
        (["*/*", "text/plain"], "*/*"),
        (["application/octet-stream", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (["application/octet-stream", "text/csv"], "text/csv"),
        ([], None),
    ],
)
def test_of_several_media_types_the_one_that_loses_least_is_chosen(media_types: list[str], chosen: str | None) -> None:
    assert choose(media_types) == chosen


def test_a_range_of_media_types_is_sent_as_json() -> None:
    _, body = write({"*/*": {"schema": PET}})
    assert body.media_type == "application/json"


def test_forms_have_the_encodings_of_their_properties() -> None:
    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string"}}, "meta": {"type": "object"}},
    }
    encoding = {"tags": {"style": "pipeDelimited"}, "meta": {"contentType": "application/json", "allowReserved": True}}
    _, body = write({"application/x-www-form-urlencoded": {"schema": schema, "encoding": encoding}})
    assert body.encodings == {
        "tags": PartEncoding(style="pipeDelimited", explode=False),
        "meta": PartEncoding(content_type="application/json", allow_reserved=True),
    }


@pytest.mark.parametrize(("version", "styled"), [("3.0.3", False), ("3.1.0", True)])
def test_styles_hold_in_multipart_bodies_from_openapi_3_1_on(version: str, styled: bool) -> None:
    schema = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
    content = {"multipart/form-data": {"schema": schema, "encoding": {"tags": {"style": "pipeDelimited"}}}}
    _, operation = only_tool(document({"/x": post(content)}, version))
    assert operation.body is not None
    assert operation.body.encodings == {"tags": PartEncoding(style="pipeDelimited", explode=False, styled=styled)}


@pytest.mark.parametrize(
    "file",
    [
        {"type": "string", "format": "binary", "description": "Picture."},
        {"contentMediaType": "image/png", "description": "Picture."},
    ],
)
def test_bytes_of_multipart_bodies_are_base64(file: dict[str, Any]) -> None:
    schema = {"type": "object", "required": ["file"], "properties": {"file": file, "note": {"type": "string"}}}
    made, body = write({"multipart/form-data": {"schema": schema}})
    assert made["properties"]["file"] == {
        "type": "string",
        "contentEncoding": "base64",
        "description": "Picture. Base64.",
    }
    assert body.encodings == {"file": PartEncoding(binary=True)}


def test_several_files_of_a_multipart_body_are_an_array_of_base64() -> None:
    files = {"type": "array", "items": {"$ref": "#/components/schemas/File"}}
    content = {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/Form"}}}
    components = {
        "schemas": {
            "File": {"type": "string", "format": "binary"},
            "Form": {"type": "object", "properties": {"files": files}},
        }
    }
    definition, operation = only_tool(document({"/x": post(content)}, components=components))
    items = definition["inputSchema"]["properties"]["files"]["items"]
    assert items == {"type": "string", "contentEncoding": "base64", "description": "Base64."}
    assert operation.body is not None
    assert operation.body.encodings["files"].binary


@pytest.mark.parametrize("media_type", ["application/octet-stream", "image/png"])
def test_a_body_of_bytes_is_base64(media_type: str) -> None:
    schema, body = write({media_type: {}})
    assert schema["properties"]["body"]["contentEncoding"] == "base64"
    assert (body.media_type, body.argument, body.binary) == (media_type, "body", True)


def test_a_body_of_text_is_a_string() -> None:
    schema, body = write({"text/plain": {"schema": {"type": "string"}}})
    assert schema["properties"]["body"]["type"] == "string"
    assert (body.media_type, body.binary) == ("text/plain", False)


def test_a_body_of_xml_is_text_with_a_loss() -> None:
    report = only_report(document({"/x": post({"application/xml": {"schema": PET}})}))
    assert [loss.kind for loss in report.losses] == ["media-type"]


def test_a_body_that_cannot_be_made_leaves_out_an_operation_that_requires_it() -> None:
    content = {"multipart/mixed": {"schema": PET}}
    assert only_report(document({"/x": post(content)})).left_out == "bodies of 'multipart/mixed' cannot be made"
    optional = only_report(document({"/x": post(content, required=False)}))
    assert [loss.kind for loss in optional.losses] == ["body"]


def test_the_body_of_a_get_is_a_loss_in_3_0_and_sent_in_3_1() -> None:
    body = {"content": {"application/json": {"schema": PET}}}
    paths = {"/x": {"get": {"requestBody": body, "responses": OK}}}
    assert [loss.kind for loss in only_report(document(paths, "3.0.3")).losses] == ["body"]
    assert only_report(document(paths)).outcome == "made"


def test_the_empty_body_of_a_get_costs_nothing() -> None:
    body = {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {}}}}}
    _, operation = only_tool(document({"/x": {"get": {"requestBody": body, "responses": OK}}}, "3.0.3"))
    assert operation.body is None


def test_a_media_type_with_a_line_break_makes_no_body() -> None:
    report = only_report(document({"/x": post({"application/json\r\nX-Own: 1": {"schema": PET}})}))
    assert report.left_out == "bodies of 'application/json\\r\\nX-Own: 1' cannot be made"
