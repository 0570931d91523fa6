"""Polling of a server that announces no changes, such as another gateway, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairlead_api.meta import ServerKey
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import PlatformAdapters
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.telemetry import Telemetry
from operatorfakes import (
    NOW,
    MemoryDeclarations,
    MemoryDocuments,
    MemoryPlatform,
    Script,
    ScriptedConnector,
    mcp_server,
    tool_named,
)
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


class Polled:
    """An operator with one server, `team/demo`."""

    def __init__(self, *tools: str, **spec: Any) -> None:
        self.documents = MemoryDocuments()
        self.script = Script(tools=[tool_named(name) for name in tools])
        self._telemetry = Telemetry()
        self._platform = MemoryPlatform()
        self._platform.declare(mcp_server(**spec))

    def counts(self) -> tuple[float | None, ...]:
        """Values of the metric for added, removed and modified tools."""
        value = self._telemetry.registry.get_sample_value
        name = "fairlead_operator_tool_changes_total"
        return tuple(value(name, {"change": change}) for change in ("added", "removed", "modified"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        connector = ScriptedConnector({ServerKey("team", "demo"): self.script})
        adapters = PlatformAdapters(self._platform, self.documents, connector, MemoryDeclarations())
        installation = InstallationOptions(
            reconciler=ReconcilerOptions(discovery=DiscoveryOptions(jitter=0)),
            clocks=Clocks(now=lambda: NOW, monotonic=asyncio.get_running_loop().time),
        )
        task = asyncio.create_task(compose(adapters, installation, telemetry=self._telemetry).run())
        await asyncio.sleep(0.5)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_server_that_is_polled_and_answers_the_same_costs_no_write() -> None:
    polled = Polled("a", "b", discovery={"interval": "10s"})
    async with polled.running():
        writes = polled.documents.writes
        connections = polled.script.connections
        await asyncio.sleep(60)
        assert (polled.script.connections, polled.documents.writes) == (connections + 6, writes)
        assert polled.counts() == (2, 0, 0)


async def test_tools_that_a_poll_finds_changed_are_published_in_one_write_and_counted() -> None:
    polled = Polled("kept", "gone", "changed", discovery={"interval": "10s"})
    async with polled.running():
        writes = polled.documents.writes
        polled.script.tools = [tool_named("kept"), {**tool_named("changed"), "description": "New."}, tool_named("new")]
        await asyncio.sleep(10)
        assert (polled.documents.writes, polled.counts()) == (writes + 1, (4, 1, 1))
