"""Servers on a laptop whose answers violate MCP: their tools are listed, and each server is mentioned once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from mcp import Client

from commands import fairlead
from linkservers import events_server
from rawserver import Reply, Request, raw_server
from scriptedserver import SCRIPTED_STDIO, TOOLS, Results, handshake, over_http, responder
from upprocess import Up, fairlead_up
from waiting import until_async

OLD: Final = handshake("2025-11-25")
PECULIAR: Final[dict[str, tuple[Results, str]]] = {
    "php": ({**OLD, **handshake("2025-11-25", capabilities=[])}, "the server's capabilities are [], not an object"),
    "walking": ({**OLD, "tools/list": [{**TOOLS, "nextCursor": ""}]}, "repeats a page that was read already"),
    "counting": ({**OLD, "tools/list": [{**TOOLS, "nextCursor": 7}]}, "has 7 as nextCursor"),
    "nil": ({**OLD, "tools/list": [{"tools": None}]}, "has tools null"),
}


def stdio(results: Results) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SCRIPTED_STDIO, json.dumps(results)]}


async def servers_of(up: Up) -> dict[str, dict[str, Any]]:
    code, out, _ = await fairlead("servers", "--url", up.url, "--output", "json")
    assert code == 0
    return {server["server"]: server for server in json.loads(out)["servers"]}


async def await_remarks(up: Up) -> dict[str, dict[str, Any]]:
    """Wait until each malformed server has its cause, which may happen after the output. Returns all servers."""
    servers = await servers_of(up)
    return servers if all("cause" in servers[f"default/{name}"] for name in PECULIAR) else {}


async def test_servers_with_odd_handshakes_and_lists_are_ready_with_a_remark(tmp_path: Path) -> None:
    entries = {"good": stdio(OLD), **{name: stdio(results) for name, (results, _) in PECULIAR.items()}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        assert set((await up.states(len(entries))).values()) == {"ready:", "ready:MendedAnswers"}
        servers = await until_async("the remarks are in the document", lambda: await_remarks(up))
        assert {name.rpartition("/")[2] for name in servers} == set(entries)
        for name, (_, remark) in PECULIAR.items():
            shown = servers[f"default/{name}"]
            assert (shown["state"], shown["cause"]) == ("ready", "MendedAnswers")
            assert shown["message"].count(remark) == 1
            assert "url" not in shown["message"]
        _, table, _ = await fairlead("servers", "--url", up.url)
        assert all(table.count(remark) == 1 for _, remark in PECULIAR.values())
        async with Client(up.url) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"good__fine", "php__fine", "walking__fine", "counting__fine"} <= names
            assert not (await client.call_tool("php__fine", {})).is_error


async def test_servers_at_urls_that_are_not_quite_theirs_are_called_with_a_remark(tmp_path: Path) -> None:
    answer = over_http(responder(OLD))

    async def handle(request: Request, reply: Reply) -> None:
        if request.path == "/mcp/":
            await answer(request, reply)
        else:
            reply.send(307, location=f"http://{request.headers['host']}/mcp/")

    async with raw_server(handle) as slashed, events_server(responder(OLD)) as older:
        entries = {"slashed": {"url": slashed.url}, "older": {"url": older.url}}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
        async with fairlead_up("mcp.json", cwd=tmp_path) as up:
            assert set((await up.states(2)).values()) == {"ready:MendedAnswers"}
            servers = await servers_of(up)
            assert "the server redirects to /mcp/: put that path into its url" in servers["default/slashed"]["message"]
            assert 'set "type": "sse"' in servers["default/older"]["message"]
            async with Client(up.url) as client:
                for name in entries:
                    assert not (await client.call_tool(f"{name}__fine", {})).is_error
        assert [request.method for request in slashed.seen if request.path == "/mcp"][:1] == ["server/discover"]
        assert {request.path for request in slashed.seen if request.method == "tools/call"} == {"/mcp/"}
