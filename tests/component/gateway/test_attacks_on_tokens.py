"""Attacks on tokens, results and addresses through calls with credentials per call.

The provider is a real one, except in attacks that need a provider which issues too much.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from exchangeworld import ExchangeWorld, complaint_of, exchange_world
from fairlead_api.documents.catalog import DeclaredLatency
from gatewayworld import ask, calling, entry, running
from issuers import HERE
from jwtservers import SCOPE, python_server
from oauthworld import exchanging, oauth_catalog, of, text_of
from ports import free_port
from protectedservers import protected_server
from tokenendpoint import token_endpoint
from tokenproviders import TokenProvider, oidc_provider


async def test_a_cached_result_of_one_person_answers_no_other(shared_provider: TokenProvider, tmp_path: Path) -> None:
    definition = {"name": "whoami", "inputSchema": {"type": "object"}}
    cached = [entry(definition, latency=DeclaredLatency(cacheable_seconds=60))]
    async with exchange_world(tmp_path, shared_provider) as world:
        async with running(tmp_path, world.catalog(tools=cached), **world.settings()) as gateway:
            people = {person: await world.token(person) for person in ("alice", "bob")}
            for _ in range(2):
                names = await asyncio.gather(*(world.who(gateway, token) for token in people.values()))
                assert names == ["alice", "bob"]
        calls = len(world.server.requests())
    assert calls == 2, "the second time the results came from the cache"


async def test_a_gateway_in_a_pod_asks_no_provider_at_an_address_that_servers_may_not_have(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(), **world.settings(confined="always")) as gateway,
    ):
        code, sentence = complaint_of(await world.call(gateway, await world.token("alice")))
    assert code == "CREDENTIAL_UNAVAILABLE"
    assert "not allowed" in sentence
    assert world.provider.token_events() == []


async def test_a_server_gets_the_tokens_that_are_for_it_alone(shared_provider: TokenProvider, tmp_path: Path) -> None:
    """One user calls two servers with the same provider."""
    ports = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}/mcp" for port in ports]
    async with contextlib.AsyncExitStack() as stack:
        provider = await stack.enter_async_context(
            oidc_provider(
                tmp_path, gateway=HERE, resources=urls, grants={"alice": urls}, scope=SCOPE, shared=shared_provider
            )
        )
        servers = [
            await stack.enter_async_context(python_server(provider.issuer, provider.jwks_url, port=port))
            for port in ports
        ]
        worlds = [ExchangeWorld(provider, server, tmp_path) for server in servers]
        documents = [world.catalog(name) for name, world in zip(("one", "two"), worlds, strict=True)]
        async with running(tmp_path, *documents, **worlds[0].settings()) as gateway:
            alice = await worlds[0].token("alice")
            for name in ("one", "two", "one"):
                assert await worlds[0].who(gateway, alice, f"{name}__whoami") == "alice"
        sent = [{request.authorization for request in server.requests()} for server in servers]
    assert [len(tokens) for tokens in sent] == [1, 1]
    assert not sent[0] & sent[1]


async def test_a_callers_token_for_another_application_is_exchanged_for_nothing(tmp_path: Path) -> None:
    async with token_endpoint() as provider, protected_server(provider) as (_, server):
        provider.subject_audience = "https://mail.example.com"  # the provider whose tokens it exchanges
        box = oauth_catalog(provider, "box", server.url)
        async with exchanging(tmp_path, provider, box) as gateway:
            answer = await ask(gateway, of(provider, "alice", calling("box__whoami")))
    assert provider.tokens_by_person == {}
    assert answer.status == 401


async def test_a_token_that_one_server_was_sent_is_for_no_other(tmp_path: Path) -> None:
    """Without `resource`, this provider's tokens are valid for all of its servers."""
    async with (
        token_endpoint() as provider,
        protected_server(provider) as (_, mail),
        protected_server(provider) as (_, files),
    ):
        boxes = [
            oauth_catalog(provider, name, server.url, oauth={"resource": server.url})
            for name, server in (("mail", mail), ("files", files))
        ]
        async with exchanging(tmp_path, provider, *boxes) as gateway:
            for name in ("mail", "files"):
                assert text_of(await ask(gateway, of(provider, "alice", calling(f"{name}__whoami")))) == "alice"
    sent = [
        {request.headers["authorization"].removeprefix("Bearer ") for request in each.seen} for each in (mail, files)
    ]
    assert [[provider.verify(token)["aud"] for token in tokens] for tokens in sent] == [[[mail.url]], [[files.url]]]
