"""Automatic shortening of results that have more tokens than the limit."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.tokens.media import PROVIDERS, audio_tokens, image_tokens
from fairlead_gateway.calls.results.result_keeper import surely_fits
from fairlead_gateway.core.long_results import LongResult
from fairlead_offers.results.shortened_results import block_tokens, reduce_value, shorten_result
from fairlead_search.passages import matching_lines
from fairlead_search.shapes import MAX_PATHS, shape

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=12), inner, max_size=12),
    max_leaves=200,
)


def png(width: int, height: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\0" * 40).decode()


def result(**members: Any) -> bytes:
    return json.dumps(members, ensure_ascii=False).encode()


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@settings(max_examples=examples(60), deadline=None)
@given(JSON, st.integers(200, 900), st.booleans())
def test_a_shortened_result_has_no_more_tokens_than_it_may_whatever_a_server_says(
    value: Any, tokens: int, declared: bool
) -> None:
    raw = result(content=[text(json.dumps(value)), text("x" * 3000)], structuredContent={"v": value})
    answer = shorten_result(
        LongResult(raw, tokens, "s/1", "read on with read_result(id)", declares_output=declared, supports_links=True)
    )
    if answer.unfit:
        return
    assert answer.result is not None
    made = json.loads(answer.result)
    assert sum(map(block_tokens, made["content"])) <= tokens
    assert ("structuredContent" in made) is declared
    if declared:
        assert set(made["structuredContent"]) <= {"v"}


def test_the_shape_names_paths_rows_and_columns() -> None:
    rows = [{"id": 1, "tags": ["a"]}, {"id": "b", "tags": [], "odd name": None}]
    assert shape({"rows": rows, "next": None}) == [
        "$: object, 2 members",
        "$.rows: array, 2 rows; columns id (number|string), tags (array), odd name (null)",
        "$.rows[0].tags: array, 1 row of string",
        "$.next: null",
    ]
    table = "\n".join(["city;people", *(f'"town; {number}";{number}' for number in range(9))])
    assert shape(table) == [f"text, 10 lines, {len(table)} characters; table of 9 rows, columns city, people"]
    assert len(shape({str(number): {"a": 1} for number in range(500)})) == MAX_PATHS + 1


def test_images_and_sounds_are_counted_as_their_provider_counts_them() -> None:
    counts = {provider: image_tokens(png(1024, 1024), provider) for provider in PROVIDERS}
    assert counts == {"anthropic": 1399, "openai": 765, "gemini": 1032}
    assert image_tokens(png(1024, 1024)) == 1399
    assert image_tokens(png(200, 200), "gemini") == 258
    assert image_tokens("no image") == 1600


@pytest.mark.parametrize("provider", [*PROVIDERS, None])
@pytest.mark.parametrize("size", [(1568, 1568), (4032, 3024), (1920, 1080), (1080, 1920)])
def test_an_image_of_unknown_size_counts_no_less_than_photos_and_screens(
    provider: str | None, size: tuple[int, int]
) -> None:
    assert image_tokens("no image", provider) >= image_tokens(png(*size), provider)
    head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0" + struct.pack("<II", 8000, 16000)
    assert 318 <= audio_tokens(base64.b64encode(head + b"\0" * 160_000).decode()) <= 322


def test_an_image_is_shown_whole_or_not_at_all() -> None:
    small, large = ({"type": "image", "data": png(size, size), "mimeType": "image/png"} for size in (200, 1024))
    raw = result(content=[small, large, text("word " * 3000)])
    assert not surely_fits(raw, 100_000), "few bytes may be many tokens"
    answer = shorten_result(LongResult(raw, 1000, "s/1", "read on"))
    assert answer.result is not None
    kinds = [block["type"] for block in json.loads(answer.result)["content"]]
    assert kinds == ["text", "text", "text", "image"]


def test_structured_content_keeps_short_words_and_members_and_loses_items() -> None:
    value = {"kind": "report", "rows": [{"state": "open", "text": "y" * 500}] * 300}
    cut: Any = reduce_value(value, 300)
    assert cut["kind"] == "report"
    assert cut["rows"][0]["state"] == "open"
    assert 0 < len(cut["rows"]) < 300
    assert reduce_value("y" * 5000, 1) is None


@pytest.mark.parametrize("raw", [b"[]", b"{", b"\xff", b'{"content":3}', b'{"content":[1,{"type":7}],"_meta":[]}'])
def test_no_result_at_all_is_still_bounded(raw: bytes) -> None:
    answer = shorten_result(LongResult(raw + b" " * 5000, 200))
    assert answer.result is None or len(answer.result) < 3000


def test_a_pattern_of_any_kind_takes_linear_time_and_a_broken_one_is_text() -> None:
    long = "a" * 200_000
    assert matching_lines(long, "(a+)+b", 1000) == ""
    assert matching_lines("f(x\ng", "f(", 1000) == "1: f(x"
    assert matching_lines("A\ud800b\nc", "B", 1000) == "1: A\ud800b"
