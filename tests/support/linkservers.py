"""Servers in this loop that each consist of one function: on a TCP port (like a pod's gate), or over HTTP+SSE."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

from fairlead_api.documents.catalog import EventsEndpoint, TcpEndpoint
from rawserver import Handler, Reply, Request, encode, raw_server

Respond: TypeAlias = Callable[[bytes], dict[str, Any] | None]
"""Receives a message. Returns the response, or None for no response."""


@contextlib.asynccontextmanager
async def tcp_server(respond: Respond) -> AsyncIterator[TcpEndpoint]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readline()  # the token
            async for line in reader:
                response = respond(line)
                if response is not None:
                    writer.write(encode(response) + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield TcpEndpoint(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    finally:
        server.close()


def events_handler(
    respond: Respond, refuse: Callable[[Reply], None] = lambda reply: reply.send(405), before: bytes = b""
) -> Handler:
    """Handler of a server over HTTP+SSE. `refuse` answers messages that are posted to the stream's address. `before`
    are events before the one that names the address for posts.
    """
    streams: list[Reply] = []

    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "GET":
            reply.open_stream()
            reply.chunk(before + b"event: endpoint\ndata: /post/%d\n\n" % len(streams))
            streams.append(reply)
            await reply.flush()
            await asyncio.Event().wait()
        if not request.path.startswith("/post/"):
            return refuse(reply)
        response = respond(request.body)
        reply.send(202)
        if response is not None:
            stream = streams[int(request.path.rpartition("/")[2])]
            stream.event(response)
            await stream.flush()
        return None

    return handle


@contextlib.asynccontextmanager
async def events_server(respond: Respond) -> AsyncIterator[EventsEndpoint]:
    async with raw_server(events_handler(respond)) as server:
        yield EventsEndpoint(url=f"http://127.0.0.1:{server.port}/sse")
