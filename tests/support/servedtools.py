"""Tool servers of `fairlead serve` with an SDK client on them, over stdio (a process) or over HTTP (in this loop)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from mcp import Client, StdioServerParameters
from mcp.client.session import MessageHandlerFnT
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from fairlead_servers.definition import prepare_folder
from fairlead_servers.table import SERVERS
from forkserver import program_words
from toolservers import serve_asgi

Via = Literal["stdio", "http"]
Mode = Literal["auto", "legacy"]
VIAS: Final[tuple[Via, ...]] = ("stdio", "http")


@asynccontextmanager
async def served(
    name: str,
    via: Via,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    mode: Mode = "auto",
    heard: MessageHandlerFnT | None = None,
) -> AsyncIterator[Client]:
    """Client of a server with its data in `folder`. `heard` receives the server's notifications."""
    if via == "stdio":
        words = [*program_words(), "serve", name, "--data", str(folder)]
        words += [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
        parameters = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
        async with Client(stdio_client(parameters), mode=mode, message_handler=heard) as client:
            yield client
    else:
        async with (
            served_over_http(name, folder, settings) as url,
            Client(url, mode=mode, message_handler=heard) as client,
        ):
            yield client


@asynccontextmanager
async def served_over_http(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[str]:
    """URL of a server in this loop."""
    row = SERVERS[name]
    server = row.definition().make(prepare_folder(name, row.folder, folder), name, {}, settings or {})
    async with serve_asgi(server.streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def text_of(result: Any) -> str:
    """Text of a result."""
    assert isinstance(result, CallToolResult)
    return "\n".join(item.text for item in result.content if isinstance(item, TextContent))


def structured_content(result: Any) -> dict[str, Any]:
    """Structured content of a result that is not an error."""
    assert isinstance(result, CallToolResult)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content
