"""Answers of operations: `outputSchema`, `Accept`, and results that stay text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead_openapi.compiling.operations import MAX_OUTPUT_BYTES
from openapidocuments import document, get, only_report, only_tool, result_schema

PET = {"type": "object", "properties": {"name": {"type": "string"}}}


def answer(schema: Any = None, media_type: str = "application/json") -> dict[str, Any]:
    return {"description": "fine", "content": {media_type: {} if schema is None else {"schema": schema}}}


def notes(responses: dict[str, Any]) -> tuple[str, ...]:
    return only_report(document({"/x": get(responses=responses)})).notes


def test_an_object_is_the_schema_of_results() -> None:
    assert result_schema(PET) == PET


def test_an_object_behind_references_and_all_of_is_the_schema_of_results() -> None:
    schema = {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"required": ["name"]}]}
    made = result_schema(schema, Pet=PET)
    assert made == {"type": "object", "allOf": [{"$ref": "#/$defs/Pet"}, {"required": ["name"]}], "$defs": {"Pet": PET}}


@pytest.mark.parametrize("schema", [{"type": "array", "items": PET}, {"type": "string"}, {"type": ["string", "null"]}])
def test_a_result_other_than_an_object_is_wrapped(schema: dict[str, Any]) -> None:
    definition, operation = only_tool(document({"/x": get(responses={"200": answer(schema)})}))
    assert definition["outputSchema"] == {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    assert (operation.structured, operation.wrapped) == (True, True)


@pytest.mark.parametrize(
    "schema",
    [{}, True, {"type": ["object", "null"]}, {"anyOf": [PET, {"type": "string"}]}, {"allOf": [{"minProperties": 1}]}],
)
def test_a_result_that_may_or_may_not_be_an_object_stays_text(schema: Any) -> None:
    assert notes({"200": answer(schema)}) == (
        "results stay text, as their schema does not say whether they are objects",
    )


def test_results_with_several_schemas_stay_text() -> None:
    assert notes({"200": answer(PET), "201": answer({"type": "array"})}) == (
        "results stay text, as successful answers have several schemas",
    )


@pytest.mark.parametrize("other", [{"description": "empty"}, answer({"type": "string"}, "text/plain")])
def test_results_that_are_not_always_json_stay_text(other: dict[str, Any]) -> None:
    assert notes({"200": answer(PET), "204": other}) == ("results stay text, as some successful answers are not JSON",)


def test_answers_of_the_same_schema_have_it() -> None:
    definition, _ = only_tool(
        document({"/x": get(responses={"200": answer(PET), "2XX": answer(PET), "404": answer({})})})
    )
    assert definition["outputSchema"] == PET


def test_default_is_the_answer_where_there_is_no_other() -> None:
    definition, _ = only_tool(document({"/x": get(responses={"default": answer(PET), "404": answer({})})}))
    assert definition["outputSchema"] == PET
    without, _ = only_tool(document({"/x": get(responses={"default": answer(PET), "204": {"description": "empty"}})}))
    assert "outputSchema" not in without


def test_a_schema_of_results_that_cannot_be_resolved_leaves_the_tool() -> None:
    (note,) = notes({"200": answer({"type": "object", "properties": {"a": {"$ref": "other.json"}}})})
    assert note.startswith(
        "results stay text, as their schema cannot be used: `$ref` other.json is in another document"
    )


def test_a_schema_of_results_that_cannot_be_checked_completely_is_left_away() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)"}}}
    (note,) = notes({"200": answer(schema)})
    assert note.startswith("results stay text, as their schema cannot be used: the pattern at properties/a/pattern")


@pytest.mark.parametrize("excess", [1, 20_000])
def test_a_large_schema_of_results_is_left_away(excess: int) -> None:
    schema = {"type": "object", "description": ""}
    filled = {**schema, "description": "x" * (MAX_OUTPUT_BYTES + excess - len(msgspec.json.encode(schema)))}
    (note,) = notes({"200": answer(filled)})
    size = f"{MAX_OUTPUT_BYTES + excess:,} bytes, more than {MAX_OUTPUT_BYTES:,}"
    assert note == f"results stay text, as their schema has {size}"


def test_json_is_asked_for_where_there_is_json() -> None:
    both = {"description": "fine", "content": {"application/xml": {}, "application/vnd.api+json": {"schema": PET}}}
    _, operation = only_tool(document({"/x": get(responses={"200": both})}))
    assert operation.accept == "application/vnd.api+json"
    _, operation = only_tool(document({"/x": get(responses={"200": answer(None, "image/png")})}))
    assert (operation.accept, operation.structured) == ("image/png", False)
    _, operation = only_tool(document({"/x": get()}))
    assert operation.accept == "*/*"


def test_a_media_type_with_a_line_break_is_not_sent() -> None:
    _, operation = only_tool(document({"/x": get(responses={"200": answer(None, "text/plain\r\nX-Own: 1")})}))
    assert operation.accept == "*/*"
