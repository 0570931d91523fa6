"""The number of tools in each tier's status: correct soon after a start, and written less often while it keeps
changing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fairlead_api.v1alpha1.common import ObjectMeta
from fairlead_api.v1alpha1.latencytier import LatencyTier, LatencyTierSpec
from fairlead_operator.clocks import Clocks
from fairlead_operator.compose import InstallationOptions, compose
from fairlead_operator.controller import PlatformAdapters
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


@dataclass
class Sizes(MemoryDeclarations):
    """Records each number of tools that the status of the tier `deep` had, with its time."""

    history: list[tuple[float, int]] = field(default_factory=list)

    async def write_tool_counts(self, counts: Mapping[str, int]) -> None:
        self.history.append((asyncio.get_running_loop().time(), counts["deep"]))


@dataclass
class Installation:
    """One tier, and servers of one tool each whose first list takes the given seconds."""

    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)
    connector: ScriptedConnector = field(default_factory=ScriptedConnector)

    def declare(self, *seconds: float) -> None:
        for number, takes in enumerate(seconds):
            server = mcp_server(f"server-{number}")
            self.platform.declare(server)
            self.connector.scripts[server.key] = Script(tools=[tool_named("add")], takes=takes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Sizes]:
        deep = LatencyTier(metadata=ObjectMeta(name="deep"), spec=LatencyTierSpec())
        sizes = Sizes(tier_list=[deep])
        adapters = PlatformAdapters(self.platform, self.documents, self.connector, sizes)
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(
            compose(adapters, InstallationOptions(clocks=Clocks(now=lambda: NOW, monotonic=loop.time))).run()
        )
        try:
            yield sizes
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_after_a_restart_a_tier_shows_what_is_served_before_its_servers_have_answered_again() -> None:
    installation = Installation()
    installation.declare(0, 0, 0)
    async with installation.running():
        await asyncio.sleep(5)
    for script in installation.connector.scripts.values():
        script.hang = True
    async with installation.running() as sizes:
        await asyncio.sleep(5)
    assert {number for _, number in sizes.history} == {3}


async def test_a_server_that_answers_late_is_counted_within_five_seconds() -> None:
    installation = Installation()
    installation.declare(0, 1, 2, 3, 4)
    async with installation.running() as sizes:
        await asyncio.sleep(9)
    assert sizes.history[-1][1] == 5


async def test_a_tier_whose_size_never_rests_is_written_less_and_less_often() -> None:
    installation = Installation()
    installation.declare(0, *(0.5 * number for number in range(1, 50)))
    async with installation.running() as sizes:
        await asyncio.sleep(40)
    assert 0 < len(sizes.history) <= 10
