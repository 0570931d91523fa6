"""One pod of a legacy MCP server over HTTP, as a process: `pod_main.py PORT LOG SECONDS`.

Each call takes SECONDS, and appends its argument `n` to LOG when it begins. It gives no `Mcp-Session-Id`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rawserver import Reply, Request, raw_server

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "pod", "version": "1"}}


async def main(port: int, log: Path, seconds: float) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            return reply.result(request, HELLO)
        if request.method == "ping":
            return reply.result(request, {})
        if request.method != "tools/call":
            return reply.send(202)
        with log.open("a") as file:
            file.write(f"{request.params['arguments']['n']}\n")
        await asyncio.sleep(seconds)
        return reply.result(request, {"content": [{"type": "text", "text": log.name}], "isError": False})

    async with raw_server(handle, port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
