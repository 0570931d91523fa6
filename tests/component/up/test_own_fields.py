"""Fields of an mcp.json that are specific to Fairlead."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp import Client

from toolservers import LEGACY_STDIO
from upprocess import children_of, command_of, fairlead_up
from waiting import until_async


async def test_an_entry_sets_its_prefix_hides_a_tool_and_has_a_process_for_each_client(tmp_path: Path) -> None:
    own = {"prefix": "web", "session": "PerClient", "tools": [{"name": "die", "enabled": False}]}
    entry = {"command": sys.executable, "args": [LEGACY_STDIO], "fairlead": own}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"browser": entry}}))
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        await up.ready("default/browser")

        async def is_listed() -> bool:
            async with Client(up.url) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                return names == [f"web__{name}" for name in ("ask", "changed", "echo", "later", "seen")]

        await until_async("the tools to be listed", is_listed)
        async with Client(up.url, mode="legacy") as first, Client(up.url, mode="legacy") as other:
            for client in (first, other):
                assert not (await client.call_tool("web__echo", {"x": 1})).is_error
            running = [pid for pid in children_of(up.pid) if LEGACY_STDIO in command_of(pid)]
            assert len(running) == 3  # one process for each client, and one that lists the tools


async def test_a_field_that_may_not_stand_there_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x",\n"fairlead": {"sesion": "PerClient"}}}}')
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        problem = await up.event(lambda event: event["event"] == "problem")
        assert (problem["line"], problem["field"]) == (2, "mcpServers.a.fairlead.sesion")
        assert problem["message"].startswith("is not a field of fairlead; its fields are auth, caBundle, calibration,")
