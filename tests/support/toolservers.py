"""Small real MCP servers, each an async context manager that yields its URL or a `RawServer`.

    async with sdk_server() as url: ...                   # the SDK's server, both eras, tools in SDK_TOOLS
    async with modern_server([tool("add")]) as server:    # 2026-07-28 only, JSON answers; server.url, server.seen
    async with legacy_server([tool("add")]) as server:    # handshake and sessions
    async with broken_server("html") as server:           # one of BROKEN

For child processes: `SDK_STDIO`, `LEGACY_STDIO`, `ODD_STDIO` are scripts to run with `sys.executable`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn

from rawserver import Handler, RawServer, Reply, Request, encode, raw_server
from waiting import eventually

__all__ = [
    "BROKEN",
    "EXTENSIONS_STDIO",
    "LEGACY_STDIO",
    "ODD_STDIO",
    "SDK_STDIO",
    "SDK_TASKS_STDIO",
    "SDK_TOOLS",
    "TASKS_STDIO",
    "Guarded",
    "RawServer",
    "Reply",
    "Request",
    "answer_handshake",
    "answer_modern",
    "broken_server",
    "legacy_server",
    "modern_server",
    "raw_server",
    "sdk_server",
    "tool",
]

_SCRIPTS: Final = Path(__file__).parent / "stdio_servers"
SDK_TOOLS: Final = ("add", "big", "echo_meta", "fail", "progress", "slow")
"""Names of the tools of `sdk_server`, sorted."""
SDK_STDIO: Final = str(_SCRIPTS / "sdk_stdio.py")
"""The tools of `sdk_server` over stdio."""
LEGACY_STDIO: Final = str(_SCRIPTS / "legacy_stdio.py")
"""A server of only the legacy era; its docstring has its options and tools."""
TASKS_STDIO: Final = str(_SCRIPTS / "tasks_stdio.py")
"""A modern server whose tools are tasks."""
SDK_TASKS_STDIO: Final = str(_SCRIPTS / "sdk_tasks_stdio.py")
"""The SDK's server with tasks, and a question by its result, which only its process knows."""
EXTENSIONS_STDIO: Final = str(_SCRIPTS / "extensions_stdio.py")
"""A legacy server with an app and a skill, all of whose names servers of any name share."""
ODD_STDIO: Final = str(_SCRIPTS / "odd_stdio.py")
"""Misbehaves on demand: noise on stdout, long lines, sudden death, children of its own."""

Item = dict[str, Any]
META: Final = "io.modelcontextprotocol/"
INFO: Final = {"name": "raw", "version": "1"}


def tool(name: str, **more: object) -> Item:
    """A definition with an unusual order of members and an unknown member, which show if the definition is
    rewritten.
    """
    return {"x-unknown": {"b": 1, "a": 2}, "name": name, "inputSchema": {"type": "object"}, **more}


@contextlib.asynccontextmanager
async def sdk_server(
    *, json_response: bool = False, stateless: bool = False, allowed_hosts: Sequence[str] = ()
) -> AsyncIterator[str]:
    """Run the official SDK's server, with both eras, in this loop. Yields its URL.

    `json_response` and `stateless` are the SDK's options for the legacy era. With `allowed_hosts`, requests with any
    other `Host` are answered with 421.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    from sdk_tools import make_server  # a second of imports, for processes that never call this

    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(allowed_hosts), allowed_hosts=list(allowed_hosts)
    )
    app = make_server().streamable_http_app(
        json_response=json_response, stateless_http=stateless, transport_security=security
    )
    async with serve_asgi(app) as port:
        yield f"http://127.0.0.1:{port}/mcp"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Do nothing, because pytest handles signals."""
        yield


