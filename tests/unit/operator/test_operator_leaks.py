"""Servers that come and go leave no tasks and no objects behind in the operator."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

from fairlead_api.documents.catalog import Catalog
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_mcp.errors import ConnectFailed
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import ControllerOptions, PlatformAdapters
from fairlead_operator.discovery.state import DiscoveryState
from operatorfakes import MemoryDeclarations, MemoryDocuments, MemoryPlatform, Script, ScriptedConnector, mcp_server
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


def new_refusal() -> ConnectFailed:
    """A new exception for each server, because an exception keeps its frames alive."""
    return ConnectFailed("nothing listens there", reason="ConnectionRefused")


def count() -> Counter[str]:
    """Numbers of objects that belong to servers, and of tasks."""
    gc.collect()
    kinds = (McpServer, Catalog, DiscoveryState)
    counts = Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, kinds))
    counts["keys"] = sum(
        1 for thing in gc.get_objects() if isinstance(thing, dict) for key in thing if isinstance(key, ServerKey)
    )
    counts["tasks"] = len(asyncio.all_tasks())
    return counts


def holders() -> list[str]:
    """Objects that refer to remaining DiscoveryStates, for the message of a failed test."""
    left = [state for state in gc.get_objects() if isinstance(state, DiscoveryState)]
    return [
        f"{type(holder).__name__}: {holder!r:.300}"
        for state in left
        for holder in gc.get_referrers(state)
        if holder is not left
    ]


async def test_servers_that_come_and_go_leave_nothing_behind() -> None:
    before = count()  # other tests of this process may have left some
    platform = MemoryPlatform()
    documents = MemoryDocuments()
    connector = ScriptedConnector()
    adapters = PlatformAdapters(platform, documents, connector, MemoryDeclarations())
    controller = compose(
        adapters,
        InstallationOptions(
            controller=ControllerOptions(sweep_s=30.0), clocks=Clocks(monotonic=asyncio.get_running_loop().time)
        ),
    )
    task = asyncio.create_task(controller.run())
    counts = []
    for round_ in range(3):
        for number in range(40):
            server = mcp_server(f"s{round_}-{number}")
            script = connector.scripts[server.key] = Script(tools=[{"name": "a"}])
            script.error = new_refusal() if number % 4 == 1 else None
            script.hang = number % 4 == 2
            platform.declare(server)
            controller.queue.add(server.key)
            del server
        await asyncio.sleep(5)
        assert len(platform.reported) >= 40 * (round_ + 1) - 10
        for key in [*platform.servers]:
            del platform.servers[key]
            controller.queue.add(key)
        await asyncio.sleep(100)
        connector.scripts.clear()
        counts.append(count())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert documents.blobs.keys() == {"fairlead-rules", "fairlead-servers"}
    assert counts[2] == counts[1] == counts[0]
    assert (counts[2]["DiscoveryState"], counts[2]["McpServer"]) == (before["DiscoveryState"], before["McpServer"]), (
        holders()
    )
