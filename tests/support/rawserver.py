"""An HTTP/1.1 server whose every byte a test decides; the base of the hand-written servers in `toolservers`. A handler
gets each request and a `Reply`; it may answer twice, partially, or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

HEAD_ONLY = (204, 304)


@dataclass(frozen=True)
class Request:
    """Received request: header names in lower case, `message` the parsed body or {}."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes
    message: dict[str, Any]

    @property
    def method(self) -> str:
        return str(self.message.get("method", ""))

    @property
    def params(self) -> dict[str, Any]:
        params = self.message.get("params")
        return params if isinstance(params, dict) else {}


@dataclass
class Reply:
    """Writes answers. If `closed` is set, the connection ends after the handler."""

    writer: asyncio.StreamWriter
    closed: bool = False

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def send(self, status: int, body: bytes = b"", *, kind: str = "application/json", **headers: str) -> None:
        """Send a complete answer. Underscores in header names become hyphens."""
        lines = [f"HTTP/1.1 {status} Reason", f"content-length: {len(body)}"]
        if body:
            lines.append(f"content-type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def result(self, request: Request, result: object, **headers: str) -> None:
        """A JSON-RPC result as application/json."""
        self.send(200, encode({"jsonrpc": "2.0", "id": request.message["id"], "result": result}), **headers)

    def error(self, request: Request, status: int, code: int, message: str, data: object = None) -> None:
        """A JSON-RPC error."""
        error: dict[str, object] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self.send(status, encode({"jsonrpc": "2.0", "id": request.message.get("id"), "error": error}))

    def open_stream(self, **headers: str) -> None:
        """Send the head of a chunked event stream."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
            + more.encode()
            + b"\r\n"
        )

    def event(self, message: object) -> None:
        """One event of an open stream."""
        self.chunk(b"event: message\r\ndata: " + encode(message) + b"\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.raw(b"0\r\n\r\n")

    def close(self) -> None:
        self.closed = True

    async def flush(self) -> None:
        """Wait until the written bytes are sent, so that they form a separate segment."""
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()


Handler = Callable[[Request, Reply], Awaitable[None]]


@dataclass
class RawServer:
    """A running server: requests `seen` in order, number of connections `opened` so far, and `open` now."""

    port: int = 0
    seen: list[Request] = field(default_factory=list)
    opened: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    broken_off: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client disconnects while its request is being handled."""
    listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def methods(self) -> list[str]:
        return [request.method for request in self.seen]

    def refuse(self) -> None:
        """Close every connection and accept no new ones."""
        assert self.listener is not None
        self.listener.close()
        self.cut()

    def cut(self) -> None:
        """Close every connection."""
        for writer in self.open:
            writer.close()


@contextlib.asynccontextmanager
async def raw_server(handler: Handler, port: int = 0, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Serve on a port of 127.0.0.1 (0 for a free one) until the block ends; with `tls`, over https."""
    server = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_serve(server, handler, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(on_connect, "127.0.0.1", port, ssl=tls)
    server.listener = listener
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()


async def _serve(
    server: RawServer, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    server.opened += 1
    server.open.add(writer)
    try:
        while (request := await _read(reader)) is not None:
            server.seen.append(request)
            reply = Reply(writer)
            handling = asyncio.ensure_future(handler(request, reply))
            gone = asyncio.ensure_future(_until_gone(reader))
            try:
                await asyncio.wait({handling, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not handling.done():
                    server.broken_off.set()
            finally:
                handling.cancel()
                gone.cancel()
                await asyncio.gather(handling, gone, return_exceptions=True)
            if reply.closed or writer.is_closing():
                return
            await reply.flush()
    except ConnectionError:
        pass
    finally:
        server.open.discard(writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while not (reader.at_eof() or reader.exception()):  # noqa: ASYNC110  # a StreamReader tells it by no event
        await asyncio.sleep(0.01)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    verb, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        message = json.loads(body) if body else {}
    except ValueError:
        message = {}
    return Request(verb, path, headers, body, message if isinstance(message, dict) else {})


def encode(document: object) -> bytes:
    """Compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode()
