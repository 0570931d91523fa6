"""Two users call one server as themselves through `fairlead up`, by token exchange at a real provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from exchangeworld import ExchangeWorld, exchange_world, identity_of
from issuers import HERE
from jwtservers import SCOPE
from tokenproviders import CLIENT, SECRET, TokenProvider
from upprocess import Up, fairlead_up
from waiting import until_async


def manifests(world: ExchangeWorld) -> str:
    """Secret and McpServer."""
    metadata = {"name": "client", "labels": {"fairlead.dev/credential": "true"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": SECRET}}
    server = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "desk"}}
    client = client_of(world, secretRef={"name": "client"})
    own = {"auth": {"tokenExchange": client}, "discovery": {"auth": {"clientCredentials": client}}}
    documents = secret, {**server, "spec": {"url": world.server.url, **own}}
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def client_of(world: ExchangeWorld, **more: Any) -> dict[str, Any]:
    return {
        "issuer": world.provider.issuer,
        "clientID": CLIENT,
        "scopes": [SCOPE],
        "resource": world.server.url,
        **more,
    }


@asynccontextmanager
async def up_with(folder: Path, world: ExchangeWorld, file: str, **environ: str) -> AsyncIterator[Up]:
    """A `fairlead up FILE` that accepts the provider's tokens."""
    (folder / "identity.yaml").write_text(json.dumps(identity_of(world.provider.issuer)))
    env = {"FAIRLEAD_IDENTITY": str(folder / "identity.yaml"), "FAIRLEAD_PUBLIC_URL": HERE, **environ}
    async with fairlead_up(file, cwd=folder, env=env) as up:
        await up.ready("default/desk")
        yield up


@asynccontextmanager
async def signed_in(up: Up, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(up.url, http_client=http), mode=mode) as client,
    ):
        yield client


async def each_is_themselves(up: Up, world: ExchangeWorld) -> None:
    """Alice and Bob call as themselves, in both eras; Carol, who has no grant, is told what to do."""

    async def is_shown() -> bool:
        async with signed_in(up, await world.token("alice")) as client:
            return "desk__whoami" in [tool.name for tool in (await client.list_tools()).tools]

    await until_async("the tools", is_shown)
    for mode in ("auto", "legacy"):
        for person in ("alice", "bob"):
            async with signed_in(up, await world.token(person), mode) as client:
                result: Any = await client.call_tool("desk__whoami", {})
                assert result.content[0].text == person
    async with signed_in(up, await world.token("carol")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["desk__later", "desk__whoami"]
        result = await client.call_tool("desk__whoami", {})
    assert result.is_error
    assert "consent" in result.content[0].text


async def test_two_persons_call_the_server_of_a_manifest_as_themselves(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as world:
        (tmp_path / "servers.yaml").write_text(manifests(world))
        async with up_with(tmp_path, world, "servers.yaml") as up:
            await each_is_themselves(up, world)


async def test_two_persons_call_the_server_of_an_mcp_json_as_themselves(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as world:
        # in a cluster, an administrator would have to allow the token URL
        client = client_of(world, secret="${CLIENT_SECRET}", tokenURL=world.provider.token_url)
        own = {"auth": {"tokenExchange": client}, "discovery": {"auth": {"clientCredentials": client}}}
        entry = {"url": world.server.url, "fairlead": own}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": entry}}))
        async with up_with(tmp_path, world, "mcp.json", CLIENT_SECRET=SECRET) as up:
            await each_is_themselves(up, world)


async def test_a_wrong_secret_that_only_calls_find_is_shown_as_the_servers_failure(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as world:
        client = client_of(world, secret="${CLIENT_SECRET}", tokenURL=world.provider.token_url)
        own = {
            "auth": {"tokenExchange": {**client, "secret": "wr0ng"}},
            "discovery": {"auth": {"clientCredentials": client}},
        }
        entry = {"url": world.server.url, "fairlead": own}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": entry}}))
        async with up_with(tmp_path, world, "mcp.json", CLIENT_SECRET=SECRET) as up:
            async with signed_in(up, await world.token("alice")) as client_of_alice:
                assert (await client_of_alice.call_tool("desk__whoami", {})).is_error
            failed = await up.server("default/desk", "failed")
    assert failed["cause"] == "CallsNotGranted"
    assert "fairlead.auth" in failed["message"]
    assert "wr0ng" not in failed["message"]
