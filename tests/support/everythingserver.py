"""A server of the SDK with everything that MCP has beside tools: prompts, resources, templates, completions, log
messages, resources that change. Both eras. Log messages are deprecated and warned of, and what most servers use.

async with everything_server() as url: ...
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings

from toolservers import serve_asgi

NOTE = "note://today"
LEVELS = ("debug", "info", "error")


def make_everything() -> MCPServer:
    """A fresh one."""
    subscribers: list[Any] = []
    server = MCPServer("everything", version="3.2.1", instructions="Ask for anything.")

    @server.tool(description="Says something at each level.")
    async def chatter(ctx: Context) -> str:
        for level in LEVELS:
            await ctx.log(cast("Any", level), f"said at {level}")
        return "done"

    @server.tool(description="Changes the note.")
    async def edit(ctx: Context) -> str:
        for session in subscribers:
            await session.send_resource_updated(NOTE)
        await ctx.notify_resource_updated(NOTE)
        return "edited"

    @server.resource(NOTE, description="A note.", mime_type="text/plain")
    def note() -> str:
        return "Größe 🚢"

    @server.resource("note://by-day/{day}", description="Notes by day.", mime_type="text/plain")
    def by_day(day: str) -> str:
        return f"the note of {day}"

    @server.prompt(description="Greets somebody.")
    def greet(name: str) -> str:
        return f"Say hello to {name}."

    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        kind = "prompt" if isinstance(ref, types.PromptReference) else "resource"
        return types.Completion(values=[f"{kind}-{argument.name}-{argument.value}"])

    cast("Any", server).completion()(complete)

    async def subscribe(ctx: Any, params: Any) -> types.EmptyResult:
        subscribers.append(ctx.session)
        return types.EmptyResult()

    async def accept(ctx: Any, params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    for method, params, handler in (
        ("resources/subscribe", types.SubscribeRequestParams, subscribe),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, accept),
        ("logging/setLevel", types.SetLevelRequestParams, accept),
    ):
        server._lowlevel_server.add_request_handler(method, params, handler)
    return server


@contextlib.asynccontextmanager
async def everything_server() -> AsyncIterator[str]:
    """Serve it in this loop; yields its URL."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    async with serve_asgi(make_everything().streamable_http_app(transport_security=security)) as port:
        yield f"http://127.0.0.1:{port}/mcp"
