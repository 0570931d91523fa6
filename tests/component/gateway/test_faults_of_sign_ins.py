"""Faults during sign-ins and during renewals of grants: no user loses an account."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from consentservers import BrowserPage, FormBrowser, consent_server
from consentworld import call_whoami, consent_catalog, laptop, link_of, title_of, whoami
from fairlead_gateway.grants.sealing_keys import new_sealing_key
from fairlead_gateway.identity.key_format import encode_keys, new_key
from gatewayprocess import Process, started
from gatewayworld import Ask, calling, publish
from ports import free_port
from redisserver import redis_server
from waiting import until_async


async def test_a_replica_that_is_killed_between_code_and_token_leaves_a_link_that_another_takes(tmp_path: Path) -> None:
    """The other replica cannot redeem the used code, so the link starts another sign-in."""
    key, record = new_key("ada", [], now=datetime.now(UTC))
    (tmp_path / "keys.json").write_bytes(encode_keys([record]))
    ports = free_port(), free_port()
    environment = {
        "FAIRLEAD_DOCUMENTS": str(tmp_path / "documents"),
        "FAIRLEAD_GRANTS_DIRECTORY": str(tmp_path / "grants"),
        "FAIRLEAD_API_KEYS": str(tmp_path / "keys.json"),
        "FAIRLEAD_SESSION_KEY": "of both",
        "FAIRLEAD_PUBLIC_URL": f"http://127.0.0.1:{ports[0]}",
    }
    call = calling("linear__whoami").with_headers(authorization=f"Bearer {key}")
    async with consent_server("linear") as server, FormBrowser() as browser:
        publish(tmp_path / "documents", consent_catalog(server.url))
        async with (
            started(**environment, FAIRLEAD_PORT=str(ports[0])) as first,
            started(**environment, FAIRLEAD_PORT=str(ports[1])) as second,
        ):
            for replica, port in zip((first, second), ports, strict=True):
                await replica.line(rf"MCP on http://127\.0\.0\.1:{port}/mcp")
                replica.port = port
            link = await link_in_text(first, call)
            page = await browser.press(await browser.get(link), key=key)
            answer = await answer_of(browser, await browser.press(page, follow=False))

            server.provider.hold = asyncio.Event()
            coming_back = asyncio.create_task(browser.get(answer))
            await server.provider.arrived.wait()
            first.process.kill()
            with pytest.raises(aiohttp.ClientError):
                await coming_back
            server.provider.hold.set()

            repeated = await browser.get(at(answer, second))
            page = await browser.press(await browser.get(at(link, second)), follow=False)
            done = await browser.get(at(await answer_of(browser, page), second))
            result = (await call_whoami(second, call)).message["result"]
    assert title_of(repeated.text) == "Not signed in at default/linear"
    assert title_of(done.text) == "Signed in at default/linear"
    assert result["content"][0]["text"] == "alice"


async def link_in_text(gateway: Process, call: Ask) -> str:
    text = (await call_whoami(gateway, call)).message["result"]["content"][0]["text"]
    link = re.search(r"http://\S+/sign-in/default/linear\?id=[\w-]+", text)
    assert link is not None, text
    return link[0]


async def answer_of(browser: FormBrowser, begun: BrowserPage) -> str:
    """URL to which the authorization server redirects the browser, which does not follow it."""
    form = await browser.get(begun.onward)
    return (await browser.press(form, follow=False)).headers["location"]


def at(url: str, gateway: Process) -> str:
    """The URL at another replica, as if a load balancer had chosen it."""
    return re.sub(r":\d+/", f":{gateway.port}/", url, count=1)


async def test_a_restart_of_redis_asks_nobody_again(tmp_path: Path) -> None:
    async with (
        consent_server("linear") as server,
        redis_server(tmp_path, persistent=True) as redis,
        FormBrowser() as browser,
    ):
        keys = new_sealing_key("k").text
        store = {"grants_directory": None, "grants": "redis", "redis": redis.url, "grant_keys": keys}
        async with laptop(tmp_path, server, **store) as gateway:
            await browser.sign_in(await link_of(gateway))
            await redis.stop()
            assert await whoami(gateway) == "alice", "the access token is in memory"
            await redis.start()
            assert await whoami(gateway) == "alice"
        async with laptop(tmp_path, server, **store) as gateway:
            assert await whoami(gateway) == "alice"
            await redis.stop()
            await redis.start()
            server.provider.access_tokens.clear()

            async def is_renewed() -> bool:
                return not (await call_whoami(gateway)).message["result"].get("isError")

            await until_async("the token is renewed by the grant", is_renewed)
            assert await whoami(gateway) == "alice"
    assert len(server.provider.clients) == 1
    assert server.provider.redeemed == 1


async def test_a_restart_of_a_redis_that_writes_nothing_has_each_person_asked_again(tmp_path: Path) -> None:
    async with consent_server("linear") as server, redis_server(tmp_path) as redis, FormBrowser() as browser:
        keys = new_sealing_key("k").text
        store = {"grants_directory": None, "grants": "redis", "redis": redis.url, "grant_keys": keys}
        async with laptop(tmp_path, server, **store) as gateway:
            await browser.sign_in(await link_of(gateway))
            await redis.stop()
            await redis.start()
            assert await whoami(gateway) == "alice", "the access token is in memory"
            server.provider.access_tokens.clear()

            async def is_asked() -> bool:
                result = (await call_whoami(gateway)).message["result"]
                return bool(result.get("isError")) and "sign in" in result["content"][0]["text"]

            await until_async("the person is asked", is_asked)
            await browser.sign_in(await link_of(gateway))
            assert await whoami(gateway) == "alice"
