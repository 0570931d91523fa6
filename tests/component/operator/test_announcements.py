"""Servers that announce changes while they run: the catalog has the changes soon after."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged

from operatorworld import World, running
from rawserver import Reply, Request, raw_server
from toolservers import serve_asgi, tool


def schemas(world: World, name: str) -> dict[str, Any]:
    """Input schemas of the tools in the catalog, by name."""
    catalog = world.catalog(name)
    definitions = [json.loads(bytes(entry.definition)) for entry in (catalog.tools if catalog else ())]
    return {definition["name"]: definition["inputSchema"].get("properties", {}) for definition in definitions}


async def test_a_modern_server_that_changes_a_schema_has_it_replaced_without_waiting_for_the_interval(
    world: World,
) -> None:
    bus = InMemorySubscriptionBus()
    server = MCPServer("changing", subscriptions=bus)

    def early(a: int) -> int:
        return a

    def late(a: int, b: int) -> int:
        return a + b

    server.add_tool(early, name="sum")
    async with serve_asgi(server.streamable_http_app()) as port, running(world, interval_floor=0.2):
        world.create("demo", {"url": f"http://127.0.0.1:{port}/mcp"})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        assert set(schemas(world, "demo")["sum"]) == {"a"}
        server.remove_tool("sum")
        server.add_tool(late, name="sum")

        async def announce() -> None:
            while True:  # the stream is opened some time after the first discovery, which is not reported
                await bus.publish(ToolsListChanged())
                await asyncio.sleep(0.2)

        task = asyncio.create_task(announce())
        await world.until("the new schema", lambda: set(schemas(world, "demo").get("sum", ())) == {"a", "b"})
        task.cancel()


async def test_a_legacy_server_announces_changes_on_its_own_stream_within_its_session(world: World) -> None:
    streams: list[Reply] = []
    tools = [tool("early")]

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            assert request.headers["mcp-session-id"] == "one"
            reply.open_stream()
            streams.append(reply)
        elif request.method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "s"}}
            reply.result(request, result, mcp_session_id="one")
        elif request.method == "tools/list":
            reply.result(request, {"tools": tools})
        elif request.method == "server/discover":
            reply.error(request, 400, -32000, "Server not initialized")
        else:
            reply.send(202)

    async with raw_server(handle) as server, running(world, interval_floor=0.2):
        world.create("demo", {"url": server.url})
        await world.until("a stream", lambda: streams)
        tools.append(tool("late"))
        streams[0].event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await world.until("both tools", lambda: set(schemas(world, "demo")) == {"early", "late"})
        tools.pop(0)
        streams[0].writer.close()
        await world.until("the loss of the stream is a reason to look", lambda: set(schemas(world, "demo")) == {"late"})
