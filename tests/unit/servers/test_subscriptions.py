"""Subscriptions of clients before MCP 2026-07-28: their number and their lifetime."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceUpdatedNotification

from fairlead_servers.subscriptions import LegacySubscriptions
from waiting import until_async

STATE = "music://state"
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")  # the subject of the test


async def test_a_subscription_ends_with_its_connection_and_makes_room_for_another() -> None:
    bus = InMemorySubscriptionBus()
    server = MCPServer("music", subscriptions=bus)
    subscriptions = LegacySubscriptions(bus, frozenset({STATE}), max_subscribers=1)
    subscriptions.serve_on(server)
    heard = anyio.Event()

    async def hear(message: object) -> None:
        assert isinstance(message, ResourceUpdatedNotification)
        heard.set()

    async def none() -> bool:
        return len(subscriptions) == 0

    async with Client(server, mode="legacy", message_handler=hear) as second:
        async with Client(server, mode="legacy") as first:
            await first.subscribe_resource(STATE)
            await first.subscribe_resource(STATE)
            with pytest.raises(MCPError, match="the limit of 1 subscribed clients is reached"):
                await second.subscribe_resource(STATE)
        await until_async("the end of the first", none)
        await second.subscribe_resource(STATE)
        await bus.publish(ResourceUpdated(STATE))
        with anyio.fail_after(20):
            await heard.wait()
    await until_async("the end of the second", none)
