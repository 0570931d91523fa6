"""Values that requests carry through the gateway: states that lead to their pod, sessions, mirrored arguments,
templates."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec import Raw

from fairlead_gateway.calls.routes import param_headers
from fairlead_gateway.calls.sealed.client_capabilities import normalize
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.policy.uri_templates import MAX_URI, UriTemplate, uri_template
from fairlead_gateway.upstream import affinity

HERE = ("10.0.0.1", 80)
THERE = ("10.0.0.2", 80)


def wrap(state: str) -> str:
    return str(
        json.loads(bytes(affinity.add_pod_tag(Raw(json.dumps({"requestState": state}).encode()), HERE)))["requestState"]
    )


def test_a_state_comes_back_as_it_was_with_the_address_that_made_it() -> None:
    params, tag = affinity.remove_tag({"requestState": Raw(json.dumps(wrap("séaled.v1")).encode())})
    assert json.loads(bytes(params["requestState"])) == "séaled.v1"
    assert tag is not None
    assert affinity.address_of(tag, [THERE, HERE]) == HERE
    assert affinity.address_of(tag, [THERE]) is None


@pytest.mark.parametrize("alter", [lambda s: s + "x", lambda s: "0" + s[1:], lambda s: s[1:]])
def test_an_altered_state_reaches_the_server_as_something_it_never_made(
    alter: Callable[[str], str],
) -> None:
    altered = alter(wrap("sealed"))
    params, tag = affinity.remove_tag({"requestState": Raw(json.dumps(altered).encode())})
    assert tag is None
    assert json.loads(bytes(params["requestState"])) == altered != "sealed"


def test_a_session_id_carries_what_the_client_offers_and_nobody_else_can_make_one() -> None:
    sessions = SessionIds(b"key")
    ident = sessions.issue("2025-11-25", b'{"sampling":{},"experimental":{"x":{}}}')
    session = SessionIds(b"key").read(ident)
    assert session is not None
    assert (session.version, session.peer) == ("2025-11-25", ClientPeer(ident, b'{"sampling":{}}'))
    assert SessionIds(b"other").read(ident) is None
    assert sessions.read(ident[:-1] + b"!") is None


def test_an_ended_session_stays_ended() -> None:
    sessions = SessionIds(b"key")
    ident = sessions.issue("2025-11-25", b"{}")
    assert not sessions.has_ended(ident)
    assert sessions.end(ident)
    assert sessions.has_ended(ident)
    assert not sessions.end(ident)


@pytest.mark.parametrize("odd", [b"[]", b'{"sampling":1}', b"{}", b'{"elicitation":{"form":[]}}'])
def test_odd_capabilities_are_none(odd: bytes) -> None:
    assert normalize(odd) is None


DEFINITION = json.dumps(
    {"name": "x", "inputSchema": {"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}}
).encode()


@pytest.mark.parametrize(
    ("arguments", "headers", "fine"),
    [
        (b'{"region":"us"}', {b"mcp-param-region": b"us"}, True),
        (b'{"region":"us"}', {b"mcp-param-region": b"=?base64?dXM=?="}, True),
        (b'{"region":"us"}', {b"mcp-param-region": b"eu"}, False),
        (b'{"region":"us"}', {}, False),
        (b"{}", {}, True),
        (b"{}", {b"mcp-param-region": b"us"}, False),
        (b'{"region":"us"}', {b"mcp-param-region": b"=?base64?dXM?="}, False),
    ],
)
def test_headers_have_to_match_the_arguments_that_they_repeat(
    arguments: bytes, headers: dict[bytes, bytes], fine: bool
) -> None:
    names = param_headers.read_headers(DEFINITION)
    assert (param_headers.mismatch(Raw(arguments), names, headers) is None) is fine


def test_headers_are_derived_for_a_client_that_sends_none() -> None:
    names = param_headers.read_headers(DEFINITION)
    assert param_headers.lines(Raw('{"region":"é"}'.encode()), names) == b"Mcp-Param-Region: =?base64?w6k=?=\r\n"
    assert param_headers.lines(None, names) == b""


TYPED = json.dumps(
    {
        "name": "x",
        "inputSchema": {
            "properties": {
                "text": {"type": "string", "x-mcp-header": "Text"},
                "n": {"type": "integer", "x-mcp-header": "N"},
                "sure": {"type": "boolean", "x-mcp-header": "Sure"},
            }
        },
    }
).encode()


@pytest.mark.parametrize(
    ("argument", "header", "fine"),
    [
        ('"n":42', "N: 42", True),
        ('"n":42', "N: 42.0", True),
        ('"n":42.0', "N: 42", True),
        ('"n":-7', "N: -7.00", True),
        ('"n":42', "N: 4_2", False),
        ('"n":42', "N: 4.2e1", False),
        ('"n":42', "N: 43", False),
        ('"n":9007199254740993', "N: 9007199254740992", False),
        ('"text":"1.0"', "Text: 1", False),
        ('"text":"nan"', "Text: NaN", False),
        ('"text":"1.0"', "Text: 1.0", True),
        ('"sure":true', "Sure: true", True),
        ('"sure":true', "Sure: 1", False),
        ('"text":{}', "Text: {}", False),
        ('"text":null', "Text: null", False),
    ],
)
def test_whole_numbers_are_compared_by_their_value_and_everything_else_as_text(
    argument: str, header: str, fine: bool
) -> None:
    name, _, value = header.partition(": ")
    headers = {f"mcp-param-{name}".lower().encode(): value.encode()}
    assert (param_headers.mismatch(Raw(f"{{{argument}}}"), param_headers.read_headers(TYPED), headers) is None) is fine


def test_an_invalid_annotation_mirrors_nothing() -> None:
    broken = DEFINITION.replace(b'"string"', b'"object"')
    assert param_headers.read_headers(broken) == ()


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("test://{id}/data", "test://7/data", True),
        ("test://{id}/data", "test://7/8/data", False),
        ("file:///{+path}", "file:///a/b", True),
        ("a://b{?q}", "a://b?q=1", True),
        ("a://b.c", "a://bxc", False),
        ("a://{b}", "a://x\ny", True),
        ("a://{b}/€ -&~#<\"'", "a://x/€ -&~#<\"'", True),
        ("a://b", "a://b\n", False),
        ("a://{b}", "a://" + "b" * MAX_URI, False),
        ("a://" + "{b}" * 17, "a://b", False),
        ("a://" + "{b}{+c}d" * 8 + "!", "a://" + "d" * 8000, False),
        ("a://" + "{b}{+c}d" * 8, "a://" + "d" * 8000, True),
    ],
)
def test_a_template_fits_the_uris_that_it_can_make_and_is_matched_in_no_time(
    template: str, uri: str, fits: bool
) -> None:
    assert UriTemplate(template).matches(uri) is fits


def test_views_share_a_template() -> None:
    assert uri_template("a://{b}") is uri_template("a://{b}")
