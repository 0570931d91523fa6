"""Tools that a server lists only for clients with a capability: all clients see them, and clients with it can call
them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client, MCPError

from upprocess import Up, children_of, fairlead_up
from waiting import until_async

GATED = str(Path(__file__).parents[2] / "support/stdio_servers/gated_stdio.py")
ASKING = ("gated__ask_model", "gated__ask_person", "gated__ask_roots")
Mode = Literal["legacy", "auto"]


def configure(folder: Path, **more: Any) -> Path:
    """Configure the server. Returns the file to which it writes each client's capabilities."""
    seen = folder / "seen"
    seen.touch()
    entry = {"command": sys.executable, "args": [GATED, str(seen)], **more}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"gated": entry}}))
    return seen


def clients_of(seen: Path) -> list[list[str]]:
    return [sorted(json.loads(line)) for line in seen.read_text().splitlines()]


async def await_gated_tools(up: Up) -> list[str]:
    """Wait until the list contains the tools that need capabilities, which may be discovered later. Returns the
    tools."""
    event = await up.event(lambda event: event.get("state") == "ready" and len(event.get("tools", ())) == 4)
    tools: list[str] = event["tools"]
    return tools


async def sample(context: Any, params: Any) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="a model spoke")
    return types.CreateMessageResult(role="assistant", content=text, model="m", stop_reason="endTurn")


async def elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


async def list_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///mine")])  # type: ignore[arg-type]  # it is made a URL


def capable(url: str, mode: Mode) -> Client:
    return Client(url, mode=mode, sampling_callback=sample, elicitation_callback=elicit, list_roots_callback=list_roots)


def text(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_with_the_capability_calls_what_a_stdio_server_lists_only_to_such_clients(
    tmp_path: Path, mode: Mode
) -> None:
    seen = configure(tmp_path)
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        assert await await_gated_tools(up) == sorted([*ASKING, "gated__plain"])
        async with capable(up.url, mode) as client:
            texts = [text(await client.call_tool(name)) for name in ASKING]
            assert text(await client.call_tool("gated__plain")) == "declared: {}", "what all share stays as it was"
        assert "a model spoke" in texts[0]
        assert json.loads(texts[1])["action"] == "accept"
        assert json.loads(texts[2])["roots"][0]["uri"] == "file:///mine"
    every = ["elicitation", "roots", "sampling"]
    assert clients_of(seen)[:5] == [[], every, ["roots"], ["sampling"], ["elicitation"]], "how it was discovered"


async def test_a_client_without_the_capability_gets_an_error_that_names_it(tmp_path: Path) -> None:
    configure(tmp_path)
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        await await_gated_tools(up)
        async with Client(up.url, mode="legacy") as client:
            assert len((await client.list_tools()).tools) == 4
            results = [await client.call_tool(name) for name in ASKING]
        for result, capability in zip(results, ("sampling", "elicitation", "roots"), strict=True):
            assert result.is_error
            assert f"of default/gated needs the client capability {capability}," in text(result)
            assert result.meta is not None
            assert result.meta["fairlead.dev/error"]["code"] == "MISSING_CLIENT_CAPABILITY"
        async with Client(up.url) as client:
            with pytest.raises(MCPError, match="needs the client capability sampling") as caught:
                await client.call_tool(ASKING[0])
        assert (caught.value.error.code, caught.value.error.data) == (
            -32021,
            {"requiredCapabilities": {"sampling": {}}},
        )


async def test_a_client_that_has_another_capability_gets_the_error_too(tmp_path: Path) -> None:
    configure(tmp_path)
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        await await_gated_tools(up)
        async with Client(up.url, mode="legacy", list_roots_callback=list_roots) as client:
            assert not (await client.call_tool("gated__ask_roots")).is_error
            assert "client capability sampling" in text(await client.call_tool("gated__ask_model"))


async def test_the_process_of_such_a_client_ends_with_its_session(tmp_path: Path) -> None:
    configure(tmp_path)
    async with fairlead_up("mcp.json", cwd=tmp_path) as up:
        await await_gated_tools(up)

        def processes() -> int:
            commands = (Path(f"/proc/{pid}/cmdline") for pid in children_of(up.pid))
            return sum(GATED.encode() in command.read_bytes() for command in commands if command.exists())

        async def alone() -> bool:
            return processes() == 1

        await until_async("the processes of the discovery end", alone, seconds=30)
        async with capable(up.url, "legacy") as client:
            await client.call_tool(ASKING[0])
            assert processes() == 2
        await until_async("the process of the client ends", alone, seconds=30)
