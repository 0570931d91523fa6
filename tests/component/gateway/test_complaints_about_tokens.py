"""Problems with credentials per call that users of other gateways reported do not occur here.

Each test has a real authorization server (`oidc-provider`) and a protected server of the Python SDK, which binds
sessions to users.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from exchangeworld import complaint_of, exchange_world, text_of
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS
from gatewayworld import LEGACY, MODERN, Reachable, Wire, calling, legacy, modern, publish, running, wait_for_snapshots
from tokenproviders import SECRET, TokenProvider
from waiting import eventually, until_async

BOTH_ERAS = pytest.mark.parametrize("version", [MODERN, LEGACY])
"""Revisions of MCP that the gateway uses with the server."""


async def opened_session(wire: Wire, token: str) -> str:
    """Open a session of 2025-11-25. Returns its id."""
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    bearer = {"authorization": f"Bearer {token}"}
    session = (await wire.ask(legacy("initialize", hello).with_headers(**bearer))).headers["mcp-session-id"]
    await wire.ask(legacy("notifications/initialized", number=None, session=session).with_headers(**bearer))
    return session


async def whoami_in(wire: Wire, session: str, token: str) -> str:
    """Call `whoami` in a session. Returns the user that the server sees."""
    ask = calling("desk__whoami", {}, era=LEGACY, session=session)
    return text_of(await wire.ask(ask.with_headers(authorization=f"Bearer {token}")))


async def tool_names_of(gateway: Reachable, token: str) -> list[str]:
    """Names of the tools in a caller's list."""
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
    return [tool["name"] for tool in answer.message["result"]["tools"]]


@BOTH_ERAS
async def test_tokens_of_client_and_gateway_never_reach_the_server(
    version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """stacklok/toolhive#6681."""
    async with exchange_world(tmp_path, shared_provider) as world:
        async with running(tmp_path, world.catalog(version=version), **world.settings()) as gateway:
            tokens = [await world.token(person) for person in ("alice", "bob")]
            for token in tokens:
                await world.who(gateway, token)
        headers = [request.headers for request in world.server.requests()]
    assert len(headers) >= 2
    assert all(request["authorization"].startswith("Bearer ") for request in headers)
    sent = repr(headers)
    assert not [token for token in tokens if token in sent]
    assert SECRET not in sent


@BOTH_ERAS
async def test_tools_stay_listed_while_a_token_is_being_obtained(
    version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """stacklok/toolhive#5043: tools vanish if the session starts before its token arrives."""
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(version=version), **world.settings()) as gateway,
    ):
        alice = await world.token("alice")
        world.provider.pause()
        call = asyncio.create_task(world.who(gateway, alice))
        await eventually(world.provider.unread_bytes)
        names = await tool_names_of(gateway, alice)
        assert not call.done()
        world.provider.go_on()
        assert await call == "alice"
    assert names == ["desk__later", "desk__whoami"]


