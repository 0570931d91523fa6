"""Messages that a strict parser refuses although their meaning is clear."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp import jsonrpc
from fairlead_mcp.mending import MAX_BYTES, mend


def answer(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":%b}' % result


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (rb'{"t":"cut \ud83d here"}', "cut \ufffd here"),
        (rb'{"t":"\ude00\ud83d"}', "\ufffd\ufffd"),
        (rb'{"t":"\ud83d\ud83d\ude00"}', "\ufffd\U0001f600"),
        (rb'{"t":"\\ud83d \"\ud83d\""}', '\\ud83d "\ufffd"'),
        (b'{"t":"\x1b[31mred\x1b[0m\t\n\x00"}', "\x1b[31mred\x1b[0m\t\n\x00"),
    ],
)
def test_a_text_that_json_cannot_hold_arrives_as_one_that_it_can(sent: bytes, meant: str) -> None:
    result = jsonrpc.read_response(answer(sent)).result
    assert json.loads(bytes(result)) == {"t": meant}  # type: ignore[arg-type] # a result is Raw


def test_a_byte_order_mark_in_front_is_left_out() -> None:
    for result in (b"{}", b'{"t":"%b"}' % (b"x" * MAX_BYTES)):
        read = jsonrpc.read_response(b"\xef\xbb\xbf" + answer(result)).result
        assert bytes(read) == result  # type: ignore[arg-type] # Raw


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": -32000, "message": None}, -32000, "the server gives no reason"),
        ({"code": "ECONNREFUSED", "message": "no"}, -32603, "ECONNREFUSED: no"),
        ({"code": "-32001", "message": "no"}, -32001, "no"),
        ({"message": "no"}, -32603, "no"),
        ({"code": 1.5, "message": {"a": 1}}, -32603, '1.5: {"a":1}'),
        ("boom", -32603, "boom"),
        (["a"], -32603, '["a"]'),
    ],
)
def test_an_error_of_another_shape_is_read(error: Any, code: int, message: str) -> None:
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    read = jsonrpc.read_response(data).error
    assert read is not None
    assert (read.code, read.message) == (code, message)


@pytest.mark.parametrize("text", [b'{"v":NaN}', b'{"a":1', b"nonsense", b"", b'{"v":"\xff"}', b'{"v":"a" "b"}'])
def test_messages_without_a_clear_meaning_are_not_mended(text: bytes) -> None:
    assert mend(text) is None


def test_a_long_message_is_not_mended_in_the_event_loop() -> None:
    assert mend(answer(b'"' + b"x" * MAX_BYTES + rb'\ud83d"')) is None


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists))
def test_strict_json_needs_no_mending(value: object) -> None:
    assert mend(json.dumps(value).encode()) is None
    assert mend(json.dumps(value, ensure_ascii=False).encode()) is None


@given(st.text(st.characters(codec=None)))
def test_any_text_of_python_is_mended_into_the_text_with_its_halves_replaced(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    written = json.dumps(text).encode()
    assert json.loads(mend(written) or written) == whole
