"""Servers on a laptop with malformed tools, which do not affect other tools, from the servers' output to a client's
list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.types import TextContent

from commands import fairlead
from upprocess import fairlead_up
from waiting import until_async

SERVER = Path(__file__).parents[2] / "support" / "stdio_servers" / "listing_stdio.py"
OBJECT = {"type": "object"}
DEEP = b'{"name":"deep","inputSchema":{"type":"object"},"_meta":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"


def tool_definition(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, **members}


CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "list": ([tool_definition("go", outputSchema={"type": "array", "items": {"type": "string"}})], ["go"]),
    "typeless": (
        [
            tool_definition("a", outputSchema={}),
            tool_definition("b", outputSchema={"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}),
            tool_definition("c", outputSchema={**OBJECT, "properties": []}),
        ],
        ["a", "b", "c"],
    ),
    "properties": (
        [
            tool_definition("no_args", inputSchema={**OBJECT, "properties": []}),
            tool_definition("null_args", inputSchema={**OBJECT, "properties": None}),
            tool_definition("null_required", inputSchema={**OBJECT, "properties": {}, "required": None}),
        ],
        ["no_args", "null_args", "null_required"],
    ),
    "null-hints": ([tool_definition("go", annotations={"title": None, "readOnlyHint": None})], ["go"]),
    "typed-hint": ([tool_definition("go", annotations={"readOnlyHint": "yes"})], []),
}
"""Servers with a kind of malformed definitions each, and their listed tools: an array as output schema, output schemas
without type, properties that are an array or null, annotations that are null, an annotation of another type.
"""


async def test_odd_tools_cost_no_other_server_its_tools_and_are_told(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps([tool_definition("fine"), tool_definition("go")]))
    expected = ["good__fine", "good__go"]
    for name, (odd, offered) in CASES.items():
        tools = [json.dumps(tool).encode() for tool in (tool_definition("fine"), *odd)]
        (tmp_path / f"{name}.json").write_bytes(b"[" + b",".join([DEEP, *tools]) + b"]")
        expected += [f"{name}__{tool}" for tool in ("fine", *offered)]
    entries = {
        name: {"command": sys.executable, "args": [str(SERVER), str(tmp_path / f"{name}.json")]}
        for name in ("good", *CASES)
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        await up.states(len(entries))
        modes: Any = ("legacy", "auto")
        for mode in modes:
            async with Client(up.url, mode=mode) as client:

                async def is_listed(client: Client = client) -> bool:
                    return sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(expected)

                # the gateway updates its list after the operator's report
                await until_async("all tools to be listed", is_listed)
                called = await client.call_tool("good__go", {})
                assert isinstance(called.content[0], TextContent)
                assert called.content[0].text == "went"

        async def reported_causes() -> dict[str, tuple[str, str]]:
            """Cause and message by server; empty until odd tools are told of, in the table and in the API's answer."""
            async with httpx2.AsyncClient() as rest:
                servers = (await rest.get(up.url.removesuffix("/mcp") + "/v1/servers")).json()["servers"]
            _, printed, _ = await fairlead("servers", "--url", up.url)
            problems = {each["server"]: (each.get("cause", ""), each.get("message", "")) for each in servers}
            is_told = all(problems[f"default/{name}"][0] for name in CASES)
            return problems if is_told and all(message in printed for _, message in problems.values()) else {}

        problems = await until_async("the same in table and API", reported_causes)
    for name, (_, offered) in CASES.items():
        cause, message = problems[f"default/{name}"]
        assert cause == "InvalidDefinitions", name
        assert "tool 'deep' (the definition is nested deeper than 60 objects and lists)" in message
        if offered:
            mended = len(offered)
            assert f"{mended} of {mended + 2} definitions are mended for clients: tool '{offered[0]}' (" in message
        else:
            assert "tool 'go' (annotations.readOnlyHint: the value is not of type \"boolean\")" in message
