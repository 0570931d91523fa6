"""The cache of parsed request heads: shared by connections, exact, and bounded."""

from __future__ import annotations

import tracemalloc

import pytest

from fairlead_gateway.endpoint.exchange import HttpConnection, HttpExchange
from fairlead_gateway.endpoint.head_cache import CachedHead, HeadCache
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.buffers import AnswerBuffers

LIMIT = 1 << 20
TARGET = b"/mcp"


def request(tool: str = "a__b", *, token: str = "alice", body: bytes = b"{}") -> bytes:
    return (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nMcp-Method: tools/call\r\n"
        f"Mcp-Name: {tool}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def wire() -> HttpConnection:
    return HttpConnection(TrustedProxies(), AnswerBuffers(), ending=False)


def remember_head(
    familiars: HeadCache, data: bytes, *, target: bytes = TARGET, vetted: bool = True
) -> CachedHead | None:
    """The head that a connection caches for a request that a parser has read."""
    lines = data.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    return familiars.learn(HttpExchange(wire(), b"POST", target, headers, vetted=vetted), data)


def cached_head(familiars: HeadCache, data: bytes) -> CachedHead:
    head = remember_head(familiars, data)
    assert head is not None
    return head


def test_connections_with_equal_heads_share_what_is_remembered() -> None:
    familiars = HeadCache()
    assert cached_head(familiars, request(body=b"x" * 10)) is cached_head(familiars, request(body=b"x" * 2000))


def test_the_head_of_another_client_is_never_known() -> None:
    familiars = HeadCache()
    alice, bob = (cached_head(familiars, request(token=token)) for token in ("alice", "bobby"))
    assert alice is not bob
    for tool in ("a__b", "other"):
        theirs = alice.match(request(tool), wire(), LIMIT)
        assert theirs is not None
        assert theirs.headers[b"authorization"] == b"Bearer alice"
        assert alice.match(request(tool, token="bobby"), wire(), LIMIT) is None
        assert bob.match(request(tool), wire(), LIMIT) is None


def test_the_same_head_for_another_endpoint_is_another() -> None:
    familiars = HeadCache()
    other = remember_head(familiars, request(), target=b"/mcp/fast")
    assert other is not None
    assert other is not cached_head(familiars, request())
    head = other.match(request("other"), wire(), LIMIT)
    assert head is not None
    assert head.target == b"/mcp/fast"


def test_a_head_that_was_not_let_in_is_not_kept_even_where_another_connection_has_it() -> None:
    familiars = HeadCache()
    cached_head(familiars, request())
    assert remember_head(familiars, request(), vetted=False) is None


@pytest.mark.parametrize(("entries", "size"), [(500, 1 << 30), (1 << 30, 1 << 18)])
def test_of_all_clients_together_no_more_is_remembered_than_may_be(entries: int, size: int) -> None:
    familiars = HeadCache(entries, size)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100):
            familiar = cached_head(familiars, request(token=f"client-{number}"))
            for call in range(40):
                data = request(f"tool_{call}", token=f"client-{number}", body=b"x" * (number + call))
                again = familiar.match(data, wire(), LIMIT)
                assert again is not None
                assert (again.body, again.headers[b"mcp-name"]) == (b"x" * (number + call), b"tool_%d" % call)
        retained = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(familiars.memory) <= entries
    assert familiars.memory.size <= size
    assert len(familiars.memory) == entries or familiars.memory.size > size / 2
    assert retained < 1.25 * size


def test_a_forgotten_head_is_read_again() -> None:
    familiars = HeadCache(4, 1 << 20)
    first = cached_head(familiars, request())
    for number in range(20):
        first.match(request(f"tool_{number}", body=b"x" * number), wire(), LIMIT)
    assert len(familiars.memory) == 4
    head = first.match(request("tool_1"), wire(), LIMIT)
    assert head is not None
    assert head.headers[b"mcp-name"] == b"tool_1"
    assert cached_head(familiars, request()) is not first
