"""Accounts at real servers end at the provider, and at every gateway that shares the grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands import fairlead
from consentservers import ConsentServer, FormBrowser, consent_server
from consentworld import SERVER, call_whoami, consent_catalog, laptop, link_of, whoami
from controlplane import ControlPlane
from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_app.gateway import Gateway
from fairlead_gateway.core.identity import LOCAL
from fairlead_gateway.grants.gone_servers import GONE_SECONDS
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_gateway.grants.secret_store import SLOTS
from fairlead_kube.client import Kube
from fairlead_kube.connection import load_configuration
from fairlead_mcp.oauth.stored_grant import GrantKey
from gatewayworld import Clock, entry, withdraw
from redisserver import redis_server
from waiting import eventually, until_async


class Pair(NamedTuple):
    """A server at which a user signs in, and two gateways that share grants."""

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


@asynccontextmanager
async def in_redis(folder: Path, **store: Any) -> AsyncIterator[Pair]:
    async with redis_server(folder) as redis, gateways(folder, grants="redis", redis=redis.url, **store) as made:
        yield made


@asynccontextmanager
async def in_secrets(folder: Path, plane: ControlPlane, namespace: str, **store: Any) -> AsyncIterator[Pair]:
    for slot in range(SLOTS):
        body = {"metadata": {"name": f"grants-{slot}"}}
        await asyncio.to_thread(plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", body)
    async with aclosing(Kube.connect(await load_configuration(plane.kubeconfig))) as kube:
        store |= {"grants": "secrets", "grants_secret": "grants", "kube": kube, "namespace": namespace}
        async with gateways(folder, **store) as made:
            yield made


@pytest.fixture(params=["folder", "redis", "secrets"])
def open_gateways(tmp_path: Path, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Pair]:
    """Function that starts gateways with a store of one kind."""
    if request.param == "folder":
        return gateways(tmp_path, grants_directory=tmp_path / "grants")
    shared = {"grants_directory": None, "grant_keys": new_sealing_key("k").text}
    if request.param == "redis":
        return in_redis(tmp_path, **shared)
    plane, namespace = (request.getfixturevalue(name) for name in ("control_plane", "namespace"))
    return in_secrets(tmp_path, plane, namespace, **shared)


@pytest_asyncio.fixture
async def pair(open_gateways: AbstractAsyncContextManager[Pair]) -> AsyncIterator[Pair]:
    async with open_gateways as made:
        yield made


async def is_refused(gateway: Gateway) -> bool:
    return (await call_whoami(gateway)).message["result"].get("isError") is True


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


async def test_grants_of_a_removed_server_end_an_hour_later(tmp_path: Path) -> None:
    clock, key, keys = Clock(), GrantKey(LOCAL.person, str(SERVER)), new_sealing_key("k").text
    async with redis_server(tmp_path) as redis, consent_server("linear") as server, FormBrowser() as browser:
        shared: dict[str, Any] = {"grants": "redis", "redis": redis.url, "grant_keys": keys, "grants_directory": None}
        async with laptop(tmp_path, server, clock=clock, **shared) as gateway:
            await browser.sign_in(await link_of(gateway))
            gone, grants = gateway.upkeep.gone_servers, gateway.grants
            assert gone is not None
            assert grants is not None
            await gone.check()
            withdraw(tmp_path / "documents", consent_catalog(server.url))
            await eventually(lambda: SERVER not in gateway.snapshot.servers)
            await gone.check()
            assert await grants.read(key) is not None
            clock.forward(GONE_SECONDS)
            await gone.check()
            assert await grants.read(key) is None


async def test_a_folder_has_grants_for_servers_of_other_projects_too(tmp_path: Path) -> None:
    async with laptop(tmp_path) as gateway:
        assert gateway.grants is not None
        assert gateway.upkeep.gone_servers is None


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
