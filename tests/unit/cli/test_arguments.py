"""Words of the command line to arguments of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_cli.calling.arguments import BadArgument, parse_arguments

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
        (["text"], "'text' is not of the form key=value"),
        (["=5"], "'=5' is not of the form key=value"),
        ([":=5"], "':=5' is not of the form key=value"),
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
