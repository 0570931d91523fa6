"""Tools that clients see under other names, in REST, in the formats of providers, in searches and in the CLI."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_app.gateway import Gateway
from gatewayworld import catalog, running
from restworld import get, post
from shapedtools import shaped_entry
from toolservers import modern_server

LONG: dict[str, Any] = {"name": "long", "description": "word " * 300, "inputSchema": {"type": "object"}}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    tools: list[Any] = [shaped_entry(), "add", shaped_entry({"description": "Short."}, LONG, description="Short.")]
    async with modern_server() as server, running(tmp_path, catalog("demo", server.url, tools)) as started:
        yield started


async def test_documents_have_the_clients_name_and_id(gateway: Gateway) -> None:
    listed = (await get(gateway, "/v1/tools")).message["tools"]
    assert [(tool["name"], tool["id"]) for tool in listed] == [
        ("demo__add", "mcp.demo.add"),
        ("demo__find", "mcp.demo.find"),
        ("demo__long", "mcp.demo.long"),
    ]
    for name in ("demo__find", "mcp.demo.find"):
        assert (await get(gateway, f"/v1/tools/{name}")).message["name"] == "demo__find"
        assert (await get(gateway, f"/v1/tools/{name}/explain")).message["id"] == "mcp.demo.find"


@pytest.mark.parametrize(
    "path",
    ["/v1/tools/demo__search_v2", "/v1/tools/demo__search_v2/explain", "/v1/access?tool=demo__search_v2"],
)
async def test_the_servers_name_is_answered_with_that_of_clients(tmp_path: Path, path: str) -> None:
    other = {"name": "search_v2", "inputSchema": {"type": "object"}}
    async with modern_server() as server:
        catalogs = (catalog("demo", server.url, [shaped_entry()]), catalog("ademo", server.url, [other]))
        async with running(tmp_path, *catalogs) as gateway:
            answer = await get(gateway, path)
    assert (answer.status, answer.message["didYouMean"]) == (404, "demo__find")


@pytest.mark.parametrize("command", ["call", "tools"])
async def test_a_command_with_the_servers_name_is_answered_with_that_of_clients(gateway: Gateway, command: str) -> None:
    url = f"http://127.0.0.1:{gateway.port}/mcp"
    code, _, complaint = await fairlead(command, "demo__search_v2", "--url", url)
    assert (code, "Unknown tool: demo__search_v2. Did you mean demo__find?" in complaint) == (2, True), complaint


@pytest.mark.parametrize("format_", ["openai", "anthropic", "gemini", "bedrock"])
async def test_models_get_the_shape_in_each_format(gateway: Gateway, format_: str) -> None:
    text = json.dumps((await get(gateway, f"/v1/tools?format={format_}")).message["tools"])
    assert "demo__find" in text
    assert '"query"' in text
    for hidden in ("search_v2", "tenant", "debug"):
        assert hidden not in text


async def test_a_search_finds_the_tool_by_the_clients_words(gateway: Gateway) -> None:
    answer = (await get(gateway, "/v1/search?query=find%20query")).message
    assert "demo__find" in json.dumps(answer)
    assert "search_v2" not in json.dumps(answer)


async def test_a_models_call_reaches_the_server_and_is_shown_by_the_clients_name(gateway: Gateway) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "demo__find", "arguments": '{"query": "x"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = await post(gateway, "/v1/tool-calls", {"format": "openai-chat", "message": message})
    assert '\\"q\\":\\"x\\"' in json.dumps(answer.message).replace("\\\\", "\\").replace(" ", "")
    (shown,) = (await get(gateway, "/v1/calls?tool=demo__find")).message["calls"]
    assert shown["name"] == "demo__find"


async def test_the_command_shows_what_each_tool_takes_and_what_the_shapes_save(gateway: Gateway) -> None:
    url = f"http://127.0.0.1:{gateway.port}/mcp"
    code, out, _ = await fairlead("tools", "--tokens", "--url", url)
    _, text, _ = await fairlead("tools", "--tokens", "--json", "--url", url)
    document = json.loads(text)
    tokens = {tool["name"]: (tool["tokens"], tool["saved"]) for tool in document["tools"]}
    assert tokens["demo__add"][1] == 0
    assert 0 < tokens["demo__find"][1] < 30
    assert 250 < tokens["demo__long"][1] < 1000
    assert document["saved"] == sum(saved for _, saved in tokens.values())
    assert code == 0
    assert out.splitlines()[0].split() == ["TOOL", "TOKENS", "SAVED"]
    assert f"save about {document['saved']:,} of" in out
    assert (await fairlead("tools", "x", "--tokens", "--url", url))[0] == 2
