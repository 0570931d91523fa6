"""Signing in with npm programs: the TypeScript SDK's example server as the server, `mcp-remote` as the client."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.stdio import stdio_client

from consentservers import FormBrowser, consent_server
from consentworld import consent_catalog, laptop, link_of, title_of
from gatewayworld import LEGACY, ask, calling
from npmprograms import mcp_remote, oauth_example


async def test_the_typescript_sdks_oauth_example_is_called_after_one_sign_in(tmp_path: Path) -> None:
    async with oauth_example() as url:
        example = consent_catalog(url, tools=["greet"], version=LEGACY)
        async with laptop(tmp_path, example) as gateway, FormBrowser() as browser:
            greet = calling("linear__greet", {"name": "Ada"})
            refusal = (await ask(gateway, greet)).message["result"]
            page = await browser.sign_in(await link_of(gateway))
            answers = [(await ask(gateway, greet)).message["result"] for _ in range(2)]
    assert refusal["isError"] is True
    assert title_of(page.text) == "Signed in at default/linear"
    assert [answer["content"][0]["text"] for answer in answers] == ["Hello, Ada!"] * 2


async def test_mcp_remote_shows_the_link_in_the_text_and_calls_once_the_person_has_signed_in(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:
        remote = await mcp_remote(f"http://127.0.0.1:{gateway.port}/mcp", tmp_path)
        async with Client(stdio_client(remote), mode="legacy") as client:
            refusal = await client.call_tool("linear__whoami", {})
            link = re.search(rf"http://127\.0\.0\.1:{gateway.port}/sign-in/default/linear\?id=[\w-]+", text_of(refusal))
            assert link is not None, text_of(refusal)
            await browser.sign_in(link[0])
            answer = await client.call_tool("linear__whoami", {})
    assert refusal.is_error
    assert text_of(answer) == "alice"


async def test_mcp_remote_hands_a_page_on_to_a_client_that_opens_pages(tmp_path: Path) -> None:
    async with consent_server("linear") as server, laptop(tmp_path, server) as gateway, FormBrowser() as browser:

        async def open_page(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            assert isinstance(params, types.ElicitRequestURLParams)
            await browser.sign_in(params.url)
            return types.ElicitResult(action="accept")

        remote = await mcp_remote(f"http://127.0.0.1:{gateway.port}/mcp", tmp_path)
        async with Client(stdio_client(remote), mode="legacy", elicitation_callback=open_page) as client:
            answer = await client.call_tool("linear__whoami", {})
    assert text_of(answer) == "alice"


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text
