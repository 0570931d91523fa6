"""Conversion of command-line words to arguments of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_cli.calling.key_value_arguments import (
    BadArgument,
    argument_rows,
    check_known,
    check_required,
    parse_arguments,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "string"}},
        "point": {"$ref": "#/$defs/Point"},
        "level": {"enum": ["low", 3, None]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "odd": True,
        "loop": {"$ref": "#/properties/loop"},
        "lost": {"$ref": "#/$defs/Nowhere"},
    },
    "$defs": {"Point": {"type": "object"}},
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("text=5", {"text": "5"}),
        ("text=a=b", {"text": "a=b"}),
        ("text=", {"text": ""}),
        ("count=5", {"count": 5}),
        ("count=-5", {"count": -5}),
        ("ratio=0.5", {"ratio": 0.5}),
        ("ratio=2", {"ratio": 2}),
        ("flag=true", {"flag": True}),
        ("flag=No", {"flag": False}),
        ("flag=0", {"flag": False}),
        ('items=["a"]', {"items": ["a"]}),
        ('point={"x": 1}', {"point": {"x": 1}}),
        ("level=low", {"level": "low"}),
        ("level=3", {"level": 3}),
        ("level=null", {"level": None}),
        ("maybe=4", {"maybe": 4}),
        ("maybe=null", {"maybe": None}),
        ("either=4", {"either": 4}),
        ("either=four", {"either": "four"}),
        ("unknown=4", {"unknown": 4}),
        ("unknown=four", {"unknown": "four"}),
        ("odd=[1]", {"odd": [1]}),
        ("loop=1", {"loop": 1}),
        ("lost=1", {"lost": 1}),
        ("text:=5", {"text": 5}),
        ('count:="5"', {"count": "5"}),
    ],
)
def test_a_word_becomes_a_value_of_the_type_that_the_tool_asks_for(word: str, expected: dict[str, Any]) -> None:
    actual = parse_arguments([word], SCHEMA)
    assert actual == expected
    assert [type(value) for value in actual.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text"], "'text' must have the form key=value"),
        (["=5"], "'=5' must have the form key=value"),
        ([":=5"], "':=5' must have the form key=value"),
        (["count=five"], "count: 'five' is not an integer"),
        (["count=5.5"], "count: '5.5' is not an integer"),
        (["ratio=true"], "ratio: 'true' is not a number"),
        (["flag=maybe"], "flag: 'maybe' is not true or false"),
        (["items=a,b"], "items: 'a,b' is not a JSON array"),
        (["point=[1]"], "point: '[1]' is not a JSON object"),
        (["maybe=x"], "maybe: 'x' is not an integer or null"),
        (["text:=x"], "text: 'x' is not JSON"),
        (["text=a", "text=b"], "text is given twice"),
    ],
)
def test_a_word_that_cannot_be_what_the_tool_asks_for_is_named(words: list[str], message: str) -> None:
    with pytest.raises(BadArgument, match=message.replace("[", r"\[").replace("]", r"\]")):
        parse_arguments(words, SCHEMA)


@pytest.mark.parametrize(
    "schema", [{}, {"properties": 5}, {"properties": {"a": 7}}, {"properties": {"a": {"enum": 4}}}]
)
def test_a_strange_schema_asks_for_nothing(schema: dict[str, Any]) -> None:
    assert parse_arguments(["a=1", "b=x"], schema) == {"a": 1, "b": "x"}


NAMED = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}


@pytest.mark.parametrize("strictly", [True, False])
def test_an_argument_that_the_schema_forbids_is_named_with_what_was_meant(strictly: bool) -> None:
    with pytest.raises(BadArgument) as caught:
        check_known({"citty": "Berlin", "days": 1}, {**NAMED, "additionalProperties": False}, strictly=strictly)
    assert str(caught.value) == "it has no argument 'citty' (did you mean city?). It takes city, days"


def test_a_word_that_the_schema_does_not_name_is_refused_although_nothing_forbids_it() -> None:
    with pytest.raises(BadArgument, match="no argument 'zzz'"):
        check_known({"zzz": 1}, NAMED, strictly=True)
    check_known({"zzz": 1}, NAMED, strictly=False)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {**NAMED, "additionalProperties": True},
        {**NAMED, "additionalProperties": {"type": "string"}},
        {**NAMED, "additionalProperties": False, "patternProperties": {"^x-": {}}},
        {**NAMED, "additionalProperties": False, "patternProperties": {"anywhere$": {}}},
        {**NAMED, "anyOf": [{"properties": {"x-a": {}}}]},
        {**NAMED, "allOf": [{"$ref": "#/$defs/More"}], "$defs": {"More": {"properties": {"x-a": {}}}}},
    ],
)
def test_an_argument_that_the_schema_takes_passes(schema: dict[str, Any]) -> None:
    check_known({"x-a": "b"}, schema, strictly=True)


@pytest.mark.timeout(20)
def test_a_schema_that_refers_to_itself_ends() -> None:
    branches = [{"$ref": "#"}, {"$ref": "#"}, {"anyOf": [{"$ref": "#"}] * 30}] * 10
    schema = {"properties": {"a": {"anyOf": branches}}, "anyOf": branches, "allOf": branches, "$ref": "#"}
    check_known({"a": 1}, schema, strictly=True)
    assert parse_arguments(["a=1"], schema) == {"a": 1}


def test_arguments_are_described_by_type_need_and_text() -> None:
    schema = {**SCHEMA, "required": ["text"]}
    rows = {name: (kind, need) for name, kind, need, _ in argument_rows(schema)}
    assert rows["text"] == ("string", "required")
    assert rows["level"] == ('"low" | 3 | null', "")


def test_an_argument_that_is_required_and_lacks_is_named() -> None:
    schema = {"properties": {"path": {}, "sheets": {}, "to": {}}, "required": ["path", "to", "unnamed", 5]}
    check_required({"path": "a", "to": "b"}, schema)
    check_required({}, {"properties": {"path": {}}, "anyOf": [{"required": ["path"]}], "required": "path"})
    with pytest.raises(BadArgument, match=r"^it needs path and to\. It takes path, sheets, to$"):
        check_required({"sheets": []}, schema)


@pytest.mark.parametrize("required", [True, 5, "path", {"path": True}, [["path"], None]])
def test_argument_rows_ignore_a_malformed_list_of_required_names(required: object) -> None:
    rows = [*argument_rows({"properties": {"path": {"type": "string"}}, "required": required})]
    assert rows == [("path", "string", "", "")]
