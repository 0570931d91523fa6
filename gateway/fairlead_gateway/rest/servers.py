"""`GET /v1/servers`: whose tools these are, and which of them can be reached."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import APIRouter, Response
from msgspec import Raw

from fairlead_gateway.catalog.model import Server
from fairlead_gateway.rest import examples
from fairlead_gateway.rest.bodies import answer, encode
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane
from fairlead_gateway.selection.route import Route
from fairlead_gateway.selection.view import server_info, server_target
from fairlead_gateway.upstream.breaker import CLOSED


class ServerDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One server. How it is reached is nobody's business but the gateway's."""

    server: str
    """`namespace/name`."""
    prefix: str | None
    """Of its tools on `/mcp`; null: its prefix is taken, and only its own endpoint shows them; empty: they are
    shown under their own names.
    """
    offline: bool
    breaker: str
    """`closed`: calls go through; `open`: after failures in a row they are refused for a while; `half-open`: the next
    one is a trial. Of the replica that answers.
    """
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
        selection = plane.selection
        servers = selection.snapshot.servers.values()
        documents = [document(server, selection.routes.get(server.key, {})) for server in servers]
        return answer(await plane.worker.do(lambda: encode(ServerList(documents))))

    return routes


def document(server: Server, routes: Mapping[str, Route]) -> ServerDocument:
    """A server as it is shown; `routes` are those to its tools."""
    guard = next((route.guard for route in routes.values()), None)
    catalog = server.catalog
    info = server_info(server)
    return ServerDocument(
        server=str(server.key),
        prefix=catalog.prefix,
        offline=not catalog.online,
        breaker=CLOSED if guard is None else guard.state,
        tools=len(server.tools),
        endpoint=server_target(server.key).decode(),
        protocol_version=catalog.protocol_version,
        server_info=None if info is None else Raw(info),
        hash=catalog.hash,
        updated_at=catalog.updated_at,
        problems=server.problems,
    )
