"""`fairlead up` with servers that want each person to sign in, and nothing but their addresses in an `mcp.json`."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client

from consentservers import ConsentServer, FormBrowser, consent_server
from upprocess import Up, fairlead_up, until_listed

NAMES = ("linear", "notion", "sentry")


def configuration(folder: Path, servers: Mapping[str, str]) -> str:
    """An `mcp.json` with the addresses of servers, and nothing else."""
    entries = {name: {"url": url} for name, url in servers.items()}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return "mcp.json"


async def sign_in(up: Up, name: str, browser: FormBrowser) -> str:
    """Sign in by the link that `fairlead login` prints; what the command printed."""
    words = ["login", name, "--no-browser", "--url", up.url]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fairlead_cli", *words, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    link = re.search(r"https?://\S+", (await process.stdout.readline()).decode())
    assert link is not None
    await browser.sign_in(link[0])
    rest = await process.stdout.read()
    assert await process.wait() == 0
    return rest.decode()


async def names_of(up: Up) -> dict[str, str]:
    """Who each server takes its caller for, by name."""
    names = {}
    async with Client(up.url) as client:
        for name in NAMES:
            content = (await client.call_tool(f"{name}__whoami", {})).content[0]
            assert content.type == "text"
            names[name] = content.text
    return names


async def tools_of(up: Up) -> list[str]:
    async with Client(up.url) as client:
        return sorted(tool.name for tool in (await client.list_tools()).tools)


async def test_three_servers_are_reached_by_one_sign_in_each_and_by_none_after_a_restart(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        servers: dict[str, ConsentServer] = {}
        for name in NAMES:
            servers[name] = await stack.enter_async_context(consent_server(name))
            servers[name].provider.person = f"ada at {name}"
        file = configuration(tmp_path, {name: server.url for name, server in servers.items()})
        browser = await stack.enter_async_context(FormBrowser())
        expected = {name: f"ada at {name}" for name in NAMES}

        async with fairlead_up(file, "--state-dir", tmp_path / "state", cwd=tmp_path) as up:
            for name in NAMES:
                event = await up.server(f"default/{name}", "sign-in")
                assert event["cause"] == "SignInRequired"
                assert event["message"] == f"fairlead login {name}"
                await until_listed(up.url, name)
            assert await tools_of(up) == [f"{name}__sign_in" for name in NAMES]
            for name in NAMES:
                assert "You are signed in" in await sign_in(up, name, browser)
                await up.ready(f"default/{name}")
            assert await names_of(up) == expected
            assert await tools_of(up) == [f"{name}__whoami" for name in NAMES]

        async with fairlead_up(file, "--state-dir", tmp_path / "state", cwd=tmp_path) as up:
            for name in NAMES:
                await up.ready(f"default/{name}")
            assert await names_of(up) == expected
            assert "sign-in" not in {event.get("state") for event in up.events}, "nobody is asked again"
        assert [len(server.provider.clients) for server in servers.values()] == [1, 1, 1]
