"""JSON-RPC envelopes whose members stay undecoded."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import BadJson, NotMcp


def test_a_response_is_read_whatever_the_order_of_its_members() -> None:
    response = jsonrpc.read_response(b'{"result":{"b": 1,  "a":2},"jsonrpc":"2.0","extra":[],"id":"x"}')
    assert isinstance(response.id, Raw)
    assert isinstance(response.result, Raw)
    assert (bytes(response.id), bytes(response.result)) == (b'"x"', b'{"b": 1,  "a":2}')


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a', "TruncatedJSON"),
        (b"", "TruncatedJSON"),
        (b"{nope}", "BadJSON"),
        (b"hello", "BadJSON"),
        (b"[1]", "NotMCP"),
        (b"{}", "NotMCP"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', "NotMCP"),
    ],
)
def test_data_that_is_not_a_response_says_why(data: bytes, reason: str) -> None:
    with pytest.raises((BadJson, NotMcp)) as caught:
        jsonrpc.read_response(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (jsonrpc.request(b"7", "ping"), b'{"jsonrpc":"2.0","id":7,"method":"ping"}'),
        (jsonrpc.request(b'"a"', "x", b"{ }"), b'{"jsonrpc":"2.0","id":"a","method":"x","params":{ }}'),
        (jsonrpc.notification("n"), b'{"jsonrpc":"2.0","method":"n"}'),
        (jsonrpc.notification("n", b"{}"), b'{"jsonrpc":"2.0","method":"n","params":{}}'),
        (jsonrpc.result(b"1", b"{}"), b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        (
            jsonrpc.error(b"null", -32700, 'a"b'),
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a\\"b"}}',
        ),
        (jsonrpc.error(b"1", 1, "m", b"[ ]"), b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[ ]}}'),
    ],
)
def test_messages_embed_raw_parts_as_they_are(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected


def test_setting_a_member_leaves_the_others_byte_for_byte() -> None:
    assert jsonrpc.with_member(b'{"arguments":{"z": 1.0e2},"name":"a"}', "name", b'"b"') == (
        b'{"arguments":{"z": 1.0e2},"name":"b"}'
    )
    assert jsonrpc.with_member(None, "a", b"1") == b'{"a":1}'


def test_a_request_of_the_server_is_answered_ping_with_a_result_and_the_rest_with_an_error() -> None:
    ping = jsonrpc.decode_message(b'{"id":5,"method":"ping"}')
    assert jsonrpc.reply_to_server(ping) == b'{"jsonrpc":"2.0","id":5,"result":{}}'
    sampling = jsonrpc.decode_message(b'{"id":"q","method":"sampling/createMessage","params":{}}')
    answer = jsonrpc.decode_response(jsonrpc.reply_to_server(sampling))
    assert answer.error is not None
    assert answer.error.code == jsonrpc.METHOD_NOT_FOUND
    assert answer.error.data is UNSET


def test_an_excerpt_is_one_short_printable_line() -> None:
    text = jsonrpc.excerpt(b"a\r\n\x1b[31m\tb\xff " + b"x" * 500)
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) == jsonrpc.EXCERPT
    assert text.endswith(jsonrpc.CUT)
    assert jsonrpc.excerpt(b" " * 400 + b"x" * 100) == "x" * 80 + jsonrpc.CUT
    assert jsonrpc.excerpt(b"x" * jsonrpc.EXCERPT) == "x" * jsonrpc.EXCERPT


@pytest.mark.parametrize("unit", [b"{},", b"1,"])
@pytest.mark.parametrize("result", [b'{"content":[%b1]}', b'{"content":[],"structuredContent":{"x":[%b1]}}'])
@pytest.mark.parametrize("head", [b"", b'HTTP/1.1 200 OK\r\nx: "\r\n\r\n'])
def test_a_response_of_more_values_than_a_result_may_have_is_refused(head: bytes, result: bytes, unit: bytes) -> None:
    response = head + b'{"jsonrpc":"2.0","id":1,"result":%b}'
    with pytest.raises(NotMcp, match="the result has more than 1,000,000 values"):
        jsonrpc.check_values(response % (result % (unit * 1_100_000)), len(head))
    jsonrpc.check_values(response % (result % (unit * 300_000)), len(head))


def test_a_long_text_and_a_table_of_many_rows_are_read() -> None:
    table = b"a, b, c\\n" * 500_000
    assert jsonrpc.decode_result(b'{"content":[{"type":"text","text":"%b"}]}' % table).content
    rows = b'{"type":"text","name":"x"},' * 60_000
    read = jsonrpc.decode_result(b'{"content":[],"structuredContent":{"rows":[%b{}]}}' % rows)
    assert read.structured_content is not UNSET


@pytest.mark.parametrize("blocks", [1, 2, 65])
def test_decode_result_checks_the_type_of_texts_that_it_does_not_decode(blocks: int) -> None:
    texts, padding = [b'{"type":"text","text":"b"}'] * blocks, b" " * jsonrpc.TEXTS_SKIPPED
    read = jsonrpc.decode_result(b'{"content":[%b]%b}' % (b",".join(texts), padding), jsonrpc.TEXTS_SKIPPED)
    assert read.content
    texts[-1] = b'{"type":"text","text":7}'
    with pytest.raises(msgspec.ValidationError):
        jsonrpc.decode_result(b'{"content":[%b]%b}' % (b",".join(texts), padding), jsonrpc.TEXTS_SKIPPED)
