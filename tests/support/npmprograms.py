"""Programs of npm that take part in a sign-in: the TypeScript SDK's own example server with OAuth, and `mcp-remote`.

    async with oauth_example() as url:                     # at which everybody is `Demo User`
    parameters = mcp_remote(f"http://127.0.0.1:{gateway.port}/mcp", folder)    # a stdio server for any client
    told = await typescript_sdk(url, LOGIN, tool="shop__buy")                  # the SDK's client, once

A test is skipped if the packages cannot be installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
from mcp import StdioServerParameters

from builtprograms import build_node, build_program
from neededprograms import require_program
from ports import free_port
from scriptedperson import visit
from waiting import until_async

_SOURCES: Final = Path(__file__).parent / "npm_sign_in"
_EXAMPLE: Final = "@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js"


async def _program(program: str) -> Path:
    return await _folder() / "node_modules" / program


async def _folder() -> Path:
    require_program("node")
    require_program("npm")
    return await asyncio.to_thread(build_program, _SOURCES, "npm-sign-in", build_node)


@contextlib.asynccontextmanager
async def oauth_example() -> AsyncIterator[str]:
    """URL of the TypeScript SDK's example server. It accepts only tokens that its own example authorization server has
    issued for it. That server supports dynamic registration and PKCE, gives no refresh tokens, and consents by a
    redirect. Its tool is `greet`.
    """
    program = await _program(_EXAMPLE)
    port, consent_port = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        "node",
        program,
        "--oauth",
        "--oauth-strict",
        env={**os.environ, "MCP_PORT": str(port), "MCP_AUTH_PORT": str(consent_port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://localhost:{port}/mcp"

    async def is_answered() -> bool:
        assert process.returncode is None, "the server ended"
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as session, session.post(url, json={}) as answer:
                return answer.status == 401
        return False

    try:
        await until_async("the example server", is_answered)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def mcp_remote(url: str, folder: Path) -> StdioServerParameters:
    """`mcp-remote` for a URL, with its state in a folder."""
    program = await _program("mcp-remote/dist/proxy.js")
    environment = {"MCP_REMOTE_CONFIG_DIR": str(folder / "mcp-remote"), "PATH": os.environ["PATH"]}
    return StdioServerParameters(command="node", args=[str(program), url, "--transport", "http-only"], env=environment)


async def typescript_sdk(url: str, login: Mapping[str, str], *, tool: str, document: str = "") -> dict[str, Any]:
    """Sign a user in by a client of the TypeScript SDK, which lists the tools, and calls one with an expired access
    token. Returns `tools`, the `text` of the result, whether the client has `refreshed` its token, and its `client` id.
    With `document`, the id is this URL of its client document; otherwise the client registers itself.
    """
    program = await _folder() / "sdk_client.mjs"
    process = await asyncio.create_subprocess_exec("node", program, url, document, tool, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    told: dict[str, Any] = {}
    try:
        async for line in process.stdout:
            told = json.loads(line)
            if "open" in told:
                await visit(told["open"], login)
        assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return told
