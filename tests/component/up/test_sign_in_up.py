"""Remote servers that want a login, on a laptop: from an `mcp.json` with their URLs to calls as the person."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from consentservers import FormBrowser, consent_server
from fairlead_cli.access.signing_in import run_login
from fairlead_cli.connecting import Destination
from fairlead_cli.output import Output
from fairlead_cli.rest import ManagementClient
from upprocess import DEMO, Up, fairlead_up
from waiting import until_async


def written(folder: Path, **servers: Mapping[str, Any]) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


def laptop(folder: Path, file: Path) -> Any:
    """`fairlead up` whose grants outlive it."""
    return fairlead_up(file, cwd=folder, env={"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)})


async def tools(up: Up) -> set[str]:
    async with Client(up.url) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def until_tools(up: Up, *names: str) -> None:
    async def listed() -> bool:
        return {*names} <= await tools(up)

    await until_async(f"the tools {', '.join(names)}", listed)


async def whoami(up: Up, server: str) -> str:
    async with Client(up.url) as client:
        result = await client.call_tool(f"{server}__whoami", {})
    assert not result.is_error, result
    return str(result.content[0].text)  # type: ignore[union-attr]  # of a text


async def sign_in(up: Up, browser: FormBrowser, server: str) -> None:
    """Sign in by the command, and press through the pages."""
    destination = Destination(up.url, {}, 10)
    management = ManagementClient.of(destination)
    state = await asyncio.to_thread(management.post, f"/v1/servers/{server}/sign-in", {})
    login = asyncio.ensure_future(asyncio.to_thread(run_login, destination, server, Output.table, browser=False))
    page = await browser.sign_in(state["signInUrl"])
    assert page.status == 200, page.text
    await login


@pytest.mark.heavy
async def test_two_servers_that_want_a_login_need_one_sign_in_each_and_none_after_a_restart(tmp_path: Path) -> None:
    async with consent_server("linear") as linear, consent_server("notion") as notion:
        notion.provider.person = "bob"
        file = written(
            tmp_path,
            linear={"url": linear.url},
            notion={"type": "http", "url": notion.url},
            demo={"command": DEMO[0], "args": DEMO[1:]},
        )
        async with laptop(tmp_path, file) as up:
            await until_tools(up, "linear__sign_in", "notion__sign_in", "demo__get_stock")
            async with FormBrowser() as browser:
                await sign_in(up, browser, "linear")
                await until_tools(up, "linear__whoami", "notion__sign_in")
                await sign_in(up, browser, "notion")
                await until_tools(up, "linear__whoami", "notion__whoami")
            assert "linear__sign_in" not in await tools(up)
            assert [await whoami(up, "linear"), await whoami(up, "notion")] == ["alice", "bob"]
        async with laptop(tmp_path, file) as up:
            await until_tools(up, "linear__whoami", "notion__whoami")
            assert [await whoami(up, "linear"), await whoami(up, "notion")] == ["alice", "bob"]
