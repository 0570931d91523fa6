"""Whole documents: names, selection, hints, security, and the report."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_openapi.compiling.naming import OperationKey, tool_names
from fairlead_openapi.compiling.operations import MAX_INPUT_BYTES
from fairlead_openapi.compiling.report import to_jsonable
from openapidocuments import OK, compile_source, document, get, only_report, only_tool, post


def names(*operations: tuple[str, str, str]) -> list[str]:
    return tool_names([OperationKey(*each) for each in operations])


def test_a_tool_is_called_like_its_operation() -> None:
    assert names(("GET", "/pets", "listPets")) == ["listPets"]


def test_a_tool_without_operation_id_is_called_like_method_and_path() -> None:
    assert names(("GET", "/pets/{petId}/toys", ""), ("GET", "/", "")) == ["get_pets_petId_toys", "get"]


def test_names_have_characters_that_every_provider_accepts() -> None:
    made = names(
        ("GET", "/a", "repos/list-for-org"), ("GET", "/b", "users.list"), ("GET", "/c", "1st op"), ("GET", "/d", "ж")
    )
    assert made == ["repos_list-for-org", "users_list", "t_1st_op", "get_operation"]


def test_a_long_name_ends_with_a_hash_of_the_whole() -> None:
    first, second = names(("GET", "/a", "o" * 80 + "a"), ("GET", "/b", "o" * 80 + "b"))
    assert len(first) == len(second) == 64
    assert first[:55] == second[:55] == "o" * 55
    assert first != second


def test_names_stay_when_operations_are_added_in_front() -> None:
    operations = [("GET", f"/things/{number}", "") for number in range(5)] + [("GET", "/x", "list things")]
    added = [("POST", "/new", "create"), ("GET", "/things", "")]
    assert names(*added, *operations)[2:] == names(*operations)


def test_operations_with_the_same_id_all_have_a_hash_of_their_path() -> None:
    first, second = names(("GET", "/a", "read"), ("GET", "/b", "read"))
    assert first != second
    assert {first[:5], second[:5]} == {"read_"}
    assert names(("GET", "/c", "read"), ("GET", "/b", "read"), ("GET", "/a", "read"))[1:] == [second, first]


def test_an_operation_whose_id_is_exactly_the_name_keeps_the_name() -> None:
    changed, exact = names(("GET", "/a", "read pet"), ("GET", "/b", "read_pet"))
    assert exact == "read_pet"
    assert changed.startswith("read_pet_")


PATHS = {
    "/pets": {
        "get": {"operationId": "listPets", "tags": ["pets"], "responses": OK},
        "post": {"operationId": "addPet", "tags": ["pets", "admin"], "responses": OK},
    },
    "/users/{id}": {"delete": {"operationId": "removeUser", "tags": ["users"], "responses": OK}},
}


@pytest.mark.parametrize(
    ("include", "exclude", "selected"),
    [
        ((), (), ["listPets", "addPet", "removeUser"]),
        (("pets",), (), ["listPets", "addPet"]),
        (("*Pet*",), ("admin",), ["listPets"]),
        (("GET *", "DELETE /users/*"), (), ["listPets", "removeUser"]),
        ((), ("* /pets",), ["removeUser"]),
        (("Pets",), (), []),
    ],
)
def test_operations_are_selected_by_id_tag_and_path(include: Any, exclude: Any, selected: list[str]) -> None:
    result = compile_source(document(PATHS), include=include, exclude=exclude)
    assert [tool.name for tool in result.tools] == selected
    assert result.unselected_count == 3 - len(selected)


def test_a_selection_changes_no_name() -> None:
    paths = {
        "/a": {"get": {"operationId": "read pet", "responses": OK}},
        "/b": {"get": {"operationId": "read_pet", "responses": OK}},
    }
    whole = [tool.name for tool in compile_source(document(paths)).tools]
    assert [tool.name for tool in compile_source(document(paths), include=("GET /a",)).tools] == whole[:1]


def test_a_pattern_that_matches_nothing_is_noted() -> None:
    assert compile_source(document(PATHS), include=("pets", "dogs")).notes == ("no operation matches 'dogs'",)


@pytest.mark.parametrize(
    ("method", "read_only", "destructive", "idempotent"),
    [
        ("get", True, False, True),
        ("head", True, False, True),
        ("put", False, True, True),
        ("delete", False, True, True),
        ("post", False, False, False),
        ("patch", False, True, False),
    ],
)
def test_hints_follow_the_method(method: str, read_only: bool, destructive: bool, idempotent: bool) -> None:
    definition, operation = only_tool(document({"/x": {method: {"responses": OK}}}))
    assert definition["annotations"] == {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
    }
    assert operation.method == method.upper()


def test_title_and_description_are_those_of_the_operation() -> None:
    members = {"summary": "List\n pets", "description": "All of them.", "deprecated": True}
    definition, _ = only_tool(document({"/x": get(**members)}))
    assert definition["title"] == "List pets"
    assert definition["description"] == "Deprecated. List pets\n\nAll of them."
    bare, _ = only_tool(document({"/x": get()}))
    assert bare["description"] == "GET /x"
    assert "title" not in bare


SCHEMES = {
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "session": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "Bearer"},
}


def test_credentials_never_become_arguments_and_requirements_are_recorded() -> None:
    parameters = [
        {"name": name, "in": location, "schema": {"type": "string"}, "required": True}
        for name, location in (("api_key", "query"), ("x-key", "header"), ("sid", "cookie"), ("api_key", "header"))
    ]
    security = [{"key": [], "bearer": ["read"]}, {"header": []}, {}]
    source = document({"/x": get(*parameters, security=security)}, components={"securitySchemes": SCHEMES})
    definition, operation = only_tool(source)
    assert list(definition["inputSchema"]["properties"]) == ["api_key"]
    assert [each.location for each in operation.parameters] == ["header"]
    assert operation.security == (("bearer", "key"), ("header",), ())


def test_security_of_the_document_applies_unless_the_operation_has_its_own() -> None:
    _, inherited = only_tool(document({"/x": get()}, security=[{"bearer": []}]))
    _, own = only_tool(document({"/x": get(security=[])}, security=[{"bearer": []}]))
    assert (inherited.security, own.security) == ((("bearer",),), ())


def test_schemes_of_the_document_are_reported() -> None:
    schemes = compile_source(document({}, components={"securitySchemes": {**SCHEMES, "broken": 3}})).schemes
    assert sorted(schemes) == ["bearer", "header", "key", "session"]
    assert schemes["bearer"].scheme == "bearer"
    assert (schemes["session"].location, schemes["session"].name) == ("cookie", "sid")


OTHER_DOCUMENT = (
    "its path cannot be read: `$ref` other.yaml#/paths/gone is in another document, and these are not read: "
    "bundle them, for example with `npx @redocly/cli bundle`"
)


def test_a_bad_operation_costs_itself_alone() -> None:
    paths = {
        "/bad": {"get": 3, "post": {"parameters": {"a": 1}}, "put": {"requestBody": "x"}, "trace": {"responses": OK}},
        "/worse": [],
        "/gone": {"$ref": "other.yaml#/paths/gone"},
        "no/slash": get(),
        "/empty/{}": get(),
        "/good": get(),
    }
    result = compile_source(document(paths))
    assert [(report.operation, report.left_out) for report in result.reports if report.left_out] == [
        ("GET /bad", "it is not an object"),
        ("PUT /bad", "`requestBody` is not an object"),
        ("POST /bad", "`parameters` is not an array"),
        ("TRACE /bad", "TRACE returns the request with its credentials"),
        ("* /worse", "its path is not an object"),
        (
            "* /gone",
            OTHER_DOCUMENT,
        ),
        ("GET no/slash", "the path does not begin with /"),
        ("GET /empty/{}", "the path has a parameter without a name"),
    ]
    assert [tool.operation.path for tool in result.tools] == ["/good"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_breaches_of_the_specification_are_noted_and_cost_nothing(version: str) -> None:
    report = only_report(document({"/x": get(tags="pets", deprecated="yes")}, version))
    assert report.outcome == "made"
    assert report.notes == (
        "not valid OpenAPI: tags: expected array, got a string",
        "not valid OpenAPI: deprecated: expected boolean, got a string",
    )


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_valid_operation_has_no_notes(version: str) -> None:
    parameter = {"name": "q", "in": "query", "schema": {"type": "string"}}
    assert only_report(document({"/x": get(parameter, summary="s", tags=["t"])}, version)).notes == ()


def test_an_operation_with_more_schema_than_a_tool_may_have_is_left_out() -> None:
    properties = {f"property{number}": {"type": "string", "description": "x" * 200} for number in range(1500)}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": properties}}}}
    report = only_report(document({"/x": {"post": {"requestBody": body, "responses": OK}}}))
    assert report.left_out.startswith("the schema of its arguments has ")
    assert report.left_out.endswith(f" bytes, more than {MAX_INPUT_BYTES:,}")


def test_the_report_is_json_for_programs() -> None:
    report = to_jsonable(compile_source(document(PATHS), include=("pets",)))
    assert report["counts"] == {"made": 2, "made with loss": 0, "left out": 0, "not selected": 1}
    assert report["operations"][0] == {
        "outcome": "made",
        "operation": "GET /pets",
        "operationId": "listPets",
        "tags": ["pets"],
        "tool": "listPets",
    }
    assert msgspec.json.decode(msgspec.json.encode(report)) == report


def test_a_document_without_paths_has_no_tools() -> None:
    source = document({})
    del source["paths"]
    assert compile_source({**source, "webhooks": {"x": get()}}).reports == ()


def test_definitions_beyond_the_maximum_size_allow_any_value() -> None:
    text = {"type": "string", "description": "x" * 30_000}
    schemas = {
        f"S{n}": {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}, "text": text}}
        for n in range(9)
    }
    source = document(
        {"/x": post({"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/S0"}}}})},
        components={"schemas": {**schemas, "S9": text}},
    )
    result = compile_source(source)
    assert [(loss.kind, loss.message) for loss in result.reports[0].losses] == [
        ("size", "definitions beyond the maximum size allow any value: S2")
    ]
    definitions = msgspec.json.decode(result.tools[0].definition)["inputSchema"]["$defs"]
    assert sorted(definitions) == ["S0", "S1", "S2"]
    assert definitions["S2"] == {}
