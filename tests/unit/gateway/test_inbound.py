"""The checks of an inbound request in order: status and code of each refusal, and requests that pass."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fairlead_gateway.core.client_message import ClientResponse, Notification, Rejection
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.endpoint.inbound import accepts_streams, classify

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
BASE = {b"accept": b"application/json, text/event-stream", b"content-type": b"application/json"}


def identity(**more: Any) -> dict[str, Any]:
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": {}, **more}


def body(method: str = "tools/call", params: Any = None, **members: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params}), **members}
    return json.dumps(message).encode()


def modern(method: str = "tools/call", params: Any = None, **headers: Any) -> Any:
    """Classify a request of 2026-07-28; keyword arguments replace headers, and None omits a header."""
    params = {"name": "add", "_meta": identity()} if params is None else params
    given = {"mcp_protocol_version": MODERN, "mcp_method": method, "mcp_name": "add", **headers}
    named_headers = {
        name.replace("_", "-").encode(): value.encode() for name, value in given.items() if value is not None
    }
    return classify(BASE | named_headers, body(method, params))


def test_a_modern_call_that_agrees_with_its_headers_passes() -> None:
    request = modern()
    assert isinstance(request, McpRequest)
    assert (request.modern, request.method, request.id, bytes(request.params["name"])) == (
        True,
        "tools/call",
        b"1",
        b'"add"',
    )


@pytest.mark.parametrize(
    ("params", "headers", "code"),
    [
        ({"name": "add"}, {}, -32602),
        ({"name": "add", "_meta": {}}, {}, -32602),
        ({"name": "add", "_meta": {META + "protocolVersion": MODERN}}, {}, -32602),
        ({"name": "add", "_meta": {META + "clientCapabilities": {}}}, {}, -32602),
        ({"name": "add", "_meta": identity() | {META + "clientCapabilities": []}}, {}, -32602),
        ({"name": "add", "_meta": "x"}, {}, -32602),
        (None, {"mcp_protocol_version": None}, -32020),
        (None, {"mcp_protocol_version": "2025-11-25"}, -32020),
        (None, {"mcp_protocol_version": "2026-07-28, 2026-07-28"}, -32020),
        (None, {"mcp_method": None}, -32020),
        (None, {"mcp_method": "tools/list"}, -32020),
        (None, {"mcp_method": "tools/call, tools/call"}, -32020),
        (None, {"mcp_name": None}, -32020),
        (None, {"mcp_name": "sub"}, -32020),
        (None, {"mcp_name": "=?base64?!!!?="}, -32020),
        ({"name": 7, "_meta": identity()}, {"mcp_name": "7"}, -32020),
    ],
)
def test_a_modern_request_is_refused_at_the_first_rung_that_fails(
    params: dict[str, Any] | None, headers: dict[str, Any], code: int
) -> None:
    refused = modern(params=params, **headers)
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code, refused.id) == (400, code, b"1")


def test_rungs_come_in_the_order_of_the_sdk_when_several_fail() -> None:
    missing_meta_and_headers = modern(params={"name": "add"}, mcp_method=None)
    wrong_method_and_version = modern(
        params={"name": "add", "_meta": identity() | {META + "protocolVersion": "2031-01-01"}},
        mcp_protocol_version="2031-01-01",
        mcp_method="x",
    )
    assert (missing_meta_and_headers.code, wrong_method_and_version.code) == (-32602, -32020)


def test_an_unsupported_version_names_the_one_that_is_supported_and_the_one_requested() -> None:
    params = {"name": "add", "_meta": identity() | {META + "protocolVersion": "2031-01-01"}}
    refused = modern(params=params, mcp_protocol_version="2031-01-01")
    assert (refused.status, refused.code) == (400, -32022)
    assert json.loads(refused.data) == {"supported": [MODERN], "requested": "2031-01-01"}


def test_an_encoded_tool_name_in_the_header_is_compared_decoded() -> None:
    name = "añadir "
    encoded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    assert isinstance(modern(params={"name": name, "_meta": identity()}, mcp_name=encoded), McpRequest)


def test_methods_without_a_name_need_no_name_header() -> None:
    assert isinstance(modern("tools/list", {"_meta": identity()}, mcp_name=None), McpRequest)


@pytest.mark.parametrize("version", [None, b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"])
def test_a_request_without_modern_signs_is_legacy(version: bytes | None) -> None:
    headers = BASE | ({} if version is None else {b"mcp-protocol-version": version}) | {b"mcp-session-id": b"s"}
    request = classify(headers, body(params={"name": "add", "_meta": {"progressToken": 3}}))
    assert isinstance(request, McpRequest)
    assert (request.modern, request.session) == (False, b"s")


def test_a_version_in_the_body_alone_makes_a_request_modern_and_refused() -> None:
    refused = classify(BASE, body(params={"name": "add", "_meta": identity()}))
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code) == (400, -32020)


def test_a_version_header_that_nobody_knows_is_not_taken_for_legacy() -> None:
    refused = classify(BASE | {b"mcp-protocol-version": b"1999-01-01"}, body(params={"name": "add"}))
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code) == (400, -32602)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(rb"half an emoji \ud83d", "half an emoji \ufffd"), (b"a\x1b[0mb\tc", "a\x1b[0mb\tc")],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_arguments_that_json_cannot_hold_are_taken_as_they_are_meant(mark: bytes, written: bytes, meant: str) -> None:
    params = b'{"name":"add","arguments":{"q":"%b"}}' % written
    request = classify(BASE, mark + b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params)
    assert isinstance(request, McpRequest)
    assert json.loads(bytes(request.params["arguments"])) == {"q": meant}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","method":"x","id":1}x', -32700),
        (b'{"jsonrpc":"2.0","method":"x","id":1,"params":{"a":"\xff"}}', -32700),
        (b'{"jsonrpc":"2.0","method":"\xff","id":1}', -32700),
        (b'{"jsonrpc":"2.0","method":"x","id":1,"params":{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}}", -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","method":"ping","id":1}]', -32600),
        (b"null", -32600),
        (b'"x"', -32600),
        (b"{}", -32600),
        (b'{"method":"x","id":1}', -32600),
        (b'{"jsonrpc":"1.0","method":"x","id":1}', -32600),
        (b'{"jsonrpc":"2.0","method":7,"id":1}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":1,"params":[]}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":null}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":{}}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":[1]}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":1.5}', -32600),
        (b'{"jsonrpc":"2.0","method":"x","id":true}', -32600),
    ],
)
def test_a_body_that_is_not_a_request_is_400_with_the_code_of_json_rpc(data: bytes, code: int) -> None:
    refused = classify(BASE, data)
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code) == (400, code)


def test_params_that_are_null_count_as_absent() -> None:
    request = classify(BASE, b'{"jsonrpc":"2.0","method":"ping","id":1,"params":null}')
    assert isinstance(request, McpRequest)
    assert request.params == {}


@pytest.mark.parametrize("ident", [b"1", b"-7", b'"a"', b'""', b"123456789012345678901234567890"])
def test_ids_are_strings_and_integers_kept_as_written(ident: bytes) -> None:
    request = classify(BASE, b'{"jsonrpc":"2.0","method":"ping","id":' + ident + b"}")
    assert isinstance(request, McpRequest)
    assert request.id == ident


def test_of_a_duplicate_member_the_last_counts_for_everybody() -> None:
    data = b'{"jsonrpc":"2.0","method":"tools/call","id":1,"params":{"name":"one","name":"two"}}'
    request = classify(BASE, data)
    assert isinstance(request, McpRequest)
    assert bytes(request.params["name"]) == b'"two"'


def test_a_message_without_id_is_a_notice() -> None:
    data = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
    notice = classify(BASE | {b"mcp-session-id": b"s"}, data)
    assert isinstance(notice, Notification)
    assert (notice.method, bytes(notice.params["requestId"]), notice.session) == ("notifications/cancelled", b"5", b"s")


def test_a_response_is_taken_from_a_legacy_client_and_refused_from_a_modern_one() -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert isinstance(classify(BASE | {b"mcp-protocol-version": b"2025-11-25"}, data), ClientResponse)
    refused = classify(BASE | {b"mcp-protocol-version": MODERN.encode()}, data)
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code, refused.id) == (400, -32600, b"1")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (b"application/json, text/event-stream", 200),
        (b"text/event-stream;q=0.5,APPLICATION/JSON", 200),
        (b"*/*", 200),
        (b"application/*, text/*", 200),
        (None, 200),
        (b"application/json", 200),
        (b"application/*", 200),
        (b"application/json;q=0.9, text/html", 200),
        (b"text/event-stream", 406),
        (b"text/html", 406),
        (b"", 200),
        (b" ", 200),
    ],
)
def test_a_client_must_accept_json(accept: bytes | None, status: int) -> None:
    headers = {k: v for k, v in BASE.items() if k != b"accept"} | ({} if accept is None else {b"accept": accept})
    outcome = classify(headers, body("ping"))
    assert (outcome.status if isinstance(outcome, Rejection) else 200) == status


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        (b"application/json, text/event-stream", True),
        (b"*/*", True),
        (b"application/json, text/*", True),
        (None, True),
        (b"", True),
        (b"application/json", False),
        (b"application/*", False),
    ],
)
def test_a_client_takes_streams_unless_it_names_other_types_alone(accept: bytes | None, streams: bool) -> None:
    assert accepts_streams({} if accept is None else {b"accept": accept}) is streams


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (b"application/json", 200),
        (b"application/json; charset=utf-8", 200),
        (b"Application/JSON", 200),
        (b"text/plain", 400),
        (b"application/jsonl", 400),
        (b"", 400),
    ],
)
def test_the_content_type_must_be_json(kind: bytes, status: int) -> None:
    outcome = classify(BASE | {b"content-type": kind}, body("ping"))
    assert (outcome.status if isinstance(outcome, Rejection) else 200) == status


@pytest.mark.parametrize(
    "more",
    [
        {"Name": "zap"},
        {"ARGUMENTS": {}},
        {"argument\u017f": {}},
        {"_META": {}},
        {"Uri": "x"},
        {"REF": {}},
        {"name\0": "zap"},
        {"RequestState": "x"},
        {"inputresponses": {}},
    ],
)
def test_a_member_that_may_be_taken_for_a_known_one_is_refused_with_what_to_do(more: dict[str, Any]) -> None:
    rejection = modern(params={"name": "add", "_meta": identity(), **more})
    assert (rejection.status, rejection.code, rejection.id) == (400, -32602, b"1")
    assert "which some parsers read as" in rejection.message
    rejection = classify(BASE, body(params={"name": "add", **more}))
    assert isinstance(rejection, Rejection)
    assert (rejection.status, rejection.code, rejection.id) == (200, -32602, b"1")


@pytest.mark.parametrize(
    "meta",
    [
        '"ProgressToken": 1',
        '"IO.modelcontextprotocol/clientCapabilities": {}',
        '"io.modelcontextprotocol/ClientCapabilities": {}',
        '"Io.ModelContextProtocol/anything": {}',
        '"TraceParent": "x"',
        '"progressToken": 1, "progress\\u0054oken": 2',
        '"a": 1, "a": 1',
    ],
)
def test_a_meta_that_servers_may_read_otherwise_is_refused(meta: str) -> None:
    for era in ({}, identity()):
        params_json = json.dumps({"name": "add", "_meta": {**era, "x": 0}}).replace('"x": 0', meta)
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 0}).replace(
            ": 0", f": {params_json}"
        )
        rejection = classify(BASE, message.encode())
        assert isinstance(rejection, Rejection)
        assert (rejection.code, rejection.id) == (-32602, b"1")
        assert "parsers read as" in rejection.message or "which one they read" in rejection.message


def test_members_of_extensions_pass() -> None:
    more = {"x-name": 1, "names": 2, "com.example/Name": 3}
    request = modern(params={"name": "add", "_meta": identity(**{"com.example/progressToken": 1}), **more})
    assert isinstance(request, McpRequest)
    assert {*more} < {*request.params}


@pytest.mark.parametrize(
    ("meta", "token"),
    [
        (b'{"progressToken":7}', b"7"),
        (b'{"progressToken": 12345678, "x": 1}', b"12345678"),
        (b'{"x":{"y":1},"progressToken":"a-b,c}"}', b'"a-b,c}"'),
        (b'{"progressToken":-7}', b"-7"),
        (b'{"progressToken" :7}', b"7"),
        (b'{"progressToken":7 }', b"7"),
        (b'{"progressToken":"a\\"b"}', b'"a\\"b"'),
        (b'{"progress\\u0054oken":7}', b"7"),
        (b'{"a":{"progressToken":1,"b":2},"progressToken":3}', b"3"),
        (b'{"a":{"progressToken":1,"b":2},"progressToken" :3}', b"3"),
        (b'{"a\\"progressToken":1,"progressToken":2}', b"2"),
        (b'{"x":"' + b"x" * 2000 + b'","progressToken":7}', b"7"),
        (b'{"a":{"progressToken":1}}', None),
        (b'{"a":{"progressToken":1,"b":2}}', None),
        (b'{"a\\"progressToken":1}', None),
        (b'{"x":"\\"progressToken\\":1"}', None),
        (b"{}", None),
    ],
)
def test_a_token_is_found_however_it_is_written(meta: bytes, token: bytes | None) -> None:
    for _ in range(2):  # the second request is answered from the cache
        request = classify(BASE, body(params={"name": "add", "_meta": "META"}).replace(b'"META"', meta))
        assert isinstance(request, McpRequest)
        assert (request.token.value if request.token is not None else None) == token
        assert bytes(request.params["_meta"]) == meta


def test_a_request_has_the_token_that_it_was_sent_with() -> None:
    for number in (b"1", b"22", b'"x"'):
        meta = b'{"progressToken":%b,"traceparent":"00-1"}' % number
        request = classify(BASE, body(params={"name": "add", "_meta": "META"}).replace(b'"META"', meta))
        assert isinstance(request, McpRequest)
        assert request.token is not None
        assert request.token.value == number


def test_a_large_meta_is_refused_before_it_is_read() -> None:
    refused = modern(params={"name": "add", "_meta": identity(x="y" * (256 << 10))})
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.message) == (400, "params._meta is larger than 256 KiB")


def test_params_of_tens_of_thousands_of_members_are_refused_and_large_arguments_are_not() -> None:
    many = {f"member_{number}": "a value of some length" for number in range(11_000)}
    refused = modern(params={"name": "add", "_meta": identity(), **many})
    assert isinstance(refused, Rejection)
    assert refused.message == "params has more than 10,000 members"
    assert isinstance(modern(params={"name": "add", "arguments": many, "_meta": identity()}), McpRequest)
