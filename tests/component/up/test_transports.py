"""Third-party servers over each transport, installed with the programs of the runner image."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from mcp import Client

from fairlead_mcp.session import McpSession
from fairlead_mcp.stream_client import StreamClient
from fairlead_mcp.tcp import TcpOpener
from fairlead_operator.local import runner
from gated_stdio_server import TOKEN, gated
from neededprograms import needs
from ports import free_port
from serverprocesses import listening_on, sse_server
from toolservers import SDK_TOOLS
from upprocess import fairlead_up, until_listed

NPM = needs("npm")
EVERYTHING = ["npm", "@modelcontextprotocol/server-everything", "2026.8.31"]


def over_sse(name: str, url: str) -> str:
    document = {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "McpServer",
        "metadata": {"name": name},
        "spec": {"url": url, "remote": {"transport": "sse"}},
    }
    return f"---\n{json.dumps(document)}\n"


async def test_a_server_behind_an_event_stream_is_served_by_url(tmp_path: Path) -> None:
    async with sse_server() as url:
        (tmp_path / "a.yaml").write_text(over_sse("old", url))
        async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up:
            await up.ready("default/old")
            await until_listed(up.url, "old")
            async with Client(up.url) as client:
                assert {tool.name for tool in (await client.list_tools()).tools} == {f"old__{n}" for n in SDK_TOOLS}
                results = await asyncio.gather(*(client.call_tool("old__add", {"a": n, "b": 1}) for n in range(20)))
                assert [r.structured_content for r in results] == [{"result": n + 1} for n in range(20)]


@NPM
@pytest.mark.network
@pytest.mark.timeout(300)
async def test_a_server_of_npm_speaks_all_its_transports(tmp_path: Path) -> None:
    volume = tmp_path / "cache"
    assert await asyncio.to_thread(runner.main, EVERYTHING, volume=volume, log=tmp_path / "log") == 0
    assert await asyncio.to_thread(runner.main, EVERYTHING, volume=volume, log=tmp_path / "log") == 0, "again"
    server = str(volume / "server")
    async with gated(server, "stdio") as behind:
        link = StreamClient("npm", TcpOpener("127.0.0.1", behind.port, TOKEN))
        items = await McpSession.over_link(link).list_all("tools/list")
        assert "echo" in {json.loads(bytes(item))["name"] for item in items}
        await link.aclose()
    port = free_port()
    async with listening_on(port, server, "sse"):
        (tmp_path / "a.yaml").write_text(over_sse("everything", f"http://127.0.0.1:{port}/sse"))
        async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up:
            await up.ready("default/everything")
            async with Client(up.url) as client:
                result = await client.call_tool("everything__echo", {"message": "hello"})
                assert "hello" in str(result.content)


@NPM
def test_an_installation_without_a_network_says_so_in_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    log = tmp_path / "log"
    assert runner.main(EVERYTHING, volume=tmp_path / "cache", log=log) == runner.UNREACHABLE
    assert "which cannot be reached" in log.read_text()
    assert not (tmp_path / "cache" / "server").exists()
