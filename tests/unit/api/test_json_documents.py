"""JSON as editors write it: which forms are read, the position of each value, and messages about mistakes."""

from __future__ import annotations

import json

import pytest

from fairlead_api.jsondocuments import MAX_DEPTH, UnreadableJson, parse_json


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -2.5e3, true, false, null, "\\u00e9\\ud83d\\ude00\\n"], "b": {}}',
        "[]",
        '"text"',
        '\ufeff{"a": "http://x/*y*/"}',
        '\r\n{\t"a" :\r\n "b" }\n',
    ],
)
def test_json_is_read_as_json(text: str) -> None:
    parsed = parse_json(text)
    assert parsed is not None
    assert parsed.content == json.loads(text.removeprefix("\ufeff"))
    assert parsed.repeated == ()


def test_comments_and_a_last_comma_are_taken_as_editors_take_them() -> None:
    parsed = parse_json('// top\n{ /* one\n two */ "a": [1, 2,], // "b": 3,\n "c": "//no", }\n// end')
    assert parsed is not None
    assert parsed.content == {"a": [1, 2], "c": "//no"}
    assert [parsed.line_of(path) for path in ((), ("a",), ("a", 1), ("c",), ("c", "x"), ("z",))] == [2, 3, 3, 4, 4, 2]


@pytest.mark.parametrize("text", ["", " \n\t", "// nothing\n", "/* nothing */", "\ufeff"])
def test_a_text_without_a_value_is_told_apart(text: str) -> None:
    assert parse_json(text) is None


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('{"a": {\n  "b": 1\n', 3, 1, "the text ends before the { of line 1 is closed"),
        ('{"a": 1\n "b": 2}', 2, 2, 'a comma or } is missing before "b": 2}'),
        ('{"a": [1 2]}', 1, 10, "a comma or ] is missing before 2]}"),
        ('{"a" 1}', 1, 6, 'a colon is missing after "a"'),
        ("{a: 1}", 1, 2, "a name in double quotes is missing before a: 1}"),
        ("{'a': 1}", 1, 2, "a name in double quotes is missing before 'a': 1}"),
        ('{"a": npx}', 1, 7, "npx needs double quotes"),
        ('{"a": ,}', 1, 7, "a value is missing before ,}"),
        ('{"a":', 1, 6, "a value is missing at the end"),
        ('{"a": "b\n"}', 1, 7, "the closing quote of this string is missing on its line"),
        ('{"a": "b\r\n"}', 1, 7, "the closing quote of this string is missing on its line"),
        ('{"a": "b', 1, 7, "the closing quote of this string is missing on its line"),
        ('{"a": "b\\', 1, 7, "the closing quote of this string is missing on its line"),
        ('{"a": "b\tc"}', 1, 7, "this string contains a tab: write \\t"),
        ('{"a": "\x1b[0m"}', 1, 7, "this string contains the control character U+001B: write \\u001b"),
        ('{"a": "C:\\Users"}', 1, 7, "a string has a \\ that is not an escape: write a backslash as \\\\"),
        ('{"a": 1} {"b": 2}', 1, 10, 'unexpected text after the value: {"b": 2}'),
        ("{,}", 1, 2, "a name in double quotes is missing before ,}"),
        ("[1,,2]", 1, 4, "a value is missing before ,2]"),
        ("[" * (MAX_DEPTH + 2), 1, MAX_DEPTH + 2, f"lists and objects are nested more than {MAX_DEPTH} deep"),
        ('{"a": /* no end', 1, 7, "a value is missing before /* no end"),
    ],
)
def test_a_mistake_is_named_with_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(UnreadableJson) as raised:
        parse_json(text)
    assert (str(raised.value), raised.value.line, raised.value.column) == (message, line, column)


def test_a_key_that_stands_twice_keeps_its_first_value_and_is_told_of_with_both_lines() -> None:
    parsed = parse_json('{"m": {\n"time": {"x": 1},\n"git": 2,\n"time": {"x": [{}]}}}')
    assert parsed is not None
    assert parsed.content == {"m": {"time": {"x": 1}, "git": 2}}
    (twice,) = parsed.repeated
    assert (twice.path, twice.line, twice.first_line) == (("m", "time"), 4, 2)
    assert parsed.line_of(("m", "time", "x")) == 2
