"""`fairlead up` with a server whose URL is its own."""

from __future__ import annotations

import json
from pathlib import Path

from mcp import Client

from ports import free_port
from upprocess import DEMO, DEMO_TOOLS, started_up, until_listed

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
