"""Servers in packages: the quick start with and without a network, and npm packages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from neededprograms import needs
from upprocess import DEMO, DEMO_TOOLS, Up, children_of, command_of, fairlead_up, manifest
from waiting import until_async

INSTALL_SECONDS = 120.0
NPM = needs("npm")


def package(name: str, registry: str, package_name: str, version: str, *args: str) -> str:
    spec = {"package": {"registry": registry, "name": package_name, "version": version, "args": list(args)}}
    metadata = {"name": name}
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": metadata, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def repository(folder: Path) -> Path:
    """A git repository with one commit."""
    folder.mkdir()
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com"}
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "the first one"]):
        subprocess.run(["git", *words], cwd=folder, env={**os.environ, **who}, check=True)
    return folder


async def text_of(url: str, tool: str, arguments: dict[str, Any]) -> str:
    async with Client(url) as client:
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return "".join(content.text for content in result.content if isinstance(content, TextContent))


async def wait_for_tools(up: Up, *wanted: str, seconds: float = 5) -> None:
    async def is_listed() -> bool:
        async with Client(up.url) as client:
            return set(wanted) <= {tool.name for tool in (await client.list_tools()).tools}

    await until_async(f"{wanted} to be served", is_listed, seconds=seconds)


async def test_without_a_network_the_quick_start_serves_the_demo_and_says_why_not_the_rest(tmp_path: Path) -> None:
    where = repository(tmp_path / "project")
    offline = {"UV_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with fairlead_up(cwd=where, env=offline) as up:
        left = {"default/time", "default/git", "default/demo"}
        while left:
            event = await up.event(lambda event: event.get("state") in ("failed", "ready"))
            left.discard(event["server"])
            if event["server"] == "default/demo":
                assert event["tools"] == [f"demo__{name}" for name in DEMO_TOOLS]
            else:
                assert event["cause"] == "RegistryUnreachable"
                assert "could not be fetched from PyPI, which cannot be reached" in event["message"]
        await wait_for_tools(up, "demo__get_stock")
        assert "407" in await text_of(up.url, "demo__get_stock", {"item": "rope"})


async def test_outside_a_repository_the_quick_start_says_so(tmp_path: Path) -> None:
    offline = {"UV_OFFLINE": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with fairlead_up(cwd=tmp_path, env=offline) as up:
        skipped = await up.server("default/git", "skipped")
        assert skipped["message"] == f"{tmp_path} is not in a git repository"


@pytest.mark.network
@pytest.mark.timeout(300)
async def test_the_quick_start_installs_real_servers_once_and_runs_each_as_one_process(tmp_path: Path) -> None:
    where = repository(tmp_path / "project")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with fairlead_up(cwd=where, env=cache) as up:
        left = {"default/time", "default/git", "default/demo"}
        seen = set()
        while left:
            event = await up.event(lambda event: event["event"] == "server", within=INSTALL_SECONDS)
            seen.add((event["server"], event["state"]))
            if event["state"] == "ready":
                left.discard(event["server"])
                if event["server"] == "default/git":  # it declares no latency, and has no measurements yet
                    await wait_for_tools(up, "git__git_log", seconds=1)
        assert ("default/time", "installing") in seen
        await wait_for_tools(up, "time__get_current_time", "git__git_log", "demo__get_stock")
        assert "the first one" in await text_of(up.url, "git__git_log", {"repo_path": str(where)})
        assert "UTC" in await text_of(up.url, "time__get_current_time", {"timezone": "UTC"})
        servers = [pid for pid in children_of(up.pid) if "mcp-server-" in command_of(pid)]
        assert len(servers) == 2, "nothing stands between us and a server"

    offline = {**cache, "UV_OFFLINE": "1"}
    async with fairlead_up(cwd=where, env=offline) as up:
        await up.ready("default/time")
        assert "installing" not in {event.get("state") for event in up.events}


@pytest.mark.network
@pytest.mark.timeout(300)
async def test_a_version_that_does_not_exist_is_named_and_delays_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        package("wrong", "pypi", "mcp-server-time", "1999.1.1")
        + package("library", "pypi", "msgspec", "0.20.0")
        + manifest("demo", *DEMO)
    )
    async with fairlead_up(tmp_path, cwd=tmp_path, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}) as up:
        expected = {
            "default/wrong": "PyPI has no mcp-server-time==1999.1.1",
            "default/library": "msgspec==0.20.0 is a library: it contains no program to run",
        }
        while expected:
            event = await up.event(lambda event: event.get("state") == "failed", within=INSTALL_SECONDS)
            assert expected.pop(event["server"]) in event["message"]
        if not any(event.get("state") == "ready" for event in up.events):
            await up.ready("default/demo")


@NPM
@pytest.mark.network
@pytest.mark.timeout(300)
async def test_packages_of_npm_are_installed_and_called(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "note.txt").write_text("found it")
    (tmp_path / "a.yaml").write_text(
        package("files", "npm", "@modelcontextprotocol/server-filesystem", "2026.8.31", str(files))
        + package("everything", "npm", "@modelcontextprotocol/server-everything", "2026.8.31")
    )
    async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path, env={"XDG_CACHE_HOME": str(tmp_path / "cache")}) as up:
        left = {"default/files", "default/everything"}
        while left:
            event = await up.event(lambda event: event.get("state") == "ready", within=INSTALL_SECONDS)
            left.discard(event["server"])
        await wait_for_tools(up, "files__read_text_file", "everything__echo")
        assert "found it" in await text_of(up.url, "files__read_text_file", {"path": str(files / "note.txt")})
        assert "hello" in await text_of(up.url, "everything__echo", {"message": "hello"})


@NPM
async def test_an_npm_package_without_a_network_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(package("x", "npm", "@modelcontextprotocol/server-memory", "2026.8.31"))
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "npm_config_offline": "true"}
    cache["npm_config_cache"] = str(tmp_path / "npm-cache")
    async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path, env=cache) as up:
        failed = await up.server("default/x", "failed")
        assert "could not be fetched from npm, which cannot be reached" in failed["message"]


async def test_a_machine_without_npm_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(package("x", "npm", "server", "1.0.0"))
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/nonexistent"}
    async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path, env=cache) as up:
        failed = await up.server("default/x", "failed")
        assert "npm is not installed on this machine: install Node.js" in failed["message"]


@NPM
@pytest.mark.network
@pytest.mark.timeout(300)
async def test_servers_of_npx_and_uvx_run_without_these_unless_they_are_to_be_kept(tmp_path: Path) -> None:
    files = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", str(tmp_path)]}
    servers = {
        "files": files,
        "kept": {**files, "env": {"FAIRLEAD_KEEP_WRAPPER": "true"}},
        "time": {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"]},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "note.txt").write_text("found it")
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        left = {f"default/{name}" for name in servers}
        while left:
            event = await up.event(lambda event: event.get("state") == "ready", within=INSTALL_SECONDS)
            left.discard(event["server"])
        await wait_for_tools(up, "files__read_text_file", "kept__read_text_file", "time__get_current_time")
        for name in ("files", "kept"):
            assert "found it" in await text_of(up.url, f"{name}__read_text_file", {"path": str(tmp_path / "note.txt")})
        assert "UTC" in await text_of(up.url, "time__get_current_time", {"timezone": "UTC"})

        async def alone() -> bool:
            commands = [command_of(pid).replace("\0", " ") for pid in children_of(up.pid)]
            wrappers = sum(words.startswith("npm exec") for words in commands)
            servers = sum("mcp-server-filesystem" in words and words.startswith("node") for words in commands)
            return (wrappers, servers, sum("mcp-server-time" in words for words in commands)) == (1, 2, 1)

        await until_async("one wrapper, what it runs, and two servers without one", alone)