@BOTH_ERAS
async def test_a_session_goes_on_after_its_client_has_refreshed_its_token(
    version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """stacklok/toolhive#5306 and #6556: a session bound to the token's bytes dies at every refresh."""
    async with exchange_world(tmp_path, shared_provider) as world:
        async with (
            running(tmp_path, world.catalog(version=version), **world.settings()) as gateway,
            await Wire.connect(gateway) as wire,
        ):
            session = await opened_session(wire, await world.token("alice"))
            first = await whoami_in(wire, session, await world.token("alice"))
            again = await whoami_in(wire, session, await world.sign_in("alice"))
        sessions = {request.session for request in world.server.requests()} - {""}
    assert (first, again) == ("alice", "alice")
    assert len(sessions) == (1 if version == LEGACY else 0)


async def test_a_session_that_another_replica_restores_has_its_identity(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """stacklok/toolhive#5387: identity lost when a session is restored on another replica."""
    async with exchange_world(tmp_path, shared_provider) as world:
        settings = world.settings(session_key="of both replicas")
        shown = world.catalog(version=LEGACY)
        async with running(tmp_path, shown, **settings) as first, running(tmp_path, **settings) as second:
            alice, bob = await world.token("alice"), await world.token("bob")
            async with await Wire.connect(first) as wire, await Wire.connect(second) as other:
                session = await opened_session(wire, alice)
                at_the_first = await whoami_in(wire, session, alice)
                of_bob = await whoami_in(other, await opened_session(other, bob), bob)
                at_the_second = await whoami_in(other, session, alice)
    assert (at_the_first, of_bob, at_the_second) == ("alice", "bob", "alice")


async def test_caller_without_a_grant_sees_the_whole_list_and_each_call_says_what_to_do(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """BerriAI/litellm#32563, #37399 and #38208: an empty list with 200, without a reason."""
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(), **world.settings()) as gateway,
    ):
        carol = await world.token("carol")
        names = await tool_names_of(gateway, carol)
        code, sentence = complaint_of(await world.call(gateway, carol))
        others = await world.who(gateway, await world.token("alice"))
    assert names == ["desk__later", "desk__whoami"]
    assert code
    assert "desk" in sentence
    assert "consent" in sentence
    assert carol not in sentence
    assert others == "alice"
    assert not [request for request in world.server.requests() if not request.authorization]


@BOTH_ERAS
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt"])
async def test_client_credentials_are_sent_with_each_request(
    method: str, version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """BerriAI/litellm#37222: client credentials not sent."""
    async with exchange_world(tmp_path, shared_provider) as world:
        oauth = world.oauth(CLIENT_CREDENTIALS, client_authentication=method)
        async with running(tmp_path, world.catalog(oauth=oauth, version=version), **world.settings()) as gateway:
            alice, bob = await world.token("alice"), await world.token("bob")
            names = {await world.who(gateway, token) for token in (alice, bob, alice)}
        grants = world.provider.token_events("client_credentials")
    assert names == {oauth.client_id}
    assert len(grants) == 1
    assert "error" not in grants[0]
    requests = world.server.requests()
    assert requests
    assert {request.authorization for request in requests} == {requests[0].authorization}


async def test_scopes_of_the_servers_challenge_are_asked_for_and_named_where_nobody_gives_them(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """BerriAI/litellm PR 31362: the upstream challenge was swallowed."""
    async with (
        exchange_world(tmp_path, shared_provider, required="tools:administer") as world,
        running(tmp_path, world.catalog(), **world.settings()) as gateway,
    ):
        code, sentence = complaint_of(await world.call(gateway, await world.token("alice")))
    assert code
    assert "desk" in sentence
    assert "scope" in sentence


async def test_a_changed_client_secret_is_used_from_the_next_call_on(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """archestra-ai/archestra#5215: a shared client continues with credentials that have changed."""
    async with exchange_world(tmp_path, shared_provider) as world:
        shown = world.catalog()
        wrong = world.keep_credential("desk", world.oauth(), "an old secret")
        stale = type(shown)(**{**{name: getattr(shown, name) for name in shown.__struct_fields__}, "credential": wrong})
        async with running(tmp_path, stale, **world.settings()) as gateway:
            alice = await world.token("alice")
            _, sentence = complaint_of(await world.call(gateway, alice))
            swaps = gateway.snapshots.swaps
            publish(tmp_path / "documents", world.catalog())
            await wait_for_snapshots(gateway, swaps + 1)

            async def is_answered() -> bool:
                answer = await world.call(gateway, alice)
                return not answer.message["result"].get("isError")

            await until_async("the new secret", is_answered)
            assert await world.who(gateway, alice) == "alice"
    assert "desk" in sentence
    assert "an old secret" not in sentence


async def test_lists_need_nobodys_token(tmp_path: Path) -> None:
    """archestra-ai/archestra#5215: lists were asked for without the caller's token."""
    async with exchange_world(tmp_path) as world:
        async with running(tmp_path, world.catalog(), **world.settings()) as gateway:
            alice = await world.token("alice")
            first = await tool_names_of(gateway, alice)
            world.provider.end()
            assert first == await tool_names_of(gateway, alice) == ["desk__later", "desk__whoami"]
        assert world.server.requests() == []
        assert world.provider.token_events() == []


@BOTH_ERAS
async def test_server_serves_all_persons_and_each_session_has_one_person(
    version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    """agentgateway/agentgateway#2386: one route per user."""
    async with exchange_world(tmp_path, shared_provider) as world:
        async with running(tmp_path, world.catalog(version=version), **world.settings()) as gateway:
            people = {person: await world.token(person) for person in ("alice", "bob")}
            calls = [
                (person, world.who(gateway, token, tool="desk__later", ms=20))
                for _ in range(10)
                for person, token in people.items()
            ]
            names = await asyncio.gather(*(call for _, call in calls))
        assert names == [person for person, _ in calls]
        owners: dict[str, set[str]] = {}
        for request in world.server.requests():
            owners.setdefault(request.session, set()).add(request.authorization)
    if version == LEGACY:
        del owners[""]
        assert len(owners) >= 2
        assert [tokens for tokens in owners.values() if len(tokens) != 1] == []


async def test_sdk_clients_of_two_persons_call_as_themselves(shared_provider: TokenProvider, tmp_path: Path) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(version=LEGACY), **world.settings()) as gateway,
    ):
        for mode in ("legacy", "auto"):
            for person in ("alice", "bob"):
                async with signed_in(gateway, await world.token(person), mode) as client:
                    result: Any = await client.call_tool("desk__whoami", {})
                    assert result.content[0].text == person


@asynccontextmanager
async def signed_in(gateway: Reachable, token: str, mode: Any) -> AsyncIterator[Client]:
    """An SDK client with a token."""
    url = f"http://127.0.0.1:{gateway.port}/mcp"
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_two_hundred_calls_at_once_ask_for_one_token(shared_provider: TokenProvider, tmp_path: Path) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(), **world.settings()) as gateway,
    ):
        alice = await world.token("alice")
        names = await asyncio.gather(*(world.who(gateway, alice) for _ in range(200)))
    assert set(names) == {"alice"}
    assert world.exchanges("alice") == 1


async def test_a_token_that_the_server_refuses_is_replaced_once_and_the_call_repeated(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(), **world.settings()) as gateway,
    ):
        alice = await world.token("alice")
        await world.who(gateway, alice)
        refused = world.server.requests()[-1].authorization.removeprefix("Bearer ")
        world.server.verifier.refused.add(refused)
        again = await world.who(gateway, alice)
    assert again == "alice"
    assert world.exchanges("alice") == 2
