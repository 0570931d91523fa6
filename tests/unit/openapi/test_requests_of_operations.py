"""Requests of operations: how each kind of parameter and body is written, and which arguments are refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fairlead_api.documents.catalog import Credential, SentCredential
from fairlead_api.documents.operations import Operation, OperationBody, OperationParameter, PartEncoding
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_mcp.http.target import InvalidTarget
from fairlead_openapi.calling.credentials import credential_for
from fairlead_openapi.calling.requests import HttpRequest, build_request
from fairlead_openapi.calling.values import arguments_of


def build(
    operation: Operation, arguments: Any = None, base: bytes = b"/", credential: SentCredential | None = None
) -> HttpRequest:
    raw = arguments if isinstance(arguments, bytes) else json.dumps(arguments or {}).encode()
    return build_request(operation, arguments_of(raw), base, credential or SentCredential())


def query_with(value: Any, *, name: str = "q", **more: Any) -> str:
    """The query of a request with one parameter."""
    parameter = OperationParameter(**{"argument": "q", "name": name, "location": "query", "style": "form", **more})
    operation = Operation(method="GET", path="/p", parameters=(parameter,))
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return build(operation, b'{"q":%b}' % raw).target.decode().partition("?")[2]


def body_with(body: OperationBody, arguments: Any) -> HttpRequest:
    return build(Operation(method="POST", path="/p", body=body), arguments)


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, ["a", "b c"], "q=a&q=b%20c"),
        ("form", False, ["a", "b,c"], "q=a,b%2Cc"),
        ("form", True, {"r": 1, "g": True}, "r=1&g=true"),
        ("form", False, {"r": 1, "g": None}, "q=r,1"),
        ("form", True, "", "q="),
        ("form", True, [], ""),
        ("form", True, None, ""),
        ("spaceDelimited", False, ["a", "b"], "q=a%20b"),
        ("pipeDelimited", False, ["a", "b"], "q=a%7Cb"),
        ("spaceDelimited", True, ["a", "b"], "q=a&q=b"),
        (
            "deepObject",
            True,
            {"r": {"x": [1, 2]}, "g": "&"},
            "q%5Br%5D%5Bx%5D%5B%5D=1&q%5Br%5D%5Bx%5D%5B%5D=2&q%5Bg%5D=%26",
        ),
        ("deepObject", True, ["a", "b"], "q%5B%5D=a&q%5B%5D=b"),
        ("deepObject", True, [{"k": 1}, {"k": 2}], "q%5B0%5D%5Bk%5D=1&q%5B1%5D%5Bk%5D=2"),
        ("deepObject", True, "plain", "q=plain"),
    ],
)
def test_each_style_of_a_query_has_its_form(style: Any, explode: bool, value: Any, query: str) -> None:
    assert query_with(value, style=style, explode=explode) == query


def test_brackets_belong_to_names_of_parameters() -> None:
    assert query_with([1, 2], name="id[]", explode=True) == "id%5B%5D=1&id%5B%5D=2"


def test_reserved_characters_stay_where_the_document_allows_them_but_for_those_that_end_a_value() -> None:
    assert query_with("a/b:c?d&e=f#g+h", allow_reserved=True) == "q=a/b:c?d%26e%3Df%23g%2Bh"
    assert query_with("a/b:c") == "q=a%2Fb%3Ac"


def test_a_parameter_with_content_is_written_in_its_media_type() -> None:
    assert query_with(b'{"a": [1.50, 2]}', media_type="application/json") == "q=%7B%22a%22%3A%5B1.50%2C2%5D%7D"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("2.0", "2"),
        ("1.5", "1.5"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1e-7", "1e-7"),
        ("-0", "-0"),
    ],
)
def test_numbers_keep_their_digits(number: str, text: str) -> None:
    assert query_with(number.encode()) == f"q={text}"


def test_the_base_url_keeps_its_path_and_query() -> None:
    operation = Operation(
        method="GET",
        path="/pets/{a}-{b}/ü",
        parameters=tuple(OperationParameter(argument=name, name=name, location="path") for name in "ab"),
    )
    request = build(operation, {"a": "x/y", "b": ["1", "2"]}, b"/api/v1/?version=3")
    assert request.target == b"/api/v1/pets/x%2Fy-1,2/%C3%BC?version=3"


@pytest.mark.parametrize("segment", ["..", "a.."])
def test_values_that_make_a_segment_of_dots_with_their_neighbours_are_refused(segment: str) -> None:
    parameters = (OperationParameter(argument="a", name="a", location="path"),)
    operation = Operation(method="GET", path="/x/.{a}", parameters=parameters)
    with pytest.raises(ArgumentsRefused):
        build(operation, {"a": "."})
    if segment == "a..":
        assert build(operation, {"a": segment}).target == b"/x/.a.."


def test_headers_and_cookies_are_written_by_style() -> None:
    parameters = (
        OperationParameter(argument="ids", name="X-Ids", location="header"),
        OperationParameter(argument="map", name="X-Map", location="header", explode=True),
        OperationParameter(argument="sid", name="sid", location="cookie", style="form"),
        OperationParameter(argument="tags", name="tags", location="cookie", style="form", explode=False),
    )
    operation = Operation(method="GET", path="/", parameters=parameters, accept="text/csv")
    lines = build(operation, {"ids": [1, 2], "map": {"a": "x"}, "sid": "a;b c", "tags": ["u", "v"]}).lines
    assert lines.decode().split("\r\n") == [
        "Accept: text/csv",
        "Accept-Encoding: identity",
        "User-Agent: fairlead",
        "X-Ids: 1,2",
        "X-Map: a=x",
        "Cookie: sid=a%3Bb%20c; tags=u,v",
        "",
    ]


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Transfer-Encoding", "bad name", "X:Y"])
def test_headers_of_the_connection_are_not_arguments(name: str) -> None:
    parameter = OperationParameter(argument="h", name=name, location="header")
    with pytest.raises(ArgumentsRefused, match="argument h cannot be sent"):
        build(Operation(method="GET", path="/", parameters=(parameter,)), {"h": "x"})


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\nX: y", "get"])
def test_methods_that_no_api_has_are_not_sent(method: str) -> None:
    with pytest.raises(InvalidTarget):
        build(Operation(method=method, path="/"))


def test_json_bodies_have_the_arguments_as_they_were_given() -> None:
    body = OperationBody(media_type="application/merge-patch+json", properties={"name": "name", "id_2": "id"})
    request = body_with(body, b'{"name": {"a" : null,"b":1.10}, "id_2": 12345678901234567890123}')
    assert request.body == b'{"name":{"a":null,"b":1.10},"id":12345678901234567890123}'
    assert request.lines.endswith(b"Content-Type: application/merge-patch+json\r\n")
    whole = OperationBody(media_type="application/json", argument="items", required=True)
    assert body_with(whole, {"items": [1, "x"]}).body == b'[1,"x"]'
    with pytest.raises(ArgumentsRefused, match="items is missing"):
        body_with(whole, {})


def test_bodies_that_are_optional_are_left_out() -> None:
    optional = OperationBody(media_type="application/json", properties={"a": "a"})
    assert body_with(optional, {}).body is None
    assert b"Content-Type" not in body_with(optional, {}).lines
    required = OperationBody(media_type="application/json", properties={"a": "a"}, required=True)
    assert body_with(required, {}).body == b"{}"


def test_forms_write_objects_by_their_encoding() -> None:
    names = {name: name for name in ("plain", "object", "deep", "json", "list")}
    encoding = {
        "deep": PartEncoding(style="deepObject", explode=True),
        "json": PartEncoding(content_type="application/json"),
    }
    body = OperationBody(media_type="application/x-www-form-urlencoded", properties=names, encodings=encoding)
    arguments = {"plain": "a b", "object": {"k": 1}, "deep": {"k": "v"}, "json": [1], "list": [1, None, "x"]}
    assert body_with(body, arguments).body == (
        b"plain=a%20b&object=%7B%22k%22%3A1%7D&deep%5Bk%5D=v&json=%5B1%5D&list=1&list=x"
    )


def test_parts_have_the_types_of_their_values() -> None:
    encoding = {
        "photos": PartEncoding(content_type="image/png, image/jpeg", binary=True),
        "deep": PartEncoding(style="deepObject"),
    }
    names = {name: name for name in ("a", "o", "deep", 'n"\r\n', "photos")}
    body = OperationBody(media_type="multipart/form-data", properties=names, encodings=encoding)
    request = body_with(
        body, {"a": ["x", 2], "o": {"k": 1}, "deep": {"k": {"l": 1}}, 'n"\r\n': "y", "photos": ["AQ==", "_w"]}
    )
    boundary = request.lines.partition(b"boundary=")[2].strip()
    parts = [part.partition(b"\r\n\r\n") for part in (request.body or b"").split(b"--" + boundary)[1:-1]]
    assert [(head.strip().split(b"\r\n"), data.removesuffix(b"\r\n")) for head, _, data in parts] == [
        ([b'Content-Disposition: form-data; name="a"'], b"x"),
        ([b'Content-Disposition: form-data; name="a"'], b"2"),
        ([b'Content-Disposition: form-data; name="o"', b"Content-Type: application/json"], b'{"k":1}'),
        ([b'Content-Disposition: form-data; name="deep[k][l]"'], b"1"),
        ([b'Content-Disposition: form-data; name="n%22%0D%0A"'], b"y"),
        ([b'Content-Disposition: form-data; name="photos"; filename="photos"', b"Content-Type: image/png"], b"\x01"),
        ([b'Content-Disposition: form-data; name="photos"; filename="photos"', b"Content-Type: image/png"], b"\xff"),
    ]


def test_texts_and_bytes_are_sent_as_they_are() -> None:
    text = OperationBody(media_type="text/csv", argument="rows", required=True)
    request = body_with(text, {"rows": "a,b\nü"})
    assert request.body == "a,b\nü".encode()
    assert b"Content-Type: text/csv; charset=utf-8\r\n" in request.lines
    data = OperationBody(media_type="application/octet-stream", argument="data", binary=True)
    assert body_with(data, {"data": "AAE_\n"}).body == b"\x00\x01\x3f"
    for wrong in ("?", 7, "A"):
        with pytest.raises(ArgumentsRefused, match="data is not base64"):
            body_with(data, {"data": wrong})


@pytest.mark.parametrize(
    ("encoding", "value", "parts"),
    [
        (PartEncoding(style="form", explode=True, styled=True), {"a": 1, "b": "x"}, {"a": "1", "b": "x"}),
        (PartEncoding(style="form", explode=False, styled=True), ["a b", 2], {"p": "a b,2"}),
        (PartEncoding(style="spaceDelimited", explode=False, styled=True), ["a", "b"], {"p": "a b"}),
        (PartEncoding(style="pipeDelimited", explode=False, styled=True), ["a", "b"], {"p": "a|b"}),
    ],
)
def test_parts_are_written_by_the_style_that_the_document_gives(
    encoding: PartEncoding, value: Any, parts: dict[str, str]
) -> None:
    body = OperationBody(media_type="multipart/form-data", properties={"p": "p"}, encodings={"p": encoding})
    data = body_with(body, {"p": value}).body or b""
    assert dict(re.findall(r'name="(.*?)"\r\n\r\n(.*?)\r\n', data.decode())) == parts


@pytest.mark.parametrize("arguments", [b"[]", b"{", b'{"q":"\\ud800"}', b'{"q":%b}' % (b"[" * 20_000 + b"]" * 20_000)])
def test_arguments_that_cannot_be_written_are_refused(arguments: bytes) -> None:
    parameter = OperationParameter(argument="q", name="q", location="query", style="deepObject", explode=True)
    with pytest.raises(ArgumentsRefused):
        build(Operation(method="GET", path="/", parameters=(parameter,)), arguments)


def test_urls_and_headers_are_bounded() -> None:
    parameter = OperationParameter(argument="x", name="x", location="query", style="form")
    with pytest.raises(ArgumentsRefused, match="URL of"):
        build(Operation(method="GET", path="/", parameters=(parameter,)), {"x": "ü" * 4_000})
    header = OperationParameter(argument="x", name="x", location="header")
    with pytest.raises(ArgumentsRefused, match="headers of"):
        build(Operation(method="GET", path="/", parameters=(header,)), {"x": "x" * 40_000})


def test_schemes_of_one_alternative_go_together() -> None:
    schemes = {
        "a": SentCredential(headers={"X-A": "1"}),
        "b": SentCredential(query={"b": "2"}),
        "c": SentCredential(cookies={"c": "3"}),
    }
    credential = Credential(headers={"X-All": "0"}, schemes=schemes)

    def needs(*alternatives: tuple[str, ...]) -> SentCredential:
        return credential_for(Operation(method="GET", path="/", security=alternatives), credential)

    assert needs() == SentCredential(headers={"X-All": "0"})
    assert needs((), ("a",)) == SentCredential(headers={"X-All": "0", "X-A": "1"})
    assert needs(("a", "unknown"), ("b", "c"), ("a",)) == SentCredential(
        headers={"X-All": "0"}, query={"b": "2"}, cookies={"c": "3"}
    )
    assert needs(("unknown",)) == SentCredential(headers={"X-All": "0"})
    lower = Credential(headers={"x-a": "0", "X-All": "0"}, schemes=schemes)
    assert credential_for(Operation(method="GET", path="/", security=(("a",),)), lower).headers == {
        "X-All": "0",
        "X-A": "1",
    }
    assert "0" not in repr(credential)
    assert "2" not in repr(schemes["b"])


def test_an_object_that_is_spread_does_not_set_what_the_credential_sets() -> None:
    parameters = tuple(
        OperationParameter(argument=location, name="more", location=location, style="form", explode=True)
        for location in ("query", "cookie")
    )
    operation = Operation(method="GET", path="/p", parameters=parameters)
    own = SentCredential(query={"api key": "hush"}, cookies={"sid": "hush"})
    spread = {"api key": "mine", "sid": "mine", "page": 1}
    request = build(operation, {"query": spread, "cookie": spread}, credential=own)
    assert request.target == b"/p?sid=mine&page=1&api%20key=hush"
    assert b"Cookie: api%20key=mine; page=1; sid=hush\r\n" in request.lines


def test_a_header_that_the_caller_adds_is_set_by_nothing_else() -> None:
    parameter = OperationParameter(argument="key", name="x-key", location="header")
    operation = Operation(method="GET", path="/p", parameters=(parameter,))
    own = SentCredential(headers={"X-KEY": "old", "Authorization": "Bearer hush"})
    lines = build_request(operation, arguments_of(b'{"key":"mine"}'), b"/", own, added_header="X-Key").lines
    assert b"mine" not in lines
    assert b"old" not in lines
    assert b"Authorization: Bearer hush\r\n" in lines
    alone = build_request(
        operation, arguments_of(b'{"key":"mine"}'), b"/", SentCredential(), added_header="X-Key"
    ).lines
    assert b"mine" not in alone


def nest(levels: int, name: str, innermost: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = {name: value}
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nest(300, "k", 1), "nested too deeply"),
        (nest(3, "k" * 600, 1), "nested too deeply"),
        ([1] * 2_049, "too many values"),
        ([[1] * 2_048, [1]], "too many values"),
        ([1] * 100_000, "too many for a URL"),
    ],
    ids=["deep", "long names", "wide", "wide in total", "large"],
)
def test_a_value_is_refused_before_it_multiplies(value: Any, words: str) -> None:
    deep = OperationParameter(argument="q", name="q", location="query", style="deepObject", explode=True)
    with pytest.raises(ArgumentsRefused, match=words):
        build(Operation(method="GET", path="/p", parameters=(deep,)), {"q": value})


def test_a_form_with_more_values_than_the_loop_has_time_for_is_refused() -> None:
    form = OperationBody(media_type="application/x-www-form-urlencoded", properties={"ids": "ids"})
    with pytest.raises(ArgumentsRefused, match="too many values"):
        body_with(form, {"ids": [1] * 2_049})
    assert body_with(form, {"ids": [1] * 2_048}).body == b"&".join([b"ids=1"] * 2_048)
