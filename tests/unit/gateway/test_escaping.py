"""Control characters in raw JSON, in any notation, are replaced with visible text; nothing else changes."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.escaping import escape, escape_text

DIRECTION = {"\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
TAGS = {chr(code) for code in range(0xE0000, 0xE0080)}


def is_control(char: str) -> bool:
    """Whether a character is escaped: control characters, direction marks and tags of Unicode."""
    return (unicodedata.category(char) == "Cc" and char not in "\t\n\r") or char in DIRECTION or char in TAGS


def visible(text: str) -> str:
    def escape_units(char: str) -> str:
        units = char.encode("utf-16-be").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return "".join(escape_units(char) if is_control(char) else char for char in text)


def expected_value(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [expected_value(item) for item in value]
    if isinstance(value, dict):
        return {visible(key): expected_value(item) for key, item in value.items()}
    return value


texts = st.text(
    st.sampled_from('\\\\u001b"\t\n\x00\x08\x0c\x1b\x7f\x9b\u202e\u2066\u200f\u2014é\U000e0041\U0001f3f4x'), max_size=20
)
values = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(500), deadline=None)
@given(value=values, ascii_only=st.booleans())
def test_every_control_character_is_shown_as_text(value: Any, ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    made = escape(raw)
    assert json.loads(bytes(made)) == expected_value(value)
    assert escape(made) is made
    if expected_value(value) == value:
        assert made is raw


@settings(max_examples=examples(200), deadline=None)
@given(text=texts)
def test_decoded_text_is_escaped_alike(text: str) -> None:
    assert escape_text(text) == visible(text)


def test_every_character_is_escaped_or_left_as_it_is() -> None:
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    for ascii_only in (True, False):
        assert json.loads(bytes(escape(json.dumps(every, ensure_ascii=ascii_only).encode()))) == visible(every)


@pytest.mark.parametrize(
    ("raw", "made"),
    [
        (rb'"\u001b[2J"', rb'"\\u001b[2J"'),
        (rb'"\u001B[2J"', rb'"\\u001B[2J"'),
        (rb'"\\u001b"', rb'"\\u001b"'),
        (rb'"\\\u001b"', rb'"\\\\u001b"'),
        (rb'"\b\f\n\t\r"', rb'"\\u0008\\u000c\n\t\r"'),
        ('"\u202e"'.encode(), rb'"\\u202e"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
    ],
)
def test_text_that_is_visible_already_stays(raw: bytes, made: bytes) -> None:
    assert escape(raw) == made
