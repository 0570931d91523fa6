"""Results as they are printed, and the URLs of requests."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_cli.calling.call import refusal_of, remarks_of, text_of
from fairlead_cli.calling.tools import description, hints
from fairlead_cli.connecting import Destination, no_path_failure
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import first_line


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "text", "text": "a\nb\tc"}]}, "a\nb\tc"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": "\x1b[31mred\x07"}]}, " [31mred "),
        ({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}, "(image, image/png, 3 bytes)"),
        ({"content": [{"type": "resource_link", "name": "n", "uri": "file:///x"}]}, "(n: file:///x)"),
        ({"content": [{"type": "resource", "resource": {"uri": "u", "text": "inside"}}]}, "inside"),
        ({"content": [{"type": "resource", "resource": {"uri": "u", "blob": "AA"}}]}, "(u, unknown type, 1 bytes)"),
        ({"content": [{"type": "news", "x": 1}]}, '{"type": "news", "x": 1}'),
        ({"content": ["odd"]}, '"odd"'),
        ({"structuredContent": {"a": 1}, "content": []}, '{\n  "a": 1\n}'),
        ({"content": []}, "(the result is empty)"),
        ({}, "(the result is empty)"),
        ([1], "[1]"),
    ],
)
def test_a_result_is_shown_as_text(result: Any, text: str) -> None:
    assert text_of(result) == text


def test_a_result_that_is_not_what_was_promised_has_remarks() -> None:
    warning = {"code": "OUTPUT_SCHEMA_MISMATCH", "message": "id: expected integer"}
    meta = {"fairlead.dev/warning": warning, "fairlead.dev/selection": {"failed": "nothing is selected"}}
    assert list(remarks_of({"_meta": meta})) == [
        "id: expected integer",
        "this is the whole result: nothing is selected",
    ]
    assert list(remarks_of({"_meta": {"fairlead.dev/warning": 5}})) == list(remarks_of({"_meta": 5})) == []
    assert list(remarks_of([1])) == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ({"code": "INVALID_ARGUMENTS", "message": "a: expected integer"}, "INVALID_ARGUMENTS: a: expected integer"),
        ({"code": "RATE_LIMITED", "message": "busy", "retryAfterMs": 1500}, "RATE_LIMITED: busy (try again in 1.5 s)"),
        ({"code": "X", "message": "\x1b[31mred\nblue"}, "X:  [31mred\nblue"),
        ({"message": "no code"}, None),
        ("odd", None),
    ],
)
def test_a_refusal_of_the_gateway_is_shown_with_its_code(error: Any, line: str | None) -> None:
    assert refusal_of({"isError": True, "_meta": {"fairlead.dev/error": error}}) == line


def test_hints_and_description_of_a_tool_are_what_it_says_and_no_more() -> None:
    assert hints({"annotations": {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}}) == (
        "read-only, idempotent"
    )
    assert hints({"annotations": {"readOnlyHint": "yes"}}) == ""
    assert hints({"annotations": 4}) == hints({}) == ""
    assert description({"description": "First.\nSecond."}) == "First."
    assert description({"title": "T"}) == "T"
    assert description({"description": 5}) == ""
    assert first_line("x" * 200, 10) == "x" * 9 + "…"


def test_a_named_server_is_reached_at_its_own_path() -> None:
    destination = Destination.parse("https://gw:1/mcp?x=1", ["A: b", "C:d:e"], "ns/time", 5)
    assert destination.url == "https://gw:1/servers/ns/time/mcp"
    assert destination.headers == {"A": "b", "C": "d:e"}


@pytest.mark.parametrize(
    ("headers", "server"),
    [(["nocolon"], None), ([":x"], None), (["x: a\nb"], None), (["Host: x"], None), ([], "a/b/c")],
)
def test_options_that_make_no_sense_are_used_wrongly(headers: list[str], server: str | None) -> None:
    with pytest.raises(Failure) as caught:
        Destination.parse("http://x/mcp", headers, server, 5)
    assert caught.value.code == USAGE_ERROR


def test_a_url_without_a_path_is_told_with_both_ways_to_give_it_and_the_one_that_is_meant() -> None:
    assert str(no_path_failure("http://127.0.0.1:18081")) == (
        "--url or FAIRLEAD_URL: http://127.0.0.1:18081 has no path, but an MCP endpoint usually ends in /mcp: "
        "http://127.0.0.1:18081/mcp"
    )
