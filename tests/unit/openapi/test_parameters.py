"""Arguments for parameters: locations, styles, merging, names."""

from __future__ import annotations

from typing import Any

import pytest

from openapidocuments import OK, document, get, only_report, only_tool

TEXT = {"type": "string"}


def parameter(name: str, location: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "in": location, "schema": TEXT, **members}


def test_parameters_of_a_path_are_merged_with_those_of_its_operation() -> None:
    path = {
        **get(parameter("limit", "query", description="operation's"), parameter("id", "header")),
        "parameters": [
            parameter("id", "path", required=True),
            parameter("limit", "query", description="path's"),
        ],
    }
    definition, operation = only_tool(document({"/x/{id}": path}))
    assert [(each.name, each.location, each.argument) for each in operation.parameters] == [
        ("id", "path", "id"),
        ("limit", "query", "limit"),
        ("id", "header", "header_id"),
    ]
    assert definition["inputSchema"]["properties"]["limit"]["description"] == "operation's"
    assert definition["inputSchema"]["required"] == ["id"]
    assert definition["inputSchema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("location", "style", "explode"),
    [("path", "simple", False), ("query", "form", True), ("header", "simple", False), ("cookie", "form", True)],
)
def test_styles_have_the_defaults_of_their_location(location: str, style: str, explode: bool) -> None:
    _, operation = only_tool(document({"/{p}": get(parameter("p", location), parameter("p", "path"))}))
    made = next(each for each in operation.parameters if each.location == location)
    assert (made.style, made.explode) == (style, explode)


@pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited", "deepObject"])
def test_styles_of_queries_are_kept(style: str) -> None:
    _, operation = only_tool(
        document({"/x": get(parameter("p", "query", style=style, explode=True, allowReserved=True))})
    )
    (made,) = operation.parameters
    assert (made.style, made.explode, made.allow_reserved) == (style, True, True)


def test_explode_is_false_by_default_for_styles_other_than_form() -> None:
    _, operation = only_tool(document({"/x": get(parameter("p", "query", style="pipeDelimited"))}))
    assert operation.parameters[0].explode is False


def test_a_style_of_another_location_is_noted_and_ignored() -> None:
    report = only_report(document({"/x": get(parameter("p", "query", style="simple"))}))
    assert "style 'simple' of parameter 'p' is not for the query, so it is ignored" in report.notes
    assert report.outcome == "made"


def test_names_with_brackets_become_arguments_that_every_provider_accepts() -> None:
    names = ["id[]", "filter[name]", "$select", "X-Own:Header", "x.y-z_1", "ж"]
    definition, operation = only_tool(document({"/x": get(*(parameter(name, "query") for name in names))}))
    assert [each.name for each in operation.parameters] == names
    arguments = [each.argument for each in operation.parameters]
    assert arguments == ["id", "filter_name", "select", "X-Own_Header", "x.y-z_1", "argument"]
    assert list(definition["inputSchema"]["properties"]) == arguments


def test_arguments_have_at_most_64_characters_and_differ() -> None:
    names = ["n" * 70 + "a", "n" * 70 + "b"]
    _, operation = only_tool(document({"/x": get(*(parameter(name, "query") for name in names))}))
    arguments = {each.argument for each in operation.parameters}
    assert len(arguments) == 2
    assert {len(argument) for argument in arguments} == {64}


def test_a_parameter_with_content_has_its_media_type() -> None:
    content = {"application/json": {"schema": {"type": "object", "additionalProperties": TEXT}}}
    definition, operation = only_tool(document({"/x": get({"name": "filter", "in": "query", "content": content})}))
    assert operation.parameters[0].media_type == "application/json"
    assert definition["inputSchema"]["properties"]["filter"] == {"type": "object", "additionalProperties": TEXT}


def test_accept_content_type_and_authorization_never_become_arguments() -> None:
    headers = [parameter(name, "header") for name in ("Accept", "content-type", "AUTHORIZATION", "X-Other")]
    _, operation = only_tool(document({"/x": get(*headers)}))
    assert [each.name for each in operation.parameters] == ["X-Other"]


def test_a_path_parameter_that_is_not_declared_is_a_required_string() -> None:
    definition, operation = only_tool(document({"/x/{id}/{id}": get()}))
    assert definition["inputSchema"]["required"] == ["id"]
    assert [each.name for each in operation.parameters] == ["id"]


def test_a_path_parameter_that_the_path_lacks_is_ignored() -> None:
    report = only_report(document({"/x": get(parameter("id", "path", required=True))}))
    assert report.outcome == "made"
    assert "path parameter 'id' is not in the path, so it is ignored" in report.notes


def test_a_required_parameter_of_swagger_leaves_its_operation_out() -> None:
    report = only_report(document({"/x": get({"name": "b", "in": "body", "required": True})}))
    assert report.left_out == "parameter 'b' in 'body' is not one of OpenAPI 3"


def test_a_parameter_that_cannot_be_resolved_leaves_its_operation_out() -> None:
    report = only_report(document({"/x": get({"$ref": "#/components/parameters/Gone"})}))
    assert report.left_out == "`$ref` #/components/parameters/Gone has no target in the document"


def test_parameters_and_path_items_may_be_references() -> None:
    source = document(
        {"/x": {"$ref": "#/components/pathItems/X"}},
        components={
            "pathItems": {"X": get({"$ref": "#/components/parameters/Limit"})},
            "parameters": {"Limit": {"$ref": "#/components/parameters/Most"}, "Most": parameter("limit", "query")},
        },
    )
    _, operation = only_tool(source)
    assert [each.name for each in operation.parameters] == ["limit"]


def test_references_that_lead_in_circles_end() -> None:
    components = {
        "parameters": {"A": {"$ref": "#/components/parameters/B"}, "B": {"$ref": "#/components/parameters/A"}}
    }
    report = only_report(document({"/x": get({"$ref": "#/components/parameters/A"})}, components=components))
    assert report.left_out == "a `$ref` leads back to itself"


def test_a_fragment_of_a_path_is_not_sent() -> None:
    _, operation = only_tool(document({"/#Action=Start": {"post": {"responses": OK}}}))
    assert operation.path == "/"


@pytest.mark.parametrize("location", ["header", "cookie"])
def test_a_name_that_no_header_or_cookie_can_have_is_a_loss(location: str) -> None:
    (loss,) = only_report(document({"/x": get(parameter("X-Own: 1\r\nX-Other", location))})).losses
    assert loss.kind == "parameter"
    required = only_report(document({"/x": get(parameter("a b", location, required=True))}))
    assert required.left_out == f"parameter 'a b' in '{location}' is not one of OpenAPI 3"
