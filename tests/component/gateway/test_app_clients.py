"""Apps of the SDK's server with the TypeScript SDK's client, which acts as hosts do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from msgspec import Raw

from extensions_main import APP, server
from fairlead_api.documents.catalog import Catalog
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import catalog, running
from neededprograms import needs
from toolservers import serve_asgi

HOST: Final = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const found = [];
for (const url of process.argv.slice(2)) {
  const client = new Client({ name: "host", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const seen = { extensions: Object.keys(client.getServerCapabilities().extensions), shown: [] };
  for (const tool of (await client.listTools()).tools.filter((one) => one.name.endsWith("show"))) {
    const [page] = (await client.readResource({ uri: tool._meta.ui.resourceUri })).contents;
    seen.shown.push([tool.name, page.uri, page.text, page.mimeType]);
  }
  const called = await client.callTool({ name: "refresh_two", arguments: {} }).catch((error) => error);
  seen.called = called.content ? called.content[0].text : called.code;
  found.push(seen);
  await client.close();
}
console.log(JSON.stringify(found));
"""


async def output(folder: Path, *command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@contextlib.asynccontextmanager
async def app_server(name: str) -> AsyncIterator[Catalog]:
    """The SDK's server with an app, and its catalog by a discovery."""
    async with serve_asgi(server(name).streamable_http_app()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with McpSession.over_http(Target.from_url(url)) as session:
            tools = [bytes(definition) for definition in await session.list_all("tools/list")]
            capabilities = Raw(bytes(session.capabilities))
        yield catalog(name, url, tools, capabilities=capabilities)


@pytest.mark.network
@needs("npm")
async def test_the_typescript_sdk_shows_the_apps_of_each_server(tmp_path: Path) -> None:
    (tmp_path / "host.mjs").write_text(HOST)
    await output(tmp_path, "npm", "install", "--no-audit", "--no-fund", "@modelcontextprotocol/sdk@1.32.2")
    async with app_server("one") as first, app_server("two") as second, running(tmp_path, first, second) as gateway:
        base = f"http://127.0.0.1:{gateway.port}"
        urls = [f"{base}/mcp", f"{base}/servers/default/one/mcp", f"{base}/servers/default/two/mcp"]
        merged, *own = json.loads(await output(tmp_path, "node", "host.mjs", *urls))
    kind = "text/html;profile=mcp-app"
    assert "io.modelcontextprotocol/ui" in merged["extensions"]
    assert merged["shown"] == [
        [f"{name}__show", f"ui://{name}/shared/app.html", f"<h1>{name}</h1>", kind] for name in ("one", "two")
    ]
    assert [seen["shown"] for seen in own] == [[["show", APP, f"<h1>{name}</h1>", kind]] for name in ("one", "two")]
    assert [seen["called"] for seen in (merged, *own)] == ["refreshed two", -32602, "refreshed two"]
