"""An authorization server that is unreachable, slow or has a wrong clock, and a replica that dies while it requests a
token."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from exchangeworld import complaint_of, exchange_world
from fairlead_api.documents.oauth import CLIENT_CREDENTIALS
from gatewayprocess import started
from gatewayworld import LEGACY, MODERN, catalog, publish, running
from issuers import HERE
from tokenproviders import TokenProvider
from toolservers import modern_server, tool
from waiting import eventually

SKEW = 120
"""Difference between the clocks of provider and gateway in seconds."""


async def test_tokens_that_there_are_outlive_their_provider_and_who_has_none_is_told_at_once(tmp_path: Path) -> None:
    async with (
        exchange_world(tmp_path) as world,
        modern_server([tool("add")]) as other,
        running(tmp_path, world.catalog(), catalog("shop", other.url, ["add"]), **world.settings()) as gateway,
    ):
        alice, bob = await world.token("alice"), await world.token("bob")
        await world.who(gateway, alice)
        world.provider.end()
        told = [complaint_of(await world.call(gateway, bob)) for _ in range(8)]
        names = [await world.who(gateway, alice) for _ in range(8)]
        shop = await world.call(gateway, bob, "shop__add")
        requests = len(world.server.requests())
    assert names == ["alice"] * 8
    assert {code for code, _ in told} == {"CREDENTIAL_UNAVAILABLE"}
    assert world.provider.issuer.removeprefix("http://") in told[0][1]
    assert "desk" in told[0][1]
    assert bob not in repr(told)
    assert not shop.message["result"]["isError"]
    assert requests == 9, "the server was asked for nothing on behalf of Bob, and its breaker is closed"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_a_slow_provider_delays_those_alone_who_need_a_token(
    version: str, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(version=version), **world.settings()) as gateway,
    ):
        alice, bob = await world.token("alice"), await world.token("bob")
        await world.who(gateway, alice)
        world.provider.pause()
        waiting = [asyncio.create_task(world.who(gateway, bob)) for _ in range(20)]
        await eventually(world.provider.unread_bytes)
        names = [await world.who(gateway, alice) for _ in range(20)]
        assert not any(call.done() for call in waiting)
        world.provider.go_on()
        assert set(await asyncio.gather(*waiting)) == {"bob"}
    assert set(names) == {"alice"}
    assert world.exchanges("bob") == 1


async def test_a_provider_that_does_not_answer_ends_no_later_than_the_call(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with (
        exchange_world(tmp_path, shared_provider) as world,
        running(tmp_path, world.catalog(), **world.settings()) as gateway,
    ):
        bob = await world.token("bob")
        world.provider.pause()
        code, sentence = complaint_of(await world.call(gateway, bob))
        world.provider.go_on()
    assert code in ("CREDENTIAL_UNAVAILABLE", "TIMEOUT")
    assert "desk" in sentence
    assert bob not in sentence


@pytest.mark.parametrize("skew", [SKEW, -SKEW])
@pytest.mark.parametrize("method", ["client_secret_basic", "private_key_jwt"])
async def test_two_minutes_between_the_clocks_matter_to_no_client(
    method: str, skew: int, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider, skew=skew) as world:
        oauth = world.oauth(CLIENT_CREDENTIALS, client_authentication=method)
        world.server.verifier.leeway = SKEW + 5
        async with running(tmp_path, world.catalog(oauth=oauth), **world.settings()) as gateway:
            names = [await world.who(gateway, await world.token("alice")) for _ in range(2)]
    assert names == [oauth.client_id] * 2


@pytest.mark.parametrize("skew", [SKEW, -SKEW])
async def test_two_minutes_between_the_clocks_matter_to_no_person(
    skew: int, shared_provider: TokenProvider, tmp_path: Path
) -> None:
    async with exchange_world(tmp_path, shared_provider, skew=skew) as world:
        world.server.verifier.leeway = SKEW + 5
        async with running(tmp_path, world.catalog(), **world.settings()) as gateway:
            names = [await world.who(gateway, await world.token(person)) for person in ("alice", "bob", "alice")]
    assert names == ["alice", "bob", "alice"]
    assert [world.exchanges(person) for person in ("alice", "bob")] == [1, 1]


async def test_a_replica_that_is_killed_while_it_asks_for_a_token_leaves_nothing_undone(
    shared_provider: TokenProvider, tmp_path: Path
) -> None:
    documents = tmp_path / "documents"
    async with exchange_world(tmp_path, shared_provider) as world:
        publish(documents, world.catalog())
        settings = world.settings()
        environment = {
            "FAIRLEAD_DOCUMENTS": str(documents),
            "FAIRLEAD_CREDENTIALS": str(tmp_path / "credentials"),
            "FAIRLEAD_IDENTITY": str(settings["identity"]),
            "FAIRLEAD_PUBLIC_URL": HERE,
        }
        async with started(**environment) as first, started(**environment) as second:
            for replica in (first, second):
                replica.port = int((await replica.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
            bob = await world.token("bob")
            assert await world.who(second, await world.token("alice")) == "alice"
            await world.who(first, await world.token("alice"))
            world.provider.pause()
            call = asyncio.create_task(world.call(first, bob))
            await eventually(world.provider.unread_bytes)
            first.process.kill()
            await first.process.wait()
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await call
            world.provider.go_on()
            again = await world.who(second, bob)
            await eventually(lambda: world.exchanges("bob") >= 1)
    assert again == "bob"
    assert world.exchanges("bob") <= 2
