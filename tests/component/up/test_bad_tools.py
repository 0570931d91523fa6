"""A server with an invalid tool on a laptop: other tools work, and the command names the tool that is left out."""

from __future__ import annotations

import json
from pathlib import Path

from mcp import Client

from badservers import TABLE
from rawserver import raw_server
from upprocess import fairlead_up


async def test_a_tool_that_is_left_out_is_named_and_the_others_answer(tmp_path: Path) -> None:
    async with raw_server(TABLE["no-schema"].handler) as server:
        document = {
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "McpServer",
            "metadata": {"name": "demo"},
            "spec": {"url": server.url},
        }
        (tmp_path / "a.yaml").write_text(json.dumps(document))
        async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up:
            event = await up.event(lambda event: event.get("state") == "ready")
            assert (event["cause"], event["tools"]) == ("InvalidSchemas", ["demo__good"])
            assert "tool 'bare' (no inputSchema)" in event["message"]
            async with Client(up.url) as client:
                assert not (await client.call_tool("demo__good", {})).is_error
