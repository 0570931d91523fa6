"""Proxies in front of MCP servers whose tools are theirs, as `SERVER-TOOL`: a real LiteLLM, and a stand-in for it.

    async with stand_in(behind) as proxy: ...        # always there
    async with litellm_proxy(behind, tmp_path) as proxy: ...   # where `PROGRAM` is not None

`behind` are the servers by name, each a list of definitions that may change meanwhile. A tool answers with the words
"SERVER has 42 of ITEM".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ports import free_port, listens
from rawserver import Reply, Request, raw_server
from toolservers import greeted, legacy_server
from waiting import eventually

PROGRAM: Final = os.environ.get("LITELLM_PROGRAM") or shutil.which("litellm")
"""The `litellm` of an environment with `litellm[proxy]`; None where there is none."""
START_SECONDS: Final = 120.0

Behind = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Proxy:
    """A proxy that listens."""

    url: str
    """Without the path of its MCP endpoint."""
    key: str


def item_tool(name: str, description: str) -> dict[str, Any]:
    """Definition of a tool that takes an item."""
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    return {"name": name, "description": description, "inputSchema": schema}


def new_key() -> str:
    """A master key that LiteLLM does not find too weak."""
    return f"sk-{secrets.token_hex(20)}"


@contextlib.asynccontextmanager
async def stand_in(behind: Behind) -> AsyncIterator[Proxy]:
    """Server that a client takes for LiteLLM 1.106: handshake, a key, no announcements, no sessions."""
    key = new_key()

    async def handle(request: Request, reply: Reply) -> None:
        if request.headers.get("authorization") != f"Bearer {key}":
            return reply.send(401)
        if request.verb != "POST":
            return reply.send(405, allow="POST")
        if request.method == "server/discover":
            return reply.error(request, 400, -32600, "Unsupported MCP-Protocol-Version 2026-07-28")
        if greeted(request, reply):
            return None
        if request.method == "tools/list":
            only = request.path.removeprefix("/mcp").strip("/")
            listed = [
                {**one, "name": f"{name}-{one['name']}"}
                for name, tools in behind.items()
                if only in ("", name)
                for one in tools
            ]
            return reply.result(request, {"tools": listed})
        server = request.params.get("name", "").partition("-")[0]
        return reply.result(request, _answer(server, request))

    async with raw_server(handle) as server:
        yield Proxy(server.url.removesuffix("/mcp"), key)


@contextlib.asynccontextmanager
async def litellm_proxy(behind: Behind, folder: Path) -> AsyncIterator[Proxy]:
    """LiteLLM's proxy in a process of its own, without database and network; its servers are in this loop."""
    assert PROGRAM is not None, "litellm[proxy] is not installed"
    key, port = new_key(), free_port()
    async with contextlib.AsyncExitStack() as stack:
        servers = {}
        for name, tools in behind.items():
            server = await stack.enter_async_context(legacy_server(tools, call=partial(_answer, name)))
            servers[name] = {"url": server.url, "transport": "http"}
        config = folder / "litellm.yaml"
        config.write_text(json.dumps({"general_settings": {"master_key": key}, "mcp_servers": servers}))
        words = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        await stack.enter_async_context(_running(words, port))
        yield Proxy(f"http://127.0.0.1:{port}", key)


@contextlib.asynccontextmanager
async def _running(words: list[str], port: int) -> AsyncIterator[None]:
    assert PROGRAM is not None
    ours = ("PYTHONPATH", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(PROGRAM, *words, env=env, stdout=log, stderr=log)

        def listening() -> bool:
            if process.returncode is not None:
                log.seek(0)
                raise AssertionError(f"litellm ended: {log.read()[-2000:].decode(errors='replace')}")
            return listens(port)

        try:
            await eventually(listening, seconds=START_SECONDS)
            yield
        finally:
            if process.returncode is None:
                process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await process.wait()
            if process.returncode is None:
                process.kill()
            await process.wait()


def _answer(server: str, request: Request) -> dict[str, Any]:
    item = request.params.get("arguments", {}).get("item")
    return {"content": [{"type": "text", "text": f"{server} has 42 of {item}"}]}
