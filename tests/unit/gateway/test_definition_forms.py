"""The forms of a definition for clients of both eras: which parts are mended, which are refused, and which stay
unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_tools.definitions.forms import MAX_CHANGES, MAX_DEPTH, Forms, ListedType, make_forms
from fairlead_tools.definitions.validated_output import is_portable

ARGUMENTS = {"type": "object"}
OBJECT = {"type": "object"}


def forms(listed: ListedType = ListedType.TOOL, /, **members: Any) -> Forms:
    needed = {"name": "x", "inputSchema": ARGUMENTS} if listed is ListedType.TOOL else {"name": "x"}
    return make_forms(json.dumps(needed | members).encode(), listed)


MENDED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "properties of PHP": (
        {"inputSchema": {"type": "object", "properties": []}},
        {"inputSchema": {"type": "object", "properties": {}}},
        "inputSchema.properties: [] is written as {}",
    ),
    "properties of Go": (
        {"inputSchema": {"type": "object", "properties": None}},
        {"inputSchema": {"type": "object"}},
        "inputSchema.properties: null is left out",
    ),
    "required of Lua": (
        {"inputSchema": {"type": "object", "required": {}}},
        {"inputSchema": {"type": "object", "required": []}},
        "inputSchema.required: {} is written as []",
    ),
    "an argument of any value": (
        {"inputSchema": {"type": "object", "properties": {"a": None}}},
        {"inputSchema": {"type": "object", "properties": {"a": {}}}},
        "inputSchema.properties.a: null is written as {}",
    ),
    "deep below": (
        {"inputSchema": {"type": "object", "properties": {"properties": {"items": {"enum": None, "default": None}}}}},
        {"inputSchema": {"type": "object", "properties": {"properties": {"items": {"default": None}}}}},
        "inputSchema.properties.properties.items.enum: null is left out",
    ),
    "an empty anyOf": (
        {"outputSchema": {"type": "object", "anyOf": []}},
        {"outputSchema": {"type": "object"}},
        "outputSchema.anyOf: an empty list of schemas is left out",
    ),
    "hints": (
        {"annotations": {"title": None, "readOnlyHint": None}},
        {"annotations": {}},
        "annotations.title: null is left out",
    ),
    "a description": ({"description": None}, {}, "description: null is left out"),
    "a mapping": ({"_meta": []}, {"_meta": {}}, "_meta: [] is written as {}"),
    "one of two icons": (
        {"icons": [{"src": None}, {"src": "a", "theme": None}]},
        {"icons": [{"src": "a"}]},
        "icons: invalid icons are left out",
    ),
    "icons": ({"icons": "a.png"}, {}, "icons: left out"),
    "how it runs": ({"execution": {"taskSupport": "maybe"}}, {}, "execution: left out"),
}


@pytest.mark.parametrize("case", MENDED)
def test_a_member_whose_meaning_is_clear_is_mended_for_clients_of_both_eras(case: str) -> None:
    given, expected, change = MENDED[case]
    modern, legacy = forms(**given)
    assert modern == legacy
    assert json.loads(modern.definition) == {"name": "x", "inputSchema": ARGUMENTS} | expected
    assert change in modern.changes


OLD: dict[str, dict[str, Any]] = {
    "a list": {"type": "array"},
    "nothing": {},
    "a reference": {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
    "a reference that leads nowhere": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
    "a circle": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
    "a pattern of Python": {"type": "object", "properties": {"a": {"pattern": "(?P<x>a)"}}},
    "an anchor twice": {"type": "object", "properties": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
    "an anchor that is none": {"type": "object", "properties": {"a": {"$anchor": "#x"}}},
    "a part with an identifier": {"type": "object", "properties": {"a": {"$id": "https://example.com/a"}}},
    "an identifier of draft 4": {"type": "object", "id": "a"},
    "an empty enum": {"type": "object", "properties": {"a": {"enum": []}}},
    "additional items that are a number": {"type": "object", "additionalItems": 0},
    "a keyword of Ajv": {"type": "object", "$async": True},
    "a type that is none": {"type": "object", "properties": {"a": {"type": "strin"}}},
    "nullable alone": {"type": "object", "properties": {"a": {"nullable": True}}},
}


@pytest.mark.parametrize("case", OLD)
def test_an_output_schema_that_older_clients_cannot_take_is_left_out_for_them_alone(case: str) -> None:
    modern, legacy = forms(outputSchema=OLD[case])
    assert json.loads(modern.definition)["outputSchema"] == OLD[case]
    assert json.loads(legacy.definition) == {"name": "x", "inputSchema": ARGUMENTS}
    assert legacy.changes[0].startswith("outputSchema: left out for older clients, as ")
    assert modern.changes == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {
            "type": "object",
            "properties": {"id": {}, "$id": {}, "$async": {"type": "string"}},
            "$id": "https://x.example",
        },
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z0-9-]{2,}$", "nullable": True}}},
        {"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"},
        {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
    ],
)
def test_an_output_schema_that_compiles_stays_as_it_is_for_everybody(schema: dict[str, Any]) -> None:
    raw = json.dumps({"name": "x", "inputSchema": ARGUMENTS, "outputSchema": schema}).encode()
    modern, legacy = make_forms(raw, ListedType.TOOL)
    assert modern.definition is raw
    assert legacy.definition is raw


def test_a_schema_that_is_true_or_false_is_written_as_an_object_for_older_clients() -> None:
    schema = {"type": "object", "properties": {"a": True, "b": False}}
    modern, legacy = forms(inputSchema=schema)
    assert json.loads(modern.definition)["inputSchema"] == schema
    assert json.loads(legacy.definition)["inputSchema"]["properties"] == {"a": {}, "b": {"not": {}}}


def test_a_tool_that_only_the_newer_revision_has_is_refused_for_older_clients() -> None:
    modern, legacy = forms(inputSchema={"type": "object", "required": "a"})
    assert modern.refusal == ""
    assert legacy.definition == b""
    assert legacy.refusal == 'inputSchema.required: the value is not of type "array"'


REFUSED: list[tuple[ListedType, dict[str, Any], str]] = [
    (
        ListedType.TOOL,
        {"annotations": {"readOnlyHint": "yes"}},
        "annotations.readOnlyHint: the value is",
    ),
    (ListedType.TOOL, {"title": 7}, "title: the value is not of type"),
    (ListedType.TOOL, {"outputSchema": "x"}, "outputSchema: the value is not of type"),
    (ListedType.TOOL, {"inputSchema": []}, 'the inputSchema does not have "type": "object"'),
    (ListedType.PROMPT, {"arguments": [{"title": "x"}]}, "arguments[0]: no name"),
    (ListedType.RESOURCE, {}, "no uri"),
    (ListedType.RESOURCE, {"uri": "notes.txt"}, "uri: relative URL without a base"),
    (ListedType.RESOURCE, {"uri": "http://"}, "uri: empty host"),
    (ListedType.RESOURCE, {"uri": "http://[::1/"}, "uri: invalid IPv6 address"),
    (ListedType.RESOURCE, {"uri": "notes://my file"}, "uri: invalid domain character"),
    (ListedType.RESOURCE, {"uri": "a:b", "name": " "}, "name is empty"),
    (ListedType.TEMPLATE, {"uriTemplate": " "}, "uriTemplate is empty"),
    (ListedType.PROMPT, {"arguments": [{"name": "x"}, {"name": ""}]}, "arguments[1].name is empty"),
    (ListedType.RESOURCE, {"uri": "a:b", "size": 2**70}, "size does not fit into 64 bits"),
    (
        ListedType.RESOURCE,
        {"uri": "a:b", "annotations": {"audience": ["robot"]}},
        "annotations.audience[0]: ",
    ),
    (ListedType.TEMPLATE, {"uriTemplate": 7}, "uriTemplate: the value is not of type"),
]


@pytest.mark.parametrize(("listed", "members", "why"), REFUSED)
def test_a_member_whose_meaning_is_not_clear_has_the_definition_refused(
    listed: ListedType, members: dict[str, Any], why: str
) -> None:
    modern, legacy = forms(listed, **members)
    assert modern == legacy
    assert modern.definition == b""
    assert modern.refusal.startswith(why)


def test_the_size_of_a_resource_is_written_as_the_integer_that_it_is() -> None:
    modern, _ = forms(ListedType.RESOURCE, uri="file:///a b", size=4.0)
    assert modern.definition == b'{"name":"x","uri":"file:///a b","size":4}'


@pytest.mark.parametrize(
    "time", ["2026-07-28T10:00:00Z", "2026-07-28T10:00:00.123456789+02:00", "2024-02-29T23:59:59Z"]
)
def test_a_time_with_an_offset_stays(time: str) -> None:
    raw = json.dumps({"name": "x", "uri": "a:b", "annotations": {"lastModified": time}}).encode()
    assert make_forms(raw, ListedType.RESOURCE).modern.definition is raw


@pytest.mark.parametrize("time", ["", "today", "2026-07-28", "2026-07-28T10:00:00", "2026-02-30T10:00:00Z"])
def test_a_time_that_clients_cannot_read_is_left_out(time: str) -> None:
    modern, _ = forms(ListedType.RESOURCE, uri="a:b", annotations={"lastModified": time, "priority": 1})
    assert json.loads(modern.definition)["annotations"] == {"priority": 1}
    assert modern.changes == ("annotations.lastModified: left out, because the value is not a time with a UTC offset",)


def test_members_of_other_definitions_mean_nothing_in_a_tool() -> None:
    raw = b'{"name":"x","inputSchema":{"type":"object"},"uri":7,"size":"x","annotations":{"lastModified":7}}'
    assert make_forms(raw, ListedType.TOOL).modern.definition is raw


@pytest.mark.parametrize("number", [b"1e400", b"1" + b"0" * 400, b"-1" + b"0" * 6000])
def test_a_number_that_no_double_holds_has_the_definition_refused(number: bytes) -> None:
    raw = b'{"name":"x","inputSchema":{"type":"object"},"_meta":{"a":%b}}' % number
    assert make_forms(raw, ListedType.TOOL).modern.refusal


@pytest.mark.parametrize("levels", [MAX_DEPTH, 150, 20_000])
def test_a_definition_that_is_nested_deeper_than_clients_read_is_refused(levels: int) -> None:
    def tool(depth: int) -> bytes:
        return b'{"name":"x","inputSchema":{"type":"object"},"_meta":%b}' % (b'{"a":' * depth + b"1" + b"}" * depth)

    assert make_forms(tool(levels), ListedType.TOOL).modern.refusal
    assert not make_forms(tool(MAX_DEPTH - 1), ListedType.TOOL).modern.refusal


def test_a_definition_with_thousands_of_odd_members_is_mended_and_told_in_a_few_phrases() -> None:
    modern, legacy = forms(inputSchema={"type": "object", "properties": {f"p{n}": None for n in range(15_000)}})
    assert modern == legacy
    assert len(json.loads(modern.definition)["inputSchema"]["properties"]) == 15_000
    assert len(modern.changes) == MAX_CHANGES


def test_members_that_are_right_keep_their_bytes_in_a_definition_that_is_mended() -> None:
    raw = b'{ "name":"x" , "inputSchema":{ "type":"object","minimum":1.50 }, "unknown": [ 1e2 ],"title":null}'
    modern, _ = make_forms(raw, ListedType.TOOL)
    expected = b'{"name":"x","inputSchema":{ "type":"object","minimum":1.50 },"unknown":[ 1e2 ]}'
    assert modern.definition == expected


PORTABLE = ["^a*$", "^[a-z0-9-]+$", r"^\d{4}-\d{2}$", r"^[\w\-.]+@\w+\.[a-z]{2,}$", "(a|b)*", "(?:a)+?", ""]
ODD = [
    "(",
    ")",
    "a++",
    "^*",
    "|*",
    "a{2",
    "a{,2}",
    "[z-a]",
    "[",
    "[]",
    r"[\w-.]",
    r"\_",
    r"\A",
    r"\Z",
    r"\u{1}",
    r"\ud83d",
    "(?i)a",
    "(?P<x>a)",
    r"(a)\1",
    "(?<=a)b",
    "(?=a)*",
    "a" * 501,
    7,
]


@pytest.mark.parametrize("pattern", PORTABLE)
def test_a_pattern_that_every_dialect_has_is_portable(pattern: str) -> None:
    assert is_portable(pattern)


@pytest.mark.parametrize("pattern", ODD)
def test_a_pattern_that_ecmascript_may_not_have_is_not_portable(pattern: object) -> None:
    assert not is_portable(pattern)
