"""Requests of servers to open a page: their form in each revision of MCP, and mending of malformed requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.reports import NEUTRAL
from fairlead_gateway.reports.outcomes import outcome_of
from fairlead_gateway.upstream.breaker import counts_as_failure
from fairlead_mcp import jsonrpc, url_elicitation
from fairlead_mcp.errors import RpcError
from fairlead_mcp.messages import Message
from fairlead_mcp.url_elicitation import UrlElicitation

PAGE = {"mode": "url", "elicitationId": "one", "url": "https://pages.example/x", "message": "Connect"}
FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
URLS = b'{"elicitation":{"url":{}}}'
FORMS = b'{"elicitation":{}}'
BOTH = b'{"elicitation":{"form":{},"url":{}}}'


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def test_an_id_is_added_for_2025_11_25_and_left_out_for_2026_07_28() -> None:
    page = url_elicitation.read(raw(PAGE))
    assert page is not None
    assert json.loads(page.legacy_params(lambda: "new")) == PAGE
    assert json.loads(page.modern_params()) == {name: PAGE[name] for name in ("mode", "url", "message")}
    bare = url_elicitation.read(raw({"mode": "url", "url": "https://pages.example/x"}))
    assert bare is not None
    assert json.loads(bare.legacy_params(lambda: "new"))["elicitationId"] == "new"


@pytest.mark.parametrize(
    "data", [None, b"[]", b"{}", b'{"elicitations":{}}', b'{"elicitations":[1,{"url":2}]}', b"\xff"]
)
def test_a_malformed_error_names_no_page(data: bytes | None) -> None:
    assert url_elicitation.pages_in_error(RpcError(-32042, "m", data)) == ()


def test_pages_beyond_the_limit_are_dropped() -> None:
    data = json.dumps({"elicitations": [PAGE] * 1000}).encode()
    assert len(url_elicitation.pages_in_error(RpcError(-32042, "m", data))) == url_elicitation.MAX_ELICITATIONS


@pytest.mark.parametrize(
    ("features", "params", "declared"),
    [
        (URLS, PAGE, True),
        (BOTH, PAGE, True),
        (FORMS, PAGE, False),
        (None, PAGE, False),
        (b'{"sampling":{}}', PAGE, False),
        (URLS, FORM, False),
        (BOTH, FORM, True),
        (FORMS, FORM, True),
        (b'{"elicitation":{"form":{}}}', {**FORM, "mode": "form"}, True),
        (None, FORM, False),
        (URLS, {**PAGE, "url": ""}, False),
    ],
)
def test_a_client_is_asked_in_the_modes_that_it_declared(features: bytes | None, params: Any, declared: bool) -> None:
    assert url_elicitation.is_declared(features, raw(params)) is declared


@pytest.mark.parametrize(
    ("features", "params", "code", "says"),
    [
        (FORMS, PAGE, -32602, "https://pages.example/x"),
        (None, PAGE, -32602, "https://pages.example/x"),
        (URLS, FORM, -32602, "elicitation.form"),
        (None, FORM, -32601, "elicitation"),
        (URLS, {"mode": "url"}, -32602, "params.url"),
    ],
)
def test_a_server_hears_why_its_client_is_not_asked(features: bytes | None, params: Any, code: int, says: str) -> None:
    message = Message("elicitation/create", Raw(b"1"), raw(params))
    answer = jsonrpc.read_response(url_elicitation.refuse(message, features))
    assert answer.error is not None
    assert answer.error.code == code
    assert says in answer.error.message


def test_the_text_alone_is_enough() -> None:
    first = UrlElicitation("https://pages.example/x", "Connect")
    other = UrlElicitation("https://pages.example/y", "Pay!")
    assert url_elicitation.describe_pages([first]) == (
        "Connect. Open https://pages.example/x in a browser, then call again."
    )
    both = url_elicitation.describe_pages([first, other])
    assert all(text in both for text in ("Connect. https://pages.example/x", "Pay! https://pages.example/y"))


def test_a_page_counts_as_a_failure_of_nobody() -> None:
    error = url_elicitation.required_error([UrlElicitation("https://pages.example/x", "Connect")])
    assert outcome_of(error) == NEUTRAL
    assert not counts_as_failure(error)
