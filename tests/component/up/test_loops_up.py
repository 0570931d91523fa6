"""`fairlead up` with a server that has the URL of the gateway itself."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest
from mcp import Client

from ports import free_port
from upprocess import DEMO, DEMO_TOOLS, PLAIN, started_up, until_listed

BRIDGE: Final = Path(__file__).parents[2] / "support" / "stdio_servers" / "bridge_stdio.py"

BACK = """
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {{name: back}}
spec: {{url: "http://127.0.0.1:{port}/mcp"}}
"""


async def test_a_server_that_leads_back_is_not_listed_and_says_why(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": {"command": DEMO[0], "args": DEMO[1:]}}}))
    (tmp_path / "back.yaml").write_text(BACK.format(port=port))
    words = ("mcp.json", "back.yaml", "--port", str(port), "--metrics-port", "0", "--output", "json")
    async with started_up(*words, cwd=tmp_path) as up:
        states = await up.states(2)
        assert states == {"default/demo": "ready:", "default/back": "failed:LoopDetected"}
        await until_listed(f"http://127.0.0.1:{port}/mcp", "demo")
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            tools = (await client.list_tools()).tools
        assert {tool.name.partition("__")[0] for tool in tools} == {"demo"}
        assert len(tools) <= len(DEMO_TOOLS)


async def test_a_bridge_that_leads_back_is_not_listed_and_says_why(tmp_path: Path) -> None:
    port = free_port()
    entries = {"demo": {"command": PLAIN[0], "args": PLAIN[1:]}, "back": bridge(port)}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    async with started_up("mcp.json", *on(port), cwd=tmp_path) as up:
        assert await up.states(2) == {"default/demo": "ready:", "default/back": "failed:LoopDetected"}
        (refused,) = [event for event in up.events if event.get("state") == "failed"]
        assert "the server leads back to this gateway" in refused["message"]
        assert await prefixes(port) == {"demo"}


def bridge(port: int) -> dict[str, object]:
    """A stdio server that passes all messages on to the gateway at a port."""
    return {"command": sys.executable, "args": [str(BRIDGE), f"http://127.0.0.1:{port}/mcp"]}


def on(port: int) -> tuple[str, ...]:
    return "--port", str(port), "--metrics-port", "0", "--output", "json"


async def prefixes(port: int) -> set[str]:
    """Chains of prefixes in the names of a gateway's tools."""
    async with Client(f"http://127.0.0.1:{port}/mcp") as client:
        return {tool.name.rpartition("__")[0] for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("over", ["url", "bridge"])
async def test_a_chain_of_gateways_works_and_a_ring_of_three_is_open_at_one_place(tmp_path: Path, over: str) -> None:
    ports = [free_port() for _ in range(3)]
    async with AsyncExitStack() as stack:
        for number in range(3):
            after = ports[(number + 1) % 3]
            far = bridge(after) if over == "bridge" else {"url": f"http://127.0.0.1:{after}/mcp"}
            entries: dict[str, object] = {"own": {"command": PLAIN[0], "args": PLAIN[1:]}}
            if number < 2:
                entries["next"] = far
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        # started from the end of the chain, so that each one finds the next
        ups = {}
        for number in (2, 1, 0):
            words = ("mcp.json", *on(ports[number]))
            ups[number] = await stack.enter_async_context(started_up(*words, cwd=tmp_path / str(number)))
            await ups[number].ready("default/own" if number == 2 else "default/next")
        async with Client(f"http://127.0.0.1:{ports[0]}/mcp") as client:
            assert not (await client.call_tool("next__next__own__echo", {"a": 1})).is_error
        closed = {"own": {"command": PLAIN[0], "args": PLAIN[1:]}, "next": bridge(ports[0])}
        (tmp_path / "2" / "mcp.json").write_text(json.dumps({"mcpServers": closed}))
        refused = await ups[2].server("default/next", "failed")
        assert refused["cause"] == "LoopDetected"
        assert await prefixes(ports[0]) == {"own", "next__own", "next__next__own"}
