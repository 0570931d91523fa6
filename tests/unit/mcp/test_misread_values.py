"""Sentences about JSON that does not have the expected form: no words of the library that decodes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from fairlead_mcp.misread_values import explain_misreading


class Part(msgspec.Struct):
    kind: Literal["text", "image"]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    input: str | list[Part] | None
    count: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    name: Annotated[str, msgspec.Meta(max_length=3, pattern="^a")] = "a"
    pair: tuple[int, int] = (1, 2)
    numbers: dict[int, float] = {}
    stream: bool = False


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"input":5}', "input: must be a text, a list or null, not an integer"),
        (b'{"input":[{"kind":"sound"}]}', "input[0].kind: has the value 'sound', which is none of the possible ones"),
        (b'{"input":[{}]}', "input[0].kind: is missing"),
        (b"[]", "the body must be an object, not a list"),
        (b"{}", "input: is missing"),
        (b'{"input":"","inptu":1}', "inptu: is unknown"),
        (b'{"input":"","count":0}', "count: must be at least 1"),
        (b'{"input":"","count":6}', "count: must be at most 5"),
        (b'{"input":"","count":1.5}', "count: must be an integer, not a number with decimals"),
        (b'{"input":"","name":"aaaa"}', "name: must have at most 3 characters"),
        (b'{"input":"","name":"b"}', "name: must match the regular expression '^a'"),
        (b'{"input":"","pair":[1]}', "pair: must have exactly 2 entries"),
        (b'{"input":"","numbers":{"a":1}}', "a name in numbers: must be an integer, not a text"),
        (b'{"input":"","numbers":{"1":[]}}', "numbers[...]: must be a number, not a list"),
        (b'{"input":"","stream":"yes"}', "stream: must be true or false, not a text"),
        (b'{"input"', "the body is not JSON: it ends too early"),
        (b"{x}", "the body is not JSON: object keys must be strings at byte 1"),
        (b'{"input":"\xff"}', "the body is not text in UTF-8"),
        (b"\xff", "the body is not JSON: invalid character at byte 0"),
    ],
)
def test_a_body_that_is_wrong_is_explained_by_its_member_and_what_it_has_to_be(body: bytes, sentence: str) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body, type=Body)
    assert explain_misreading(caught.value, "the body") == sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RecursionError(), "the body is nested too deeply"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "the body is not text in UTF-8"),
        (msgspec.ValidationError("Expected `a` and `b`"), "the body is not valid: Expected a and b"),
    ],
)
def test_other_errors_of_reading_a_body_are_sentences_too(error: Exception, sentence: str) -> None:
    assert explain_misreading(error, "the body") == sentence


def test_a_sentence_that_is_passed_on_is_bounded() -> None:
    error: Any = msgspec.ValidationError("x" * 10_000)
    assert len(explain_misreading(error, "the body")) < 400
