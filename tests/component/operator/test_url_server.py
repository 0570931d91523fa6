"""A server by URL, from its McpServer to a catalog, on a real API server and against real MCP servers."""

from __future__ import annotations

from operatorworld import World, running
from toolservers import SDK_TOOLS, sdk_server


async def test_a_url_server_becomes_ready_with_its_real_tools_in_the_catalog(world: World) -> None:
    async with sdk_server() as url, running(world):
        world.create("demo", {"url": url})
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        catalog = world.catalog("demo")
        status = world.server("demo")["status"]
    assert catalog is not None
    assert {tool.name for tool in catalog.tools} == set(SDK_TOOLS)
    assert status["tools"] == len(SDK_TOOLS)
    assert status["transport"] == "streamable-http"
    assert status["endpoint"] == url
    assert status["catalog"]["hash"] == catalog.hash
