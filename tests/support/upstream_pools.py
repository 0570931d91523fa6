"""A pool of connections to a raw server, and its requests."""

from __future__ import annotations

from typing import Any

from fairlead_mcp.http.pool import Pool
from rawserver import RawServer, Reply, Request


def post(body: bytes) -> bytes:
    """A request as it goes over the wire."""
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def echo(request: Request, reply: Reply) -> None:
    """Handler of a raw server that returns the body of the request."""
    reply.send(200, request.body or b"-")


def pool_of(server: RawServer, **options: Any) -> Pool:
    return Pool("127.0.0.1", server.port, **options)
