"""The page about running a model's calls: its request gets the documented answer from the demo server."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from fairlead_offers.run.tool_calls_body import ToolCallsBody
from fairlead_tools import refusal
from gatewayworld import catalog, running
from page_reader import blocks
from restworld import post
from serverprocesses import demo_server

PAGE = (Path(__file__).parents[3] / "docs" / "connect" / "tool-calls.md").read_text()
STOCK = {
    "name": "get_stock",
    "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}


async def test_the_request_is_answered_as_the_page_says(tmp_path: Path) -> None:
    request, expected, _ = (json.loads(block) for block in blocks(PAGE, "json"))
    async with demo_server() as url, running(tmp_path, catalog("demo", url, [STOCK])) as gateway:
        calls = (await post(gateway, "/v1/tool-calls", request)).message["calls"]
    assert [{name: value for name, value in call.items() if name != "durationMs"} for call in calls] == expected


def test_every_member_of_the_request_and_every_code_is_on_the_page() -> None:
    members = [field.encode_name for field in msgspec.structs.fields(ToolCallsBody)]
    assert [name for name in members if f"`{name}`" not in PAGE and f'"{name}"' not in PAGE and name != "tier"] == []
    codes = {value for name, value in vars(refusal).items() if name == value}
    assert len(codes) >= 12
    assert [code for code in sorted(codes) if f"`{code}`" not in PAGE] == []
