"""Accounts at real servers end at the provider and at every gateway that shares the grants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands import fairlead
from consentservers import ConsentServer, FormBrowser, consent_server
from consentworld import SERVER, called, consent_catalog, laptop, link_of, whoami
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_mcp.oauth.stored_grant import GrantKey
from gatewayworld import entry
from redisserver import redis_server
from waiting import until_async


class Pair(NamedTuple):
    """A server at which a person signs in, and two gateways that share the grants."""

    server: ConsentServer
    first: Gateway
    second: Gateway
    browser: FormBrowser


@asynccontextmanager
async def gateways(folder: Path, **store: Any) -> AsyncIterator[Pair]:
    folders = [folder / name for name in ("first", "second")]
    for each in folders:
        each.mkdir()
    async with (
        consent_server("linear") as server,
        laptop(folders[0], server, **store) as first,
        laptop(folders[1], server, **store) as second,
        FormBrowser() as browser,
    ):
        yield Pair(server, first, second, browser)


@pytest_asyncio.fixture(params=["folder", "redis"])
async def pair(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    if request.param == "folder":
        async with gateways(tmp_path, grants_directory=tmp_path / "grants") as made:
            yield made
        return
    keys = new_sealing_key("k").text
    async with (
        redis_server(tmp_path) as redis,
        gateways(tmp_path, grants_directory=None, grants="redis", grant_keys=keys, redis=redis.url) as made,
    ):
        yield made


async def is_refused(gateway: Gateway) -> bool:
    return (await called(gateway)).message["result"].get("isError") is True


async def test_a_logout_is_in_force_at_every_gateway_and_revoked_at_the_provider(pair: Pair) -> None:
    await pair.browser.sign_in(await link_of(pair.first))
    assert await whoami(pair.first) == await whoami(pair.second) == "alice"
    code, out, _ = await fairlead("logout", "linear", "--url", f"http://127.0.0.1:{pair.first.port}/mcp")
    assert (code, out) == (0, f"default/linear: signed out, and {pair.server.provider.url}/ has revoked the grant\n")
    assert await is_refused(pair.first)
    assert not pair.server.provider.refresh_tokens
    assert not pair.server.provider.access_tokens
    await until_async("the other gateway refuses too", lambda: is_refused(pair.second), seconds=15)


async def test_a_gateway_drops_its_token_of_an_ended_grant_that_the_server_would_still_take(pair: Pair) -> None:
    await pair.browser.sign_in(await link_of(pair.first))
    assert await whoami(pair.second) == "alice"
    assert pair.first.grants is not None
    await pair.first.grants.delete(GrantKey(LOCAL.person, str(SERVER)))
    await until_async("the other gateway refuses", lambda: is_refused(pair.second), seconds=15)
    assert pair.server.provider.access_tokens, "the provider was told nothing"


async def test_a_cached_result_ends_with_the_account_that_it_was_for(tmp_path: Path) -> None:
    definition = {"name": "whoami", "inputSchema": {"type": "object"}}
    cached = [entry(definition, latency=DeclaredLatency(cacheable_seconds=600))]
    async with (
        consent_server("linear") as server,
        laptop(tmp_path, consent_catalog(server.url, tools=cached)) as gateway,
        FormBrowser() as browser,
    ):
        await browser.sign_in(await link_of(gateway))
        assert [await whoami(gateway) for _ in range(3)] == ["alice"] * 3
        cache = gateway.endpoint.context.cache
        assert (cache.hits, cache.misses) == (2, 1)
        server.provider.person = "bob"
        await browser.sign_in(await link_of(gateway))
        assert await whoami(gateway) == "bob"
        code, _, _ = await fairlead("logout", "linear", "--url", f"http://127.0.0.1:{gateway.port}/mcp")
        assert code == 0
        assert await is_refused(gateway)


async def test_another_account_is_used_by_every_gateway(pair: Pair) -> None:
    provider = pair.server.provider
    await pair.browser.sign_in(await link_of(pair.first))
    assert await whoami(pair.first) == await whoami(pair.second) == "alice"
    provider.person = "bob"
    refreshed = provider.refreshed
    await pair.browser.sign_in(await link_of(pair.first))
    await pair.first.registry.review(SERVER, LOCAL.person)
    assert await whoami(pair.first) == "bob"
    assert provider.refreshed == refreshed, "the token of the new consent is used"

    async def is_bob() -> bool:
        return await whoami(pair.second) == "bob"

    await until_async("the other gateway uses the new account", is_bob)
