"""A real LiteLLM proxy for MCP servers (whose tools are `SERVER-TOOL`) and for models, and a fake proxy for MCP
servers.

    async with stand_in(behind) as proxy: ...        # always there
    async with litellm_proxy(behind, tmp_path) as proxy: ...   # where `PROGRAM` is not None
    async with litellm_models({"scripted": url}, tmp_path, program_path()) as proxy: ...  # installs it at the first use

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
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.peers.peer import venv
from ports import free_port, listens
from rawserver import Reply, Request, raw_server
from rig.harness import Unmeasurable
from toolservers import answer_handshake, legacy_server
from waiting import eventually

PROGRAM: Final = os.environ.get("LITELLM_PROGRAM") or shutil.which("litellm")
"""Path of `litellm` in an environment with `litellm[proxy]`; None if there is none."""
START_SECONDS: Final = 120.0
INSTALL_SECONDS: Final = 900.0
"""Timeout of a test that may have to install it."""

Behind = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    url: str
    """URL without the path of its MCP endpoint."""
    key: str


def item_tool(name: str, description: str) -> dict[str, Any]:
    """Definition of a tool that takes an item."""
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    return {"name": name, "description": description, "inputSchema": schema}


def new_key() -> str:
    """A master key that LiteLLM accepts as strong enough."""
    return f"sk-{secrets.token_hex(20)}"


@contextlib.asynccontextmanager
async def stand_in(behind: Behind) -> AsyncIterator[Proxy]:
    """A server that looks like LiteLLM 1.106 to a client: handshake, a key, no notifications, no sessions."""
    key = new_key()

    async def handle(request: Request, reply: Reply) -> None:
        if request.headers.get("authorization") != f"Bearer {key}":
            return reply.send(401)
        if request.verb != "POST":
            return reply.send(405, allow="POST")
        if request.method == "server/discover":
            return reply.error(request, 400, -32600, "Unsupported MCP-Protocol-Version 2026-07-28")
        if answer_handshake(request, reply):
            return None
        if request.method == "tools/list":
            only = request.path.removeprefix("/mcp").strip("/")
            listed = [
                {**definition, "name": f"{name}-{definition['name']}"}
                for name, tools in behind.items()
                if only in ("", name)
                for definition in tools
            ]
            return reply.result(request, {"tools": listed})
        server = request.params.get("name", "").partition("-")[0]
        return reply.result(request, _answer(server, request))

    async with raw_server(handle) as server:
        yield Proxy(server.url.removesuffix("/mcp"), key)


@contextlib.asynccontextmanager
async def litellm_proxy(behind: Behind, folder: Path) -> AsyncIterator[Proxy]:
    """LiteLLM's proxy in a separate process, without database and network. Its servers run in this loop."""
    assert PROGRAM is not None, "litellm[proxy] is not installed"
    key = new_key()
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        servers = {}
        for name, tools in behind.items():
            server = await stack.enter_async_context(legacy_server(tools, call=partial(_answer, name)))
            servers[name] = {"url": server.url, "transport": "http"}
        config = {"general_settings": {"master_key": key}, "mcp_servers": servers}
        await stack.enter_async_context(_run_proxy(PROGRAM, config, folder, port))
        yield Proxy(f"http://127.0.0.1:{port}", key)


def program_path() -> str:
    """Path of the program: `PROGRAM`, or one in the user's cache, which the benchmarks share and which is installed at
    the first use. Skips the test if the installation fails.
    """
    if PROGRAM is not None:
        return PROGRAM
    try:
        return str(venv("litellm", "litellm[proxy]", "uvloop") / "litellm")
    except Unmeasurable as error:
        pytest.skip(f"litellm[proxy]: {error}")


@contextlib.asynccontextmanager
async def litellm_models(models: Mapping[str, str], folder: Path, program: str) -> AsyncIterator[Proxy]:
    """LiteLLM's proxy in front of OpenAI-compatible servers: base URLs of their APIs, by name of the model."""
    key = new_key()
    port = free_port()
    listed = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", "api_base": url, "api_key": "none"}}
        for name, url in models.items()
    ]
    settings = {"num_retries": 0, "drop_params": False}
    config = {"general_settings": {"master_key": key}, "model_list": listed, "litellm_settings": settings}
    async with _run_proxy(program, config, folder, port):
        yield Proxy(f"http://127.0.0.1:{port}", key)


@contextlib.asynccontextmanager
async def _run_proxy(program: str, config: Mapping[str, Any], folder: Path, port: int) -> AsyncIterator[None]:
    file = folder / "litellm.yaml"
    file.write_text(json.dumps(config))
    words = ["--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    ours = ("PYTHONPATH", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(program, *words, env=env, stdout=log, stderr=log)

        def is_listening() -> bool:
            if process.returncode is not None:
                log.seek(0)
                raise AssertionError(f"litellm ended: {log.read()[-2000:].decode(errors='replace')}")
            return listens(port)

        try:
            await eventually(is_listening, seconds=START_SECONDS)
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
