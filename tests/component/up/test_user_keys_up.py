"""Keys that a laptop's owner enters for the servers of an `mcp.json`: an HTTP server and a local program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp import Client
from mcp.types import CallToolResult

from commands import fairlead
from keyservers import HEADER, PROCESS, VARIABLE, key_server
from upprocess import Up, fairlead_up
from waiting import until_async


async def tools(up: Up) -> set[str]:
    async with Client(up.url) as client:
        return {each.name for each in (await client.list_tools()).tools}


async def call_tool(up: Up, tool: str) -> CallToolResult:
    async with Client(up.url) as client:
        return await client.call_tool(tool, {})


async def test_a_key_is_entered_once_for_a_remote_server_and_for_a_program(tmp_path: Path) -> None:
    (tmp_path / "search.py").write_text(PROCESS)
    async with key_server({"desk-key-1": "alice"}) as server:
        desk = {"url": server.url, "fairlead": {"auth": {"userKey": {"header": {"name": HEADER}}}}}
        keyed = {"session": "PerClient", "auth": {"userKey": {"env": VARIABLE}}}
        search = {"command": sys.executable, "args": [str(tmp_path / "search.py"), VARIABLE], "fairlead": keyed}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": desk, "search": search}}))
        environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
        async with fairlead_up("mcp.json", cwd=tmp_path, env=environment) as up:

            async def is_listed(names: set[str]) -> bool:
                return await tools(up) == names

            await until_async("the tools", lambda: is_listed({"desk__sign_in", "search__whoami"}))
            assert (await call_tool(up, "search__whoami")).is_error
            for name, key in (("desk", "desk-key-1"), ("search", "search-key-1")):
                code, out, _ = await fairlead("login", name, "--key-env", "OWN_KEY", "--url", up.url, OWN_KEY=key)
                assert (code, out) == (0, f"Your key for default/{name} is stored.\n")
            await until_async("the tools", lambda: is_listed({"desk__of_alice", "search__whoami"}))
        async with fairlead_up("mcp.json", cwd=tmp_path, env=environment) as up:
            await until_async("the tools", lambda: is_listed({"desk__of_alice", "search__whoami"}))
            assert "alice" in repr((await call_tool(up, "desk__of_alice")).content)
            assert "search-key-1" in repr((await call_tool(up, "search__whoami")).content)
            code, out, _ = await fairlead("logout", "search", "--url", up.url)
            assert (code, out.partition(":")[0]) == (0, "default/search")
            assert (await call_tool(up, "search__whoami")).is_error
