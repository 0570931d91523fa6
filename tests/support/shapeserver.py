"""Servers whose tool `give` returns the result in its arguments, over each transport.

    async with serving("sse", LEGACY) as reached:       # TRANSPORTS; an endpoint for a catalog
        await ask(gateway, calling("odd__give", {"result": {"content": None}}))
        await ask(gateway, calling("odd__give", verbatim(b'{"id":@ID@,"result":NaN}')))

Run as a program it speaks over stdio.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from fairlead_api.documents.catalog import ChildEndpoint, EventsEndpoint, HttpEndpoint
from rawserver import Reply, Request, raw_server

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
TRANSPORTS: Final = (("stdio", LEGACY), ("sse", LEGACY), ("http", LEGACY), ("http events", LEGACY), ("http", MODERN))
"""Transport of a server, and its revision."""
TOOLS: Final = [{"name": "give", "inputSchema": {"type": "object"}}]
INFO: Final = {"name": "shapes", "version": "1"}


def verbatim(line: bytes) -> dict[str, str]:
    """Arguments for an answer with exactly these bytes, in which `@ID@` is replaced by the id of the request."""
    return {"line": base64.b64encode(line).decode()}


def answer_to(message: Mapping[str, Any]) -> bytes | None:
    """The server's answer to a message, as bytes; None for no answer."""
    method = message.get("method")
    params = message.get("params", {})
    if "id" not in message:
        return None
    ident = json.dumps(message["id"]).encode()
    given = params.get("arguments", {})
    if "line" in given:
        return base64.b64decode(given["line"]).replace(b"@ID@", ident)
    result: Any = {}
    if method == "initialize":
        result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": INFO}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = given.get("result")
    elif method != "ping":
        refusal = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": refusal}).encode()
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (ident, json.dumps(result).encode())


@contextlib.asynccontextmanager
async def serving(transport: str, version: str) -> AsyncIterator[HttpEndpoint | EventsEndpoint | ChildEndpoint]:
    """Run a server of one of TRANSPORTS."""
    if transport == "stdio":
        yield ChildEndpoint(command=sys.executable, args=(__file__,))
    elif transport == "sse":
        async with raw_server(_Events()) as server:
            yield EventsEndpoint(url=server.url)
    else:
        async with raw_server(answer_by_events if transport == "http events" else answer_json) as server:
            yield HttpEndpoint(url=server.url)


async def answer_json(request: Request, reply: Reply) -> None:
    answer = answer_to(request.message)
    if answer is None:
        reply.send(202)
    else:
        reply.send(200, answer)


async def answer_by_events(request: Request, reply: Reply) -> None:
    answer = answer_to(request.message)
    if answer is None:
        return reply.send(202)
    reply.open_stream()
    reply.chunk(b"data: " + answer + b"\n\n")
    return reply.end_stream()


class _Events:
    """HTTP+SSE (MCP 2024-11-05)."""

    def __init__(self) -> None:
        self._streams: list[Reply] = []

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            reply.open_stream()
            reply.chunk(b"event: endpoint\ndata: /post/%d\n\n" % len(self._streams))
            self._streams.append(reply)
            await reply.flush()
            await asyncio.Event().wait()
        reply.send(202)
        answer = answer_to(request.message)
        if answer is not None:
            stream = self._streams[int(request.path.rpartition("/")[2])]
            stream.chunk(b"data: " + answer + b"\n\n")
            await stream.flush()


def main() -> None:
    """Serve over stdio."""
    for line in sys.stdin.buffer:
        answer = answer_to(json.loads(line))
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
