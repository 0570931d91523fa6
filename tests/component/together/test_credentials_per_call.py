"""Users who call servers as themselves, from an McpServer on a real API server to servers of both SDKs.

The authorization servers are real ones: `oidc-provider`, Dex, and in nightly runs Keycloak.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dexexchange
import keycloak
from dexexchange import dex_exchange
from exchangeworld import complaint_of, exchange_world, identity_of, settings_of, text_of
from gatewayworld import Reachable, Wire, calling, modern
from issuers import HERE
from jwtservers import SCOPE, python_server, typescript_server
from operatorworld import Json, World, running
from ports import free_port
from togetherworld import serving
from tokenproviders import CLIENT, SECRET, TokenProvider, oidc_provider
from waiting import until_async


def add_client_secret(world: World, secret: str, hosts: str = "") -> None:
    """Create the Secret `client` with a client's secret."""
    metadata: Json = {"name": "client", "labels": {"fairlead.dev/credential": "true"}}
    if hosts:
        metadata["annotations"] = {"fairlead.dev/hosts": hosts}
    body = {"metadata": metadata, "stringData": {"token": secret}}
    assert world.request("POST", world.path("secrets"), body)[0] == 201


def client_of(issuer: str, **more: Any) -> Json:
    """Members of the spec that all grants have."""
    return {"issuer": issuer, "clientID": CLIENT, "secretRef": {"name": "client"}, **more}


def exchange_spec(client: Json, **more: Any) -> Json:
    """Spec with calls by token exchange and lists by client credentials. `more`: further members of the token
    exchange."""
    listing = {
        name: value for name, value in {**client, **more}.items() if name not in ("subjectTokenType", "parameters")
    }
    return {
        "auth": {"tokenExchange": {**client, **more}},
        "discovery": {"auth": {"clientCredentials": listing}},
    }


async def lists(gateway: Reachable, token: str, *names: str) -> bool:
    """Whether a caller's list has exactly these tools."""
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
    return [tool["name"] for tool in answer.message["result"]["tools"]] == [*names]


async def who(gateway: Reachable, token: str, tool: str) -> str:
    """The user that the server sees in a call."""
    async with await Wire.connect(gateway) as wire:
        return text_of(await wire.ask(calling(tool, {}).with_headers(authorization=f"Bearer {token}")))


def ready(world: World, name: str) -> Any:
    return world.until("Ready", partial(world.is_, name, "Ready", "True"))


async def test_two_persons_call_servers_of_both_sdks_as_themselves_and_a_third_is_told_what_to_do(
    world: World, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    ports = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}/mcp" for port in ports]
    async with (
        oidc_provider(
            tmp_path,
            gateway=HERE,
            resources=urls,
            grants={"alice": urls, "bob": urls},
            scope=SCOPE,
            shared=shared_provider,
        ) as provider,
        python_server(provider.issuer, provider.jwks_url, port=ports[0]),
        typescript_server(provider.issuer, provider.jwks_url, port=ports[1]),
        running(world, lease_seconds=30.0),
        serving(world, **settings_of(tmp_path, identity_of(provider.issuer))) as gateway,
    ):
        add_client_secret(world, SECRET)
        for name, url in zip(("python", "typescript"), urls, strict=True):
            spec = exchange_spec(client_of(provider.issuer, scopes=[SCOPE]), resource=url)
            world.create(name, {"url": url, **spec})
        for name in ("python", "typescript"):
            await ready(world, name)
        tokens = {person: await provider.sign_in(person) for person in ("alice", "bob", "carol")}
        tools = ("python__later", "python__whoami", "typescript__whoami")
        await until_async("the tools", lambda: lists(gateway, tokens["carol"], *tools))
        for tool in tools[1:]:
            names = await asyncio.gather(*(who(gateway, tokens[person], tool) for person in ("alice", "bob") * 5))
            assert names == ["alice", "bob"] * 5
            async with await Wire.connect(gateway) as wire:
                ask = calling(tool, {}).with_headers(authorization=f"Bearer {tokens['carol']}")
                code, sentence = complaint_of(await wire.ask(ask))
            assert code == "CREDENTIAL_UNAVAILABLE"
            assert "consent" in sentence
        assert [world.is_(name, "Ready", "True") for name in ("python", "typescript")] == [True, True]


async def test_a_server_that_lists_nothing_without_a_token_has_a_condition_that_says_what_to_set(
    world: World, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider) as exchange, running(world, lease_seconds=30.0):
        add_client_secret(world, SECRET)
        client = client_of(exchange.provider.issuer, scopes=[SCOPE])
        world.create("desk", {"url": exchange.server.url, "auth": {"tokenExchange": client}})
        await world.until("not Ready", partial(world.is_, "desk", "Ready", "False"))
        await world.until("advice", lambda: "discovery.auth" in str(world.condition("desk", "Ready")))


async def test_dex_exchanges_the_tokens_of_another_dex(world: World, tmp_path: Path) -> None:
    async with (
        dex_exchange(tmp_path) as dexes,
        python_server(dexes.issuer, dexes.jwks_url, audience=dexexchange.TOOLS, scope="") as server,
        running(world, lease_seconds=30.0),
        serving(
            world,
            **settings_of(tmp_path, identity_of(dexes.people, audiences=[dexexchange.GATEWAY])),
            token_exchange_allowed=(dexes.issuer,),
        ) as gateway,
    ):
        add_client_secret(world, dexexchange.SECRET)
        spec = exchange_spec(
            client_of(dexes.issuer, scopes=[*dexexchange.SCOPES]),
            subjectTokenType=dexexchange.ID_TOKEN,
            parameters={"connector_id": dexexchange.CONNECTOR},
        )
        world.create("desk", {"url": server.url, **spec})
        await ready(world, "desk")
        tokens = {person: await dexes.sign_in(person) for person in ("alice", "bob")}
        await until_async("the tools", lambda: lists(gateway, tokens["alice"], "desk__later", "desk__whoami"))
        names = [await who(gateway, tokens[person], "desk__whoami") for person in ("alice", "bob", "alice")]
    assert names == ["alice", "bob", "alice"]


@pytest.mark.nightly
@pytest.mark.heavy
@pytest.mark.timeout(900)
async def test_keycloak_exchanges_the_tokens_of_its_realm(world: World, tmp_path: Path) -> None:
    async with (
        keycloak.keycloak(tmp_path, gateway=HERE) as provider,
        python_server(provider.issuer, provider.jwks_url, audience=keycloak.TOOLS, scope="") as server,
        running(world, lease_seconds=30.0),
        serving(world, **settings_of(tmp_path, identity_of(provider.issuer, agentClaims=["azp"]))) as gateway,
    ):
        add_client_secret(world, keycloak.SECRET)
        world.create("desk", {"url": server.url, **exchange_spec(client_of(provider.issuer, audience=keycloak.TOOLS))})
        await ready(world, "desk")
        tokens = {person: await provider.sign_in(person) for person in ("alice", "bob")}
        await until_async("the tools", lambda: lists(gateway, tokens["alice"], "desk__later", "desk__whoami"))
        names = [await who(gateway, tokens[person], "desk__whoami") for person in ("alice", "bob", "alice")]
    assert names == ["alice", "bob", "alice"]
