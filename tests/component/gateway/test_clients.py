"""Widely used clients with a gateway and the SDK's server: they list, call, and show errors and progress."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

from askers import session_of
from fairlead_api.documents.catalog import Catalog, ToolEntry
from fairlead_app.gateway import Gateway
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import LEGACY, MODERN, Ask, ask, catalog, legacy, running
from neededprograms import require_program
from toolservers import SDK_TOOLS, sdk_server
from waiting import eventually


async def discover_catalog(url: str, version: str) -> Catalog:
    """The catalog that an operator would publish for a server."""
    async with McpSession.over_http(Target.from_url(url)) as session:
        tools = await session.list_all("tools/list")
    entries = [ToolEntry(name=json.loads(bytes(raw))["name"], definition=raw, hash="", search_hash="") for raw in tools]
    return catalog("demo", url, entries, version=version)


@asynccontextmanager
async def serving(folder: Path, version: str = MODERN) -> AsyncIterator[tuple[Gateway, str]]:
    async with sdk_server() as url, running(folder, await discover_catalog(url, version)) as gateway:
        yield gateway, f"http://127.0.0.1:{gateway.port}"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(("mode", "agreed"), [("auto", MODERN), ("legacy", LEGACY)])
@pytest.mark.parametrize(("path", "prefix"), [("/mcp", "demo__"), ("/servers/default/demo/mcp", "")])
async def test_the_python_sdk_lists_and_calls(
    tmp_path: Path, version: str, mode: Any, agreed: str, path: str, prefix: str
) -> None:
    async with serving(tmp_path, version) as (_, base), Client(f"{base}{path}", mode=mode) as client:
        assert client.protocol_version == agreed
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [f"{prefix}{name}" for name in SDK_TOOLS]
        added = await client.call_tool(f"{prefix}add", {"a": 2, "b": 3})
        assert added.structured_content == {"result": 5}
        failed = await client.call_tool(f"{prefix}fail", {})
        assert failed.is_error
        with pytest.raises(MCPError, match="Unknown tool") as unknown:
            await client.call_tool("nope", {})
        assert unknown.value.error.code == -32602


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_sdk_hears_of_progress(tmp_path: Path, mode: Any) -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with serving(tmp_path) as (_, base), Client(f"{base}/mcp", mode=mode) as client:
        await client.call_tool("demo__progress", {"steps": 4}, progress_callback=on_progress)
    assert heard == [1, 2, 3, 4]


async def test_the_python_sdk_ends_its_session_without_a_complaint_and_then_it_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (gateway, base):
        with caplog.at_level(logging.WARNING, "mcp"):
            async with Client(f"{base}/mcp", mode="legacy") as client:
                await client.list_tools()
        assert [record.getMessage() for record in caplog.records] == []
        session = await session_of(gateway, {})
        ended = [await ask(gateway, Ask(verb="DELETE", headers={"mcp-session-id": session})) for _ in range(2)]
        assert [answer.status for answer in ended] == [200, 404]
        assert (await ask(gateway, legacy("tools/list", session=session))).status == 404


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_sdk_takes_results_of_any_size_and_gives_calls_up(
    tmp_path: Path, version: str, mode: Any
) -> None:
    async with serving(tmp_path, version) as (gateway, base), Client(f"{base}/mcp", mode=mode) as client:
        large = await client.call_tool("demo__big", {"n": 3_000_000})
        assert [len(getattr(part, "text", "")) for part in large.content] == [3_000_000]
        call = asyncio.ensure_future(client.call_tool("demo__slow", {"ms": 60_000}))
        await eventually(lambda: gateway.endpoint.calls)
        call.cancel()
        await eventually(lambda: not gateway.endpoint.calls)
        added = await client.call_tool("demo__add", {"a": 2, "b": 3})
        assert added.structured_content == {"result": 5}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
async def test_the_trace_of_a_client_reaches_the_server(tmp_path: Path, version: str) -> None:
    async with serving(tmp_path, version) as (_, base), Client(f"{base}/mcp") as client:
        meta: Any = {"traceparent": "00-ab-cd-01"}
        result = await client.call_tool("demo__echo_meta", {}, meta=meta)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text)["traceparent"] == "00-ab-cd-01"


FASTMCP = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
from fastmcp import Client

async def main():
    async with Client(sys.argv[1]) as client:
        names = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("demo__add", {"a": 2, "b": 3})
        print(names, result.structured_content)

asyncio.run(main())
"""

TYPESCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const names = (await client.listTools()).tools.map((tool) => tool.name);
const result = await client.callTool({ name: "demo__add", arguments: { a: 2, b: 3 } });
console.log(JSON.stringify({ names, result: result.structuredContent }));
await client.close();
"""


async def client_output(folder: Path, *command: str) -> str:
    """Output of a client. Skips the test if its program is missing."""
    program = require_program(command[0])
    environment = {**os.environ, "MCP_CATALOG_PATH": str(folder / "inspector.json")}
    process = await asyncio.create_subprocess_exec(
        program,
        *command[1:],
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(150):
            out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, f"{out.decode()}\n{error.decode()}"
    return out.decode()


@pytest.mark.network
@pytest.mark.timeout(180)
async def test_fastmcp_lists_and_calls(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(FASTMCP)
    async with serving(tmp_path) as (_, base):
        printed = await client_output(
            tmp_path, "uv", "run", "--no-project", "--with", "fastmcp<4.1", "python", "client.py", f"{base}/mcp"
        )
    assert printed.strip() == f"{[f'demo__{name}' for name in SDK_TOOLS]} {{'result': 5}}"


@pytest.mark.network
@pytest.mark.timeout(180)
async def test_the_typescript_sdk_lists_and_calls(tmp_path: Path) -> None:
    (tmp_path / "client.mjs").write_text(TYPESCRIPT)
    await client_output(tmp_path, "npm", "install", "--no-audit", "--no-fund", "@modelcontextprotocol/sdk@1.32.2")
    async with serving(tmp_path) as (_, base):
        printed = json.loads(await client_output(tmp_path, "node", "client.mjs", f"{base}/mcp"))
    assert printed == {"names": [f"demo__{name}" for name in SDK_TOOLS], "result": {"result": 5}}


@pytest.mark.network
@pytest.mark.timeout(180)
async def test_the_inspector_lists_and_calls_in_both_eras(tmp_path: Path) -> None:
    inspector = ("npx", "-y", "@modelcontextprotocol/inspector@2.12.0", "--cli")
    async with serving(tmp_path) as (_, base):
        for era in ("legacy", "modern"):
            common = (*inspector, f"{base}/mcp", "--protocol-era", era, "--format", "json")
            listed = json.loads(await client_output(tmp_path, *common, "--method", "tools/list"))
            assert [tool["name"] for tool in find(listed, "tools")] == [f"demo__{name}" for name in SDK_TOOLS]
            called = await client_output(
                tmp_path,
                *common,
                "--method",
                "tools/call",
                "--tool-name",
                "demo__add",
                "--tool-arg",
                "a=2",
                "b=3",
                "-q",
            )
            assert find(json.loads(called), "structuredContent") == {"result": 5}


def find(document: dict[str, Any], member: str) -> Any:
    """A member of a result, at whatever depth the Inspector wraps it."""
    return document[member] if member in document else document["result"][member]
