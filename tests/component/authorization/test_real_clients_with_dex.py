"""Third-party clients that know only the gateway's URL sign in users of Dex. Only the gateway is registered manually,
at Dex.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client

from clientdocuments import CLAUDE_CODE
from dexworld import LOGIN, DexWorld, dex_world
from documenthosts import document_host, http
from npmprograms import mcp_remote, typescript_sdk
from scriptedperson import browser_environment
from signedinclients import SdkClient, fastmcp_tools
from toolservers import modern_server

REGISTRATION: dict[str, Any] = {"registration": {"redirectHosts": ["localhost"]}}
BOB = {"login": "bob@example.com", "password": "password"}


async def tools_of_sdk(url: str, folder: Path) -> list[str]:
    return await SdkClient(url, LOGIN).tools()


async def tools_of_fastmcp(url: str, folder: Path) -> list[str]:
    return await fastmcp_tools(url, LOGIN)


async def tools_of_mcp_remote(url: str, folder: Path) -> list[str]:
    """Names of the tools that mcp-remote lists, which uses OAuth of the TypeScript SDK."""
    remote = await mcp_remote(url, folder)
    remote.env = {**(remote.env or {}), **browser_environment(folder, LOGIN)}
    async with Client(stdio_client(remote), mode="legacy") as client:
        return [tool.name for tool in (await client.list_tools()).tools]


async def refresh(world: DexWorld, client: SdkClient) -> tuple[int, str]:
    """Status and error of the answer to a client's refresh."""
    assert client.tokens is not None
    assert client.registration is not None
    fields = {
        "grant_type": "refresh_token",
        "client_id": client.registration.client_id or "",
        "refresh_token": client.tokens.refresh_token or "",
    }
    async with aiohttp.ClientSession() as session, session.post(f"{world.base}/oauth/token", data=fields) as answer:
        return answer.status, (await answer.json()).get("error", "")


@pytest.mark.parametrize("tools", [tools_of_sdk, tools_of_fastmcp, tools_of_mcp_remote])
async def test_client_signs_in_a_person_by_the_url_alone(
    tmp_path: Path, tools: Callable[[str, Path], Awaitable[list[str]]]
) -> None:
    async with dex_world(tmp_path, server=REGISTRATION) as world:
        assert await tools(f"{world.base}/mcp", tmp_path) == ["shop__buy"]


async def test_client_signs_in_a_person_by_a_document_at_an_https_host(tmp_path: Path) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(json.dumps(CLAUDE_CODE).encode())
        server = {"clientHosts": ["claude.ai"]}
        async with dex_world(tmp_path, server=server, client_documents=host.fetcher()) as world:
            client = SdkClient(f"{world.base}/mcp", LOGIN, CLAUDE_CODE["client_id"])
            assert await client.tools() == ["shop__buy"]
            assert any("claude.ai" in page for page in client.pages)
        assert host.lookups == ["claude.ai"]
        assert client.registration is not None
        assert client.registration.client_id == CLAUDE_CODE["client_id"]


@pytest.mark.parametrize("document", ["", CLAUDE_CODE["client_id"]])
async def test_typescript_sdk_signs_a_person_in_calls_and_refreshes(tmp_path: Path, document: str) -> None:
    async with document_host(tmp_path) as host, modern_server() as shop:
        host.answer = http(json.dumps(CLAUDE_CODE).encode())
        server = {**REGISTRATION, "clientHosts": ["claude.ai"]}
        settings = {"client_documents": host.fetcher(), "shop": shop.url}
        async with dex_world(tmp_path, server=server, **settings) as world:
            told = await typescript_sdk(f"{world.base}/mcp", LOGIN, tool="shop__buy", document=document)
    assert (told["tools"], told["refreshed"]) == (["shop__buy"], True)
    assert json.loads(told["text"]) == {"item": "tea"}
    assert told["client"] == document if document else told["client"].startswith("registered.")


async def test_person_without_the_group_signs_in_and_has_no_tools(tmp_path: Path) -> None:
    async with dex_world(tmp_path, server=REGISTRATION) as world:
        await world.dex.add(BOB["login"])
        assert await SdkClient(f"{world.base}/mcp", BOB).tools() == []


async def test_client_refreshes_without_the_person(tmp_path: Path) -> None:
    async with dex_world(tmp_path, server=REGISTRATION) as world:
        client = SdkClient(f"{world.base}/mcp", LOGIN)
        assert await client.tools() == ["shop__buy"]
        seen = len(client.pages)
        for _ in range(3):
            before = client.tokens
            client.expire()
            assert await client.tools() == ["shop__buy"]
            assert before is not None
            assert client.tokens is not None
            assert before.access_token != client.tokens.access_token
            assert before.refresh_token != client.tokens.refresh_token
        assert len(client.pages) == seen


async def test_person_removed_at_dex_is_out_at_the_next_refresh(tmp_path: Path) -> None:
    """Dex answers `invalid_request` for a revoked refresh token."""
    async with dex_world(tmp_path, server=REGISTRATION) as world:
        await world.dex.add(BOB["login"])
        client = SdkClient(f"{world.base}/mcp", BOB)
        await client.tools()
        await world.dex.remove(BOB["login"])
        for _ in range(2):
            assert await refresh(world, client) == (400, "invalid_grant")
