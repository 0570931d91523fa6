"""The tools that the SDK servers of the tests offer, over HTTP (`toolservers`) and over stdio (`stdio_servers`)."""

from __future__ import annotations

import asyncio
import json

from mcp.server import MCPServer
from mcp.server.mcpserver import Context


def make_server() -> MCPServer:
    """A new server named "demo", version 1.2.3."""
    server = MCPServer("demo", version="1.2.3", instructions="demo server")

    @server.tool(description="Add two numbers.")
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(description="Answer after some milliseconds.")
    async def slow(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return f"slept {ms} ms"

    @server.tool(description="Always fail.")
    def fail() -> str:
        raise ValueError("it never works")

    @server.tool(description="Answer with that many characters.")
    def big(n: int) -> str:
        return "x" * n

    @server.tool(description="The _meta of the request, as JSON.")
    async def echo_meta(ctx: Context) -> str:
        return json.dumps(dict(ctx.request_context.meta or {}), default=str, sort_keys=True)

    @server.tool(description="Report progress that many times.")
    async def progress(steps: int, ctx: Context) -> str:
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        return "done"

    return server
