"""A server that answers each method with given results, over any transport.

`results` has a list of results by name of the method. Each request gets the next result, and all requests after the
last result get that one. A text means an error with this message. Any other method is answered with "method not found".
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from fairlead_api.documents.catalog import Credential, EventsEndpoint, HttpEndpoint, TcpEndpoint
from fairlead_mcp.host import ChildHost
from fairlead_mcp.opening import NetworkAccess, network_session
from fairlead_mcp.session import McpSession
from fairlead_mcp.stdio import ChildSpec
from linkservers import Respond, events_server, tcp_server
from rawserver import Handler, Reply, Request, encode, raw_server

Results: TypeAlias = Mapping[str, Sequence[Any]]

TRANSPORTS: Final = ("stdio", "streamable-http", "sse", "stdio-tcp")
ERAS: Final = ("2025-11-25", "2026-07-28")
SCRIPTED_STDIO: Final = str(Path(__file__).parent / "stdio_servers" / "scripted_stdio.py")
TOOLS: Final = {"tools": [{"name": "fine", "inputSchema": {"type": "object"}}]}


def handshake(era: str, **members: Any) -> Results:
    """Results for the handshake of an era, a list of tools and a call. `members` replace members of the handshake."""
    usual: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"}}
    rest: dict[str, Sequence[Any]] = {
        "tools/list": [TOOLS],
        "tools/call": [{"content": [{"type": "text", "text": "went"}]}],
    }
    if era == "2026-07-28":
        return {"server/discover": [{"supportedVersions": [era], **usual, **members}], **rest}
    return {"initialize": [{"protocolVersion": era, **usual, **members}], **rest}


def responder(results: Results) -> Respond:
    """Function that answers each message with the next result."""
    counts: dict[str, int] = {}

    def respond(line: bytes) -> dict[str, Any] | None:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            return None
        answers = results.get(message["method"], ["Method not found"])
        times = counts.get(message["method"], 0)
        counts[message["method"]] = times + 1
        answer = answers[min(times, len(answers) - 1)]
        of = {"jsonrpc": "2.0", "id": message["id"]}
        if isinstance(answer, str):
            return {**of, "error": {"code": -32601 if answer == "Method not found" else -32602, "message": answer}}
        return {**of, "result": answer}

    return respond


def over_http(respond: Respond) -> Handler:
    """Handler of a raw server that answers with JSON."""

    async def handle(request: Request, reply: Reply) -> None:
        response = respond(request.body) if request.verb == "POST" else None
        if response is not None:
            reply.send(200, encode(response))
        else:
            reply.send(202 if request.verb == "POST" else 405)

    return handle


@contextlib.asynccontextmanager
async def scripted_session(transport: str, results: Results) -> AsyncIterator[McpSession]:
    """Session with a scripted server. The session is not connected yet."""
    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            host = ChildHost()
            stack.push_async_callback(host.aclose)
            spec = ChildSpec.of(sys.executable, [SCRIPTED_STDIO, json.dumps(results)])
            session = McpSession.over_child(host.get("scripted", spec))
        elif transport == "streamable-http":
            server = await stack.enter_async_context(raw_server(over_http(responder(results))))
            session = network_session("scripted", HttpEndpoint(url=server.url), NetworkAccess(Credential()))
        else:
            respond = responder(results)
            opened = tcp_server(respond) if transport == "stdio-tcp" else events_server(respond)
            endpoint: TcpEndpoint | EventsEndpoint = await stack.enter_async_context(opened)
            session = network_session("scripted", endpoint, NetworkAccess(Credential()))
        stack.push_async_callback(session.aclose)
        yield session
