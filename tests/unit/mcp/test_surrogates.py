"""Halves of surrogate pairs in JSON become replacement characters, and nothing else changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.surrogates import replace_lone_surrogates

HIGH = "\\ud83c"
LOW = "\\uDFB2"


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        (HIGH + LOW, HIGH + LOW),
        (HIGH, "\\ufffd"),
        (LOW, "\\ufffd"),
        (HIGH + HIGH + LOW, "\\ufffd" + HIGH + LOW),
        (HIGH + LOW + LOW, HIGH + LOW + "\\ufffd"),
        (HIGH + "x" + LOW, "\\ufffdx\\ufffd"),
        ("\\" + HIGH, "\\" + HIGH),
        (HIGH + "\\" + LOW, "\\ufffd\\" + LOW),
        ("\\\\" + HIGH, "\\\\\\ufffd"),
    ],
)
def test_a_half_is_replaced_where_it_is_alone(written: str, mended: str) -> None:
    assert replace_lone_surrogates(f'["{written}"]'.encode()) == f'["{mended}"]'.encode()


@given(st.lists(st.sampled_from([HIGH, LOW, "\\\\", "\\n", "x", "ä", '\\"', "\\u0041"])).map("".join))
def test_mended_surrogates_are_what_a_lenient_parser_reads(text: str) -> None:
    read = json.loads(f'"{text}"')
    expected = read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    mended = json.loads(replace_lone_surrogates(f'"{text}"'.encode()))
    assert mended.replace("\ufffd", "") == expected.replace("\ufffd", "")
    mended.encode()


def test_text_with_a_nul_is_not_json_and_stays() -> None:
    assert replace_lone_surrogates(b'"\\ud800\0"') == b'"\\ud800\0"'
