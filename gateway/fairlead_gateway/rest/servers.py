"""`GET /v1/servers`: whose tools these are, and which of them can be reached."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Response
from msgspec import Raw

from fairlead_gateway.catalog.model import Server
from fairlead_gateway.rest import examples
from fairlead_gateway.rest.bodies import answer, encode
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane
from fairlead_gateway.selection.view import server_info, server_target


class ServerDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One server. How it is reached is nobody's business but the gateway's."""

    server: str
    """`namespace/name`."""
    prefix: str | None
    """Of its tools on `/mcp`; null: its prefix is taken, and only its own endpoint shows them; empty: they are
    shown under their own names.
    """
    offline: bool
    tools: int
    """Those that are enabled and listable."""
    endpoint: str
    """Path of the MCP endpoint that shows this server alone."""
    protocol_version: str
    """Of MCP, as the server speaks it."""
    server_info: Raw | None
    """What the server says of itself."""
    hash: str
    """Over all its definitions."""
    updated_at: str
    """When those last changed, RFC 3339."""
    problems: tuple[str, ...]
    """A sentence for each tool that could not be taken in."""


class ServerList(msgspec.Struct, frozen=True):
    """Servers by namespace and name."""

    servers: list[ServerDocument]


def router(plane: Plane) -> APIRouter:
    """The resource `/v1/servers`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get("/servers", **described("List servers", ServerList, examples.SERVERS))
    async def list_servers() -> Response:
        servers = plane.selection.snapshot.servers.values()
        return answer(await plane.worker.do(lambda: encode(ServerList([document(server) for server in servers]))))

    return routes


def document(server: Server) -> ServerDocument:
    """A server as it is shown."""
    catalog = server.catalog
    info = server_info(server)
    return ServerDocument(
        server=str(server.key),
        prefix=catalog.prefix,
        offline=not catalog.online,
        tools=len(server.tools),
        endpoint=server_target(server.key).decode(),
        protocol_version=catalog.protocol_version,
        server_info=None if info is None else Raw(info),
        hash=catalog.hash,
        updated_at=catalog.updated_at,
        problems=server.problems,
    )
