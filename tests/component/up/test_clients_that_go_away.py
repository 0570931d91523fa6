"""Real clients that are killed during a call, and the messages that their server gets about it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import TextContent

from toolservers import LEGACY_STDIO
from upprocess import fairlead_up
from waiting import until_async

CALLER = """
import asyncio, sys
from mcp import Client

async def main():
    async with Client(sys.argv[1], mode=sys.argv[2]) as client:
        await client.call_tool("s__later", {"n": 1000})

asyncio.run(main())
"""


class Watcher:
    """Another client, which asks the server about its messages."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = 0

    async def received_methods(self) -> list[str]:
        """Methods of all messages that the server has received."""
        self._calls += 1
        content = (await self._client.call_tool("s__seen", {})).content[0]
        assert isinstance(content, TextContent)
        return [str(method) for method in json.loads(content.text)]

    async def calls_of_others(self) -> bool:
        return (await self.received_methods()).count("tools/call") > self._calls

    async def has_cancelled(self) -> bool:
        return "notifications/cancelled" in await self.received_methods()


@pytest.mark.parametrize(("mode", "setting"), [("legacy", "true"), ("auto", "false")])
async def test_a_client_that_is_killed_has_its_call_cancelled_by_the_setting_or_by_its_revision(
    tmp_path: Path, mode: str, setting: str
) -> None:
    servers = {"s": {"command": sys.executable, "args": [LEGACY_STDIO]}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    environment = {"FAIRLEAD_CANCEL_ABANDONED": setting}
    async with fairlead_up("mcp.json", cwd=tmp_path, env=environment) as up:
        await up.ready("default/s")

        async def is_listed() -> bool:
            async with Client(up.url) as client:  # each client keeps its list
                return any(tool.name == "s__later" for tool in (await client.list_tools()).tools)

        await until_async("the tools to be listed", is_listed)
        async with Client(up.url) as client:
            watcher = Watcher(client)
            caller = await asyncio.create_subprocess_exec(sys.executable, "-c", CALLER, up.url, mode)
            await until_async("the call to arrive", watcher.calls_of_others)
            assert not await watcher.has_cancelled()
            caller.kill()
            await caller.wait()
            await until_async("the server to be told", watcher.has_cancelled)
