"""MCP servers as processes of their own, on a free port of this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from forkserver import FORKED, start_server
from ports import free_port, listens
from waiting import eventually

SCRIPT = str(Path(__file__).parent / "sse_main.py")


@asynccontextmanager
async def listening_on(port: int, *command: str) -> AsyncIterator[int]:
    """Run a server process, which also gets its port as `PORT`; kill it at the end. Yields its process id."""
    start_server()
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "PORT": str(port)})

    def is_listening() -> bool:
        assert process.returncode is None, f"{command} ended"
        return listens(port)

    try:
        await eventually(is_listening)
        yield process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def sse_server(certificate: Path | None = None) -> AsyncIterator[str]:
    """Run the SDK's server, with TLS if there is a `certificate`. Yields the URL of its stream."""
    port = free_port()
    more = [str(certificate)] if certificate is not None else []
    async with listening_on(port, *FORKED, SCRIPT, str(port), *more):
        yield f"http{'s' if certificate else ''}://127.0.0.1:{port}/sse"


@asynccontextmanager
async def demo_server() -> AsyncIterator[str]:
    """Run the demo server of the quick start. Yields its URL."""
    port = free_port()
    async with listening_on(port, *FORKED, "-m", "fairlead_cli.demo", "--port", str(port)):
        yield f"http://127.0.0.1:{port}/mcp"
