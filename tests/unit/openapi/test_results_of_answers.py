"""Results of calls from the answers of an API."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import msgspec
import pytest

from fairlead_api.documents.operations import Operation
from fairlead_mcp import content
from fairlead_mcp.errors import HttpRefused, TooLarge
from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.jsonrpc import MAX_RESULT_VALUES
from fairlead_openapi.calling.answers import MAX_REFUSAL_CHARS, content_of, is_fault_of_call, result_of

PLAIN = Operation(method="GET", path="/p")
STRUCTURED = Operation(method="GET", path="/p", structured=True)
WRAPPED = Operation(method="GET", path="/p", structured=True, wrapped=True)


def answer(body: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Answer:
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Answer(status, kind.encode(), fields, body, False, False, 0.0, 0.0, cast("Carrier", None))


def result(given: Answer, operation: Operation = PLAIN) -> Any:
    made = json.loads(bytes(result_of(*content_of(operation, "/v1/p", given))))
    for block in made["content"]:
        msgspec.convert(block, content.Block)
    return made


def text(given: Answer, operation: Operation = PLAIN) -> str:
    return str(result(given, operation)["content"][0]["text"])


def refusal(given: Answer) -> HttpRefused:
    with pytest.raises(HttpRefused) as caught:
        content_of(PLAIN, "/p", given)
    return caught.value


@pytest.mark.parametrize(
    ("body", "operation", "structured"),
    [
        (b'{"a": 1.10,\n "b": 12345678901234567890123}', STRUCTURED, b'{"a":1.10,"b":12345678901234567890123}'),
        (b'\xef\xbb\xbf{"a": 1}', STRUCTURED, b'{"a":1}'),
        (b"[1]", WRAPPED, b'{"result":[1]}'),
        (b"null", WRAPPED, b'{"result":null}'),
        (b'{"a": 1}', WRAPPED, b'{"a":1}'),
    ],
)
def test_json_is_structured_where_the_tool_has_a_schema(body: bytes, operation: Operation, structured: bytes) -> None:
    raw = bytes(result_of(*content_of(operation, "/p", answer(body))))
    assert raw.endswith(b',"structuredContent":%b}' % structured)
    assert b"\n" not in raw
    assert "structuredContent" not in result(answer(body))


def test_structured_content_is_an_object_so_that_lists_are_wrapped_or_left_out() -> None:
    assert "structuredContent" not in result(answer(b"[1]"), STRUCTURED)


def test_structured_content_of_more_values_than_a_client_takes_is_refused() -> None:
    many = answer(b"[" + b"1," * (MAX_RESULT_VALUES + 1) + b"1]")
    with pytest.raises(TooLarge, match="more than 1,000,000 JSON values"):
        result(many, WRAPPED)
    assert len(text(many)) > 2 * MAX_RESULT_VALUES


@pytest.mark.parametrize("body", [b'{"a":', b"{'a':1}", b'{"a":"\xff"}', b"[" * 100_000, b'{"a":NaN}'])
def test_malformed_json_is_text_in_spite_of_its_type(body: bytes) -> None:
    made = result(answer(body, "application/hal+json"), STRUCTURED)
    assert "structuredContent" not in made
    assert made["content"][0]["text"] == body.decode("utf-8", "replace")


def test_texts_are_decoded_as_their_type_says() -> None:
    assert text(answer("Grüße".encode("latin-1"), "text/plain; charset=ISO-8859-1")) == "Grüße"
    assert text(answer("Grüße".encode(), 'text/csv; charset="unheard"')) == "Grüße"
    assert text(answer(b"a\xff", "application/xml; charset=idna")) == "a\ufffd"
    assert text(answer(b"Rex-pjb", "text/plain; charset=punycode")) == "Rex-pjb"
    assert text(answer(b"<svg/>", "image/svg+xml")) == "<svg/>"
    assert text(answer(b"plain", "")) == "plain"


def test_bytes_become_blocks_of_their_kind() -> None:
    data = base64.b64encode(b"\x00\xff").decode()
    assert result(answer(b"\x00\xff", "audio/ogg"))["content"] == [
        {"type": "audio", "data": data, "mimeType": "audio/ogg"}
    ]
    for kind, named in (("application/zip", "application/zip"), ('a"b/c', "application/octet-stream"), ("", "")):
        resource = result(answer(b"\x00\xff", kind))["content"][0]["resource"]
        assert resource["mimeType"] == (named or "application/octet-stream")
        assert (resource["uri"], resource["blob"]) == ("openapi:/v1/p", data)


def test_an_answer_without_content_is_told() -> None:
    assert text(answer(b"", "", 204)) == "The API answered with status 204 No Content and without content."
    created = text(answer(b"", "", 201, location="/pets/7?token=hush"))
    assert created == "The API answered with status 201 Created and without content; its Location is /pets/7."


def test_refusals_have_status_and_a_bounded_body() -> None:
    faulty = refusal(answer(b'{"detail":\n"too long"}', "application/problem+json", 422))
    assert str(faulty).startswith("the API answered with status 422 ")
    assert str(faulty).endswith(': {"detail": "too long"}')
    long = refusal(answer(b"x" * 1_000_000, "text/plain", 500, retry_after="3", www_authenticate="Bearer"))
    assert len(str(long)) < MAX_REFUSAL_CHARS + 100
    assert str(long).endswith("…")
    assert (long.status, long.retry_after, long.challenge) == (500, "3", b"Bearer")
    assert (
        str(refusal(answer(b"<html>", "text/html", 502)))
        == "the API answered with status 502 Bad Gateway and an HTML page"
    )
    assert "redirects are not followed" in str(refusal(answer(b"", "", 302, location="http://evil.example/")))
    assert "status 799" in str(refusal(answer(b"", "", 799)))


@pytest.mark.parametrize(
    ("status", "fault"), [(400, True), (404, True), (422, True), (401, False), (429, False), (500, False)]
)
def test_only_some_refusals_are_faults_of_the_call(status: int, fault: bool) -> None:
    assert is_fault_of_call(refusal(answer(b"", "", status))) is fault
