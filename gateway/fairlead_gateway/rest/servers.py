"""`/v1/servers`: whose tools these are, which of them can be reached, and a request to ask one anew."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Raw

from fairlead_api.documents.catalog import LocalEndpoint
from fairlead_gateway.catalog.model import Server
from fairlead_gateway.rest.bodies import answer, encode
from fairlead_gateway.rest.examples import servers as examples
from fairlead_gateway.rest.openapi import described
from fairlead_gateway.rest.plane import Plane
from fairlead_gateway.rest.problems import NOT_DISCOVERED, UNKNOWN_SERVER, Problem
from fairlead_gateway.rest.seen import Seen
from fairlead_gateway.rest.worker import breathing
from fairlead_gateway.selection.view import View, server_target
from fairlead_gateway.selection.whole import server_info
from fairlead_gateway.upstream.breaker import CLOSED

MOST_KNOWN: Final = 100
"""Servers that a problem names."""


class RefreshDocument(msgspec.Struct, frozen=True, rename="camel"):
    """The last discovery that somebody asked for."""

    at: str
    """When it began, RFC 3339."""
    failure: str | None = None
    """Why it brought nothing; null where it succeeded."""


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
    """A sentence for each tool that could not be taken in; for those who see all of its tools."""
    refreshed: RefreshDocument | None
    """Null until somebody asks for a discovery. An operator that asks by itself leaves no trace here."""


class RefreshAsked(msgspec.Struct, frozen=True, rename="camel"):
    """A request that waits for the operator to fetch it. It is done when the server's `refreshed.at` is another one."""

    server: str
    """`namespace/name`."""
    before: str | None
    """`refreshed.at` of the server now."""
    operator_seen_at: str | None
    """When an operator last asked this gateway for requests, RFC 3339; null: none has."""


class ServerList(msgspec.Struct, frozen=True):
    """Servers by namespace and name."""

    servers: list[ServerDocument]


def router(plane: Plane) -> APIRouter:
    """The resource `/v1/servers`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    @routes.get("/servers", **described("List servers", ServerList, examples.SERVERS))
    async def list_servers(request: Request) -> Response:
        seen = plane.seen(request)
        return answer(await plane.worker.do(lambda: encode(listed(seen))))

    @routes.get(
        "/servers/{server:path}",
        **described("Show one server, by `namespace/name`, name or prefix", ServerDocument, examples.SERVER),
    )
    async def show_server(request: Request, server: str) -> Response:
        seen = plane.seen(request)
        found = server_called(seen, server)
        shown = document(found, seen.of_server(found.key))
        return answer(await plane.worker.do(lambda: encode(shown)))

    @routes.post(
        "/servers/{server:path}/refresh",
        status_code=202,
        **described("Ask a server for its tools now", RefreshAsked, examples.REFRESH, status=202),
    )
    async def refresh(request: Request, server: str) -> Response:
        found = server_called(plane.seen(request), server)
        if isinstance(found.catalog.endpoint, LocalEndpoint):
            raise Problem(NOT_DISCOVERED, f"the tools of {found.key} are functions of this gateway")
        seen = plane.requests.asked_at
        plane.requests.ask_refresh(found.key)
        refreshed = found.catalog.refreshed
        at = None if seen is None else datetime.fromtimestamp(seen, UTC).isoformat(timespec="milliseconds")
        return answer(RefreshAsked(str(found.key), refreshed.at if refreshed else None, at), 202)

    return routes


def listed(seen: Seen) -> ServerList:
    """Every server that there is for somebody."""
    return ServerList([document(server, seen.of_server(server.key)) for server in breathing(seen.servers())])


def server_called(seen: Seen, name: str) -> Server:
    """The server of that `namespace/name`, else the only one of that name, prefix or id. Raises Problem."""
    servers = seen.servers()
    for server in servers:
        if str(server.key) == name:
            return server
    plain = name.removeprefix("mcp.")
    found = [each for each in servers if plain in (each.key.name, each.catalog.prefix)]
    if len(found) == 1:
        return found[0]
    known = tuple(str(each.key) for each in found or servers)[:MOST_KNOWN]
    detail = (
        f"{name[:128]!r} may be any of {len(found)} servers: say namespace/name"
        if found
        else (f"no server {name[:128]!r} is served here")
    )
    raise Problem(UNKNOWN_SERVER, detail, known=known)


def document(server: Server, view: View | None) -> ServerDocument:
    """A server as it is shown to somebody who sees that of it."""
    routes = {} if view is None else view.everything
    guard = next((route.guard for route in routes.values()), None)
    catalog = server.catalog
    info, last = server_info(server), catalog.refreshed
    return ServerDocument(
        server=str(server.key),
        prefix=catalog.prefix,
        offline=not catalog.online,
        breaker=CLOSED if guard is None else guard.state,
        tools=len(routes),
        endpoint=server_target(server.key).decode(),
        protocol_version=catalog.protocol_version,
        server_info=None if info is None else Raw(info),
        hash=catalog.hash,
        updated_at=catalog.updated_at,
        problems=server.problems if len(routes) == len(server.tools) else (),
        refreshed=None if last is None else RefreshDocument(last.at, last.failure or None),
    )
