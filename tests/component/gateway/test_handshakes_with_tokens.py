"""Handshakes with a user's token: an error does not reveal the token, and a refusal does not affect other users."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from fairlead_gateway.core.client_peer import ClientPeer
from fairlead_gateway.core.outbound import CallCredential
from fairlead_gateway.upstream.http import HttpAccess, HttpUpstream
from fairlead_gateway.upstream.server_facts import ServerTraits
from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Client
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth.access_token import AccessToken
from gatewayworld import LEGACY
from rawserver import Reply, Request, raw_server

Refuse = Callable[[Request, Reply], None]
TOKENS = {person: f"eyJhbGciOiJSUzI1NiJ9.{person * 40}.c2lnbmF0dXJlLW9mLXRoaXM" for person in ("alice", "bob")}


@contextlib.asynccontextmanager
async def upstream_that_refuses_alice(refuse: Refuse) -> AsyncIterator[HttpUpstream]:
    """Upstream of a server whose era is unknown. It opens legacy sessions for all users but Alice."""

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb != "POST":
            reply.send(405)
        elif "id" not in request.message:
            reply.send(202)
        elif TOKENS["alice"] in request.headers.get("authorization", ""):
            refuse(request, reply)
        else:
            info = {"name": "demo", "version": "1"}
            reply.result(request, {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info})

    async with raw_server(handle) as server:
        target = Target.from_url(server.url)
        upstream = HttpUpstream(target, ServerTraits(modern=True), Client("fairlead", "9"), HttpAccess({}))
        try:
            yield upstream
        finally:
            await upstream.aclose(0.0)


async def is_modern_for(upstream: HttpUpstream, person: str) -> bool:
    """Whether the modern era is used for a user's client with capabilities."""
    token = AccessToken.bearer(TOKENS[person], float("inf"), frozenset())
    client = ClientPeer(person.encode(), b'{"sampling":{}}')
    deadline = upstream.pool.clock() + 30
    return await upstream.negotiate(client, deadline, CallCredential(person.encode(), token))


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("before", [0, 60, 110])
async def test_a_refused_handshake_does_not_tell_the_token(status: int, before: int) -> None:
    def refuse(request: Request, reply: Reply) -> None:
        reply.send(status, b"x" * before + b" " + request.headers["authorization"].encode())

    async with upstream_that_refuses_alice(refuse) as upstream:
        with pytest.raises(McpError) as refused:
            await is_modern_for(upstream, "alice")
    assert TOKENS["alice"][:16] not in f"{refused.value}{refused.value.args}"
    assert str(status) in str(refused.value)


async def test_a_broken_handshake_does_not_tell_the_token() -> None:
    def refuse(request: Request, reply: Reply) -> None:
        reply.send(200, b"{broken " + request.headers["authorization"].encode())

    async with upstream_that_refuses_alice(refuse) as upstream:
        with pytest.raises(McpError) as refused:
            await is_modern_for(upstream, "alice")
    assert "[credential]" in str(refused.value)
    assert TOKENS["alice"][:16] not in str(refused.value)


@pytest.mark.parametrize("status", [302, 407, 429, 503])
async def test_a_status_that_one_person_gets_keeps_the_sessions_of_others(status: int) -> None:
    async with upstream_that_refuses_alice(lambda request, reply: reply.send(status)) as upstream:
        assert await is_modern_for(upstream, "alice")
        assert not await is_modern_for(upstream, "bob")


@pytest.mark.parametrize("code", [-32000, -32001, jsonrpc.INTERNAL_ERROR])
async def test_an_error_that_one_person_gets_keeps_the_sessions_of_others(code: int) -> None:
    async with upstream_that_refuses_alice(lambda request, reply: reply.error(request, 200, code, "no")) as upstream:
        assert await is_modern_for(upstream, "alice")
        assert not await is_modern_for(upstream, "bob")


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, jsonrpc.METHOD_NOT_FOUND), (200, jsonrpc.UNSUPPORTED_PROTOCOL_VERSION), (400, -32000)],
)
async def test_a_server_that_does_not_know_initialize_is_asked_once_for_all_persons(status: int, code: int) -> None:
    async with upstream_that_refuses_alice(lambda request, reply: reply.error(request, status, code, "?")) as upstream:
        assert await is_modern_for(upstream, "alice")
        assert await is_modern_for(upstream, "bob"), "the era is known without a handshake"
