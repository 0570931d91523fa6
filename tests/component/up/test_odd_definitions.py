"""Servers on a laptop whose odd tools cost the others nothing, from the lines that they write to a client's list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.types import TextContent

from commands import fairlead
from upprocess import fairlead_up

SERVER = Path(__file__).parents[2] / "support" / "stdio_servers" / "listing_stdio.py"
OBJECT = {"type": "object"}
DEEP = b'{"name":"deep","inputSchema":{"type":"object"},"_meta":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"


def named(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, **members}


CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "an output schema of a list": ([named("go", outputSchema={"type": "array", "items": {"type": "string"}})], ["go"]),
    "output schemas without a type": (
        [
            named("a", outputSchema={}),
            named("b", outputSchema={"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}),
            named("c", outputSchema={**OBJECT, "properties": []}),
        ],
        ["a", "b", "c"],
    ),
    "properties that are a list or null": (
        [
            named("no_args", inputSchema={**OBJECT, "properties": []}),
            named("null_args", inputSchema={**OBJECT, "properties": None}),
            named("null_required", inputSchema={**OBJECT, "properties": {}, "required": None}),
        ],
        ["no_args", "null_args", "null_required"],
    ),
    "hints that are null": ([named("go", annotations={"title": None, "readOnlyHint": None})], ["go"]),
    "a hint of another type": ([named("go", annotations={"readOnlyHint": "yes"})], []),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_odd_tool_costs_no_other_server_its_tools_and_is_told(tmp_path: Path, case: str) -> None:
    odd, offered = CASES[case]
    (tmp_path / "good.json").write_text(json.dumps([named("fine"), named("go")]))
    tools = [json.dumps(tool).encode() for tool in (named("fine"), *odd)]
    (tmp_path / "odd.json").write_bytes(b"[" + b",".join([DEEP, *tools]) + b"]")
    entries = {
        name: {"command": sys.executable, "args": [str(SERVER), str(tmp_path / f"{name}.json")]}
        for name in ("good", "odd")
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    expected = sorted(["good__fine", "good__go", "odd__fine", *(f"odd__{name}" for name in offered)])
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        await up.states(2)
        modes: Any = ("legacy", "auto")
        for mode in modes:
            async with Client(up.url, mode=mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == expected
                called = await client.call_tool("good__go", {})
                assert isinstance(called.content[0], TextContent)
                assert called.content[0].text == "went"
        _, printed, _ = await fairlead("servers", "--url", up.url)
        async with httpx2.AsyncClient() as rest:
            servers = (await rest.get(up.url.removesuffix("/mcp") + "/v1/servers")).json()["servers"]
    [(cause, message)] = [(one["cause"], one["message"]) for one in servers if one["server"].endswith("odd")]
    assert cause == "InvalidDefinitions"
    assert "tool 'deep' (it is nested deeper than 60 objects and lists)" in message
    if offered:
        mended = len(offered)
        assert f"{mended} of {mended + 2} definitions are mended for clients: tool '{offered[0]}' (" in message
    else:
        assert "tool 'go' (annotations.readOnlyHint: the value is not of type \"boolean\")" in message
    assert message in printed
