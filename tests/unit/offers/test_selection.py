"""JMESPath expressions that select parts of results, and expressions that are refused before they run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_offers.results.selected_results import select_part, selection_work
from fairlead_tools.selection import META_SELECTION, BadJmesPath, ResultSelection, check_expression, select

ITEMS = {"items": [{"id": 1, "name": "a", "url": "u"}, {"id": 2, "name": "b", "url": "v"}], "total": 2}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}


def text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}


def select_from(expression: str, result: dict[str, Any], *, declared: bool = False) -> Any:
    return json.loads(select(ResultSelection(expression, declared), json.dumps(result).encode()))


def test_structured_content_and_its_text_become_the_part() -> None:
    result = {"content": [text(ITEMS), IMAGE], "structuredContent": ITEMS, "_meta": {"k": 1}}
    assert select_from("items[*].{id: id, name: name}", result) == {
        "content": [text('[{"id":1,"name":"a"},{"id":2,"name":"b"}]'), IMAGE],
        "structuredContent": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        "_meta": {"k": 1},
    }


def test_a_text_that_is_json_becomes_the_part_and_stays_a_text() -> None:
    assert select_from("items[].name", {"content": [text(ITEMS)]}) == {"content": [text('["a","b"]')]}
    assert select_from("items[0].name", {"content": [text(ITEMS)]}) == {"content": [text("a")]}


def test_where_the_tool_declares_an_output_schema_the_part_is_structured_content_too() -> None:
    result = select_from("{ids: items[].id}", {"content": [text(ITEMS)]}, declared=True)
    assert result["structuredContent"] == {"ids": [1, 2]}


@pytest.mark.parametrize("more", [{"isError": True}, {"resultType": "input_required"}, {"resultType": "task"}])
def test_errors_questions_and_tasks_stay_as_they_are(more: dict[str, Any]) -> None:
    raw = json.dumps({"content": [text(ITEMS)], **more}).encode()
    assert select(ResultSelection("items", declared=False), raw) is raw


@pytest.mark.parametrize(
    ("expression", "result", "why"),
    [
        ("nothing.here", {"content": [text(ITEMS)]}, "selects nothing"),
        ("length(total)", {"content": [], "structuredContent": ITEMS}, "JMESPathTypeError"),
        ("items", {"content": [text("no JSON")]}, "its text is not JSON"),
        ("items", {"content": [text(ITEMS), text(ITEMS)]}, "2 texts"),
        ("items", {"content": [IMAGE]}, "0 texts"),
        ("][", {"content": [text(ITEMS)]}, "not a JMESPath expression"),
    ],
)
def test_where_no_part_can_be_selected_the_whole_result_stays_with_a_mark(
    expression: str, result: dict[str, Any], why: str
) -> None:
    marked = select_from(expression, {**result, "_meta": {"k": 1}})
    assert why in marked["_meta"].pop(META_SELECTION)["failed"]
    assert marked == {**result, "_meta": {"k": 1}}


@pytest.mark.parametrize(
    "expression",
    [
        "items[?total > `1` && name == 'a'].{id: id, name: name} | [0]",
        "sort_by(items, &id)[:3]",
        "map(&[id, name], items)",
        "merge(@, {found: length(items)})",
        "{{{}}}".format(", ".join(f"f{number}: f{number}" for number in range(50))),
        "!items && 'none' || to_string(items)",
        "*.*[]",
    ],
)
def test_usual_expressions_are_accepted(expression: str) -> None:
    check_expression(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("items[].{id: to_text(id)}", "JMESPath has no function to_text"),
        (" | ".join(["[@, @]"] * 7), "can copy its input 128 times"),
        ("[?{}]".format(" | ".join(["[@, @]"] * 7)), "can copy its input"),
        ("map(&[@, @, @, @, @, @, @, @, @], [@, @, @, @, @, @, @, @])", "can copy its input 72 times"),
        ("a" * 1025, "the maximum is 1024"),
        ("(" * 1000, "not a JMESPath expression"),
        ("items[", "not a JMESPath expression"),
        ("nonesuch(@", "not a JMESPath expression"),
    ],
)
def test_expressions_whose_cost_is_not_bounded_are_refused(expression: str, why: str) -> None:
    with pytest.raises(BadJmesPath, match=why.replace("(", r"\(")):
        check_expression(expression)


def test_the_process_selects_the_same_part() -> None:
    raw = json.dumps({"content": [text(ITEMS)]}).encode()
    selection = ResultSelection("items[].id", declared=True)
    (selected,) = select_part(b"".join(selection_work(selection, raw))).parts
    assert selected == select(selection, raw)
