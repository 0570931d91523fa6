"""URLs and request heads: a URL or value cannot inject a header."""

from __future__ import annotations

import pytest

from fairlead_mcp.http.target import InvalidTarget, Target, with_body


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("http://a/mcp", "a", 80, b"/mcp", b"a"),
        ("https://a.example", "a.example", 443, b"/", b"a.example"),
        ("http://a:8080/x?y=1&z=%20", "a", 8080, b"/x?y=1&z=%20", b"a:8080"),
        ("http://a:80/", "a", 80, b"/", b"a"),
        ("http://[::1]:9/", "::1", 9, b"/", b"[::1]:9"),
        ("http://a/b c\u00e9", "a", 80, b"/b%20c%C3%A9", b"a"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, path: bytes, authority: bytes) -> None:
    target = Target.from_url(url)
    assert (target.host, target.port, target.path, target.authority) == (host, port, path, authority)
    assert target.tls is url.startswith("https")


@pytest.mark.parametrize("url", ["", "a/b", "ftp://a", "http://", "http://u:p@a/", "http://a:99999/", "http://[x/"])
def test_urls_that_are_not_plain_http_are_refused(url: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        Target.from_url(url)
    assert caught.value.reason == "InvalidURL"


def test_a_secret_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidTarget) as caught:
        Target.from_url("http://user:hunter2@a/")
    assert "hunter2" not in str(caught.value)


def test_a_request_is_head_length_and_body() -> None:
    target = Target.from_url("http://a:1/mcp", host_header="tools.local")
    head = target.head(headers={"Authorization": "Bearer x"})
    assert with_body(head + b"X: 1\r\n", b"{}") == (
        b"POST /mcp HTTP/1.1\r\nHost: tools.local\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\nAccept-Encoding: identity\r\n"
        b"Authorization: Bearer x\r\nX: 1\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert target.head(b"DELETE") == b"DELETE /mcp HTTP/1.1\r\nHost: tools.local\r\nAccept-Encoding: identity\r\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [("X", "a\r\nY: b"), ("X", "a\0"), ("X y", "a"), ("", "a"), ("X:", "a"), ("Host", "b"), ("content-length", "1")],
)
def test_a_header_that_could_break_the_head_is_refused_without_quoting_its_value(name: str, value: str) -> None:
    with pytest.raises(InvalidTarget) as caught:
        Target.from_url("http://a/").head(headers={name: value})
    assert caught.value.reason == "InvalidHeader"
    assert "a\r" not in str(caught.value)


def test_a_host_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(InvalidTarget):
        Target.from_url("http://a/", host_header="b\r\nX: y")
