"""The quick search for the result in a response of the usual form agrees with decoding the whole response."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw

from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.upstream.http import HttpAccess, HttpUpstream
from fairlead_gateway.upstream.http_call import HttpCall, result_in
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_mcp.eras import Client
from fairlead_mcp.http.target import Target
from fairlead_mcp.messages import ResultMembers

IDENT = b"7"
HEAD = "HTTP/1.1 200 OK\r\nserver: é\r\n\r\n".encode("latin-1")
RESULT = '{"content":[{"type":"text","text":"a \\"}],\\" ü"}],"isError":true,"_meta":{"a":[1,{"id":7}]}}'.encode()
AS_PYTHON = b'{"jsonrpc":"2.0","id":7,"result":' + RESULT + b"}"
AS_TYPESCRIPT = b'{"result":' + RESULT + b',"jsonrpc":"2.0","id":7}'


class Kept(ResponseSink):
    """Sink that keeps the answer."""

    def __init__(self) -> None:
        self.result: Raw | None = None
        self.members: ResultMembers | None = None

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self.result = result
        self.members = members


def call_to(sink: ResponseSink) -> HttpCall:
    """A call that is not sent: the test gives it its response."""
    upstream = HttpUpstream(
        Target.from_url("http://127.0.0.1:1/mcp"), ServerTraits(modern=True), Client("fairlead", "9"), HttpAccess({})
    )
    return HttpCall(upstream, UpstreamRequest(IDENT, "tools/call", b"{}", deadline=0.0, max_bytes=1 << 20), sink)


def accept_body(body: bytes) -> Kept | None:
    """Sink with the result of a body that follows a head; None if `accept` refuses the body."""
    sink = Kept()
    return sink if call_to(sink).accept(HEAD + body, len(HEAD)) else None


def test_a_result_that_was_handed_on_is_not_kept() -> None:
    call = call_to(Kept())
    assert call.accept(AS_PYTHON, 0)
    assert call._result is None
    assert call._members is None


def agrees(body: bytes) -> bool:
    """Whether the result has the same value as in the decoded whole response."""
    parsed = accept_body(body)
    whole = result_in(body, IDENT)
    if parsed is None or whole is None:
        return parsed is None and whole is None
    assert parsed.result is not None
    return bool(msgspec.json.decode(parsed.result) == msgspec.json.decode(whole))


@pytest.mark.parametrize("body", [AS_PYTHON, AS_TYPESCRIPT])
def test_the_result_is_what_stands_in_the_response_and_its_members_are_read_with_it(body: bytes) -> None:
    parsed = accept_body(body)
    assert parsed is not None
    assert parsed.result is not None
    assert bytes(parsed.result) == RESULT
    assert parsed.members is not None
    assert parsed.members.is_error
    assert parsed.members.meta is not UNSET


@pytest.mark.parametrize("body", [AS_PYTHON, AS_TYPESCRIPT])
def test_a_response_with_any_byte_less_or_another_is_read_as_a_whole_would_be(body: bytes) -> None:
    for index in range(len(body)):
        for other in (b"", b" ", b'"', b"\\", b",", b"}", b"{", b"]", b"0", b"8", b"\xff", b"x"):
            changed = body[:index] + other + body[index + 1 :]
            assert agrees(changed), changed
    for length in range(len(body)):
        assert agrees(body[:length]), body[:length]


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{},"result":{"isError":true}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"id":8}',
        b'{"jsonrpc":"2.0","id":7,"result":{}}}',
        b'{"jsonrpc":"2.0","id":7,"result":}',
        b'{"jsonrpc":"2.0","id":7,"result":null}',
        b'{"jsonrpc":"2.0","id":7,"result":[]}',
        b'{"jsonrpc":"2.0","id":7,"result":{"isError":"yes"}}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0", "id": 7, "result": {}}\n',
        b'{"result":{},"id":8,"jsonrpc":"2.0","id":7}',
        b'{"result":{},"error":{"code":1,"message":"x"},"jsonrpc":"2.0","id":7}',
        b'{"result":,"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":7,"result":' + b"[" * 3000 + b"]" * 3000 + b"}",
    ],
)
def test_an_odd_response_is_read_as_a_whole_would_be(body: bytes) -> None:
    assert agrees(body)
