"""`python fastmcp_front.py PORT UPSTREAM_PORT DEFINITIONS`: what `/router/mcp` is, by FastMCP.

`search_tools` is FastMCP's own search by BM25, and `execute_tool` its call of a found tool. The file has a list of
definitions; a call of any of them is forwarded to `echo` of the upstream, by one client that stays connected. Without
sessions and with plain JSON answers, which is the fastest that FastMCP can be told to be.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform
from fastmcp.tools.base import Tool, ToolResult

LIMIT = 8


class Forwarded(Tool):
    """A tool of the upstream."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        result = await upstream.call_tool_mcp("echo", arguments)
        return ToolResult(content=result.content)


def forwarded(definitions: Path) -> list[Forwarded]:
    """Tools from a file of definitions."""
    return [
        Forwarded(name=definition["name"], description=definition["description"], parameters=definition["inputSchema"])
        for definition in json.loads(definitions.read_bytes())
    ]


async def main(port: int, tools: list[Forwarded]) -> None:
    """Serve until the process ends."""
    search = BM25SearchTransform(max_results=LIMIT, call_tool_name="execute_tool")
    server = FastMCP("router", tools=tools, transforms=[search])
    async with upstream:
        await server.run_http_async(
            show_banner=False,
            host="127.0.0.1",
            port=port,
            path="/mcp",
            log_level="warning",
            json_response=True,
            stateless_http=True,
            uvicorn_config={"access_log": False},
        )


upstream = Client(f"http://127.0.0.1:{sys.argv[2]}/mcp")
asyncio.run(main(int(sys.argv[1]), forwarded(Path(sys.argv[3]))))
