"""`fairlead up` with servers that require each user to sign in, and an `mcp.json` with only their URLs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mcp import Client

from commands import fairlead
from consentservers import ConsentServer, FormBrowser, consent_server
from forkserver import program_words
from upprocess import Up, fairlead_up, in_state, until_listed

NAMES = ("linear", "notion", "sentry")


def configuration(folder: Path, servers: Mapping[str, str], **fields: Any) -> str:
    """An `mcp.json` with the URLs of servers, and their `fairlead` members from `fields`."""
    entries: dict[str, Any] = {name: {"url": url} for name, url in servers.items()}
    for name, block in fields.items():
        entries[name]["fairlead"] = block
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    return "mcp.json"


async def sign_in(up: Up, name: str, browser: FormBrowser) -> str:
    """Sign in by the link that `fairlead login` prints. Returns the command's output."""
    words = ["login", name, "--no-browser", "--url", up.url]
    process = await asyncio.create_subprocess_exec(*program_words(), *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    link = re.search(r"https?://\S+", (await process.stdout.readline()).decode())
    assert link is not None
    await browser.sign_in(link[0])
    rest = await process.stdout.read()
    assert await process.wait() == 0
    return rest.decode()


async def names_of(up: Up) -> dict[str, str]:
    """The user that each server sees, by server name."""
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
            events = await up.events_in_any_order(*(in_state(f"default/{name}", "sign-in") for name in NAMES))
            for name, event in zip(NAMES, events, strict=True):
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
            assert await up.states(len(NAMES)) == {f"default/{name}": "ready:" for name in NAMES}
            assert await names_of(up) == expected
            assert "sign-in" not in {event.get("state") for event in up.events}, "nobody is asked again"
        assert [len(server.provider.clients) for server in servers.values()] == [1, 1, 1]


async def test_a_refresh_before_the_first_sign_in_says_how_to_sign_in(tmp_path: Path) -> None:
    async with consent_server("linear") as server:
        file = configuration(tmp_path, {"linear": server.url})
        async with fairlead_up(file, "--state-dir", tmp_path / "state", cwd=tmp_path) as up:
            await up.server("default/linear", "sign-in")
            code, _, why = await fairlead("refresh", "linear", "--url", up.url)
    assert code == 1
    command = f"fairlead login --url {up.url} default/linear"
    assert f"needs your sign-in, because you have not signed in at default/linear: {command}" in why


async def test_everybody_sees_of_a_persons_resources_and_prompts_what_the_file_names_and_no_other_is_read(
    tmp_path: Path,
) -> None:
    lists = {"resources/list", "resources/templates/list", "prompts/list"}
    async with consent_server("linear") as linear, consent_server("notion") as notion, FormBrowser() as browser:
        urls = {"linear": linear.url, "notion": notion.url}
        shared = {"discovery": {"shared": ["resources", "prompts", "instructions"]}}
        file = configuration(tmp_path, urls, linear=shared)
        async with fairlead_up(file, "--state-dir", tmp_path / "state", cwd=tmp_path) as up:
            await up.events_in_any_order(*(in_state(f"default/{name}", "sign-in") for name in urls))
            for name in urls:
                await sign_in(up, name, browser)
                await up.ready(f"default/{name}")
            async with Client(f"{up.url.removesuffix('/mcp')}/servers/default/linear/mcp") as client:
                (resource,) = (await client.list_resources()).resources
                assert str(resource.uri) == "notes://linear/private"
                assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["draft"]
                assert (await client.list_resource_templates()).resource_templates == []
                assert client.instructions is not None
                assert "Ask before you write." in client.instructions
                content = (await client.read_resource(resource.uri)).contents[0]
                assert getattr(content, "text", "") == "notes of alice"
            async with Client(f"{up.url.removesuffix('/mcp')}/servers/default/notion/mcp") as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["whoami"]
                assert client.server_capabilities.resources is None
                assert client.server_capabilities.prompts is None
                assert "Ask before you write." not in (client.instructions or "")
    assert lists.intersection(linear.methods) == lists - {"resources/templates/list"}
    assert lists.isdisjoint(notion.methods)