@contextlib.asynccontextmanager
async def serve_asgi(
    app: Any, *, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Run an ASGI application in this loop on a port of an address, a free one by default; yields the port."""
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    config.load()
    config.ssl = tls
    server = _Server(config)
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started or task.done())
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        await task
        listener.close()


def modern_server(
    tools: Sequence[Item] = (), *, page_size: int | None = None, call: Callable[[Request], Item] | None = None
) -> contextlib.AbstractAsyncContextManager[RawServer]:
    """A server of only 2026-07-28, with the header checks of that revision. `call(request)` makes tool results."""

    async def handle(request: Request, reply: Reply) -> None:
        answer_modern(request, reply, tools, page_size, call)

    return raw_server(handle)


def answer_modern(
    request: Request,
    reply: Reply,
    tools: Sequence[Item] = (),
    page_size: int | None = None,
    call: Callable[[Request], Item] | None = None,
) -> None:
    """Answer of a modern server, for handlers that add something to it."""
    if request.verb != "POST":
        return reply.send(405, allow="POST")
    meta = request.params.get("_meta", {})
    if request.headers.get("mcp-protocol-version") != meta.get(META + "protocolVersion"):
        return reply.error(request, 400, -32020, "MCP-Protocol-Version does not match _meta")
    if meta.get(META + "protocolVersion") != "2026-07-28":
        return reply.error(request, 400, -32022, "Unsupported", {"supported": ["2026-07-28"]})
    if request.headers.get("mcp-method") != request.method:
        return reply.error(request, 400, -32020, "Mcp-Method does not match")
    named = request.params.get("name") if request.method == "tools/call" else None
    if request.headers.get("mcp-name") != named:
        return reply.error(request, 400, -32020, "Mcp-Name does not match")
    result = _result(request, tools, page_size, call)
    if result is None:
        return reply.error(request, 404, -32601, "Method not found")
    return reply.result(request, {"resultType": "complete", **result, "_meta": {META + "serverInfo": INFO}})


def answer_handshake(request: Request, reply: Reply, **headers: str) -> bool:
    """Answer the handshake and the notifications of a legacy client, for handlers that answer all other requests.
    Returns whether the request was answered. `headers`: headers of the handshake's answer, such as
    `mcp_session_id="s"`.
    """
    if request.method == "initialize":
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO}
        reply.result(request, hello, **headers)
    elif "id" not in request.message:
        reply.send(202)
    else:
        return False
    return True


class Guarded:
    """Handler of a modern server with a tool `add` that answers clients with `credential`, and 401 to others."""

    def __init__(self, credential: str) -> None:
        self.credential = credential
        self.called: list[str] = []
        """Credentials of the received calls."""

    async def __call__(self, request: Request, reply: Reply) -> None:
        sent = request.headers.get("authorization", "")
        if sent != self.credential:
            return reply.send(401, b"no")
        if request.method == "tools/call":
            self.called.append(sent)
        return answer_modern(request, reply, [tool("add")])


def legacy_server(
    tools: Sequence[Item] = (),
    *,
    sessions: bool = True,
    stream: bool = False,
    page_size: int | None = None,
    version: str = "2025-11-25",
    lost_status: int = 404,
    call: Callable[[Request], Item] | None = None,
) -> contextlib.AbstractAsyncContextManager[RawServer]:
    """A server that requires a handshake. With `sessions`, each request needs the id of a session; a tool called
    "forget" drops all sessions, so that the next request is answered with `lost_status`. With `stream`, it answers by
    events, each after a ping and a notification.
    """
    session_ids: set[str] = set()

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "DELETE":
            session_ids.discard(request.headers.get("mcp-session-id", ""))
            return reply.send(200)
        if request.verb != "POST":
            return reply.send(405, allow="POST")
        if "id" not in request.message or "method" not in request.message:
            return reply.send(202)
        if request.method == "initialize":
            identity = f"session-{len(session_ids) + 1}"
            session_ids.add(identity)
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
            return reply.result(request, result, **({"mcp_session_id": identity} if sessions else {}))
        if sessions and request.headers.get("mcp-session-id") not in session_ids:
            return reply.error(request, lost_status, -32000, "Bad Request: No valid session ID provided")
        if request.params.get("name") == "forget":
            session_ids.clear()
        result_or_none = _result(request, tools, page_size, call)
        if result_or_none is None:
            return reply.error(request, 200, -32601, "Method not found")
        if not stream:
            return reply.result(request, result_or_none)
        reply.open_stream()
        reply.chunk(b"id: 1\r\ndata: \r\n\r\n")
        reply.event({"jsonrpc": "2.0", "id": "s1", "method": "ping"})
        reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        reply.event({"result": result_or_none, "jsonrpc": "2.0", "id": request.message["id"]})
        return reply.end_stream()

    return raw_server(handle)


def _result(
    request: Request, tools: Sequence[Item], page_size: int | None, call: Callable[[Request], Item] | None
) -> dict[str, Any] | None:
    match request.method:
        case "server/discover" if "_meta" in request.params:
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0}
        case "ping":
            return {}
        case "tools/list":
            start = int(request.params.get("cursor", "0"))
            end = len(tools) if page_size is None else start + page_size
            page: dict[str, Any] = {"tools": list(tools[start:end])}
            return page | ({"nextCursor": str(end)} if end < len(tools) else {})
        case "tools/call":
            if call is not None:
                return dict(call(request))
            text = encode(request.params.get("arguments", {})).decode()
            return {"content": [{"type": "text", "text": text}], "isError": False}
    return None


def broken_server(how: str) -> contextlib.AbstractAsyncContextManager[RawServer]:
    """A server that answers every request in one of the ways in `BROKEN`.

    The answers of "close after", "twice" and "page loop" are otherwise correct (tools "once", "double", "again").
    """
    return raw_server(BROKEN[how])


def _plain(status: int, body: bytes = b"", kind: str = "text/plain", **headers: str) -> Handler:
    async def handle(request: Request, reply: Reply) -> None:
        reply.send(status, body, kind=kind, **headers)

    return handle


async def _half_json(request: Request, reply: Reply) -> None:
    reply.send(200, b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"na')


async def _never(request: Request, reply: Reply) -> None:
    await asyncio.Event().wait()


async def _cut_off(request: Request, reply: Reply) -> None:
    reply.raw(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{"jsonrpc":')
    await reply.flush()
    reply.close()


async def _hang_up(request: Request, reply: Reply) -> None:
    reply.close()


async def _close_after(request: Request, reply: Reply) -> None:
    answer_modern(request, reply, [tool("once")])
    reply.close()


async def _twice(request: Request, reply: Reply) -> None:
    answer_modern(request, reply, [tool("double")])
    answer_modern(request, reply, [tool("double")])


async def _page_loop(request: Request, reply: Reply) -> None:
    if request.method == "server/discover":
        reply.result(request, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    else:
        reply.result(request, {"tools": [tool("again")], "nextCursor": "again", "resultType": "complete"})


async def _endless_headers(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: y\r\n" % n for n in range(1000)) + b"\r\n")


async def _huge(request: Request, reply: Reply) -> None:
    reply.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{")


async def _wrong_id(request: Request, reply: Reply) -> None:
    reply.send(200, b'{"jsonrpc":"2.0","id":"somebody-else","result":{}}')


async def _not_http(request: Request, reply: Reply) -> None:
    reply.raw(b"220 mail.example ESMTP\r\n")


BROKEN: Final[dict[str, Handler]] = {
    "500": _plain(500, b"Traceback (most recent call last)"),
    "503": _plain(503, b"warming up", retry_after="7"),
    "401": _plain(401, b"who are you", www_authenticate='Bearer error="invalid_token"'),
    "403": _plain(403, b"no"),
    "404": _plain(404, b"Not Found"),
    "421": _plain(421, b"Invalid Host header"),
    "redirect": _plain(307, location="http://user:secret@elsewhere.example:81/login?token=x"),
    "html": _plain(200, b"<!DOCTYPE html><title>Welcome</title>", "text/html; charset=utf-8"),
    "text": _plain(200, b"it works"),
    "json": _plain(200, b'{"status":"ok"}', "application/json"),
    "empty": _plain(200),
    "half json": _half_json,
    "never": _never,
    "cut off": _cut_off,
    "hang up": _hang_up,
    "close after": _close_after,
    "twice": _twice,
    "page loop": _page_loop,
    "endless headers": _endless_headers,
    "huge": _huge,
    "wrong id": _wrong_id,
    "not http": _not_http,
}
