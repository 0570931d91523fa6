"""Base URLs of documents, paths and operations."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_openapi.compiling.servers import base_url
from fairlead_openapi.compiling.shapes import UnusablePart
from openapidocuments import compile_source, document, get, only_tool


@pytest.mark.parametrize(
    ("servers", "document_url", "expected"),
    [
        ([{"url": "https://api.example.com/v1/"}], "", "https://api.example.com/v1"),
        ([{"url": "https://a.example.com"}, {"url": "https://b.example.com"}], "", "https://a.example.com"),
        ([{"url": "/v1"}], "https://example.com/docs/openapi.json", "https://example.com/v1"),
        ([{"url": "v1"}], "https://example.com/docs/openapi.json", "https://example.com/docs/v1"),
        ([{"url": ".."}], "https://example.com/docs/v1/openapi.json", "https://example.com/docs"),
        ([{"url": "//api.example.com/v1"}], "https://example.com/openapi.json", "https://api.example.com/v1"),
        ([], "https://example.com/docs/openapi.json", "https://example.com"),
        (None, "", ""),
        ([{"url": "https://api.example.com/v1?x=1#y"}], "", "https://api.example.com/v1"),
        (
            [
                {
                    "url": "{scheme}://{host}:{port}",
                    "variables": {
                        "scheme": {"default": "http"},
                        "host": {"default": "a.example"},
                        "port": {"default": 8080},
                    },
                }
            ],
            "",
            "http://a.example:8080",
        ),
    ],
)
def test_the_first_server_is_the_base_url(servers: Any, document_url: str, expected: str) -> None:
    assert base_url(servers, document_url) == expected


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"url": "/v1"}, "the server's URL '/v1' is relative, and the document's own URL is unknown"),
        ({"url": "https://{host}/"}, "variable 'host' of the server's URL has no default"),
        (
            {"url": "ftp://example.com"},
            "'ftp://example.com' is not a valid URL of a server: it needs http or https and a host",
        ),
        ({"url": "https://user:secret@example.com"}, "the URL of the server contains credentials"),
        ({"url": 3}, "the URL of the first server is not a string"),
    ],
)
def test_a_server_that_cannot_be_used_is_named(server: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusablePart) as raised:
        base_url([server], "")
    assert str(raised.value) == message


def test_a_document_without_a_base_url_says_so_and_has_tools() -> None:
    result = compile_source(document({"/x": get()}, servers=[{"url": "/v1"}]))
    assert result.base_url == ""
    assert result.notes[0].startswith("the document gives no base URL: the server's URL '/v1' is relative")
    assert len(result.tools) == 1


def test_servers_of_a_path_and_of_an_operation_win_over_the_document() -> None:
    own = [{"url": "https://files.example.com"}]
    _, of_operation = only_tool(document({"/x": get(servers=own)}))
    _, of_path = only_tool(document({"/x": {**get(), "servers": own}}))
    _, of_both = only_tool(document({"/x": {**get(servers=own), "servers": [{"url": "https://other.example.com"}]}}))
    assert {of_operation.base_url, of_path.base_url, of_both.base_url} == {"https://files.example.com"}


@pytest.mark.parametrize("of_operation", [True, False], ids=["of an operation", "of a path"])
@pytest.mark.parametrize("servers", [[{"url": "ws://example.com"}], [{"url": "/v2"}], [7], "https://example.com"])
def test_an_operation_whose_own_server_cannot_be_used_costs_itself_alone(servers: Any, *, of_operation: bool) -> None:
    odd = get(servers=servers) if of_operation else {**get(), "servers": servers}
    paths = {"/odd": odd, "/x": get()}
    result = compile_source(document(paths, servers=[{"url": "https://api.example.com"}]))
    assert [tool.operation.path for tool in result.tools] == ["/x"]
    left_out = {report.operation: report.left_out for report in result.reports if report.left_out}
    assert left_out.keys() == {"GET /odd"}
    assert left_out["GET /odd"].startswith("its own server cannot be used: ")
